"""Questions to the algebra of an update: what its templates make, and what its WHERE part reads.

    INSERT DATA { <http://e/s1> ex:p "a" }      a quad of the constants 0, 1 and 2

A template, a block of data and a WHERE part are groups of patterns to the grammar of queries. Each constant
is read as an IRI that has its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode

from quadrill.store.errors import ReportedError
from quadrill.store.sparql.skeletons import SplitText
from quadrill.store.sparql.update_plan_cache import Pattern, Template, UpdateAnalysis
from quadrill.store.sparql.update_text import Data, Modify, Piece, split_update
from quadrill.store.terms import store_form

from ..algebra import nodes as n
from ..algebra.build import all_nodes, expressions, has_exists
from .prepared import NUMBERED, numbered, parsed

_STRANGE = re.compile(r"\"\"(?:@|\s*\^\^)|quadrill-constant")
"""A literal that is more than its constant, or what looks like a number of ours."""
_NAMESPACE = re.compile(r"(?:[^\s]*://[^\s]*[/#])?")
"""A namespace that any name makes an IRI of; of constants that are no names there is none."""
_QUERIED = (n.Bgp, n.Join, n.Extend, n.Filter)


def analyse_update(text: str, parts: SplitText, base_iri: str | None) -> UpdateAnalysis | None:
    """What is known of an update, which was cut into ``parts``; None where it is not one plain operation."""
    if any(map(_STRANGE.search, parts.skeleton)):
        return None
    try:
        (operation,) = split_update(numbered(text, parts, as_iris=True))
        read = _Reader(operation.prologue, base_iri or "http://localhost/", parts.constants)
        match operation.action:
            case Data(quads):
                return UpdateAnalysis({"quads": read.template(quads, ())}, None, read.namespaces)
            case Modify(None, delete, insert, (), (), where) as action:
                pieces = {name: piece for name, piece in (("delete", delete), ("insert", insert)) if piece}
                made = {name: read.template(piece, action.variables) for name, piece in pieces.items()}
                return UpdateAnalysis(made, read.patterns(where), read.namespaces)
    except (ReportedError, RecursionError, ValueError):
        pass  # whoever evaluates it tells what is wrong
    return None


class _Reader:
    """Reads the pieces of one operation; notes the namespace of each constant that is a term of them."""

    def __init__(self, prologue: str, base_iri: str, constants: Sequence[str]) -> None:
        self.namespaces: list[str | None] = [None] * len(constants)
        self._prologue, self._base, self._constants = prologue, base_iri, constants

    def template(self, piece: Piece, variables: Sequence[str]) -> Template:
        """The quads of a template; ValueError where it has blank nodes or quoted triples."""
        return tuple(
            [
                tuple([self._place(term, variables) for term in (*each, graph)])
                for block, graph in _blocks(self._read(piece), DefaultGraph())
                for each in map(_terms, block.patterns)
            ]
        )

    def patterns(self, where: Piece) -> tuple[Pattern, ...] | None:
        """What a WHERE part reads; None where it is more than triple patterns, BIND and FILTER."""
        found: list[Pattern] = []
        try:
            root = self._read(where)
        except ReportedError:
            return None  # the number of a LIMIT is no term
        for node in all_nodes(root):
            if not isinstance(node, _QUERIED) or any(map(has_exists, expressions(node))):
                return None
            for terms in map(_terms, node.patterns if isinstance(node, n.Bgp) else ()):
                if any([isinstance(term, n.TripleTerm) for term in terms]):
                    return None
                places = [(place, self._number(term)) for place, term in enumerate(terms)]
                found.append(tuple([(place, number) for place, number in places if number is not None]))
        return tuple(found)

    def _read(self, piece: Piece) -> n.Algebra:
        return parsed(f"{self._prologue} ASK {piece.text}", self._base).root

    def _place(self, term: Any, variables: Sequence[str]) -> Any:
        """A term as it stands in a `Template`."""
        number = self._number(term)
        if number is not None:
            return ~number
        if isinstance(term, n.Var):
            return variables.index(term.name)
        if not isinstance(term, (NamedNode, Literal, DefaultGraph)):
            raise ValueError("a quoted triple")
        return store_form(term) if isinstance(term, Literal) else term

    def _number(self, term: Any) -> int | None:
        """The number of the constant that a term stands for."""
        found = NUMBERED.fullmatch(term.value) if isinstance(term, NamedNode) else None
        if found is None:
            return None
        number = int(found[2])
        namespace = found[1] if self._constants[number][0] == ":" else ""
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError("a relative namespace, or one of another kind")
        self.namespaces[number] = namespace
        return number


def _terms(triple: n.TriplePattern) -> tuple[Any, Any, Any]:
    return triple.subject, triple.predicate, triple.object


def _blocks(node: n.Algebra, graph: Any) -> Iterator[tuple[n.Bgp, Any]]:
    """The blocks of triples of a template, each with the graph around it."""
    match node:
        case n.Bgp():
            yield node, graph
        case n.Join(left, right):
            yield from _blocks(left, graph)
            yield from _blocks(right, graph)
        case n.Graph(name, inner):
            yield from _blocks(inner, name)
        case _:
            raise ValueError("no template")
