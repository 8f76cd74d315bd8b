"""The content of a window: as quads, for evaluators that recompute the answer, and in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyoxigraph import Quad

from quadrill.store.logs.packing import QuadNumbers

from ..inputs import Element, WindowContent


class TimesSnapshot(NamedTuple):
    """Event times of the triples in a window, each as a quad of the default graph.

    ``counts`` are their live occurrences, ``latest`` the greatest event times of these, ``touched`` the times
    before of those whose change was not taken yet.
    """

    counts: QuadNumbers
    latest: QuadNumbers
    touched: Mapping[Quad, int | None]


class ContentSnapshot(NamedTuple):
    """The visible content of a window.

    ``counts`` are the occurrences of each quad, ``changes`` what was not taken yet,
    ``occurrences`` counts quads that nobody wants to know of, too. ``latest`` are the greatest
    event times where the content is one of quads, ``times`` those of triples where a query asks for them.
    """

    counts: QuadNumbers
    changes: QuadNumbers
    occurrences: int
    latest: QuadNumbers | None = None
    times: TimesSnapshot | None = None


class LiveQuads:
    """The RDF merge of some elements: each live quad once, however many elements carry it.

    A quad is there with its first occurrence and leaves with its last (semantics, section 1). The
    greatest event time of the live occurrences is kept beside it. Occurrences leave in event time order,
    so that time never has to be recomputed: an occurrence that leaves is never newer than one that stays.
    """

    def __init__(self) -> None:
        self._counts: dict[Quad, int] = {}
        self._latest: dict[Quad, int] = {}
        self.occurrences = 0

    def add(self, *elements: Element) -> None:
        """Let elements enter."""
        counts, latest = self._counts, self._latest
        for element in elements:
            at = element.event_time
            self.occurrences += len(element.statements)
            for quad in element.quads:
                counts[quad] = counts.get(quad, 0) + 1
                latest[quad] = max(at, latest.get(quad, at))

    def remove(self, *elements: Element) -> None:
        """Let elements leave."""
        counts = self._counts
        for element in elements:
            self.occurrences -= len(element.statements)
            for quad in element.quads:
                counts[quad] -= 1
                if not counts[quad]:
                    del counts[quad], self._latest[quad]

    def replace(self, leaving: Sequence[Element], entering: Sequence[Element]) -> None:
        """Let all elements leave and others enter."""
        self.add(*entering)
        self.remove(*leaving)

    @property
    def content(self) -> WindowContent:
        """The live quads, each with its greatest event time. A view: it follows later changes."""
        return self._latest

    def __len__(self) -> int:
        return len(self._latest)

    def snapshot(self) -> ContentSnapshot:
        """The same for a checkpoint."""
        counts, latest = QuadNumbers(self._counts), QuadNumbers(self._latest)
        return ContentSnapshot(counts, QuadNumbers(), self.occurrences, latest)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Hold, in an empty content, what a snapshot says."""
        if snapshot.latest is None:
            raise ValueError("its windows were written by another kind of evaluator")
        self._counts, self._latest = dict(snapshot.counts), dict(snapshot.latest)
        self.occurrences = snapshot.occurrences
