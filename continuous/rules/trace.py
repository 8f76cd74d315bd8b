"""Traces: the triples that the patterns of a rule body match in the current solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..algebra import nodes as n
from .facts import Facts
from .interfaces import Premise
from .layout import Frame, Matcher
from .paths import FactReader, PathSteps

_MOST = 1_000
"""Number of premises of one group of an aggregating sub-select after which no further ones are recorded."""

Entry = tuple[int, Premise]
"""The position of a pattern in the rule, and a premise that the pattern matches."""


class Trace:
    """A stack of the triples that the patterns of a body match in the current solution.

    The matcher of a pattern pushes its triple before it yields, and removes it when it continues. So when the
    matcher of the whole body yields, the stack has exactly the triples of this solution: from one side of a
    UNION, from the right side of an OPTIONAL if it matches, and from the left side of a MINUS.
    """

    def __init__(self, patterns: Sequence[n.TriplePattern | n.Path], most: int = _MOST) -> None:
        """Create an empty trace.

        Args:
            patterns: the patterns and paths of the rule, in their order.
            most: the number of entries above which a group gets no more.
        """
        self._most = most
        self._places: dict[n.TriplePattern | n.Path, int] = {}
        for place, pattern in enumerate(patterns):
            self._places.setdefault(pattern, place)
        self._stack: list[Entry] = []
        # The triples that the EXISTS of the current FILTER or BIND have matched.
        self._exists: list[Entry] = []

    def premises(self) -> list[Premise]:
        """Return the premises of the current solution, in the order of the rule's patterns."""
        return [premise for _, premise in sorted(self._stack, key=lambda entry: entry[0])]

    def pattern(
        self, matcher: Matcher, pattern: n.TriplePattern, slots: Sequence[int], graph: int | None
    ) -> Matcher:
        """Return a matcher of a triple pattern that also records the triple that it matches."""
        place = self._places.get(pattern, len(self._places))
        s, p, o = slots

        def traced(frame: Frame, facts: Facts) -> Iterator[None]:
            size = len(self._stack)
            for _ in matcher(frame, facts):
                name = None if graph is None else frame[graph]
                self._stack.append((place, Premise((frame[s], frame[p], frame[o]), name, graph is not None)))
                try:
                    yield
                finally:
                    del self._stack[size:]

        return traced

    def path(
        self, matcher: Matcher, node: n.Path, slots: tuple[int, int], steps: PathSteps, graph: int | None
    ) -> Matcher:
        """Return a matcher of a property path that also records the triples of one path per solution."""
        place = self._places.get(node, len(self._places))
        s, o = slots

        def traced(frame: Frame, facts: Facts) -> Iterator[None]:
            size = len(self._stack)
            for _ in matcher(frame, facts):
                start, end = frame[s], frame[o]
                assert start is not None
                assert end is not None
                name = None if graph is None else frame[graph]
                edges = steps.edges(FactReader(facts, name), start, end)
                yield from self.with_entries(
                    [(place, Premise(edge, name, graph is not None)) for edge in edges], size
                )

        return traced

    def step(self, matcher: Matcher) -> Matcher:
        """Return a matcher of a FILTER or BIND that also records the triples that its EXISTS match."""

        def traced(frame: Frame, facts: Facts) -> Iterator[None]:
            size = len(self._stack)
            self._exists.clear()
            for _ in matcher(frame, facts):
                yield from self.with_entries(self._exists.copy(), size)

        return traced

    def exists(self, matcher: Matcher) -> Callable[[Frame, Facts], bool]:
        """Return a test of an EXISTS that keeps the triples of its first solution for `step`."""

        def exists(frame: Frame, facts: Facts) -> bool:
            size = len(self._stack)
            for _ in matcher(frame.copy(), facts):
                self._exists += self._stack[size:]
                return True
            return False

        return exists

    def size(self) -> int:
        """Return the number of entries on the stack."""
        return len(self._stack)

    def collect(self, entries: list[Entry], size: int) -> None:
        """Add the entries above the first ``size`` ones to those of a group, unless it has many already."""
        if len(entries) < self._most:
            entries += self._stack[size:]

    def with_entries(self, entries: Sequence[Entry], size: int) -> Iterator[None]:
        """Push entries, yield once, and then remove all entries above the first ``size`` ones."""
        self._stack += entries
        try:
            yield
        finally:
            del self._stack[size:]
