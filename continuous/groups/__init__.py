"""Groups of queries with the same windows, and shared plans for queries that differ only in constants."""
