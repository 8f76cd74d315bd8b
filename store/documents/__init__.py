"""Parsing and serialising of RDF documents, with checks that run before the parser."""
