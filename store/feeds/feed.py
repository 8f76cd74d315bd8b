"""A query's feed: events with ids, a bounded history, and subscribers that miss no event.

Event ids are strictly growing decimal integers from 1; only insert, delete, answer and error events have an
id, progress and reset events have none. A subscriber attaches to a feed atomically: its first events (the
history after an id, or the current answer) and the events published later neither overlap nor leave a gap. A
subscriber whose buffer of events is full is disconnected instead of losing events; the client resumes after
the last id that it received.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ..errors import GoneError, NotFoundError
from ..logs.journal import Journal
from ..logs.result_log import EventRow
from ..results import one_line
from .subscription import NUMBERED, EventKind, StoredEvent, Subscriber, Subscription, made_event

log = logging.getLogger(__name__)

_NONE: list[Any] = []
"""An empty list shared by all feeds without unpublished events; never modified."""
_FORGOTTEN_AT_ONCE = 10
"""Old events are deleted from the result log in batches of one tenth of the history's size."""


class FeedHistory:
    """The newest published events of one feed, bounded by their number and their characters.

    The feed's lock guards the history, except for reads of a single attribute.

    Attributes:
        limit: the maximum number of events in the history.
        events: the events in the history, oldest first.
        kept_characters: the number of characters of all events in the history.
        characters: the number of characters of all events published since the feed was created.
        last_id: the newest published event id; at first the epoch's last id.
        epoch_id: the last event id before the newest reset; 0 if the feed had no reset.
        incomplete: True if recovery found events of the history missing in the result log.
    """

    def __init__(self, limit: int, most_characters: int, epoch: int) -> None:
        """Create an empty history of a feed, whose event ids begin after ``epoch``.

        The newest event stays in a feed's history, however long it is, unless ``limit`` is 0.
        """
        self.limit = limit
        self._most_characters = most_characters
        self.events: deque[StoredEvent] = deque()
        self.kept_characters = 0
        self.characters = 0
        self.last_id = self._dropped_to = epoch
        self.epoch_id = 0
        self.incomplete = False

    @property
    def earliest_id(self) -> int:
        """The oldest event id that a subscriber can still receive; the next id if the history is empty."""
        return self._dropped_to + 1

    def keep(self, events: Sequence[StoredEvent]) -> None:
        """Append published events to the history; evict the oldest ones, and all events before a reset."""
        history, size = self.events, self.kept_characters
        self.characters -= size
        for event in events:
            number, kind, data = event
            if kind == "reset":
                history.clear()
                self.characters += size
                size, self.last_id, self._dropped_to = 0, self.epoch_id, self.epoch_id
                continue
            history.append(event)
            size += len(data)
            if number is not None:
                self.last_id = number
        self.characters += size
        while (kept := len(history)) > self.limit or (size > self._most_characters and kept > 1):
            dropped, _, data = history.popleft()
            size -= len(data)
            if dropped is not None:
                self._dropped_to = dropped
        self.kept_characters = size

    def restore(self, events: Sequence[StoredEvent], last_id: int) -> None:
        """Store events that recovery read from the result log in the feed's history.

        If none of the recovered events has an id, ids continue after ``last_id``.
        """
        self._dropped_to = next((event.id - 1 for event in events if event.id is not None), last_id)
        self.last_id = self._dropped_to
        self.keep(events)

    def reaches(self, after_id: int) -> bool:
        """Return True if a subscriber can resume after event id ``after_id`` without missing an event."""
        # Event ids up to the newest reset belong to earlier results of the query, so a subscriber cannot
        # resume there.
        if 0 < after_id < self._dropped_to or 0 < after_id <= self.epoch_id:
            return False
        if after_id <= self._dropped_to:
            return True
        place = self._count_after(after_id - 1)
        return place > 0 and self.events[-place].id == after_id

    def after(self, after_id: int) -> list[StoredEvent]:
        """Return the history's events from the first one with an id above ``after_id``.

        Events without an id directly before that event are included; without such an id the list is empty.
        """
        if not after_id:
            return list(self.events)
        number = self._count_after(after_id)
        while number and number < len(self.events) and self.events[-number - 1].id is None:
            number += 1
        return list(islice(reversed(self.events), number))[::-1]

    def find(self, event_id: int) -> StoredEvent:
        """Return the event with an id.

        Raises:
            NotFoundError: no event since the newest reset has the id.
            GoneError: the event is no longer in the history.
        """
        number = self._count_after(event_id - 1) if self.epoch_id < event_id <= self.last_id else 0
        event = self.events[-number] if number else None
        if event is not None and event.id == event_id:
            return event
        if self.epoch_id < event_id <= self._dropped_to:
            raise GoneError(
                f"the event {event_id} is no longer kept; the oldest one is {self.earliest_id}",
                earliest=self.earliest_id,
            )
        raise NotFoundError(f"the feed has no event {event_id}", code="unknown-event")

    def _count_after(self, after_id: int) -> int:
        """Count the history's events from the first event with an id above ``after_id``."""
        number = 0
        for place, event in enumerate(reversed(self.events), 1):
            if event.id is not None:
                if event.id <= after_id:
                    break
                number = place
        return number


class Feed:
    """The feed of one registered query: its events and their subscribers.

    Attributes:
        name: the name of the query.
        created_ms: the time at which the query was registered, in milliseconds since 1970.
        number: the number of the feed in the result log; 0 until the query begins.
        history: the newest published events, from which subscribers resume.
        written: events that the result log had before a crash, by their position in the feed; replay
            publishes these events again.
    """

    def __init__(
        self,
        name: str,
        *,
        history: int = 10_000,
        history_bytes: int = 64 << 20,
        subscriber_buffer: int = 1_000,
        waiting: dict[Feed, None] | None = None,
        epoch: int = 0,
    ) -> None:
        """Create an empty feed of a query.

        Args:
            name: the query's name.
            history: the maximum number of events from which subscribers can resume.
            history_bytes: the maximum number of characters in the history; the newest event may exceed it.
            subscriber_buffer: the maximum number of events queued for one subscriber.
            waiting: the set to which the feed adds itself when unwritten events exist; subscribers receive
                these events only after `release`. If the set is None, `publish` makes events visible at once.
            epoch: event ids begin after this number.
        """
        self.name = name
        self.created_ms = 0
        self.number = 0
        self._waiting = waiting
        # The feed's unpublished events, their rows for the result log, and the function that makes the answer
        # after them.
        self._held: list[StoredEvent] = _NONE
        self._rows: list[EventRow] = []
        self._next: Callable[[], str | None] | None = None
        self.written: dict[int, StoredEvent] = {}
        # The newest event id, the number of ids skipped by epochs, the newest event's position, and the
        # position of the last reset.
        self._assigned = self._skipped = epoch
        self._place = 0
        self._reset_place = 0
        # The position in the feed up to which events were deleted from the result log.
        self._forgotten = 0
        # The feed's lock guards the published state below.
        self._lock = threading.Lock()
        self.history = FeedHistory(history, history_bytes, epoch)
        self._buffer = subscriber_buffer
        self._current: Callable[[], str | None] | None = None
        self._subscribers: list[Subscriber] = []
        self._ended = False

    @property
    def subscribers(self) -> int:
        """The number of clients of the subscribers that are attached to the feed."""
        return sum(each.members for each in self._subscribers)

    @property
    def events(self) -> int:
        """The number of event ids that this feed has assigned."""
        return self._assigned - self._skipped

    # --- publishing -----------------------------------------------------------------------------

    def publish(
        self, events: Sequence[tuple[EventKind, str]], current: Callable[[], str | None] | None = None
    ) -> list[int]:
        """Append events to the feed and replace its current answer atomically; return the events' new ids.

        Each published event is a kind and one line of JSON. The function ``current`` returns the feed's
        current answer as one line of JSON.
        """
        given = self._assigned
        made: list[StoredEvent] = []
        ids: list[int] = []
        for kind, data in events:
            if kind in NUMBERED:
                given += 1
                ids.append(given)
                made.append(made_event((given, kind, data)))
            else:
                made.append(made_event((None, kind, data)))
        place, self._assigned = self._place, given
        self._place = place + len(made)
        if self.written:
            made = self._as_written(made, place)
        elif self.number:
            for at, event in enumerate(made, place + 1):
                self._rows.append((self.number, at, *event))
        if self._held:
            self._held += made
        else:
            self._held = made
        if current is not None:
            self._next = current
        if self._waiting is None:
            self.release()
        else:
            self._waiting[self] = None
        return ids

    def _as_written(self, made: Sequence[StoredEvent], place: int) -> list[StoredEvent]:
        """Replace new events by the events that the result log had at the same positions before a crash."""
        found = []
        for at, event in enumerate(made, place + 1):
            known = self.written.pop(at, None)
            if known is None:
                self._rows.append((self.number, at, *event))
            elif known[1:] != event[1:]:
                log.warning("replay gave the feed %s another event at place %d", self.name, at)
            found.append(event if known is None else known)
        return found

    def reset(self) -> None:
        """Clear the feed's history and send a reset event: the query restarts under the same name."""
        self._reset_place, self.history.epoch_id = self._place, self._assigned
        self.history.incomplete = False
        self._held = [*self._held, reset_event(self._assigned + 1)]
        self._next = None
        self.publish([])

    def begin_epoch(self, epoch: int) -> None:
        """Continue event ids after ``epoch``: another copy of the folder may use the ids up to ``epoch``."""
        self._skipped += max(0, epoch - self._assigned)
        self._assigned = max(self._assigned, epoch)

    def unwritten(self) -> tuple[list[EventRow], list[tuple[int, int]]]:
        """Return rows to write to the result log, and (feed, position) up to which to delete its rows."""
        out = max(self._place - self.history.limit, self._reset_place)
        few = out - self._forgotten <= self.history.limit // _FORGOTTEN_AT_ONCE
        if few and self._reset_place <= self._forgotten:
            return self._rows, []
        self._forgotten = out
        return self._rows, [(self.number, out)]

    def release(self) -> None:
        """Publish the waiting events and the current answer of this feed to its subscribers."""
        events, self._held = self._held, _NONE
        if self._rows:
            self._rows = []
        slow: list[Subscriber] = []
        with self._lock:
            self._current = self._next
            if events:
                self.history.keep(events)
                if self._subscribers:
                    slow = [each for each in self._subscribers if not each.offer(events)]
                    for each in slow:
                        self._subscribers.remove(each)
        for each in slow:
            each.end()

    def find(self, event_id: int) -> StoredEvent:
        """Return a published event by its id; raises as `FeedHistory.find` does."""
        with self._lock:
            return self.history.find(event_id)

    # --- subscribers ----------------------------------------------------------------------------

    def subscribe(
        self, after_id: int | None = None, snapshot: bool = False, empty: str | None = None
    ) -> Subscription:
        """Attach a new subscriber and return its subscription.

        Args:
            after_id: the id after which events begin; 0 begins with the oldest event of the history, None
                with the next event. If the history does not contain the id, the subscriber receives a reset
                event with the earliest id, then the current answer, and the error event if the query has
                failed.
            snapshot: begin with the current answer instead of the events after ``after_id``; the answer's id
                is the id of the newest event.
            empty: the answer's line before the query's first evaluation; None sends no answer then.
        """
        subscription = Subscription(self.leave, self._buffer)
        self.join(subscription, None, after_id, snapshot, empty)
        return subscription

    def join(
        self,
        subscriber: Subscriber,
        member: Any,
        after_id: int | None = None,
        snapshot: bool = False,
        empty: str | None = None,
    ) -> bool:
        """Attach one client (member) of a subscriber to the feed, as `subscribe` does.

        Return False if the subscriber has already ended.
        """
        with self._lock:
            if not subscriber.welcome(member, self._first(after_id, snapshot, empty), self._ended):
                return False
            if not self._ended and subscriber not in self._subscribers:
                self._subscribers.append(subscriber)
            return True

    def _first(self, after_id: int | None, snapshot: bool, empty: str | None) -> list[StoredEvent]:
        """Return the events that a new subscriber of a feed receives immediately; see `subscribe`."""
        first: list[StoredEvent] = []
        out_of_reach = after_id is not None and not self.history.reaches(after_id)
        if out_of_reach:
            first.append(reset_event(self.history.earliest_id))
        if snapshot or out_of_reach:
            first += self._answer(empty)
        elif after_id is not None:
            first += self.history.after(after_id)
        return first

    def _answer(self, empty: str | None) -> list[StoredEvent]:
        """Return the query's current answer as an event, then its error event if the query has failed."""
        history = self.history
        failed = [history.events[-1]] if history.events and history.events[-1].kind == "error" else []
        line = None if self._current is None else self._current()
        if line is None and not failed:
            line = empty
        answer = [] if line is None else [StoredEvent(history.last_id - len(failed) or None, "answer", line)]
        return answer + failed

    def leave(self, subscriber: Subscriber, *, when_empty: bool = False) -> None:
        """Detach a subscriber from the feed; with ``when_empty``, only if it has no clients, and end it."""
        with self._lock:
            if when_empty and subscriber.members:
                return
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)
            if when_empty:
                subscriber.end()

    def current(self) -> str | None:
        """Return the query's current answer as one line of JSON; None before the query has an answer."""
        with self._lock:
            return self._current() if self._current is not None else None

    def close(self) -> None:
        """End the query's feed; subscribers can still read their queued events."""
        with self._lock:
            self._ended = True
            ending, self._subscribers = self._subscribers, []
        for each in ending:
            each.end()

    # --- recovery -------------------------------------------------------------------------------

    def figures(self) -> list[int]:
        """Return the feed's ids and positions for a checkpoint; no event may be unpublished."""
        place = [self._place, self._reset_place, self.history.epoch_id]
        return [self.number, self._assigned, *place, self._skipped]

    def restore(self, figures: Sequence[int], rows: Sequence[tuple[int, int | None, str, str]]) -> None:
        """Restore the feed's state from a checkpoint and its events from the result log.

        Args:
            figures: the list that `figures` returned.
            rows: (position, id, kind, data) of all events of this feed in the result log; replay publishes
                the events after the checkpoint again.
        """
        self.number, self._assigned, self._place, self._reset_place, epoch_id, self._skipped = figures
        self.history.epoch_id = epoch_id
        kept: list[StoredEvent] = []
        last = None
        for place, number, kind, data in rows:
            event = StoredEvent(number, kind, data)  # type: ignore[arg-type]  # kinds come from the log
            if place > self._place:
                self.written[place] = event
            elif place > self._reset_place:
                if last is not None and place != last + 1:
                    self.history.incomplete = True
                    kept.clear()
                kept.append(event)
                last = place
        if last is not None and last < self._place or not rows and self._place > self._reset_place:
            self.history.incomplete = self.history.limit > 0
            kept.clear()
        self.history.restore(kept, self._assigned)


def reset_event(earliest: int) -> StoredEvent:
    """Return a reset event, which tells subscribers that earlier events are invalid.

    ``earliest`` is the smallest event id that a subscriber can still request.
    """
    return StoredEvent(None, "reset", one_line({"earliest": earliest}))


class Outbox:
    """Unpublished events of all feeds: `write` stores them in the result log, if any, then publishes them.

    Attributes:
        feeds: the feeds with unpublished events; each feed adds itself.
    """

    def __init__(self, journal: Journal | None) -> None:
        self.feeds: dict[Feed, None] = {}
        self._journal = journal
        self._named: list[tuple[int, str]] = []
        self._then: list[Callable[[], None]] = []

    def name(self, feed: Feed, number: int) -> None:
        """Assign a new feed its number: that of the engine's task in which the feed begins."""
        if feed.number == 0:
            feed.number = number
            self._named.append((number, feed.name))

    def drop(self, feed: Feed) -> None:
        """Delete a feed's events from the result log after the next write."""
        if self._journal is not None:
            self._then.append(partial(self._journal.results.drop, feed.number))

    def when_shown(self, work: Callable[[], None]) -> None:
        """Call ``work`` after all events published so far are written to the result log and visible."""
        self._then.append(work)

    @property
    def waits(self) -> bool:
        """True if events, feed names or callbacks wait for the next call of `write`."""
        return bool(self.feeds or self._then or self._named)

    def write(self, needed: int) -> None:
        """Write and publish the waiting events of all feeds once the journal is durable up to ``needed``.

        Raises:
            StoreUnwritableError: the input log or the result log cannot be written; all events stay queued.
        """
        journal = self._journal
        if journal is not None:
            journal.log.wait(needed)
            if journal.on_step is not None:
                journal.on_step("before-results")
            for number, name in self._named:
                journal.results.name(number, name)
            rows: list[EventRow] = []
            forget: list[tuple[int, int]] = []
            for feed in self.feeds:
                new, old = feed.unwritten()
                rows += new
                forget += old
            journal.results.append(rows, forget)
            if journal.on_step is not None:
                journal.on_step("after-results")
        self._named.clear()
        for feed in self.feeds:
            feed.release()
        self.feeds.clear()
        while self._then:
            self._then[0]()
            del self._then[0]
