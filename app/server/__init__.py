"""The HTTP server: bytes to requests, answers to bytes; it knows no resources and no framework."""
