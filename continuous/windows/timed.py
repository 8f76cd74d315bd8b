"""A window's content as term ids with the event times of triples, for ``timestamp()`` of C-SPARQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..inputs import Element
from ..rows import IdRow
from .encoded import ElementCoder, EncodedContent
from .live import ContentSnapshot, TimesSnapshot
from .window_delta import Predicates

Turned = dict[IdRow, tuple[int | None, int | None]]
"""Triples of a window with a changed event time: the time before and the time now, None while absent."""


class TimedContent(EncodedContent):
    """An `EncodedContent` that also stores the greatest event time of each triple's live occurrences.

    A triple counts in every graph of the window that patterns outside GRAPH match. Occurrences of a triple
    leave a window in the order of event times, so a leaving one is never newer than a staying one.
    """

    def __init__(self, coder: ElementCoder, wanted: Predicates = None, *, union: bool = True) -> None:
        super().__init__(coder, wanted, union=union)
        # For each triple of the window, the number of live occurrences and their latest event time in
        # milliseconds.
        self._times: dict[IdRow, tuple[int, int]] = {}
        # For each triple that was added or removed since the last `take_times`, its event time at that call.
        self._touched: dict[IdRow, int | None] = {}

    def add(self, *elements: Element) -> None:
        """Add elements."""
        super().add(*elements)
        for row, at in self._rows(elements):
            count, latest = self._times.get(row, (0, at))
            self._touched.setdefault(row, latest if count else None)
            self._times[row] = count + 1, max(latest, at)

    def remove(self, *elements: Element) -> None:
        """Remove elements."""
        super().remove(*elements)
        for row, _ in self._rows(elements):
            count, latest = self._times[row]
            self._touched.setdefault(row, latest)
            if count > 1:
                self._times[row] = count - 1, latest
            else:
                del self._times[row]

    def take_times(self) -> Turned:
        """Return and reset the window's triples whose event time has changed since the last call."""
        before, self._touched = self._touched, {}
        now = {row: self._times[row][1] for row in before if row in self._times}
        return {row: (old, now.get(row)) for row, old in before.items() if old != now.get(row)}

    def times(self) -> dict[IdRow, int]:
        """Return the greatest event time of each live triple of the window."""
        return {row: latest for row, (_, latest) in self._times.items()}

    def times_before(self) -> dict[IdRow, int]:
        """Return the event times of the window's triples as of the last `take_times`."""
        times: dict[IdRow, int | None] = {**self.times(), **self._touched}
        return {row: time for row, time in times.items() if time is not None}

    def apply_times(self, times: Mapping[IdRow, int]) -> None:
        """Set the event times of triples that `apply` has added to an empty window content."""
        self._times = {row: (1, time) for row, time in times.items()}
        self._touched = dict.fromkeys(times)

    def snapshot(self) -> ContentSnapshot:
        """Return the window's content as quads for a checkpoint, with the event times."""
        quad = self._coder.quad
        times = TimesSnapshot(
            self._quads({row: count for row, (count, _) in self._times.items()}),
            self._quads(self.times()),
            {quad(row): time for row, time in self._touched.items()},
        )
        return super().snapshot()._replace(times=times)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Fill an empty window content, with event times, from a snapshot."""
        super().restore(snapshot)
        key, times = self._coder.key, snapshot.times
        if times is None:
            self.take_times()
        else:
            counts = times.counts.items()
            self._times = {key(quad): (count, times.latest[quad]) for quad, count in counts}
            self._touched = {key(quad): time for quad, time in times.touched.items()}

    def _rows(self, elements: Sequence[Element]) -> list[tuple[IdRow, int]]:
        """Return those triples of elements that patterns outside GRAPH match, with their event times."""
        keys, union = self._coder.keys, self._union
        return [
            (key[:3], element.event_time)
            for element in elements
            for key in self._wanted(keys(element))
            if union or len(key) == 3
        ]
