"""A disk cache of static parts' rows, which could be evaluated again."""
