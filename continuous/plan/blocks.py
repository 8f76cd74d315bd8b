"""Blocks that are evaluated graph by graph, or stream by stream: ``GRAPH ?g { }`` and ``STREAM ?s [w] { }``.

Their rows carry the graph or stream as a column, the *context*. Patterns bind it by themselves; where it
matters that there is no row, or how many there are (OPTIONAL, MINUS, EXISTS, GROUP BY, LIMIT), rows that hold
for every graph are joined with the graphs that there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from quadrill.store.errors import UnsupportedError

from ..algebra.graphs import only_matches
from ..algebra.nodes import Algebra, Var
from ..algebra.variables import mentioned
from .patterns import Patterns
from .plan import Built
from .solutions import Solutions
from .sources import Names, Scope, Sources


class Blocks:
    """What the planner needs of the blocks of one query."""

    def __init__(
        self, patterns: Patterns, sources: Sources, solutions: Solutions, fresh: Iterator[int]
    ) -> None:
        self._patterns = patterns
        self._sources = sources
        self._solutions = solutions
        self._fresh = fresh

    def context(self, scope: Scope) -> Built:
        """The graphs, or streams, for each of which a block is evaluated."""
        if isinstance(scope.graph, Var):
            return self._patterns.graph_names(scope.graph, scope)
        return self._sources.streams(scope)

    def in_context(self, built: Built, scope: Scope) -> Built:
        """Rows that tell for which graph or stream they are; one that holds for all is there for each."""
        if scope.context <= built.schema.certain:
            return built
        return self._solutions.join(built, self.context(scope))

    def inside_name(self, name: str, inner: Algebra, outer: Names) -> str:
        """What a block's variable is called inside: a name of its own where the block has one like it.

        ``GRAPH ?g { SELECT ... { ?g :p ?o } }`` binds ?g behind its pattern, whose ?g is another variable.

        Raises:
            UnsupportedError: EXISTS substitutes it, as ``outer`` says.
        """
        if name not in mentioned(inner) or only_matches(inner):
            return name
        if name in outer:
            raise UnsupportedError("EXISTS over a block whose variable is used inside it and outside")
        return f"_:in{next(self._fresh)}"

    def renamed(self, built: Built, inside: str, name: str, scope: Scope) -> Built:
        """The rows with the block's variable, where they agree with what it is bound to already."""
        if inside == name:
            return built
        pairs = self._solutions.extend(self.context(scope), name, Var(inside))
        joined = self._solutions.join(built, pairs)
        return self._solutions.project(joined, [each for each in joined.schema.vars if each != inside])
