"""A window as term ids with the event times of its triples, for ``timestamp()`` of C-SPARQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyoxigraph import Quad

from ..element import Element
from ..rows import IdRow
from .encoded import ElementCoder, EncodedContent, Predicates
from .snapshots import ContentSnapshot, TimesSnapshot

Turned = dict[IdRow, tuple[int | None, int | None]]
"""For triples whose time is another one: the time before and the time now, None where it is not there."""


class TimedContent(EncodedContent):
    """An `EncodedContent` that also knows the greatest event time of each triple's live occurrences.

    A triple counts in whatever graph it is, as far as patterns outside GRAPH match it. Occurrences leave in
    the order of their event times, so one that leaves is never newer than one that stays.
    """

    __slots__ = ("_times", "_touched")

    def __init__(self, coder: ElementCoder, wanted: Predicates = None, *, union: bool = True) -> None:
        super().__init__(coder, wanted, union=union)
        # For each triple how many live occurrences it has and the latest event time of them (milliseconds).
        self._times: dict[IdRow, tuple[int, int]] = {}
        # The times of triples that were touched, as they were at the last `take_times`.
        self._touched: dict[IdRow, int | None] = {}

    def add(self, element: Element) -> None:
        """Let an element enter."""
        super().add(element)
        for key in self.keys(element):
            if key is not None:
                self._occur(key, element.event_time)

    def remove(self, element: Element) -> None:
        """Let an element leave."""
        super().remove(element)
        for key in self.keys(element):
            if key is not None:
                self._vanish(key)

    def enter(self, key: IdRow | None, event_time: int = 0) -> None:
        """Let one occurrence of a quad enter."""
        super().enter(key, event_time)
        if key is not None:
            self._occur(key, event_time)

    def leave(self, key: IdRow | None) -> None:
        """Let one occurrence of a quad leave."""
        super().leave(key)
        if key is not None:
            self._vanish(key)

    def take_times(self) -> Turned:
        """The triples whose time changed since the last call."""
        before, self._touched = self._touched, {}
        turned: Turned = {}
        for row, old in before.items():
            new = self._time(row)
            if new != old:
                turned[row] = old, new
        return turned

    def times(self) -> dict[IdRow, int]:
        """The greatest event time of each live triple."""
        return {row: latest for row, (_, latest) in self._times.items()}

    def times_before(self) -> dict[IdRow, int]:
        """The times as they were at the last `take_times`."""
        times: dict[IdRow, int | None] = {**self.times(), **self._touched}
        return {row: time for row, time in times.items() if time is not None}

    def begin_at(self, keys: Sequence[IdRow], times: Mapping[IdRow, int]) -> None:
        """Let these keys, all different, enter an empty content, each at the time of its triple."""
        for key in keys:
            self.enter(key, times.get(key[:3], 0))

    def snapshot(self) -> ContentSnapshot:
        """The same in quads."""
        quad = self._coder.quad
        times = TimesSnapshot(
            self._quads({row: count for row, (count, _) in self._times.items()}),
            self._quads(self.times()),
            {quad(row): time for row, time in self._touched.items()},
        )
        return replace(super().snapshot(), times=times)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Hold, in an empty content, what a snapshot says."""
        super().restore(snapshot)
        times = snapshot.times
        if times is not None:
            key = self._coder.key
            counts = times.counts.items()
            self._times = {key(quad): (count, times.latest[quad]) for quad, count in counts}
            self._touched = {key(quad): time for quad, time in times.touched.items()}

    def _take_over(self, counts: Mapping[Quad, int], latest: Mapping[Quad, int]) -> None:
        super()._take_over(counts, latest)
        self.take_times()

    def _occur(self, key: IdRow, event_time: int) -> None:
        if len(key) == 4 and not self._union:
            return
        row = key[:3]
        count, latest = self._times.get(row, (0, event_time))
        self._touched.setdefault(row, latest if count else None)
        self._times[row] = count + 1, max(latest, event_time)

    def _vanish(self, key: IdRow) -> None:
        if len(key) == 4 and not self._union:
            return
        row = key[:3]
        count, latest = self._times[row]
        self._touched.setdefault(row, latest)
        if count > 1:
            self._times[row] = count - 1, latest
        else:
            del self._times[row]

    def _time(self, row: IdRow) -> int | None:
        known = self._times.get(row)
        return None if known is None else known[1]
