"""Relation to relation: SPARQL operators in delta form."""
