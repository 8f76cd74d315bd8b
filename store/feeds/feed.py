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
from functools import partial
from itertools import islice
from typing import Any

from ..logs.journal import Journal
from ..logs.result_log import EventRow
from ..results import one_line
from .subscription import NUMBERED, EventKind, StoredEvent, Subscriber, Subscription, made_event

log = logging.getLogger(__name__)

_NONE: list[Any] = []
"""What waits in a feed without news; nobody adds to it."""
_FORGOTTEN_AT_ONCE = 10
"""The result log may have this fraction of the history more: it forgets many events at a time."""


class FeedHistory:
    """The newest published events of one feed, bounded by their number and their characters.

    The feed's lock guards it, except for reads of a single attribute.

    Attributes:
        limit: the maximum number of kept events.
        events: the kept events, oldest first.
        kept_characters: characters of the kept events.
        characters: characters of all events that were published so far.
        last_id: the newest published id, 0 before the first.
        epoch_id: the last id of the previous epoch, 0 in the first epoch.
        incomplete: True when the result log had lost events of the history; who resumes there gets a reset.
    """

    def __init__(self, limit: int, most_characters: int, epoch: int) -> None:
        """Begin empty; ids begin after ``epoch``, and the newest event is kept whatever its characters."""
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
        """The oldest id that a subscriber can still get; the next id when no event is kept."""
        return self._dropped_to + 1

    def keep(self, events: Sequence[StoredEvent]) -> None:
        """Append published events; evict the oldest ones, and all events before a reset."""
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
        """Keep recovered events; ids go on after ``last_id`` when none of the events has an id."""
        self._dropped_to = next((event.id - 1 for event in events if event.id is not None), last_id)
        self.last_id = self._dropped_to
        self.keep(events)

    def reaches(self, after_id: int) -> bool:
        """True when a subscriber that has seen the events up to ``after_id`` can resume without a gap."""
        # The last event before a reset is of another epoch than the events after the reset.
        if 0 < after_id < self._dropped_to or 0 < after_id <= self.epoch_id:
            return False
        if after_id <= self._dropped_to:
            return True
        place = self._count_after(after_id - 1)
        return place > 0 and self.events[-place].id == after_id

    def after(self, after_id: int) -> list[StoredEvent]:
        """Return the kept events after ``after_id``: numbered ones by id, others by their place."""
        if not after_id:
            return list(self.events)
        number = self._count_after(after_id)
        while number and number < len(self.events) and self.events[-number - 1].id is None:
            number += 1
        return list(islice(reversed(self.events), number))[::-1]

    def _count_after(self, after_id: int) -> int:
        """Count the kept events from the first one whose id is greater."""
        number = 0
        for place, event in enumerate(reversed(self.events), 1):
            if event.id is not None:
                if event.id <= after_id:
                    break
                number = place
        return number


class Feed:
    """The events of one registered query.

    Attributes:
        name: the query's.
        created_ms: when the query was registered; ids of one registered later begin anew.
        number: names the feed in the result log; 0 until the query begins.
        history: the newest published events, from which subscribers resume.
        written: events by place that were written before a crash and are computed again by the replay.
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
        """Make an empty feed.

        Args:
            name: the query's name.
            history: how many events are kept for those who resume.
            history_bytes: how many characters these have at most, but for the last one.
            subscriber_buffer: how many events may wait for one subscriber.
            waiting: the feed puts itself there when something waits to be written; nobody sees it before
                `release`. Without, what is published is seen at once.
            epoch: ids begin behind it.
        """
        self.name = name
        self.created_ms = 0
        self.number = 0
        self._waiting = waiting
        # Events that nobody sees yet, what of them is not written, and the answer behind them.
        self._held: list[StoredEvent] = _NONE
        self._rows: list[EventRow] = []
        self._next: Callable[[], str | None] | None = None
        self.written: dict[int, StoredEvent] = {}
        # The id and the place given last, and where the query began anew.
        self._assigned = self._skipped = epoch
        self._place = 0
        self._reset_place = 0
        # The place up to which the result log has forgotten events.
        self._forgotten = 0
        # What is published, guarded by the lock.
        self._lock = threading.Lock()
        self.history = FeedHistory(history, history_bytes, epoch)
        self._buffer = subscriber_buffer
        self._current: Callable[[], str | None] | None = None
        self._subscribers: list[Subscriber] = []
        self._ended = False

    @property
    def subscribers(self) -> int:
        """How many are attached."""
        return sum(each.members for each in self._subscribers)

    @property
    def events(self) -> int:
        """How many ids were given."""
        return self._assigned - self._skipped

    # --- what turns publish ---------------------------------------------------------------------

    def publish(
        self, events: Sequence[tuple[EventKind, str]], current: Callable[[], str | None] | None = None
    ) -> list[int]:
        """Append events, kinds and lines of JSON, atomically with the new current answer; the ids given.

        ``current`` makes the line of the current answer from now on; called when somebody asks for it.
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
        """Events behind a place, those that were written before a crash as they were then."""
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
        """The query begins anew under the same name: history is dropped, subscribers are told."""
        self._reset_place, self.history.epoch_id = self._place, self._assigned
        self.history.incomplete = False
        self._held = [*self._held, reset_event(self._assigned + 1)]
        self._next = None
        self.publish([])

    def begin_epoch(self, epoch: int) -> None:
        """Ids go on behind ``epoch``: those between may be given by a server that has gone another way."""
        self._skipped += max(0, epoch - self._assigned)
        self._assigned = max(self._assigned, epoch)

    def unwritten(self) -> tuple[list[EventRow], list[tuple[int, int]]]:
        """What waits, as rows for the result log, and (feed, place) up to which rows are out of history."""
        out = max(self._place - self.history.limit, self._reset_place)
        few = out - self._forgotten <= self.history.limit // _FORGOTTEN_AT_ONCE
        if few and self._reset_place <= self._forgotten:
            return self._rows, []
        self._forgotten = out
        return self._rows, [(self.number, out)]

    def release(self) -> None:
        """Let subscribers see what waits."""
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

    # --- subscribers ----------------------------------------------------------------------------

    def subscribe(
        self, after_id: int | None = None, snapshot: bool = False, empty: str | None = None
    ) -> Subscription:
        """Attach a subscriber.

        Args:
            after_id: begin with the first event after this id; 0 with the oldest kept one; None with the next
                event. An id that is older than what is kept (or newer than any) gets a reset event with the
                earliest id, then the current answer and the error of a query that has failed.
            snapshot: begin with the current answer, whose id is that of the last event; the events that
                ``after_id`` asks for are contained in it.
            empty: the line of the current answer before the first evaluation; None when there is no answer.
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
        """Attach a member of a subscriber, as `subscribe` does; False when the subscriber has ended."""
        with self._lock:
            if not subscriber.welcome(member, self._first(after_id, snapshot, empty), self._ended):
                return False
            if not self._ended and subscriber not in self._subscribers:
                self._subscribers.append(subscriber)
            return True

    def _first(self, after_id: int | None, snapshot: bool, empty: str | None) -> list[StoredEvent]:
        """What a new subscriber gets at once; see `subscribe`."""
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
        """The current answer, and behind it the error of a query that has failed."""
        history = self.history
        failed = [history.events[-1]] if history.events and history.events[-1].kind == "error" else []
        line = None if self._current is None else self._current()
        if line is None and not failed:
            line = empty
        answer = [] if line is None else [StoredEvent(history.last_id - len(failed) or None, "answer", line)]
        return answer + failed

    def leave(self, subscriber: Subscriber, *, when_empty: bool = False) -> None:
        """Detach a subscriber. With ``when_empty`` it ends here unless it has got members again."""
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

    def close(self) -> None:
        """End the feed: subscribers get what waits for them, then the end."""
        with self._lock:
            self._ended = True
            ending, self._subscribers = self._subscribers, []
        for each in ending:
            each.end()

    # --- recovery -------------------------------------------------------------------------------

    def figures(self) -> list[int]:
        """Where the feed is, for a checkpoint; nothing may wait."""
        place = [self._place, self._reset_place, self.history.epoch_id]
        return [self.number, self._assigned, *place, self._skipped]

    def restore(self, figures: Sequence[int], rows: Sequence[tuple[int, int | None, str, str]]) -> None:
        """Continue from a checkpoint.

        Args:
            figures: what `figures` gave.
            rows: (place, id, kind, data) of all events in the result log; those behind the checkpoint are
                expected to be published again.
        """
        self.number, self._assigned, self._place, self._reset_place, epoch_id, self._skipped = figures
        self.history.epoch_id = epoch_id
        kept: list[StoredEvent] = []
        last = None
        for place, number, kind, data in rows:
            event = StoredEvent(number, kind, data)  # type: ignore[arg-type]  # what was written
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
    """The event that tells subscribers that the feed begins anew."""
    return StoredEvent(None, "reset", one_line({"earliest": earliest}))


class Outbox:
    """What turns have made on its way out: into the result log, if there is one, then to subscribers.

    Attributes:
        feeds: those with news; each puts itself here.
    """

    def __init__(self, journal: Journal | None) -> None:
        self.feeds: dict[Feed, None] = {}
        self._journal = journal
        self._named: list[tuple[int, str]] = []
        self._then: list[Callable[[], None]] = []

    def name(self, feed: Feed, number: int) -> None:
        """Give a new feed its number, that of the turn in which it begins."""
        if feed.number == 0:
            feed.number = number
            self._named.append((number, feed.name))

    def drop(self, feed: Feed) -> None:
        """A feed's events need not be kept any more."""
        if self._journal is not None:
            self._then.append(partial(self._journal.results.drop, feed.number))

    def when_shown(self, work: Callable[[], None]) -> None:
        """Do something when all that was published so far is written and shown."""
        self._then.append(work)

    @property
    def waits(self) -> bool:
        """True when there is something to write."""
        return bool(self.feeds or self._then or self._named)

    def write(self, needed: int) -> None:
        """Write what waits and let subscribers see it, once the inputs up to a record are durable.

        Raises:
            StoreUnwritableError: not now; everything waits on.
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
