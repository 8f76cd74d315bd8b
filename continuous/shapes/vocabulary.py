"""IRIs of the SHACL vocabulary and of the terms that SHACL reads in data graphs."""

from __future__ import annotations

from typing import Final

from pyoxigraph import NamedNode

SH: Final = "http://www.w3.org/ns/shacl#"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"

USUAL_PREFIXES: Final = {"sh": SH, "xsd": XSD, "rdf": RDF, "rdfs": RDFS}

TYPE: Final = NamedNode(RDF + "type")
FIRST: Final = NamedNode(RDF + "first")
REST: Final = NamedNode(RDF + "rest")
NIL: Final = NamedNode(RDF + "nil")
CLASS: Final = NamedNode(RDFS + "Class")
SUB_CLASS_OF: Final = NamedNode(RDFS + "subClassOf")
BOOLEAN: Final = NamedNode(XSD + "boolean")
INTEGER: Final = NamedNode(XSD + "integer")
STRING: Final = NamedNode(XSD + "string")
ANY_URI: Final = NamedNode(XSD + "anyURI")
VIOLATION: Final = NamedNode(SH + "Violation")


def sh(name: str) -> NamedNode:
    """Return the IRI of a term of the SHACL vocabulary by its local name."""
    return NamedNode(SH + name)


def component(name: str) -> NamedNode:
    """Return the IRI of a constraint component of SHACL by its name, for instance ``MinCount``."""
    return NamedNode(f"{SH}{name}ConstraintComponent")


def short(iri: NamedNode) -> str:
    """Return an IRI with its prefix of `USUAL_PREFIXES`; an IRI without one in angle brackets."""
    for prefix, start in USUAL_PREFIXES.items():
        if iri.value.startswith(start):
            return f"{prefix}:{iri.value[len(start) :]}"
    return str(iri)
