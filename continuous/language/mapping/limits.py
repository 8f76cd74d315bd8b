"""Limits of one record: the solutions, the seconds and the bytes that a mapping may use for one record.

Code generated for a mapping counts its work (`RecordWork`) wherever a small record can produce much output:
for each row of UNION, OPTIONAL or VALUES, for each solution of the template, and for each long text.
"""

from __future__ import annotations

import threading
from time import perf_counter, thread_time
from typing import NamedTuple

from quadrill.store.errors import LimitError
from quadrill.store.pushes.client import require_client

from ...rows import QueryLimits

LONG = 128
"""Length in characters up to which a term's text is not counted: a row's size includes short texts."""
ROW_BYTES, CELL_BYTES, STATEMENT_BYTES = 72, 8, 96
"""Approximate bytes of a solution's tuple, of one cell in the tuple, and of one statement."""
_CLOCK_FACTOR = 10
_NEVER = float("inf")
_CLIENT_CHECK_S = 0.1
"""Seconds between two checks whether the client is still connected."""


class RecordLimits(NamedTuple):
    """Limits for mapping one record.

    The limit ``solutions`` of a mapping bounds each intermediate result of the WHERE part as well as the
    final solutions. ``seconds`` limits the CPU time of mapping one record; the limit of wall-clock time is
    ten times as large.
    """

    solutions: int = 10_000
    seconds: float = 1.0
    bytes: int = 16 << 20


RECORD_LIMITS = RecordLimits()


class RecordWork(threading.local):
    """Counters of a mapping's work for the current record; each thread has separate counters.

    Attributes:
        limits: the limits on the length of texts, in the form that string functions expect.
        since: the `perf_counter` time of the last `begin`; if it changes, functions that count text begin a
            new record.
        used: True after the current record has counted any work.
    """

    def __init__(self, limits: RecordLimits) -> None:
        """Create counters of mapping work, without a current record."""
        self.most = limits
        self.limits = QueryLimits(bytes=limits.bytes, text=min(1 << 20, limits.bytes))
        self.since = 1.0
        self._text = (0, 0.0)
        self.used = False
        self._end = _NEVER
        self._next_check = self._began = self._cpu = 0.0
        self._bytes = 0
        self._counts: dict[int, int] = {}

    def begin(self) -> None:
        """Reset all counters of work for the next record and start the record's clock."""
        self.since = now = perf_counter()
        self._start(now)
        self._text = (0, now)
        self._bytes = 0
        self.used = False
        self._counts.clear()
        if now > self._next_check:
            self._check_client(now)

    @property
    def text(self) -> tuple[int, float]:
        """The characters of long values that functions made for a record, and the `since` of this record."""
        return self._text

    @text.setter
    def text(self, made: tuple[int, float]) -> None:
        self._text = made
        self._check_size(made[0])
        self.tick()

    def rest(self) -> None:
        """Reset the byte counter for the next record; the record's clock starts at its first `tick`."""
        self._end, self._bytes, self.used = _NEVER, 0, False

    def tick(self) -> None:
        """Count one step of mapping work on the current record.

        Raises:
            LimitError: the record has taken more than its seconds.
            ClientLeftError: the client that waits for the answer has disconnected.
        """
        now, self.used = perf_counter(), True
        if self._end == _NEVER:
            self._start(now)
        if now > self._end:
            self._check_time(now)
        if now > self._next_check:
            self._check_client(now)

    def row(self, node: int, size: int) -> None:
        """Count one more solution, of ``size`` bytes, of part number ``node`` of the mapping's pattern.

        Raises: LimitError if the pattern part has too many solutions, and the errors of `tick` and `take`.
        """
        self.tick()
        count = self._counts.get(node, 0) + 1
        if count > self.most.solutions:
            most = f"{self.most.solutions:,}"
            raise LimitError(
                f"the WHERE part of the mapping has more than {most} solutions for one record",
                hint="Intermediate results of UNION, OPTIONAL and VALUES count as well.",
                limit=self.most.solutions,
            )
        self._counts[node] = count
        self.take(size)

    def take(self, size: int) -> None:
        """Add ``size`` bytes to the memory counted for the record; raise LimitError above the limit."""
        self._bytes += size
        self.used = True
        self._check_size(self._bytes)

    def _check_size(self, size: int) -> None:
        if size > self.most.bytes:
            raise LimitError(
                f"the mapping takes more than {self.most.bytes:,} bytes for one record (max_record_bytes)",
                limit=self.most.bytes,
            )

    def long(self, text: str) -> bool:
        """Count the bytes of a long text that the mapping of a record has made.

        The method `long`, which counts a long text, always returns True, so that generated conditions can
        call it.
        """
        self.take(len(text) if text.isascii() else 4 * len(text))
        return True

    def _start(self, now: float) -> None:
        self._began, self._cpu = now, thread_time()
        self._end = now + self.most.seconds

    def _check_time(self, now: float) -> None:
        """Raise LimitError if the CPU time for the record is over the limit.

        A limit on wall-clock time alone would reject records while the server is under load.
        """
        seconds = self.most.seconds
        left = self._cpu + seconds - thread_time()
        if left <= 0 or now - self._began > _CLOCK_FACTOR * seconds:
            raise LimitError(
                f"the mapping takes longer than {seconds:g} s for one record (max_record_time)",
                limit=seconds,
            )
        self._end = now + max(left, 0.01)

    def _check_client(self, now: float) -> None:
        self._next_check = now + _CLIENT_CHECK_S
        require_client()
