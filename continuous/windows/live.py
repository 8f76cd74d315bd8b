"""The content of a window: a set of quads kept by counts, with its changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Protocol, Self

from pyoxigraph import Quad

from ..durable.packing import QuadNumbers
from ..element import Element, WindowContent
from .encoded import EncodedContent
from .snapshots import ContentSnapshot


class LiveContent(Protocol):
    """What a window keeps of the elements in it.

    A quad of an element is kept as its *key*, a hashable: the quad itself, or its term ids. None is the key
    of a quad that nobody wants to know about; it counts, but is not kept.
    """

    occurrences: int
    """How many quads of elements are in the window, equal ones each time."""

    def keys(self, element: Element) -> Sequence[Any]:
        """The keys of an element's quads, in their order."""
        ...

    def add(self, element: Element) -> None:
        """Let an element enter."""
        ...

    def remove(self, element: Element) -> None:
        """Let an element leave."""
        ...

    def enter(self, key: Any, event_time: int) -> None:
        """Let one occurrence of a quad enter."""
        ...

    def leave(self, key: Any) -> None:
        """Let one occurrence of a quad leave."""
        ...

    def __len__(self) -> int: ...

    @property
    def content(self) -> Mapping[Any, int]:
        """The live keys."""
        ...

    def snapshot(self) -> ContentSnapshot:
        """The same in quads, for a checkpoint."""
        ...

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Hold, in an empty content, what a snapshot says."""
        ...


class LiveQuads:
    """The RDF merge of some elements: each live quad once, however many elements carry it.

    A quad is there with its first occurrence and leaves with its last (semantics, section 1). The
    greatest event time of the live occurrences is kept beside it. Occurrences leave in event time order,
    so that time never has to be recomputed: an occurrence that leaves is never newer than one that stays.
    """

    __slots__ = ("_counts", "_latest", "occurrences")

    def __init__(self) -> None:
        self._counts: dict[Quad, int] = {}
        self._latest: dict[Quad, int] = {}
        self.occurrences = 0

    def keys(self, element: Element) -> Sequence[Quad]:
        """The quads themselves."""
        return element.quads

    def add(self, element: Element) -> None:
        """Let an element enter."""
        for quad in element.quads:
            self.enter(quad, element.event_time)

    def remove(self, element: Element) -> None:
        """Let an element leave."""
        for quad in element.quads:
            self.leave(quad)

    def enter(self, key: Quad, event_time: int) -> None:
        """Let one occurrence of a quad enter."""
        self.occurrences += 1
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        if count == 0:
            self._latest[key] = event_time
        elif self._latest[key] < event_time:
            self._latest[key] = event_time

    def leave(self, key: Quad) -> None:
        """Let one occurrence of a quad leave."""
        self.occurrences -= 1
        count = self._counts[key] - 1
        if count:
            self._counts[key] = count
        else:
            del self._counts[key]
            del self._latest[key]

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


class Holding:
    """What all windows share: they keep their visible content in `live`, as quads or as term ids."""

    def __init__(self) -> None:
        self.live: LiveContent = LiveQuads()

    @property
    def stay(self) -> int | None:
        """How long after its event time an element is out at the latest; None where time does not decide."""
        return None

    def fork(self) -> Self:
        """A window of its own that holds the same, for one without closes whose elements are in a deque."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, deque):
                setattr(other, name, value.copy())
        if isinstance(self.live, EncodedContent):
            other.live = self.live.fork()
        return other

    @property
    def content(self) -> Mapping[Any, int]:
        """The visible content at the current instant."""
        return self.live.content

    @property
    def empty(self) -> bool:
        """True when no quad is visible."""
        return not self.live.occurrences

    def snapshot(self) -> Any:
        """What it has become, in plain values, for a checkpoint; None to begin empty after a restart."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Go on from what `snapshot` gave."""


def occurrences_of(elements: Iterable[Element]) -> int:
    """How many quads some elements have together."""
    return sum(len(element.quads) for element in elements)
