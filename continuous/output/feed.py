"""Step 7 of 8: a query's feed. Events with ids, a bounded history, subscribers that never miss one.

Ids are decimal integers from 1, strictly growing, on insert, delete, answer and error events only; progress
and reset events stand between them. A subscriber attaches atomically: what it gets first (history after an
id, the current answer) and what comes later neither overlap nor leave a gap. One that is too slow for its
buffer is disconnected, never skipped: it resumes from the last id it saw.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ..durable.journal import Journal
from ..results import one_line
from .subscription import NUMBERED, EventKind, FeedEvent, Group, Subscription

log = logging.getLogger("quadrill.continuous")

# The event of what is held, without a Python call for each push.
_EVENT = itemgetter(1)


@dataclass(frozen=True, slots=True)
class _Held:
    """Events that wait to be written: (place, event, not written yet), with the current answer after them."""

    events: list[tuple[int, FeedEvent, bool]]
    current: Callable[[], str] | None
    reset: bool = False


class _History:
    """The last events of a feed, for those who resume. Guarded by the feed's lock.

    Attributes:
        events: those that are kept, oldest first.
        last_id: the id given last, 0 before the first.
        dropped_to: the newest id that is not kept any more, 0 when all are.
    """

    def __init__(self, limit: int) -> None:
        self.events: deque[FeedEvent] = deque()
        self.last_id = 0
        self.dropped_to = 0
        self._limit = limit

    def add(self, added: Sequence[FeedEvent]) -> None:
        """Keep new events; the oldest go."""
        for event in added:
            if event.id is not None:
                self.last_id = event.id
        self.events.extend(added)
        while len(self.events) > self._limit:
            dropped = self.events.popleft()
            if dropped.id is not None:
                self.dropped_to = dropped.id

    def begin_at(self, last_id: int) -> None:
        """Keep nothing; ids go on behind this one."""
        self.events.clear()
        self.last_id = self.dropped_to = last_id

    def restore(self, events: Sequence[FeedEvent], last_id: int) -> None:
        """Keep the events of a result log; ids go on behind this one."""
        self.begin_at(last_id)
        ids = [event.id for event in events if event.id is not None]
        if ids:
            self.dropped_to = ids[0] - 1
        self.add(events)
        self.last_id = last_id

    def after(self, after_id: int) -> list[FeedEvent]:
        """Kept events behind ``after_id``: numbered ones by id, others by their place."""
        kept = list(self.events)
        for place, event in enumerate(kept):
            if event.id is not None and event.id > after_id:
                while place and kept[place - 1].id is None:
                    place -= 1
                return kept[place:]
        return [] if after_id else kept


class Feed:
    """The events of one registered query."""

    def __init__(
        self,
        name: str,
        *,
        history: int = 10_000,
        subscriber_buffer: int = 1_000,
        waiting: list[Feed] | None = None,
    ) -> None:
        """Make an empty feed.

        Args:
            name: the query's name.
            history: how many events are kept for those who resume.
            subscriber_buffer: how many events may wait for one subscriber.
            waiting: the feed puts itself there when something waits to be written; nobody sees it before
                `release`. Without, what is published is seen at once.
        """
        self.name = name
        self.number = 0
        self._waiting = waiting
        self._held: list[_Held] = []
        # Events by place that were written before a crash and are computed again by the replay.
        self._written: dict[int, FeedEvent] = {}
        self._assigned = 0
        self._place = 0
        self._reset_place = 0
        self._reset_id = 0
        self._limit = history
        self._buffer = subscriber_buffer
        self._history = _History(history)
        self._subscribers: list[Subscription | Group] = []
        self._lock = threading.Lock()
        self._current: Callable[[], str] | None = None
        self._ended = False

    @property
    def last_id(self) -> int:
        """The id given last, 0 before the first."""
        return self._history.last_id

    @property
    def earliest_id(self) -> int:
        """The oldest id that a subscriber can still get; the next one when nothing is kept."""
        return self._history.dropped_to + 1

    @property
    def epoch_id(self) -> int:
        """The last id before the query began anew; 0 when it never did."""
        return self._reset_id

    @property
    def subscribers(self) -> int:
        """How many are attached."""
        return sum(each.members for each in self._subscribers)

    @property
    def kept(self) -> int:
        """How many events are kept for those who resume."""
        return len(self._history.events)

    @property
    def ended(self) -> bool:
        """True after the query was dropped."""
        return self._ended

    def publish(
        self, events: Sequence[tuple[EventKind, str]], current: Callable[[], str] | None = None
    ) -> list[int]:
        """Append events, atomically together with the new current answer; the ids given.

        Args:
            events: kinds and lines of JSON.
            current: makes the line of the current answer from now on; called when somebody asks for it.
        """
        ids: list[int] = []
        added: list[tuple[int, FeedEvent, bool]] = []
        for kind, data in events:
            number = None
            self._place += 1
            if kind in NUMBERED:
                self._assigned = number = self._assigned + 1
                ids.append(number)
            event, new = FeedEvent(number, kind, data), True
            if self._written:
                event, new = self._written_at(self._place, event)
            added.append((self._place, event, new))
        held = self._held
        if not added and held and not held[-1].reset:
            # Only the current answer is another one: so it is after most evaluations.
            held[-1] = _Held(held[-1].events, current or held[-1].current)
        elif added or current is not None:
            held.append(_Held(added, current))
            if self._waiting is None:
                self.release()
            elif len(held) == 1:
                self._waiting.append(self)
        return ids

    def _written_at(self, place: int, event: FeedEvent) -> tuple[FeedEvent, bool]:
        """What was written at a place before a crash, where this event was; True for one that is new."""
        written = self._written.pop(place, None)
        if written is not None and (written.kind, written.data) != (event.kind, event.data):
            log.warning("replay gave the feed %s another event at place %d", self.name, place)
        return written or event, written is None

    def unwritten(self) -> tuple[list[tuple[int, int, int | None, str, str]], list[tuple[int, int]]]:
        """What waits, as rows for the result log, and (feed, place) up to which rows are out of history."""
        rows: list[tuple[int, int, int | None, str, str]] = []
        out = self._place - self._limit
        for held in self._held:
            if held.reset:
                out = max(out, self._reset_place)
            for place, event, new in held.events:
                if new:
                    rows.append((self.number, place, event.id, event.kind, event.data))
        return rows, [(self.number, out)] if out > 0 else []

    def release(self) -> None:
        """Let subscribers see what waits."""
        held, self._held = self._held, []
        for each in held:
            if each.reset:
                self._clear()
            else:
                self._show(list(map(_EVENT, each.events)), each.current)

    def _show(self, added: Sequence[FeedEvent], current: Callable[[], str] | None) -> None:
        with self._lock:
            if current is not None:
                self._current = current
            slow: list[Subscription | Group] = []
            if added:
                self._history.add(added)
            if added and self._subscribers:
                slow = [each for each in self._subscribers if not each.offer(added)]
                for subscription in slow:
                    self._subscribers.remove(subscription)
        for subscription in slow:
            subscription.end()

    def subscribe(self, after_id: int | None = None, snapshot: bool = False) -> Subscription:
        """Attach a subscriber.

        Args:
            after_id: begin with the first event after this id; 0 with the oldest kept one; None with the next
                event. An id that is older than what is kept (or newer than any) gets a reset event with the
                earliest id, then the current answer.
            snapshot: begin with the current answer, whose id is that of the last event; the events that
                ``after_id`` asks for are contained in it.
        """
        subscription = Subscription(self, self._buffer)
        with self._lock:
            subscription.offer(self._first(after_id, snapshot), first=True)
            if self._ended:
                subscription.end()
            else:
                self._subscribers.append(subscription)
        return subscription

    def join(self, group: Group, member: Any, after_id: int | None = None, snapshot: bool = False) -> bool:
        """Attach a member of a group, as `subscribe` does; False when the group has ended."""
        with self._lock:
            if not group.welcome(member, self._first(after_id, snapshot), self._ended):
                return False
            if not self._ended and group not in self._subscribers:
                self._subscribers.append(group)
            return True

    def _first(self, after_id: int | None, snapshot: bool) -> list[FeedEvent]:
        """What a new subscriber gets at once; see `subscribe`."""
        first: list[FeedEvent] = []
        history = self._history
        # The last event before a reset is of another epoch than those behind it.
        out_of_reach = after_id is not None and (
            0 < after_id < history.dropped_to or 0 < after_id <= self._reset_id or after_id > history.last_id
        )
        if out_of_reach:
            data = one_line({"earliest": self.earliest_id})
            first.append(FeedEvent(None, "reset", data))
        if snapshot or out_of_reach:
            first.extend(self._snapshot())
        elif after_id is not None:
            first.extend(history.after(after_id))
        return first

    def leave(self, subscriber: Subscription | Group, *, when_empty: bool = False) -> None:
        """Detach a subscriber. With ``when_empty`` a group ends here unless it has got members again."""
        with self._lock:
            if when_empty and subscriber.members:
                return
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)
            if when_empty:
                subscriber.end()

    def current(self) -> str | None:
        """The line of the current answer, None before the query has one."""
        with self._lock:
            return self._current() if self._current is not None else None

    def reset(self) -> None:
        """The query begins anew under the same name: history is dropped, subscribers are told."""
        self._reset_place, self._reset_id = self._place, self._assigned
        self._held.append(_Held([], None, reset=True))
        if self._waiting is None:
            self.release()
        elif len(self._held) == 1:
            self._waiting.append(self)

    def _clear(self) -> None:
        with self._lock:
            self._history.begin_at(self._history.last_id)
            self._current = None
            event = FeedEvent(None, "reset", one_line({"earliest": self.earliest_id}))
            for subscription in self._subscribers:
                subscription.offer([event], first=True)

    # --- recovery -------------------------------------------------------------------------------

    def figures(self) -> list[int]:
        """Where the feed is, for a checkpoint; nothing may wait."""
        return [self.number, self._assigned, self._place, self._reset_place, self._reset_id]

    def restore(self, figures: Sequence[int], rows: Sequence[tuple[int, int | None, str, str]]) -> None:
        """Continue from a checkpoint.

        Args:
            figures: what `figures` gave.
            rows: (place, id, kind, data) of all events in the result log; those behind the checkpoint are
                expected to be published again.
        """
        self.number, self._assigned, self._place, self._reset_place, self._reset_id = figures
        kept: list[FeedEvent] = []
        for place, number, kind, data in rows:
            event = FeedEvent(number, kind, data)  # type: ignore[arg-type]  # what was written
            if place > self._place:
                self._written[place] = event
            elif place > self._reset_place:
                kept.append(event)
        self._history.restore(kept, self._assigned)

    def answer_again(self, current: Callable[[], str]) -> None:
        """The current answer is this one, nothing is news."""
        with self._lock:
            self._current = current

    def end_of_replay(self) -> bool:
        """True when every event that had been written came again; otherwise ids go on behind the last one.

        Events can be missing when the input log lost its tail: their ids are never given again, and those who
        resume get a reset.
        """
        if not self._written:
            return True
        self._place = max(self._written)
        self._assigned = max([self._assigned, *(e.id for e in self._written.values() if e.id is not None)])
        self._written.clear()
        self._history.last_id = self._assigned
        self.reset()
        return False

    def close(self) -> None:
        """End the feed: subscribers get what waits for them, then the end."""
        with self._lock:
            self._ended = True
            ending, self._subscribers = self._subscribers, []
        for subscription in ending:
            subscription.end()

    def _snapshot(self) -> list[FeedEvent]:
        if self._current is None:
            return []
        return [FeedEvent(self._history.last_id or None, "answer", self._current())]


class Outbox:
    """What turns have made on its way out: into the result log first, then to subscribers.

    Attributes:
        feeds: those with news; each puts itself here.
    """

    def __init__(self, journal: Journal) -> None:
        self.feeds: list[Feed] = []
        self._journal = journal
        self._then: list[Callable[[], None]] = []
        self._named: list[tuple[int, str]] = []
        self._gone: list[int] = []

    def name(self, feed: Feed, number: int) -> None:
        """Give a new feed its number, that of the turn in which it begins."""
        if feed.number == 0:
            feed.number = number
            self._named.append((number, feed.name))

    def keep_name(self, feed: Feed) -> None:
        """The name of a feed that a replay makes again."""
        self._named.append((feed.number, feed.name))

    def drop(self, feed: Feed) -> None:
        """A feed's events need not be kept any more."""
        self._gone.append(feed.number)

    def when_shown(self, work: Callable[[], None]) -> None:
        """Do something when all that was published so far is written and shown."""
        self._then.append(work)

    @property
    def waits(self) -> bool:
        """True when there is something to write."""
        return bool(self.feeds or self._then or self._named or self._gone)

    def write(self, needed: int) -> None:
        """Write what waits and let subscribers see it, once the inputs up to a record are durable.

        Raises:
            StoreUnwritableError: not now; everything waits on.
        """
        journal, told = self._journal, self._journal.told
        journal.log.wait(needed)
        if told is not None:
            told("before-results")
        for number, name in self._named:
            journal.results.name(number, name)
        self._named.clear()
        rows, forget = [], []
        for feed in self.feeds:
            new, old = feed.unwritten()
            rows += new
            forget += old
        journal.results.append(rows, forget)
        if told is not None:
            told("after-results")
        feeds = self.feeds.copy()
        self.feeds.clear()
        for feed in feeds:
            feed.release()
        then, self._then = self._then, []
        for work in then:
            work()
        while self._gone:
            journal.results.drop(self._gone[-1])
            self._gone.pop()
