"""The HTTP server: it parses bytes into requests and sends answers; a handler computes the answers."""
