"""Property paths in RDF (SHACL section 2.3.1): reading, writing, and their SPARQL texts."""

from __future__ import annotations

from collections.abc import Sequence

from pyoxigraph import BlankNode, NamedNode

from quadrill.store.errors import LimitError
from quadrill.store.terms import Term, term_text

from ..algebra import nodes as n
from ..algebra.print_triples import TermPrinter
from .errors import ShapesInvalidError
from .reading.graph import ShapesGraph
from .vocabulary import FIRST, NIL, REST, sh

PATH = sh("path")
_ALTERNATIVE, _INVERSE = sh("alternativePath"), sh("inversePath")
_ZERO_OR_MORE, _ONE_OR_MORE, _ZERO_OR_ONE = sh("zeroOrMorePath"), sh("oneOrMorePath"), sh("zeroOrOnePath")
_FORMS = frozenset((_ALTERNATIVE, _INVERSE, _ZERO_OR_MORE, _ONE_OR_MORE, _ZERO_OR_ONE))
_EXPECTED = "must be a path: an IRI, a list of two or more paths, or a blank node with one path property"
_MOST_STEPS = 100
"""Maximum number of IRIs and operators of one path, because calls nest as deep as the path at its
evaluation."""
_FEWEST = 2
"""Minimum number of members of a list of paths."""

Statement = tuple[NamedNode | BlankNode, NamedNode, Term]
_Chain = type[n.Sequence] | type[n.Alternative]


def read_path(graph: ShapesGraph, shape: Term, node: Term) -> n.PathExpr:
    """Return the path that a node of the shapes graph describes; ``shape`` is for error messages.

    Raises:
        ShapesInvalidError: the path is ill-formed or recursive.
        LimitError: the path has more than 100 IRIs and operators.
    """
    return _PathReader(graph, shape).path(node, ())


class _PathReader:
    def __init__(self, graph: ShapesGraph, shape: Term) -> None:
        self._graph, self._shape = graph, shape
        self._steps = 0

    def path(self, node: Term, inside: tuple[Term, ...]) -> n.PathExpr:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise LimitError(
                f"the path of the shape {term_text(self._shape)} has more than {_MOST_STEPS} nodes",
                hint="split the path with property shapes at its middle",
            )
        if isinstance(node, NamedNode):
            return n.Link(node)
        if not isinstance(node, BlankNode):
            raise self._wrong(node)
        if node in inside:
            raise ShapesInvalidError(self._shape, PATH, "must be a path that does not contain itself")
        inside = (*inside, node)
        properties = self._graph.predicates(node)
        if FIRST in properties:  # The W3C tests ignore other path properties of a list node.
            return self._chain(n.Sequence, node, PATH, inside)
        forms = [each for each in properties if each in _FORMS]
        values = self._graph.objects(node, forms[0]) if forms else []
        if len(forms) != 1 or len(values) != 1:
            raise self._wrong(node)
        return self._form(forms[0], values[0], inside)

    def _form(self, form: NamedNode, value: Term, inside: tuple[Term, ...]) -> n.PathExpr:
        if form == _ALTERNATIVE:
            return self._chain(n.Alternative, value, _ALTERNATIVE, inside)
        inner = self.path(value, inside)
        if form == _INVERSE:
            return n.Inverse(inner)
        if form == _ZERO_OR_MORE:
            return n.ZeroOrMore(inner)
        return n.OneOrMore(inner) if form == _ONE_OR_MORE else n.ZeroOrOne(inner)

    def _chain(self, kind: _Chain, head: Term, predicate: NamedNode, inside: tuple[Term, ...]) -> n.PathExpr:
        members = self._graph.members(self._shape, predicate, head)
        if len(members) < _FEWEST:
            expected = "must be a list of two or more paths"
            raise ShapesInvalidError(self._shape, predicate, expected, found=f"a list of {len(members)}")
        path, *others = [self.path(member, inside) for member in members]
        for other in others:
            path = kind(path, other)
        return path

    def _wrong(self, node: Term) -> ShapesInvalidError:
        return ShapesInvalidError(self._shape, PATH, _EXPECTED, found=term_text(node))


def write_path(path: n.PathExpr) -> tuple[NamedNode | BlankNode, list[Statement]]:
    """Return the node that describes a path in RDF, and the triples of its description."""
    triples: list[Statement] = []
    return _write(path, triples), triples


def _write(path: n.PathExpr, triples: list[Statement]) -> NamedNode | BlankNode:
    match path:
        case n.Link(iri):
            return iri
        case n.Sequence():
            return _write_list(_operands(path, n.Sequence), triples)
        case n.Alternative():
            return _described(_ALTERNATIVE, _write_list(_operands(path, n.Alternative), triples), triples)
        case n.Inverse(inner):
            return _described(_INVERSE, _write(inner, triples), triples)
        case n.ZeroOrMore(inner):
            return _described(_ZERO_OR_MORE, _write(inner, triples), triples)
        case n.OneOrMore(inner):
            return _described(_ONE_OR_MORE, _write(inner, triples), triples)
        case n.ZeroOrOne(inner):
            return _described(_ZERO_OR_ONE, _write(inner, triples), triples)
        case n.NegatedSet():
            raise AssertionError("SHACL has no negated property sets")


def _operands(path: n.PathExpr, kind: _Chain) -> list[n.PathExpr]:
    """Return all operands of nested sequences or alternatives, from left to right: a/b/c gives a, b, c."""
    found = []
    while isinstance(path, kind):
        found.append(path.right)
        path = path.left
    return [path, *reversed(found)]


def _described(
    form: NamedNode, value: NamedNode | BlankNode, triples: list[Statement]
) -> NamedNode | BlankNode:
    node = BlankNode()
    triples.append((node, form, value))
    return node


def _write_list(parts: Sequence[n.PathExpr], triples: list[Statement]) -> BlankNode:
    cells = [BlankNode() for _ in parts]
    following: list[NamedNode | BlankNode] = [*cells[1:], NIL]
    for cell, part, rest in zip(cells, parts, following, strict=True):
        triples += [(cell, FIRST, _write(part, triples)), (cell, REST, rest)]
    return cells[0]


def path_text(path: n.PathExpr) -> str:
    """Return the SPARQL text of a path, for instance ``<urn:a>/<urn:b>*``."""
    return TermPrinter(path).path(path)
