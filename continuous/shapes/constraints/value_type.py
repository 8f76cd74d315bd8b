"""Value type constraints: sh:class, sh:datatype, sh:nodeKind (SHACL section 4.1)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.terms import term_text

from ...algebra.nodes import PathExpr, Term
from ..data_graph import DataGraph
from ..datatypes import has_datatype
from ..dependencies import INSTANCE_OF, Dependencies, reading
from ..value_sets import ValueSets
from ..vocabulary import short
from .common import OnTerms, OnValues

NODE_KINDS: dict[str, tuple[type, ...]] = {
    "BlankNode": (BlankNode,),
    "IRI": (NamedNode,),
    "Literal": (Literal,),
    "BlankNodeOrIRI": (BlankNode, NamedNode),
    "BlankNodeOrLiteral": (BlankNode, Literal),
    "IRIOrLiteral": (NamedNode, Literal),
}
"""The kinds of terms that each value of sh:nodeKind allows, by its local name."""


@dataclass(frozen=True, slots=True)
class Class(OnValues):
    """``sh:class``: each value node is a SHACL instance of a class."""

    class_id: int

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a SHACL instance of the class."""
        return data.is_instance(value, self.class_id)

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the class."""
        return f"is not an instance of the class {term_text(data.term(self.class_id))}"

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependency on the path from a value node to its classes."""
        return reading(INSTANCE_OF).after(path)

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with a value node that is no instance."""
        return values.having(values.values() - values.facts.instances(values.term(self.class_id)))


@dataclass(frozen=True, slots=True)
class Datatype(OnTerms):
    """``sh:datatype``: each value node is a well-formed literal of a datatype.

    ``stored`` is True if the literals of the data graph have the form in which the store keeps them; see
    `has_datatype`.
    """

    datatype: NamedNode
    stored: bool

    def fits(self, term: Term) -> bool:
        """Return True for a well-formed literal of the datatype."""
        return isinstance(term, Literal) and has_datatype(term, self.datatype, stored=self.stored)

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the datatype."""
        return f"is not a well-formed literal of the datatype {short(self.datatype)}"


@dataclass(frozen=True, slots=True)
class NodeKind(OnTerms):
    """``sh:nodeKind``: each value node is an IRI, a blank node or a literal; ``kind`` is a local name."""

    kind: str

    def fits(self, term: Term) -> bool:
        """Return True for a term of the kind."""
        return isinstance(term, NODE_KINDS[self.kind])

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the kind."""
        return f"does not have the node kind sh:{self.kind}"
