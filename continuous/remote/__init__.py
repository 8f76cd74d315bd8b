"""Sources beyond the store: SPARQL endpoints and graphs of other servers, kept as last fetched."""
