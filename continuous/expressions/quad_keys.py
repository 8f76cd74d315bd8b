"""Quads of a CONSTRUCT template as tuples of term ids, computed without creating terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.store.dictionary import TermDictionary

from ..algebra.nodes import TripleTerm, Var
from ..rows import IdRow
from .construct import Template

_DEFAULT_GRAPH = -1
"""The id of the default graph; it is free, as negative ids are literals, which cannot name a graph."""
_NODES = (True, False, None, True)
"""Allowed terms by position in a quad: IRIs and blank nodes (True), only IRIs (False) or all (None)."""


@dataclass(frozen=True, slots=True)
class _QuadPattern:
    """One quad of the template as positions in a list of ids.

    The list of ids of a template quad has the ids of a solution, then those of constants and of triple terms.
    ``key`` selects those ids of a template quad that are part of the quad's key. ``nodes`` holds the
    positions of those ids of a template quad that must be IRIs; a position with True may also be a blank
    node.
    """

    key: Callable[[IdRow], IdRow]
    nodes: tuple[tuple[int, bool], ...]


class QuadKeys:
    """Converter from solutions to keys of quads, for a template without blank nodes.

    A key of a quad is a tuple of term ids; equal quads have equal keys. The key of a quad leaves out the
    positions at which all quads of the template have the same constant. The ids of the template's constants
    are looked up on first use, which is in the engine's thread.

    ``names`` are the names of the solutions' columns.
    """

    def __init__(self, instances: Template, columns: Sequence[Var], dictionary: TermDictionary) -> None:
        """``columns`` are the columns of the solutions to which the template ``instances`` is applied."""
        self.names = tuple(each.name for each in columns)
        self._instances, self._dictionary = instances, dictionary
        self._columns: dict[object, int] = {var: place for place, var in enumerate(columns)}
        # A template quad with a variable that is no column is always incomplete, so it is left out.
        self._template = [each for each in instances.template if each.variables <= self._columns.keys()]
        terms = [term for each in self._template for term in each.terms]
        self._triples = list(dict.fromkeys(term for term in terms if isinstance(term, TripleTerm)))

    def of(self, row: IdRow) -> Iterator[IdRow]:
        """Iterate over the keys of the quads that the template makes of a solution, with duplicates."""
        values = row + self._constants
        if self._triples:
            values += self._triple_ids(row)
        for pattern in self._patterns:
            key = pattern.key(values)
            if 0 not in key and self._are_nodes(values, pattern.nodes):
                yield key

    def quad(self, key: IdRow) -> Quad:
        """Return the quad with a key of term ids."""
        ids = [self._constant_ids.get(term, 0) for term in self._template[0].terms]
        for place, term_id in zip(self._varying, key, strict=True):
            ids[place] = term_id
        terms = self._dictionary.terms
        subject, predicate, value = (terms[each] for each in ids[:3])
        graph = DefaultGraph() if ids[3] == _DEFAULT_GRAPH else terms[ids[3]]
        assert isinstance(subject, NamedNode | BlankNode) and isinstance(predicate, NamedNode)
        assert isinstance(graph, NamedNode | BlankNode | DefaultGraph)
        return Quad(subject, predicate, value, graph)

    def referenced_rows(self) -> Iterator[IdRow]:
        """Iterate over the ids of the template's constants, which the sweep must not delete."""
        if "_constants" in self.__dict__:
            yield self._constants

    @cached_property
    def _constants(self) -> IdRow:
        """The term ids of the template's constants, in the order in which they are appended to a solution."""
        return tuple(self._constant_ids.values())

    @cached_property
    def _constant_ids(self) -> dict[object, int]:
        """The ids of the template's constants by term; the key None stands for the default graph."""
        ids: dict[object, int] = {}
        for term in [term for each in self._template for term in each.terms]:
            if term is None:
                ids[term] = _DEFAULT_GRAPH
            elif not isinstance(term, Var | TripleTerm):
                ids[term] = self._dictionary.ids[term]
        return ids

    @cached_property
    def _varying(self) -> list[int]:
        """The positions of a quad that belong to keys: at least two, so that `itemgetter` returns a tuple."""
        places = [
            place
            for place, terms in enumerate(zip(*(each.terms for each in self._template), strict=True))
            if len({*terms}) > 1 or isinstance(terms[0], Var | TripleTerm)
        ]
        others = [place for place in range(4) if place not in places]
        return sorted(places + others[: max(0, 2 - len(places))])

    @cached_property
    def _patterns(self) -> list[_QuadPattern]:
        """One pattern of term ids for each quad of the CONSTRUCT template."""
        places, found = dict(self._columns), []
        for place, term in enumerate((*self._constant_ids, *self._triples), len(self._columns)):
            places[term] = place
        for each in self._template:
            mine = [places[term] for term in each.terms]
            nodes = [
                (place, allowed)
                for place, term, allowed in zip(mine, each.terms, _NODES, strict=True)
                if isinstance(term, Var) and allowed is not None
            ]
            found.append(_QuadPattern(itemgetter(*[mine[at] for at in self._varying]), tuple(nodes)))
        return found

    def _are_nodes(self, values: IdRow, nodes: Sequence[tuple[int, bool]]) -> bool:
        """Return True if the ids at the positions ``nodes`` are IRIs, or allowed blank nodes."""
        texts = self._dictionary.text_of
        for place, blank in nodes:
            if values[place] < 0:
                return False
            text = texts[values[place]]
            is_iri = text[0] == "<" and text[1] != "<"
            if not (is_iri or (blank and text[0] == "_")):
                return False
        return True

    def _triple_ids(self, row: IdRow) -> IdRow:
        """Return the term ids of the template's triple terms for a solution; 0 for an invalid triple."""
        solution = tuple(map(self._dictionary.decode, row))
        made = [self._instances.triple_term(each, solution) for each in self._triples]
        return tuple(map(self._dictionary.encode, made))
