"""The content of a window: a set of quads kept by counts, with its changes."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from ..element import WindowContent


class LiveQuads:
    """The RDF merge of some elements: each live quad once, however many elements carry it.

    A quad is there with its first occurrence and leaves with its last (semantics, section 1). The
    greatest event time of the live occurrences is kept beside it. Occurrences leave in event time order,
    so that time never has to be recomputed: an occurrence that leaves is never newer than one that stays.
    """

    __slots__ = ("_changes", "_counts", "_latest")

    def __init__(self) -> None:
        self._counts: dict[Quad, int] = {}
        self._latest: dict[Quad, int] = {}
        self._changes: dict[Quad, int] | None = None

    def add(self, quads: Iterable[Quad], event_time: int) -> None:
        """Let one occurrence of each of ``quads`` enter."""
        for quad in quads:
            count = self._counts.get(quad, 0)
            self._counts[quad] = count + 1
            if count == 0:
                self._latest[quad] = event_time
                self._note(quad, 1)
            elif self._latest[quad] < event_time:
                self._latest[quad] = event_time

    def remove(self, quads: Iterable[Quad]) -> None:
        """Let one occurrence of each of ``quads`` leave."""
        for quad in quads:
            count = self._counts[quad] - 1
            if count:
                self._counts[quad] = count
            else:
                del self._counts[quad]
                del self._latest[quad]
                self._note(quad, -1)

    def clear(self) -> None:
        """Let everything leave."""
        for quad in self._counts:
            self._note(quad, -1)
        self._counts.clear()
        self._latest.clear()

    @property
    def content(self) -> WindowContent:
        """The live quads, each with its greatest event time. A view: it follows later changes."""
        return self._latest

    def __len__(self) -> int:
        return len(self._latest)

    def track_changes(self) -> None:
        """From now on keep the changes of the set for `take_changes`."""
        if self._changes is None:
            self._changes = {}

    def take_changes(self) -> dict[Quad, int]:
        """The quads that entered (+1) and left (-1) the set since the last call, consolidated."""
        if not self._changes:
            return {}
        changes = self._changes
        self._changes = {}
        return changes

    @property
    def untaken(self) -> dict[Quad, int]:
        """What `take_changes` would give; it stays."""
        return dict(self._changes or {})

    def parts(self) -> tuple[dict[Quad, int], dict[Quad, int], dict[Quad, int] | None]:
        """For a checkpoint: occurrences and greatest event time by quad, in one order, and the changes."""
        return self._counts, self._latest, self._changes

    @classmethod
    def of(
        cls, counts: dict[Quad, int], latest: dict[Quad, int], changes: dict[Quad, int] | None
    ) -> LiveQuads:
        """The content again from its `parts`."""
        live = cls()
        live._counts, live._latest, live._changes = counts, latest, changes
        return live

    def _note(self, quad: Quad, weight: int) -> None:
        if self._changes is None:
            return
        # A set changes by at most one per quad, so +1 and -1 always cancel.
        if quad in self._changes:
            del self._changes[quad]
        else:
            self._changes[quad] = weight
