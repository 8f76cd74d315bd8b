"""What turns have made on its way out: into the result log first, then to subscribers."""

from __future__ import annotations

from collections.abc import Callable

from ..durable.journal import Journal
from .feed import Feed


class Outbox:
    """The feeds with events that nobody has seen yet. The sequencer empties it.

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
