"""A shapes graph as an index of terms, and the checked values of one of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from quadrill.store.terms import Term, term_text

from ..errors import ShapesInvalidError
from ..vocabulary import BOOLEAN, FIRST, INTEGER, NIL, REST, STRING, SUB_CLASS_OF, TYPE, short

Subject = NamedNode | BlankNode
_LONGEST_FOUND = 100
"""Number of characters of a wrong value that an error message shows."""


class ShapesGraph:
    """The triples of a shapes graph by subject and by predicate, in the order of the document."""

    def __init__(self, triples: Iterable[Quad | Triple]) -> None:
        self._objects: dict[Term, dict[NamedNode, dict[Term, None]]] = {}
        self._subjects: dict[NamedNode, dict[Term, dict[Term, None]]] = {}
        for triple in triples:
            s, p, o = triple.subject, triple.predicate, triple.object
            self._objects.setdefault(s, {}).setdefault(p, {})[o] = None
            self._subjects.setdefault(p, {}).setdefault(o, {})[s] = None

    def objects(self, subject: Term, predicate: NamedNode) -> list[Term]:
        """Return the values of a property of a node."""
        return list(self._objects.get(subject, {}).get(predicate, ()))

    def subjects(self, predicate: NamedNode, value: Term) -> list[Term]:
        """Return the nodes that have a value of a property."""
        return list(self._subjects.get(predicate, {}).get(value, ()))

    def predicates(self, subject: Term) -> list[NamedNode]:
        """Return the properties of a node."""
        return list(self._objects.get(subject, ()))

    def subjects_of(self, predicate: NamedNode) -> list[Term]:
        """Return the nodes that have a property."""
        return list(dict.fromkeys(s for each in self._subjects.get(predicate, {}).values() for s in each))

    def objects_of(self, predicate: NamedNode) -> list[Term]:
        """Return the values of a property at any node."""
        return list(self._subjects.get(predicate, ()))

    def instances(self, class_iri: NamedNode) -> list[Term]:
        """Return the SHACL instances of a class."""
        classes: dict[Term, None] = {class_iri: None}
        waiting: list[Term] = [class_iri]
        while waiting:
            for each in self.subjects(SUB_CLASS_OF, waiting.pop()):
                if each not in classes:
                    classes[each] = None
                    waiting.append(each)
        return list(dict.fromkeys(node for each in classes for node in self.subjects(TYPE, each)))

    def triples(self) -> Iterable[tuple[Term, NamedNode, Term]]:
        """Return all triples."""
        return (
            (s, p, o) for s, values in self._objects.items() for p, objects in values.items() for o in objects
        )

    def members(self, of: Term, predicate: NamedNode, head: Term) -> list[Term]:
        """Return the members of a SHACL list (SHACL section 1.3).

        Raises:
            ShapesInvalidError: the list is malformed, or has no end; the error names the property
                ``predicate`` of the node ``of`` as its place.
        """
        found: list[Term] = []
        seen = set()
        cell = head
        while cell != NIL:
            values, rest = self.objects(cell, FIRST), self.objects(cell, REST)
            if cell in seen:
                raise ShapesInvalidError(
                    of, predicate, "must be an RDF list with an end", found="a cyclic one"
                )
            if len(values) != 1 or len(rest) != 1:
                what = _shown(head) if cell == head else f"the cell {_shown(cell)}"
                raise ShapesInvalidError(
                    of,
                    predicate,
                    "must be an RDF list, with one rdf:first and one rdf:rest a cell",
                    found=what,
                )
            seen.add(cell)
            found.append(values[0])
            cell = rest[0]
        if self.objects(NIL, FIRST) or self.objects(NIL, REST):
            raise ShapesInvalidError(of, predicate, "must be an RDF list, whose rdf:nil has no members")
        return found


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The values of the properties of one node of a shapes graph; each method checks their form.

    Methods raise ShapesInvalidError for a value of another form, and methods for a single value also for
    several values.
    """

    graph: ShapesGraph
    node: Term

    def all(self, predicate: NamedNode) -> list[Term]:
        """Return all values of a property."""
        return self.graph.objects(self.node, predicate)

    def one(self, predicate: NamedNode) -> Term | None:
        """Return the value of a property with at most one value, or None."""
        values = self.all(predicate)
        if len(values) > 1:
            raise ShapesInvalidError(
                self.node, predicate, "must have at most one value", found=str(len(values))
            )
        return values[0] if values else None

    def iris(self, predicate: NamedNode) -> list[NamedNode]:
        """Return the values of a property whose values are IRIs."""
        return [self.as_iri(predicate, value) for value in self.all(predicate)]

    def iri(self, predicate: NamedNode) -> NamedNode | None:
        """Return the value of a property with at most one value, which is an IRI."""
        value = self.one(predicate)
        return None if value is None else self.as_iri(predicate, value)

    def literal(self, predicate: NamedNode) -> Literal | None:
        """Return the value of a property with at most one value, which is a literal."""
        value = self.one(predicate)
        if value is not None and not isinstance(value, Literal):
            raise self.wrong(predicate, "must be a literal", value)
        return value

    def integer(self, predicate: NamedNode) -> int | None:
        """Return the value of a property with at most one value, which is an xsd:integer."""
        value = self.literal(predicate)
        if value is None:
            return None
        try:
            if value.datatype == INTEGER:
                return int(value.value)
        except ValueError:
            pass
        raise self.wrong(predicate, "must be an xsd:integer", value)

    def boolean(self, predicate: NamedNode) -> bool:
        """Return the value of a property with at most one value, an xsd:boolean; False without one."""
        value = self.literal(predicate)
        if value is None:
            return False
        if value.datatype != BOOLEAN or value.value not in ("true", "false", "1", "0"):
            raise self.wrong(predicate, "must be true or false", value)
        return value.value == "true"  # The tests of W3C expect that "1"^^xsd:boolean does not count as true.

    def text(self, predicate: NamedNode) -> str | None:
        """Return the value of a property with at most one value, which is an xsd:string."""
        value = self.one(predicate)
        return None if value is None else self.as_text(predicate, value)

    def list(self, predicate: NamedNode) -> Sequence[Term] | None:
        """Return the members of a property with at most one value, which is a list."""
        value = self.one(predicate)
        return None if value is None else self.graph.members(self.node, predicate, value)

    def messages(self, predicate: NamedNode) -> tuple[Literal, ...]:
        """Return the values of a property whose values are strings with or without language tags."""
        found = []
        for value in self.all(predicate):
            if not isinstance(value, Literal) or (value.language is None and value.datatype != STRING):
                raise self.wrong(predicate, "must be a string, with or without a language tag", value)
            found.append(value)
        return tuple(found)

    def as_iri(self, predicate: NamedNode, value: Term) -> NamedNode:
        """Return a value of a property that must be an IRI."""
        if not isinstance(value, NamedNode):
            raise self.wrong(predicate, "must be an IRI", value)
        return value

    def as_text(self, predicate: NamedNode, value: Term) -> str:
        """Return a value of a property that must be an xsd:string."""
        if not isinstance(value, Literal) or value.language is not None or value.datatype != STRING:
            raise self.wrong(predicate, "must be a string without a language tag", value)
        return value.value

    def as_node(self, predicate: NamedNode, value: Term) -> Subject:
        """Return a value of a property that must be an IRI or a blank node."""
        if not isinstance(value, NamedNode | BlankNode):
            raise self.wrong(predicate, "must be a shape: an IRI or a blank node", value)
        return value

    def wrong(self, predicate: NamedNode, expected: str, value: Term) -> ShapesInvalidError:
        """Return the error for a property whose value has another form than expected."""
        return ShapesInvalidError(self.node, predicate, expected, found=_shown(value))


def _shown(term: Term) -> str:
    text = short(term) if isinstance(term, NamedNode) else term_text(term)
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}…"
