"""From the bytes of a push to stream elements."""
