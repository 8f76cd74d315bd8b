"""A disk cache for the rows of static parts; a missing item is evaluated again."""
