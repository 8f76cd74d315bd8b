"""What is looked at in a document before its parser gets it."""
