"""Which windows of which queries have become the same, and how they become one (s2r/shared.py)."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import NamedTuple

from .encoded import EncodedContent
from .operator import WindowOperator
from .shared_window import SharedView, SharedWindow
from .timeline import QueryTimeline


class WindowPool:
    """Where the windows of one engine meet. Used in the loop only."""

    def __init__(self) -> None:
        # For each shape the windows that have not met their like, by query and name; and who leads.
        self._waiting: dict[Hashable, set[tuple[str, str]]] = {}
        self._leads: dict[Hashable, _Lead] = {}

    def enter(self, shape: Hashable, owner: str, window: str) -> None:
        """A window of this shape begins."""
        self._waiting.setdefault(shape, set()).add((owner, window))

    def leave(self, shape: Hashable, owner: str, window: str) -> None:
        """It ends, or has joined."""
        waiting = self._waiting.get(shape)
        if waiting is not None:
            waiting.discard((owner, window))
            if not waiting:
                del self._waiting[shape]

    def waits(self, shape: Hashable) -> bool:
        """True while some window of the shape may join another."""
        return shape in self._waiting

    def meet(
        self, shape: Hashable, query: WindowSharing, window: tuple[str, str], event: object
    ) -> tuple[WindowSharing, tuple[str, str]] | None:
        """The window of this shape that leads and its query, when that has just taken the same input.

        The first to come leads until it is gone; None for itself.
        """
        lead = self._leads.get(shape)
        leader = None if lead is None else lead.query()
        if lead is None or leader is None or leader.left or (leader is query and lead.window == window):
            self._leads[shape] = _Lead(weakref.ref(query), window, event)
            self.leave(shape, query.owner, window[0])
            return None
        return (leader, lead.window) if lead.event is event else None


class _Lead(NamedTuple):
    query: weakref.ref[WindowSharing]
    window: tuple[str, str]
    event: object


class WindowSharing:
    """One query's part in it: its windows may join those of others."""

    def __init__(self, pool: WindowPool, timeline: QueryTimeline, owner: str) -> None:
        """The query begins, or goes on after a restart.

        Args:
            pool: where windows meet.
            timeline: the query's.
            owner: its name.
        """
        self.owner = owner
        self.left = False
        self._pool = pool
        self._timeline = timeline
        self._shapes = list(timeline.sliding())
        for shape, key in self._shapes:
            if not isinstance(timeline.operators[key], SharedView):
                pool.enter(shape, owner, key[0])

    def meet(self, event: object) -> None:
        """After an input: join windows of other queries that have become the same.

        Who took the same input, is at the same instant, holds the same in its window and has nothing waiting
        that does not wait here, goes on exactly alike.
        """
        for shape, key in self._shapes:
            if not self._pool.waits(shape) or self._timeline.instant is None:
                continue
            met = self._pool.meet(shape, self, key, event)
            mine = self._timeline.operators[key]
            if met is None or isinstance(mine, SharedView):
                continue
            leader, name = met
            theirs = leader._timeline.operators[name]
            if leader._timeline.stands_like(self._timeline) and _alike(theirs, mine):
                self._read(key, leader._shared(name))
                self._pool.leave(shape, self.owner, key[0])

    def rename(self, owner: str) -> None:
        """From now on it speaks for another query."""
        self.owner = owner
        for _, key in self._shapes:
            operator = self._timeline.operators[key]
            if isinstance(operator, SharedView):
                operator.owner = owner

    def leave(self) -> None:
        """The query ends: it reads no shared window any more."""
        self.left = True
        for shape, key in self._shapes:
            self._pool.leave(shape, self.owner, key[0])
            operator = self._timeline.operators[key]
            if isinstance(operator, SharedView):
                operator.leave()

    def group(self) -> list[str]:
        """The queries that share a window with this one, itself included, in order."""
        operators = (self._timeline.operators[key] for _, key in self._shapes)
        views = [each for each in operators if isinstance(each, SharedView)]
        return sorted({reader.owner for view in views for reader in list(view.window.readers)})

    def _shared(self, key: tuple[str, str]) -> SharedWindow:
        """The shared window behind one of this query's, which becomes one when it is none yet."""
        operator = self._timeline.operators[key]
        if isinstance(operator, SharedView):
            return operator.window
        window = SharedWindow(operator)
        self._read(key, window)
        return window

    def _read(self, key: tuple[str, str], window: SharedWindow) -> None:
        """Read a shared window from now on, what was not taken of the own one first."""
        own = self._timeline.operators[key].live
        assert isinstance(own, EncodedContent)
        self._timeline.put(key, SharedView(window, self.owner, own.take(), own.inputs))


def _alike(one: WindowOperator, other: WindowOperator) -> bool:
    """True when two windows of one shape hold the same, looked at in detail only when they may."""
    return (
        one.live.occurrences == other.live.occurrences
        and one.next_due() == other.next_due()
        and one.content == other.content
    )
