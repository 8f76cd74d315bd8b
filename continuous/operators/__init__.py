"""Relation-to-relation operators: the SPARQL algebra in delta form."""
