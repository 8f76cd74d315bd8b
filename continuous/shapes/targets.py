"""Targets: the focus nodes of a shape (SHACL section 2.1.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..algebra.nodes import Inverse, Link, Term
from .copied_facts import CopiedFacts
from .data_graph import DataGraph
from .dependencies import INSTANCE_OF, NONE, Dependencies, reading


class Target(Protocol):
    """One target declaration of a shape."""

    def nodes(self, data: DataGraph) -> Iterable[int]:
        """Return the ids of the focus nodes; a node may repeat."""
        ...

    def terms(self, facts: CopiedFacts) -> Iterable[Term]:
        """Return the focus nodes as terms; a node may repeat."""
        ...

    def selects(self, node: int, data: DataGraph) -> bool:
        """Return True if a node is a focus node."""
        ...

    def reads(self) -> Dependencies:
        """Return the triples that decide whether a node is a focus node."""
        ...


@dataclass(frozen=True, slots=True)
class TargetNode:
    """``sh:targetNode``: one node, whether or not the data graph has it."""

    node: int

    def nodes(self, data: DataGraph) -> Iterable[int]:
        """Return the id of the target node."""
        return (self.node,)

    def terms(self, facts: CopiedFacts) -> Iterable[Term]:
        """Return the target node."""
        return (facts.terms.term(self.node),)

    def selects(self, node: int, data: DataGraph) -> bool:
        """Return True if the node is the target node."""
        return node == self.node

    def reads(self) -> Dependencies:
        """Return no dependencies: no triple changes the focus node."""
        return NONE


@dataclass(frozen=True, slots=True)
class TargetClass:
    """``sh:targetClass``, or a shape that is itself a class: the SHACL instances of the class."""

    class_id: int

    def nodes(self, data: DataGraph) -> Iterable[int]:
        """Return the SHACL instances of the class."""
        return data.instances(self.class_id)

    def terms(self, facts: CopiedFacts) -> Iterable[Term]:
        """Return the SHACL instances of the class as terms."""
        return facts.instances(facts.terms.term(self.class_id))

    def selects(self, node: int, data: DataGraph) -> bool:
        """Return True for a SHACL instance of the class."""
        return data.is_instance(node, self.class_id)

    def reads(self) -> Dependencies:
        """Return the dependency on the path from a node to its classes."""
        return reading(INSTANCE_OF)


@dataclass(frozen=True, slots=True)
class TargetSubjectsOf:
    """``sh:targetSubjectsOf``: the subjects of triples with a predicate."""

    predicate: int
    link: Link

    def nodes(self, data: DataGraph) -> Iterable[int]:
        """Return the ids of the subjects; a node may repeat."""
        return [s for s, _, _ in data.facts.match(None, self.predicate, None)]

    def terms(self, facts: CopiedFacts) -> Iterable[Term]:
        """Return the subjects as terms."""
        return facts.column(self.link.iri).subjects

    def selects(self, node: int, data: DataGraph) -> bool:
        """Return True if the node is the subject of a triple with the predicate."""
        return bool(data.facts.match(node, self.predicate, None))

    def reads(self) -> Dependencies:
        """Return the dependency on triples with the predicate and the focus node as subject."""
        return reading(self.link)


@dataclass(frozen=True, slots=True)
class TargetObjectsOf:
    """``sh:targetObjectsOf``: the objects of triples with a predicate."""

    predicate: int
    link: Link

    def nodes(self, data: DataGraph) -> Iterable[int]:
        """Return the ids of the objects; a node may repeat."""
        return [o for _, _, o in data.facts.match(None, self.predicate, None)]

    def terms(self, facts: CopiedFacts) -> Iterable[Term]:
        """Return the objects as terms."""
        return facts.column(self.link.iri).distinct_objects()

    def selects(self, node: int, data: DataGraph) -> bool:
        """Return True if the node is the object of a triple with the predicate."""
        return bool(data.facts.match(None, self.predicate, node))

    def reads(self) -> Dependencies:
        """Return the dependency on triples with the predicate and the focus node as object."""
        return reading(Inverse(self.link))
