"""What is written of the order of all inputs: turns, the journal, the file of a checkpoint."""
