"""Relation to stream, results, feeds, and views written to the store."""
