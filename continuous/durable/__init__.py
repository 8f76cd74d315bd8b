"""The order of all inputs of an engine: tasks, and the records of the journal."""
