"""Limits of one record: the solutions, the time and the bytes that a mapping may take for it.

Generated code reports to `RecordWork` where a mapping can make much of little: at each row that UNION,
OPTIONAL or VALUES make, at each solution of the template, and at each long text.
"""

from __future__ import annotations

import threading
from time import perf_counter, thread_time
from typing import NamedTuple

from quadrill.store.errors import LimitError
from quadrill.store.pushes.client import require_client

from ...rows import QueryLimits

LONG = 128
"""Characters from which the text of a term counts; shorter ones count with the row that holds them."""
ROW_BYTES, CELL_BYTES, STATEMENT_BYTES = 72, 8, 96
"""Approximate memory of a tuple of a solution, of a place in it, and of a statement."""
_PATIENCE = 10
_NEVER = float("inf")
_LOOK_S = 0.1
"""Seconds between two checks whether the client is still there."""


class RecordLimits(NamedTuple):
    """Limits of one record. ``solutions`` holds for each intermediate result of the WHERE part as well.

    ``seconds`` are those of a processor; by the clock a record may take ten times as long.
    """

    solutions: int = 10_000
    seconds: float = 1.0
    bytes: int = 16 << 20


RECORD_LIMITS = RecordLimits()


class RecordWork(threading.local):
    """The work for the current record, counted for each thread by itself.

    Attributes:
        limits: the limits of text, as functions that make long values take them.
        since: when the record began; changes with each one that is counted.
        used: something was counted since the record began.
    """

    def __init__(self, limits: RecordLimits) -> None:
        """Begin without a record."""
        self.most = limits
        self.limits = QueryLimits(bytes=limits.bytes, text=min(1 << 20, limits.bytes))
        self.since = 1.0
        self._text = (0, 0.0)
        self.used = False
        self._end = _NEVER
        self._look = self._began = self._cpu = 0.0
        self._bytes = 0
        self._counts: dict[int, int] = {}

    def begin(self) -> None:
        """Begin the next record."""
        self.since = now = perf_counter()
        self._start(now)
        self._text = (0, now)
        self._bytes = 0
        self.used = False
        self._counts.clear()
        if now > self._look:
            self._check_client(now)

    @property
    def text(self) -> tuple[int, float]:
        """Characters of long values that functions have made, and the record that they belong to."""
        return self._text

    @text.setter
    def text(self, made: tuple[int, float]) -> None:
        self._text = made
        self._check_size(made[0])
        self.tick()

    def rest(self) -> None:
        """Begin a record whose time is counted from its first step."""
        self._end, self._bytes, self.used = _NEVER, 0, False

    def tick(self) -> None:
        """One more step of the work.

        Raises:
            LimitError: the record has taken too long.
            ClientLeftError: nobody waits for the answer.
        """
        now, self.used = perf_counter(), True
        if self._end == _NEVER:
            self._start(now)
        if now > self._end:
            self._check_time(now)
        if now > self._look:
            self._check_client(now)

    def row(self, node: int, size: int) -> None:
        """One more solution of a part of the pattern, which takes ``size`` bytes.

        Raises: LimitError for too many of this part, and as `tick` and `take`.
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
        """The record needs so many more bytes; raises LimitError when these are too many."""
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
        """Count a text with more than `LONG` characters; True, for use within a condition."""
        self.take(len(text) if text.isascii() else 4 * len(text))
        return True

    def _start(self, now: float) -> None:
        self._began, self._cpu = now, thread_time()
        self._end = now + self.most.seconds

    def _check_time(self, now: float) -> None:
        """Raise LimitError by the time of the processor: a busy machine must not refuse records."""
        seconds = self.most.seconds
        left = self._cpu + seconds - thread_time()
        if left <= 0 or now - self._began > _PATIENCE * seconds:
            raise LimitError(
                f"the mapping takes longer than {seconds:g} s for one record (max_record_time)",
                limit=seconds,
            )
        self._end = now + max(left, 0.01)

    def _check_client(self, now: float) -> None:
        self._look = now + _LOOK_S
        require_client()
