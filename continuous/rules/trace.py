"""Traces: the triples that the patterns of a rule body match in the current solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..algebra import nodes as n
from .facts import Facts
from .interfaces import Premise
from .layout import Frame, Matcher
from .paths import FactReader, PathSteps

_MOST = 1_000
"""Maximum number of premises of one group of an aggregating sub-select."""

Entry = tuple[int, Premise]
"""A premise and the place of its pattern in the rule."""


class Trace:
    """The matches of the matchers that are suspended at a solution: exactly those that the solution needs.

    Matchers run inside one another, so what the stack holds when the outermost one yields is what the
    patterns match: of UNION one side, of OPTIONAL the right side if it matches, of MINUS the left side.
    """

    def __init__(self, patterns: Sequence[n.TriplePattern | n.Path]) -> None:
        """Begin a trace; ``patterns`` are those of the rule, in the order of its text."""
        self._places: dict[n.TriplePattern | n.Path, int] = {}
        for place, pattern in enumerate(patterns):
            self._places.setdefault(pattern, place)
        self._stack: list[Entry] = []
        # What positive EXISTS of the step that is being tested have matched.
        self._exists: list[Entry] = []

    def premises(self) -> list[Premise]:
        """Return the premises of the current solution, in the order of the rule's text."""
        return [premise for _, premise in sorted(self._stack, key=lambda entry: entry[0])]

    def pattern(
        self, matcher: Matcher, pattern: n.TriplePattern, slots: Sequence[int], graph: int | None
    ) -> Matcher:
        """Return the matcher of a triple pattern that notes what it matches."""
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
        """Return the matcher of a property path that notes the triples of one path."""
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
        """Return a FILTER or BIND that notes what its EXISTS match."""

        def traced(frame: Frame, facts: Facts) -> Iterator[None]:
            size = len(self._stack)
            self._exists.clear()
            for _ in matcher(frame, facts):
                yield from self.with_entries(self._exists.copy(), size)

        return traced

    def exists(self, matcher: Matcher) -> Callable[[Frame, Facts], bool]:
        """Return the test of an EXISTS; `step` gets what its first solution matches."""

        def exists(frame: Frame, facts: Facts) -> bool:
            size = len(self._stack)
            for _ in matcher(frame.copy(), facts):
                self._exists += self._stack[size:]
                return True
            return False

        return exists

    def size(self) -> int:
        """Return the number of matches so far."""
        return len(self._stack)

    def collect(self, entries: list[Entry], size: int) -> None:
        """Add the matches after the first ``size`` ones to those of a group."""
        if len(entries) < _MOST:
            entries += self._stack[size:]

    def with_entries(self, entries: Sequence[Entry], size: int) -> Iterator[None]:
        """Yield once with further matches on top of the first ``size`` ones."""
        self._stack += entries
        try:
            yield
        finally:
            del self._stack[size:]
