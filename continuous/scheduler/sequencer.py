"""Turns: everything that moves a query gets its place in one order, is noted in the journal, and worked off.

    accepted --lock--> journal record, queue --loop--> queries --> feeds hold their events
                            |                                         |
                        one fsync  <----- waits for ----------------- settle -> result log -> subscribers

Nobody sees a result before the inputs that it follows from are durable, so after a crash the replay of the
journal gives every event that was seen once more, with its id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs.input_log import SPACE

from ..clock import Clock
from ..durable.journal import Journal
from ..meters import Stages
from ..output.feed import Feed
from ..streams.accept import Acceptor
from .loop import Ticket, WorkLoop

log = logging.getLogger("quadrill.continuous")

T = TypeVar("T")
_RETRY_SECONDS = 0.25
_NEGLECTED_SECONDS = 0.05
"""A push that does not wait for the log leaves its record to others this long."""


class Sequencer:
    """The order of one engine. It is also the dispatcher's clock: within a turn time stands still.

    Attributes:
        number: the record of the turn being worked off; 0 between turns and without a journal.
        processed: the record up to which everything is worked off.
        version: the newest commit that took its turn.
        repeated: the newest turn that read what streams retain.
        trouble: why nothing can be written now.
    """

    def __init__(self, clock: Clock, journal: Journal | None) -> None:
        self._clock = clock
        self.journal = journal
        self.number = 0
        self.processed = 0 if journal is None else journal.last
        self.version = 0
        self.repeated = 0
        self.trouble: str | None = None
        self._needed = 0
        self._at: int | None = None
        self._held: list[Feed] = []
        self._gone: list[int] = []
        # What is to be done when all that was published is written and shown.
        self._then: list[Callable[[], None]] = []
        self._named: list[tuple[int, str]] = []
        self._stopping = threading.Event()
        # How often results were written and how long that took, the wait for their inputs included.
        self.settles = 0
        self.settle_seconds = 0.0
        self.stages = Stages()
        # For a replay: gets the store to the version that the refresh of a query read.
        self.replaying: Callable[[str], None] | None = None

    def connect(self, loop: WorkLoop, acceptor: Acceptor) -> None:
        """Told once what it works with."""
        self._loop = loop
        self._acceptor = acceptor

    def now_ms(self) -> int:
        """The time of the turn; between turns that of the clock."""
        return self._clock.now_ms() if self._at is None else self._at

    def steady_ms(self) -> int:
        """Of the clock that never jumps."""
        return self._clock.steady_ms()

    # --- taking a turn --------------------------------------------------------------------------

    def submit(
        self,
        kind: str,
        members: dict[str, Any],
        work: Callable[[], T],
        noted: Callable[[], None] | None = None,
    ) -> Ticket[T]:
        """Queue some work behind all that was accepted so far.

        ``noted`` is called when the place in the order is given, before anything else can be accepted.
        """
        at = self._clock.now_ms()
        with self._acceptor.lock:
            number = self._acceptor.note(kind, now=at, **members)
            if noted is not None:
                noted()
            return self._loop.submit(lambda: self.run(number, at, work))

    def call(
        self,
        kind: str,
        members: dict[str, Any],
        work: Callable[[], T],
        noted: Callable[[], None] | None = None,
    ) -> T:
        """Do some work in its turn, see `submit`; returns when it is done and durable.

        Raises:
            StoreUnwritableError: it cannot be written now, and is not done.
        """
        if not self._loop.inside:
            self.require_writable()
        return self.enter(kind, members, work, noted)

    def enter(
        self,
        kind: str,
        members: dict[str, Any],
        work: Callable[[], T],
        noted: Callable[[], None] | None = None,
    ) -> T:
        """The same for what the registry says already: it takes its turn even when the disk has become full.

        Raises:
            StoreUnwritableError: it is done, and will be durable when there is space again.
        """
        if self._loop.inside:
            return work()
        result = self.submit(kind, members, work, noted).wait()
        if self.journal is not None:
            self.journal.wait()
        return result

    def run(self, number: int, at: int, work: Callable[[], T]) -> T:
        """Work off a turn; called in the loop, and by the replay."""
        self.number, self._at = number, at
        if self.journal is not None:
            self.journal.reached("before-apply")
        try:
            return work()
        finally:
            self.number, self._at = 0, None
            self.processed = max(self.processed, number)
            self._needed = max(self._needed, number)

    # --- what a turn reads ----------------------------------------------------------------------

    def before_refresh(self, name: str) -> None:
        """A query is about to refresh its static parts."""
        if self.replaying is not None:
            self.replaying(name)

    def note_behind(self, tables: Sequence[str], version: int) -> None:
        """The rows of static parts are not known at a version: queries stay behind until they are."""
        if self.journal is None or self.journal.silent:
            return
        with self._acceptor.lock:
            self._needed = self._acceptor.note("behind", tables=list(tables), version=version)

    def after_refresh(self, name: str, version: int) -> None:
        """It did so at a version; that is noted where it does not follow from the order."""
        if self.journal is None or self.journal.silent or version == self.version:
            return
        with self._acceptor.lock:
            self._needed = self._acceptor.note("seen", turn=self.number, query=name, version=version)

    # --- settling -------------------------------------------------------------------------------

    def outbox(self, feed: Feed) -> None:
        """A feed has events that wait."""
        self._held.append(feed)

    def when_shown(self, work: Callable[[], None]) -> None:
        """Do something when what was published so far is durable and shown; without a journal it is now."""
        if self.journal is None:
            work()
        else:
            self._then.append(work)

    def name_feed(self, feed: Feed) -> None:
        """Give a new feed its number: that of the turn."""
        if feed.number == 0 and self.journal is not None:
            feed.number = self.number
            self._named.append((feed.number, feed.name))

    def keep_name(self, feed: Feed) -> None:
        """The name of a feed that a replay makes again."""
        self._named.append((feed.number, feed.name))

    def drop_feed(self, feed: Feed) -> None:
        """A feed's events need not be kept any more."""
        self._gone.append(feed.number)

    def settle(self) -> None:
        """Write what waits, then let subscribers see it. Waits as long as the disk is full.

        Raises:
            StoreUnwritableError: the engine stops, or has no thread of its own to wait in.
        """
        while self.journal is not None and (self._held or self._named or self._gone or self._then):
            began = time.perf_counter()
            try:
                self._write(self.journal)
            except StoreUnwritableError as error:
                if self.trouble is None:
                    log.error("results wait: %s", error.message)
                self.trouble = error.message
                if self._stopping.is_set() or not self._loop.threaded:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                if self.trouble is not None:
                    log.warning("results are written again")
                self.trouble = None
                self.settles += 1
                took = time.perf_counter() - began
                self.settle_seconds += took
                self.stages.results.observe(took)
                return

    def _write(self, journal: Journal) -> None:
        journal.wait(self._needed)
        journal.reached("before-results")
        for number, name in self._named:
            journal.results.name(number, name)
        self._named.clear()
        rows, forget = [], []
        for feed in self._held:
            new, old = feed.unwritten()
            rows += new
            forget += old
        journal.results.append(rows, forget)
        journal.reached("after-results")
        held, self._held = self._held, []
        for feed in held:
            feed.release()
        then, self._then = self._then, []
        for work in then:
            work()
        while self._gone:
            journal.results.drop(self._gone[-1])
            self._gone.pop()

    def require_writable(self) -> None:
        """Raise StoreUnwritableError while nothing can be made durable."""
        if self.journal is not None:
            self.journal.log.require_writable()
        if self.trouble is not None:
            raise StoreUnwritableError(self.trouble, hint=SPACE)

    def write_what_waits(self) -> None:
        """Write records that nobody waits for, and see whether there is space again after a full disk."""
        if self.journal is None:
            return
        failed = self.journal.log.failure is not None
        if not failed and not self.journal.log.neglected(_NEGLECTED_SECONDS):
            return
        try:
            self.journal.wait()
        except StoreUnwritableError as error:
            if not failed:
                log.error("inputs wait: %s", error.message)
            return
        if failed:
            log.warning("the input log can be written again")

    def stop(self) -> None:
        """Wait for the disk no longer."""
        self._stopping.set()
