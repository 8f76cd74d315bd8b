"""SPARQL-based constraints and constraint components (SHACL sections 5 and 6)."""
