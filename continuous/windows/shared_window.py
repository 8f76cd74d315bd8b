"""One buffer for all windows of the same shape on a stream: content, expiry and memory are there once.

Queries take each input one after the other. The first that takes it moves the shared window and writes what
happened to a log; the others read it there. A window of a new query holds only elements accepted after its
registration, so it has a content of its own until nothing older is left in the shared one: from then on
both are the same, and it joins.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from pyoxigraph import Quad

from ..element import Element
from ..rows import Delta, IdRow, merge
from .encoded import NOTHING, EncodedContent, StoredContent, Taken
from .operator import Interval, WindowOperator

_LONG = 64


class _Move(NamedTuple):
    """Something that was done to a shared window: what came of it, and how the window was afterwards."""

    kind: str
    what: int
    result: bool
    taken: Taken
    due: int | None
    occurrences: int
    size: int


class SharedWindow:
    """A window that several queries read."""

    level = 1

    def __init__(self, operator: WindowOperator) -> None:
        """``operator`` holds an `EncodedContent` whose changes have been taken."""
        self.operator = operator
        self.readers: weakref.WeakSet[SharedView] = weakref.WeakSet()
        self._moves: list[_Move] = []
        self._first = 0

    @property
    def content(self) -> EncodedContent:
        """What is in the window."""
        live = self.operator.live
        assert isinstance(live, EncodedContent)
        return live

    @property
    def end(self) -> int:
        """The place of the next move."""
        return self._first + len(self._moves)

    def append(self, kind: str, what: int, result: bool) -> None:
        """Remember a move that was just made."""
        if len(self._moves) >= _LONG:
            read = min((view.live.place for view in self.readers), default=self.end)
            del self._moves[: read - self._first]
            self._first = read
        content = self.content
        due = self.operator.next_due()
        size = self.operator.state_size()
        self._moves.append(_Move(kind, what, result, content.take(), due, content.occurrences, size))

    def at(self, place: int) -> _Move:
        """The move at a place."""
        return self._moves[place - self._first]

    def moved_since(self, place: int) -> Delta:
        """What the moves from a place on changed together."""
        change: Delta = {}
        for move in self._moves[place - self._first :]:
            merge(change, move.taken.keys)
        return change

    def held(self) -> Iterator[IdRow]:
        """Keys that readers have not taken yet."""
        return chain.from_iterable(tuple(move.taken.keys) for move in list(self._moves))

    def __getstate__(self) -> WindowOperator:
        """For a checkpoint, which is written when everybody has read every move."""
        return self.operator

    def __setstate__(self, operator: WindowOperator) -> None:
        self.operator = operator
        self.readers = weakref.WeakSet()
        self._moves, self._first = [], 0


class SharedContent:
    """One reader's view of a shared content: what changed since it looked last."""

    level = 2

    def __init__(self, window: SharedWindow, pending: Taken, inputs: tuple[str, str]) -> None:
        self.window = window
        self.pending = pending
        self.inputs = inputs
        # The next move to read.
        self.place = window.end
        self.occurrences = window.content.occurrences
        window.content.kept_by(window)
        window.content.kept_by(self)

    def take(self) -> Taken:
        """The change since the last call."""
        taken, self.pending = self.pending, NOTHING
        return taken

    def note(self, taken: Taken) -> None:
        """Something changed."""
        mine = self.pending
        if mine is NOTHING:
            self.pending = taken
        else:
            self.pending = Taken(*(merge(dict(old), new) for old, new in zip(mine, taken, strict=True)))

    def before(self) -> list[IdRow]:
        """The content as it was at the last `take`."""
        return self.before_change(self.pending)

    def before_change(self, taken: Taken) -> list[IdRow]:
        """The content as it was before what was taken last."""
        change = taken.keys
        if self.place != self.window.end:
            # Other readers have moved it further already.
            change = merge(self.window.moved_since(self.place), change)
        stayed = [key for key in self.window.content.content if key not in change]
        return stayed + [key for key, weight in change.items() if weight < 0]

    def held(self) -> Iterable[IdRow]:
        """Every key whose ids are still needed; those in the window are held by it."""
        return list(self.pending.keys)

    @property
    def content(self) -> Mapping[IdRow, int]:
        """The live keys."""
        return self.window.content.content

    def __len__(self) -> int:
        return len(self.window.content)


class SharedView:
    """One query's window operator on a shared window."""

    closes = False
    closes_after = False
    closed: Interval | None = None

    def __init__(self, window: SharedWindow, owner: str, pending: Taken, inputs: tuple[str, str]) -> None:
        self.window = window
        self.owner = owner
        self._stored: dict[Quad, int] = {}
        self._open(pending, inputs)

    def _open(self, pending: Taken, inputs: tuple[str, str]) -> None:
        self.live = SharedContent(self.window, pending, inputs)
        self._due = self.window.operator.next_due()
        self._size = self.window.operator.state_size()
        self.window.readers.add(self)

    def __getstate__(self) -> tuple[SharedWindow, str, dict[Quad, int]]:
        """For a checkpoint: what was not taken yet, in quads."""
        quad = self.window.content.quad
        return self.window, self.owner, {quad(key): weight for key, weight in self.live.pending.keys.items()}

    def __setstate__(self, state: tuple[SharedWindow, str, dict[Quad, int]]) -> None:
        self.window, self.owner, self._stored = state

    def start(self, origin: int) -> None:
        """The window began long ago."""

    def next_due(self) -> int | None:
        """The instant at which the oldest element leaves."""
        return self._due

    def advance(self, instant: int) -> bool:
        """Let leave what is too old at ``instant``."""
        if self._due is None or self._due > instant:
            return False
        return self._move("advance", instant, lambda: self.window.operator.advance(instant))

    def add(self, element: Element) -> bool:
        """The element enters."""
        return self._move("add", element.seq, lambda: self.window.operator.add(element))

    def close_next(self) -> bool:
        """These windows never close."""
        return False

    def admit(self, element: Element, instant: int) -> bool:
        """An older element enters if the window still holds its time."""
        return self._move("admit", element.seq, lambda: self.window.operator.admit(element, instant))

    @property
    def content(self) -> Mapping[IdRow, int]:
        """The live keys."""
        return self.live.content

    @property
    def empty(self) -> bool:
        """True when no quad is visible."""
        return not self.live.occurrences

    def state_size(self) -> int:
        """Quads held as this reader sees it: others may have moved the window further already."""
        return self._size

    def keep_in(self, content: Any) -> None:
        """Use what the window holds; after a restart, fill this empty content with it."""
        if isinstance(self.window.operator.live, StoredContent):
            self.window.operator.keep_in(content)
        key = self.window.content.key
        pending = {key(quad): weight for quad, weight in self._stored.items()}
        self._stored = {}
        self._open(self.window.content.change_of(pending), content.inputs)

    def leave(self) -> None:
        """The query ends."""
        self.window.readers.discard(self)

    def fork(self, owner: str) -> SharedView:
        """A view that has seen the same, for another query."""
        other = SharedView(self.window, owner, self.live.pending, self.live.inputs)
        other._due, other._size, other.live.place = self._due, self._size, self.live.place
        other.live.occurrences = self.live.occurrences
        return other

    def _move(self, kind: str, what: int, work: Callable[[], bool]) -> bool:
        window = self.window
        if self.live.place == window.end:
            window.append(kind, what, work())
        move = window.at(self.live.place)
        if move.kind != kind or move.what != what:
            raise RuntimeError(f"{kind} {what} where the shared window saw {move.kind} {move.what}")
        self.live.place += 1
        self._due, self._size = move.due, move.size
        self.live.occurrences = move.occurrences
        if move.taken is not NOTHING:
            self.live.note(move.taken)
        return move.result
