"""What an engine is asked for: streams and queries that begin, change, are looked at and end."""
