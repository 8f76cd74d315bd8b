"""Streams: bytes to elements, what may enter, what is kept of each stream."""
