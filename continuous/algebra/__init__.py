"""The SPARQL algebra with windows: nodes, builders, printers and rewrites."""
