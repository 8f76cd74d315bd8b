"""The feeds of shapes: delete and insert events with the results that commits change."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import EventKind
from quadrill.store.logs.result_log import AnswerChange, EventRow, ResultLog
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.results import one_line

from .result_notes import Changed, Computed, Failed, Removed, ResultNote, results_line, rows_of

log = logging.getLogger("quadrill.continuous")

_FILE = "engine/shapes.sqlite"


@dataclass(eq=False)
class _FeedAnswer:
    """The answer after one event: a call reads its rows from the result log.

    Attributes:
        feeds: the owner of the result log.
        number: the number of the feed.
        at_ms: the time of the commit.
        version: the version of the dataset.
        later: changes of rows that the result log has already, but that belong to events which are not
            visible yet.
    """

    feeds: ShapeFeeds
    number: int
    at_ms: int | None
    version: int
    later: Counter[str] = field(default_factory=Counter)

    def __call__(self) -> str:
        """Return the answer as one line of SPARQL Results JSON."""
        return results_line(self.at_ms, self.version, self.feeds.rows(self))


@dataclass(eq=False)
class _Published:
    """The feed of shapes, with the changes that the result log does not have yet.

    Attributes:
        feed: the feed.
        shown: the answer after the newest visible event.
        answer: the answer after the newest event.
        change: how the answer changes with the events that are not in the result log yet.
    """

    feed: Feed
    shown: _FeedAnswer
    answer: _FeedAnswer
    change: Counter[str] = field(default_factory=Counter)


class ShapeFeeds:
    """Publishes how commits change the results of shapes.

    `add` enqueues notes about changed results under the writer lock; `publish` creates events from the notes
    without this lock, in the order of versions. One transaction of the result log writes events together with
    the rows of the newest answer. So the first event after a restart is the difference between these rows and
    the results computed at the start. It is empty unless a crash came between a commit and its event.

    One thread at a time publishes. A separate lock guards the result log, which readers of answers use.
    """

    def __init__(
        self,
        store: QuadStore,
        folder: Path | None = None,
        *,
        history: int = 10_000,
        subscriber_buffer: int = 1_000,
        durable: bool = True,
    ) -> None:
        """Create the feeds of a store's shapes.

        Args:
            store: the store.
            folder: the data folder; None keeps events in memory.
            history: the maximum number of events from which subscribers can resume.
            subscriber_buffer: the maximum number of events queued for one subscriber.
            durable: True to sync the result log to disk before subscribers get events.
        """
        self._store = store
        self._path = None if folder is None else folder / _FILE
        # The history always has the newest event, because event ids continue after the id of this event.
        self._history = max(1, history)
        self._buffer = subscriber_buffer
        self._durable = durable
        self._notes: deque[ResultNote] = deque()
        self._noting = threading.Lock()
        self._publishing = threading.Lock()
        self._logging = threading.Lock()
        self._log: ResultLog | None = None
        self._waiting: dict[Feed, None] = {}
        self._feeds: dict[str, _Published] = {}
        store.subscribers.subscribe(self.commit_delivered)

    # --- notes --------------------------------------------------------------------------------

    def add(self, notes: Sequence[ResultNote]) -> None:
        """Enqueue notes in the order of versions; called under the writer lock."""
        with self._noting:
            self._notes.extend(notes)

    def withdraw(self, notes: Sequence[ResultNote]) -> None:
        """Remove the notes that were added last, because their commit was not made."""
        with self._noting:
            for _ in notes:
                self._notes.pop()

    def commit_delivered(self, commit: Commit) -> None:
        """Publish the notes up to the version of a commit, which is durable."""
        with self._noting:
            for note in self._notes:
                if note.version > commit.version:
                    break
                if note.at_ms is None:
                    note.at_ms = commit.at_ms
        self.publish()

    # --- publication --------------------------------------------------------------------------

    def publish(self) -> None:
        """Publish the notes of durable commits. If the log cannot be written, the next call tries again."""
        if not self._notes and not self._waiting:
            return
        with self._publishing:
            try:
                while (note := self._first_note()) is not None:
                    self._take(note)
                    with self._noting:
                        self._notes.popleft()
                self._write()
            except StoreUnwritableError as error:
                log.warning("results of shapes are not in their feeds yet: %s", error.message)

    def _first_note(self) -> ResultNote | None:
        """Return the oldest note if its commit is durable."""
        with self._noting:
            return self._notes[0] if self._notes and self._notes[0].at_ms is not None else None

    def _take(self, note: ResultNote) -> None:
        """Create the events for a note about changed results."""
        match note.what:
            case Removed():
                self._write()
                self._end(note.name)
            case Failed(error):
                self._fail(self._opened(note.name), note, error)
            case Changed() as what:
                self._change(self._opened(note.name), note, what.difference())
            case Computed(results):
                self._write()
                published = self._opened(note.name)
                rows = rows_of(results)
                rows.subtract(self.rows(published.answer))
                self._change(published, note, rows)

    def _change(self, published: _Published, note: ResultNote, change: Counter[str]) -> None:
        events: list[tuple[EventKind, str]] = []
        for kind, rows in (("delete", -change), ("insert", +change)):
            if rows:
                events.append((kind, results_line(note.at_ms, note.version, rows)))  # type: ignore[arg-type]
        published.change.update(change)
        published.answer = _FeedAnswer(self, published.feed.number, note.at_ms, note.version)
        published.feed.publish(events, published.answer)

    def _fail(self, published: _Published, note: ResultNote, error: str) -> None:
        events = published.feed.history.events
        line = one_line({"at": note.at_ms, "error": error, "code": "shapes-budget"})
        known = not self._waiting and events and events[-1].kind == "error"  # at a restart
        published.feed.publish([] if known else [("error", line)], published.answer)

    def _write(self) -> None:
        """Write the events of all feeds, then make them visible."""
        if not self._waiting:
            return
        rows: list[EventRow] = []
        forget: list[tuple[int, int]] = []
        answers: list[AnswerChange] = []
        written = [each for each in self._feeds.values() if each.feed in self._waiting]
        for each in written:
            new, old = each.feed.unwritten()
            rows += new
            forget += old
            answers += [(each.feed.number, row, times) for row, times in each.change.items() if times]
        with self._logging:
            if rows:
                self._result_log().append(rows, forget, answers)
            for each in written:
                each.shown.later.update(each.change)
                each.change.clear()
            if rows and self._durable:
                self._result_log().sync()
        for each in written:
            each.feed.release()
            each.shown = each.answer
        self._waiting.clear()

    # --- feeds --------------------------------------------------------------------------------

    def _opened(self, name: str) -> _Published:
        """Return the feed of shapes; open or create it first."""
        found = self._feeds.get(name)
        if found is not None:
            return found
        epoch = self._store.epoch
        feed = Feed(
            name,
            history=self._history,
            subscriber_buffer=self._buffer,
            waiting=self._waiting,
            epoch=epoch,
        )
        with self._logging:
            results = self._result_log()
            number, newest = results.number(name), results.newest(name)
            if newest is not None:
                feed.restore([newest[0], newest[2], newest[1], 0, 0, 0], results.events(newest[0]))
                feed.begin_epoch(epoch)
            else:
                if number is not None:
                    results.drop(number)
                feed.number = results.next_number()
                results.name(feed.number, name)
        answer = _FeedAnswer(self, feed.number, None, self._store.reader.version)
        found = _Published(feed, answer, answer)
        self._feeds = {**self._feeds, name: found}
        return found

    def _end(self, name: str) -> None:
        published = self._opened(name)
        with self._logging:
            self._result_log().empty(published.feed.number)
        self._feeds = {other: each for other, each in self._feeds.items() if other != name}
        published.feed.close()

    def get(self, name: str) -> Feed | None:
        """Return the feed of shapes that are registered; None if there is none."""
        self.publish()
        found = self._feeds.get(name)
        return None if found is None else found.feed

    def time_of(self, name: str) -> int | None:
        """Return the time of the newest event of shapes, in milliseconds since 1970; None for none."""
        found = self._feeds.get(name)
        return None if found is None else found.shown.at_ms

    def has_had(self, name: str) -> bool:
        """Return True if shapes of this name have, or had, a feed."""
        with self._logging:
            if self._log is None and (self._path is None or not self._path.exists()):
                return False
            return self._result_log().number(name) is not None

    # --- the result log -----------------------------------------------------------------------

    def _result_log(self) -> ResultLog:
        """Return the result log; open it first if necessary. The caller holds the lock of the result log."""
        if self._log is None:
            if self._path is not None:
                self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._log = ResultLog(self._path)
        return self._log

    def rows(self, answer: _FeedAnswer) -> Counter[str]:
        """Return the rows of an answer, which must be the newest or the newest visible one of its feed."""
        with self._logging:
            found = self._result_log().answer(answer.number)
            found.subtract(answer.later)
        return +found

    def close(self) -> None:
        """Close the result log."""
        with self._publishing, self._logging:
            if self._log is not None:
                self._log.close()
                self._log = None
