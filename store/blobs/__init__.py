"""A disk cache for the rows of queries' static parts; rows missing there are evaluated again."""
