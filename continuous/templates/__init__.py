"""Template groups: queries that differ only in constants are evaluated together, see decision 0240."""
