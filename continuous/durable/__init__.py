"""The order of all inputs: tasks, and the records of the journal."""
