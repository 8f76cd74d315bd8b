"""Remote sources: SPARQL endpoints and graphs of other servers, with the content of the last fetch."""
