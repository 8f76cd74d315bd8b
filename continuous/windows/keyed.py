"""Windows that group elements by key (evaluation step 4 of 8): ``[LATEST n BY ?v …]``, ``[SESSION g …]``."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from ..algebra.reports import Interval
from ..expressions.element_keys import Key, KeysOf, order_of
from ..inputs import Element
from .operator import ORDER, WindowOperator, WindowState


@dataclass(slots=True)
class KeyedState(WindowState):
    """State of a LATEST window: ``held`` maps each key to its elements in order.

    An element of a LATEST window may have several keys.
    """

    held: dict[Key, deque[Element]] = field(default_factory=dict)

    def __copy__(self) -> Self:
        other = WindowState.__copy__(self)
        other.held = {key: elements.copy() for key, elements in self.held.items()}
        return other


class LatestWindow(WindowOperator):
    """``[LATEST n BY ?v … WITHIN d]``: for each key the n newest elements of the last d milliseconds.

    An element is in the window while t - d <= event_time <= t and at least one of its keys has it among the n
    newest.

        LATEST 1 BY ?x     a1 ──────── a2 ──────
                               b1 ──────────────     a1 leaves when a2 enters
    """

    def __init__(self, count: int, within_ms: int, keys_of: KeysOf) -> None:
        self._count = count
        self._keys_of = keys_of
        self.stay = within_ms + 1 if within_ms else None
        self.state: KeyedState = KeyedState()
        # Event times by (seq, key), in the order in which elements leave; empty for LATEST without WITHIN.
        self._leaving: OrderedDict[tuple[int, Key], int] = OrderedDict()

    def next_due(self) -> int | None:
        """Return the instant at which the oldest element leaves a LATEST window."""
        if self.stay is None or not self._leaving:
            return None
        return next(iter(self._leaving.values())) + self.stay

    def advance(self, instant: int) -> bool:
        """Remove the elements that are too old at ``instant`` from a LATEST window."""
        left, held = [], self.state.held
        while (due := self.next_due()) is not None and due <= instant:
            (_, key), _ = self._leaving.popitem(last=False)
            left.append(held[key].popleft())
            if not held[key]:
                del held[key]
        self.live.remove(*left)
        return bool(left)

    def add(self, element: Element) -> bool:
        """Add the element under each of its keys; of each key, remove the oldest element above n."""
        entered = False
        for key in self._keys_of(element):
            elements = self.state.held.setdefault(key, deque())
            insort(elements, element, key=ORDER)
            left = elements.popleft() if len(elements) > self._count else None
            if left is element:
                continue
            entered = True
            self.live.add(element)
            if left is not None:
                self.live.remove(left)
            if self.stay is not None:
                self._leaving[element.seq, key] = element.event_time
                if left is not None:
                    del self._leaving[left.seq, key]
        return entered

    def admit(self, element: Element, instant: int) -> bool:
        """Insert a late element among the n newest of its keys, if the element is new enough."""
        self.missed = self.stay is not None and element.event_time + self.stay <= instant
        if self.missed:
            return False
        entered = self.add(element)
        if entered:
            self._put_in_order()
        return entered

    def restore(self, snapshot: KeyedState) -> None:
        """Restore the LATEST window from a snapshot."""
        super().restore(snapshot)
        if self.stay is not None:
            for key, elements in self.state.held.items():
                self._leaving.update({(each.seq, key): each.event_time for each in elements})
            self._put_in_order()

    def _put_in_order(self) -> None:
        order = sorted(self._leaving.items(), key=lambda each: (each[1], each[0][0]))
        self._leaving = OrderedDict(order)


@dataclass(slots=True)
class SessionState(KeyedState):
    """State of SESSION: ``held`` has the open sessions; ``shown`` is the last reported session."""

    shown: deque[Element] = field(default_factory=deque)
    shown_key: Key | None = None
    closed: Interval | None = None


class SessionWindow(WindowOperator):
    """``[SESSION g PARTITION BY ?v …]``: per key, a run of elements, each less than g after the last element.

    A session closes at its last event time + g. The open sessions are the content of a SESSION window; if the
    query reports closes (``on_close``), open sessions are hidden, and a session is the whole content when it
    closes.

        SESSION 10     10  14    21                  [10 ‥ 31)     closes at 31
                                        32  40       [32 ‥ 50)     closes at 50
    """

    def __init__(self, gap_ms: int, keys_of: KeysOf) -> None:
        self._gap = gap_ms
        self._keys_of = keys_of
        self.state: SessionState = SessionState()
        self._dues: OrderedDict[Key, int] = OrderedDict()
        self._closing: deque[Key] = deque()

    @property
    def closed(self) -> Interval | None:
        """The bounds of the session that was reported last."""
        return self.state.closed

    def ends(self, instant: int) -> Interval | None:
        """Return the ends of the session that was reported last, or of the only open session."""
        if self.on_close:
            return self.closed
        return next((self._interval(held) for held in self.state.held.values()), None)

    def next_due(self) -> int | None:
        """Return the instant at which the next session closes."""
        return next(iter(self._dues.values()), None)

    def advance(self, instant: int) -> bool:
        """Close the sessions that end by ``instant``; those to be reported are queued for `close_next`."""
        closing = []
        while (due := self.next_due()) is not None and due <= instant:
            closing.append(self._dues.popitem(last=False)[0])
        if self.on_close:
            self._closing.extend(sorted(closing, key=order_of) if len(closing) > 1 else closing)
            return False
        for key in closing:
            self.live.remove(*self.state.held.pop(key))
        return bool(closing)

    def close_next(self) -> bool:
        """Make the next closed session the content of the SESSION window."""
        if not self._closing:
            return False
        state = self.state
        old, state.shown_key = state.shown, self._closing.popleft()
        state.shown = state.held.pop(state.shown_key)
        state.closed = self._interval(state.shown)
        self.live.add(*state.shown)
        self.live.remove(*old)
        return True

    def add(self, element: Element) -> bool:
        """Add the element to the open sessions of its keys, or open new sessions."""
        keys = self._keys_of(element)
        for key in keys:
            self._enter(key, element)
            self._dues.move_to_end(key)
        return bool(keys) and not self.on_close

    def admit(self, element: Element, instant: int) -> bool:
        """Insert a late element into an open session, the last reported session, or a new open session.

        Sessions that closed earlier than the last reported one stay as they are.
        """
        changed, at, gap, state = False, element.event_time, self._gap, self.state
        keys = self._keys_of(element)
        self.missed = bool(keys)
        for key in keys:
            held, shown = state.held.get(key), state.shown
            goes_on = held is not None and at + gap > held[0].event_time
            if not goes_on and key == state.shown_key:
                if shown[0].event_time - gap < at < shown[-1].event_time + gap:
                    insort(shown, element, key=ORDER)
                    state.closed = self._interval(shown)
                    self.live.add(element)
                    changed, self.missed = True, False
                    continue
            if goes_on or (held is None and at + gap > instant):
                self._enter(key, element)
                changed, self.missed = changed or not self.on_close, False
        self._put_in_order()
        return changed

    def restore(self, snapshot: SessionState) -> None:
        """Restore the SESSION window from a snapshot."""
        super().restore(snapshot)
        self._dues = OrderedDict(
            (key, held[-1].event_time + self._gap) for key, held in self.state.held.items()
        )
        self._put_in_order()

    def state_size(self) -> int:
        """Return the number of quads in the SESSION window and in its hidden sessions."""
        waiting = self.state.held.values() if self.on_close else ()
        return len(self.live) + sum(len(element.statements) for held in waiting for element in held)

    def _interval(self, session: Sequence[Element]) -> Interval:
        return Interval(session[0].event_time, session[-1].event_time + self._gap)

    def _enter(self, key: Key, element: Element) -> None:
        held = self.state.held.setdefault(key, deque())
        insort(held, element, key=ORDER)
        self._dues[key] = held[-1].event_time + self._gap
        if not self.on_close:
            self.live.add(element)

    def _put_in_order(self) -> None:
        self._dues = OrderedDict(sorted(self._dues.items(), key=lambda each: each[1]))
