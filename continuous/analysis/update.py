"""Analysis of an update: the quads of its templates and the patterns of its WHERE clause.

    INSERT DATA { <http://e/s1> ex:p "a" }      a quad of the constants 0, 1 and 2

Templates, data blocks and WHERE clauses are parsed as group graph patterns of a query. Each constant is
replaced by an IRI that contains the number of the constant.
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
"""Matches literals with a language tag or datatype, and text like the IRI of a numbered constant."""
_NAMESPACE = re.compile(r"(?:[^\s]*://[^\s]*[/#])?")
"""Matches an absolute namespace, which any local name completes to an IRI, and the empty namespace.

A constant of an update that is no prefixed name has the empty namespace.
"""
_QUERIED = (n.Bgp, n.Join, n.Extend, n.Filter)


def analyse_update(text: str, parts: SplitText, base_iri: str | None) -> UpdateAnalysis | None:
    """Analyse an update that was split into ``parts``; return None unless it is one simple operation."""
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
        pass  # The evaluation of an update that cannot be analysed reports what is wrong with it.
    return None


class _Reader:
    """Parses the parts of one update operation and records the namespace of each constant in a quad."""

    def __init__(self, prologue: str, base_iri: str, constants: Sequence[str]) -> None:
        self.namespaces: list[str | None] = [None] * len(constants)
        self._prologue, self._base, self._constants = prologue, base_iri, constants

    def template(self, piece: Piece, variables: Sequence[str]) -> Template:
        """Return the quads of an update's template; raises ValueError for blank nodes and quoted triples."""
        return tuple(
            [
                tuple([self._place(term, variables) for term in (*each, graph)])
                for block, graph in _blocks(self._read(piece), DefaultGraph())
                for each in map(_terms, block.patterns)
            ]
        )

    def patterns(self, where: Piece) -> tuple[Pattern, ...] | None:
        """Return the triple patterns of a WHERE clause; None if it has more than these, BIND and FILTER."""
        found: list[Pattern] = []
        try:
            root = self._read(where)
        except ReportedError:
            # A LIMIT needs a number, which the IRI of a constant has replaced, so such a clause cannot be
            # parsed.
            return None
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
        """Return the inverted number of a constant, the index of a variable, or the term itself."""
        number = self._number(term)
        if number is not None:
            return ~number
        if isinstance(term, n.Var):
            return variables.index(term.name)
        if not isinstance(term, (NamedNode, Literal, DefaultGraph)):
            raise ValueError("a quoted triple")
        return store_form(term) if isinstance(term, Literal) else term

    def _number(self, term: Any) -> int | None:
        """Return the number of the constant that a term stands for; None for any other term."""
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
    """Yield the triple blocks of an update's template, each with the graph around the block."""
    match node:
        case n.Bgp():
            yield node, graph
        case n.Join(left, right):
            yield from _blocks(left, graph)
            yield from _blocks(right, graph)
        case n.Graph(name, inner) if not (isinstance(inner, n.Bgp) and not inner.patterns):
            yield from _blocks(inner, name)
        case _:
            raise ValueError("no template")
