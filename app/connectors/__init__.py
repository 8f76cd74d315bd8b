"""Connectors: sources, which feed streams from outside, and sinks, which deliver events of queries."""
