"""The W3C SPARQL suites, run from their own manifests against a Quadrill server over HTTP."""
