"""The HTTP server: it parses bytes into requests and sends answers; resources are defined elsewhere."""
