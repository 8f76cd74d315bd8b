"""Event streams: the writer process, the feeds of queries, and the change feed of the store."""
