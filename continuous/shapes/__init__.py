"""Shapes: SHACL 2017 Core and SPARQL constraints, evaluated on facts."""
