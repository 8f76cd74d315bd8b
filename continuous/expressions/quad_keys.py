"""Quads of a CONSTRUCT template as tuples of term ids: what each solution yields, before any term is made."""

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
"""The id of the default graph. Negative ids of terms are literals, and no literal names a graph."""
_NODES = (True, False, None, True)
"""By the place in a quad: only IRIs and blank nodes (True), only IRIs (False) or every term (None)."""


@dataclass(frozen=True, slots=True)
class _QuadPattern:
    """How one quad of the template follows from the ids of a solution, of constants and of triple terms.

    ``key`` picks the ids of a key. ``nodes`` are the places of ids that have to be IRIs, or with True may be
    blank nodes.
    """

    key: Callable[[IdRow], IdRow]
    nodes: tuple[tuple[int, bool], ...]


class QuadKeys:
    """Gives quads of a template without blank nodes as keys: tuples of ids, equal where the quads are.

    A key leaves out the places in which all quads of the template have the same constant. The ids of
    constants are looked up at the first use, which is in the engine's thread.

    ``names`` are those of the columns of solutions.
    """

    def __init__(self, instances: Template, columns: Sequence[Var], dictionary: TermDictionary) -> None:
        """``columns`` are those of the solutions that ``instances`` is a template over."""
        self.names = tuple(each.name for each in columns)
        self._instances, self._dictionary = instances, dictionary
        self._columns: dict[object, int] = {var: place for place, var in enumerate(columns)}
        # A quad with a variable that no solution binds is never yielded.
        self._template = [each for each in instances.template if each.variables <= self._columns.keys()]
        terms = [term for each in self._template for term in each.terms]
        self._triples = list(dict.fromkeys(term for term in terms if isinstance(term, TripleTerm)))

    def of(self, row: IdRow) -> Iterator[IdRow]:
        """The key of each quad that a solution yields, as often as it does."""
        values = row + self._constants
        if self._triples:
            values += self._triple_ids(row)
        for pattern in self._patterns:
            key = pattern.key(values)
            if 0 not in key and self._are_nodes(values, pattern.nodes):
                yield key

    def quad(self, key: IdRow) -> Quad:
        """The quad of a key."""
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
        """The ids that it needs, from the first use on."""
        if "_constants" in self.__dict__:
            yield self._constants

    @cached_property
    def _constants(self) -> IdRow:
        """The ids of the template's constants, as they follow a solution's."""
        return tuple(self._constant_ids.values())

    @cached_property
    def _constant_ids(self) -> dict[object, int]:
        """The ids of the template's constants, by term; None is the default graph."""
        ids: dict[object, int] = {}
        for term in [term for each in self._template for term in each.terms]:
            if term is None:
                ids[term] = _DEFAULT_GRAPH
            elif not isinstance(term, Var | TripleTerm):
                ids[term] = self._dictionary.ids[term]
        return ids

    @cached_property
    def _varying(self) -> list[int]:
        """The places of a quad that are in keys: at least two, since one would be picked as a bare id."""
        places = [
            place
            for place, terms in enumerate(zip(*(each.terms for each in self._template), strict=True))
            if len({*terms}) > 1 or isinstance(terms[0], Var | TripleTerm)
        ]
        others = [place for place in range(4) if place not in places]
        return sorted(places + others[: max(0, 2 - len(places))])

    @cached_property
    def _patterns(self) -> list[_QuadPattern]:
        """One for each quad of the template."""
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
        """True where the ids at these places are of IRIs, or of blank nodes where those are allowed."""
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
        """The ids of the template's triple terms for a solution; 0 where one cannot be made."""
        solution = tuple(map(self._dictionary.decode, row))
        made = [self._instances.triple_term(each, solution) for each in self._triples]
        return tuple(map(self._dictionary.encode, made))
