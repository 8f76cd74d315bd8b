"""Event streams: their writer process, the feeds of queries, the feed of changes."""
