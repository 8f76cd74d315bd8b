"""The content of a window as quads, for the reference evaluator and for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyoxigraph import Quad

from quadrill.store.logs.packing import QuadNumbers

from ..algebra.reports import Interval
from ..inputs import Element, WindowContent


class TimesSnapshot(NamedTuple):
    """Event times of the triples in a window, as stored in a checkpoint.

    Each triple of the window is written as a quad of the default graph. ``counts`` has the live occurrences
    of each triple of the window, and ``latest`` their greatest event time. ``touched`` has the previous event
    time of each triple that has changed since the last evaluation.
    """

    counts: QuadNumbers
    latest: QuadNumbers
    touched: Mapping[Quad, int | None]


class ContentSnapshot(NamedTuple):
    """The visible content of a window, as stored in a checkpoint.

    ``counts`` has the number of occurrences of each quad in the window, and ``changes`` the delta that no
    evaluation has read. ``occurrences`` also counts quads in the window that no query reads. ``latest`` has
    the greatest event time of each quad if the window content consists of quads, not of ids. ``times`` has
    the event times of the window's triples if the query reads them. ``elements`` and ``ends`` are the forms
    of the content for AT and BOUNDS, ``interval`` the window's ends (`content_parts`).
    """

    counts: QuadNumbers
    changes: QuadNumbers
    occurrences: int
    latest: QuadNumbers | None = None
    times: TimesSnapshot | None = None
    elements: ContentSnapshot | None = None
    ends: ContentSnapshot | None = None
    interval: Interval | None = None


class LiveQuads:
    """The RDF merge of a window's elements: each live quad once, however many elements contain it.

    A quad enters a window with its first occurrence and leaves with its last one (semantics, section 1). The
    greatest event time of a quad's live occurrences in the window is stored with the quad. Occurrences of a
    quad leave a window in the order of event times, so that time never needs to be recomputed: a leaving
    occurrence is never newer than a staying one.
    """

    def __init__(self) -> None:
        self._counts: dict[Quad, int] = {}
        self._latest: dict[Quad, int] = {}
        self.occurrences = 0

    def add(self, *elements: Element) -> None:
        """Add elements."""
        counts, latest = self._counts, self._latest
        for element in elements:
            at = element.event_time
            self.occurrences += len(element.statements)
            for quad in element.quads:
                counts[quad] = counts.get(quad, 0) + 1
                latest[quad] = max(at, latest.get(quad, at))

    def remove(self, *elements: Element) -> None:
        """Remove elements."""
        counts = self._counts
        for element in elements:
            self.occurrences -= len(element.statements)
            for quad in element.quads:
                counts[quad] -= 1
                if not counts[quad]:
                    del counts[quad], self._latest[quad]

    def replace(self, leaving: Sequence[Element], entering: Sequence[Element]) -> None:
        """Replace all elements of the window's content by others."""
        self.add(*entering)
        self.remove(*leaving)

    @property
    def content(self) -> WindowContent:
        """The live quads with their greatest event times, as a view that follows later changes."""
        return self._latest

    def __len__(self) -> int:
        return len(self._latest)

    def snapshot(self) -> ContentSnapshot:
        """Return the window's content for a checkpoint."""
        counts, latest = QuadNumbers(self._counts), QuadNumbers(self._latest)
        return ContentSnapshot(counts, QuadNumbers(), self.occurrences, latest)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Fill an empty window content from a snapshot in a checkpoint."""
        if snapshot.latest is None:
            raise ValueError("its windows were written by another kind of evaluator")
        self._counts, self._latest = dict(snapshot.counts), dict(snapshot.latest)
        self.occurrences = snapshot.occurrences
