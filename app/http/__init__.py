"""The values of HTTP: requests, answers, errors, negotiation and the SPARQL protocol."""
