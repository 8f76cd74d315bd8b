"""The order of all inputs: turns, and their records in the journal."""
