"""HTTP data types and rules: requests, answers, errors, content negotiation and the SPARQL protocol."""
