"""HTTP: the server, the wire, negotiation, limits and errors."""
