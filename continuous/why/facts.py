"""The facts that the patterns of a query match at one moment: contents of windows, and the store's past."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.store.sparql.workspace import Workspace

from ..algebra.graphs import Dataset
from ..algebra.nodes import Term
from ..rules.facts import Fact, Pattern, Row
from ..rules.terms import RuleTerms
from .limits import Deadline
from .past import PastDataset

_LARGE = 1_000_000_000
"""The estimated number of facts of every predicate in the store; it is large so that windows are matched
first."""


class MomentFacts:
    """The facts of one moment, for matchers of the algebra in which windows are graphs.

    Attributes:
        terms: the ids of terms.
    """

    def __init__(
        self,
        terms: RuleTerms,
        windows: Workspace,
        window_graphs: Collection[NamedNode],
        merged: NamedNode | None,
        past: PastDataset | None,
        dataset: Dataset,
        deadline: Deadline,
    ) -> None:
        """Create the facts.

        Args:
            terms: the ids of terms.
            windows: the contents of the windows as graphs.
            window_graphs: the names of these graphs.
            merged: the graph for patterns that match all windows and the default graph; None without one.
            past: the dataset of the store; None if the query does not read it.
            dataset: the graphs of the store that the query reads.
            deadline: the time after which each match raises LimitError.
        """
        self.terms = terms
        self._windows, self._window_graphs, self._merged = windows, frozenset(window_graphs), merged
        self._past, self._deadline = past, deadline
        self._default = (DefaultGraph(),) if dataset.default is None else dataset.default
        self._named = None if dataset.named is None else frozenset(dataset.named)

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the triples of the default graph that match; see `Facts.match`."""
        ids = self.terms.dictionary.ids
        quads = self.default_quads((s, p, o))
        return dict.fromkeys((ids[quad.subject], ids[quad.predicate], ids[quad.object]) for quad in quads)

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return matching triples of named graphs; see `Facts.match_in`."""
        ids = self.terms.dictionary.ids
        name = None if graph is None else self.terms.term(graph)
        return dict.fromkeys(
            (
                ids[quad.graph_name] if graph is None else graph,  # type: ignore[index]
                (ids[quad.subject], ids[quad.predicate], ids[quad.object]),
            )
            for quad in self.named_quads((s, p, o), name)
        )

    def graph_names(self) -> Collection[int]:
        """Return the ids of the named graphs of the store that the query reads."""
        ids = self.terms.dictionary.ids
        names: Iterable[NamedNode | BlankNode] = () if self._past is None else self._past.graph_names()
        return [ids[name] for name in names if self._named is None or name in self._named]

    def count(self, p: Pattern) -> int:
        """Return the same large estimate for every predicate."""
        return _LARGE

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return the rows of ``find``, because this class has no cache; see `Facts.kept`."""
        return find()

    def is_window(self, graph: Term) -> bool:
        """Return True if a graph holds contents of windows."""
        return graph in self._window_graphs

    def default_quads(self, ids: tuple[Pattern, Pattern, Pattern]) -> list[Quad]:
        """Return the quads of the store whose triples match in the default graph."""
        pattern = self._pattern(ids)
        if pattern is None or self._past is None:
            return []
        return [quad for graph in self._default for quad in self._past.match(*pattern, graph)]

    def named_quads(self, ids: tuple[Pattern, Pattern, Pattern], name: Term | None) -> list[Quad]:
        """Return the quads of named graphs, or of one named graph, that match."""
        pattern = self._pattern(ids)
        if pattern is None:
            return []
        if name is not None and name in self._window_graphs:
            assert isinstance(name, NamedNode)
            found = self._windows.match(*pattern, name)
            return found + self.default_quads(ids) if name == self._merged else found
        if self._past is None or not (name is None or isinstance(name, NamedNode | BlankNode)):
            return []
        if name is None and self._named is not None:
            return [quad for each in self._named for quad in self._past.match(*pattern, each)]
        if name is not None and self._named is not None and name not in self._named:
            return []
        return [
            each for each in self._past.match(*pattern, name) if not isinstance(each.graph_name, DefaultGraph)
        ]

    def _pattern(
        self, ids: tuple[Pattern, Pattern, Pattern]
    ) -> tuple[NamedNode | BlankNode | None, NamedNode | None, Term | None] | None:
        """Return the terms of a pattern; None if RDF allows no such triple.

        Raises:
            LimitError: the deadline has passed; every match of a pattern comes here first.
        """
        self._deadline.check()
        return self.terms.pattern(*ids)
