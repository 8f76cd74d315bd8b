"""Rows, schemas and deltas of the incremental engine.

A row is a tuple of term ids (store/dictionary.py) in the order of its schema; 0 means unbound. A delta is a
Z-set: a finite map from rows to non-zero integer weights, +1 for an inserted row, -1 for a retracted row. The
running sum of an operator's deltas is its relation, a multiset. Source: DBSP (Budiu et al., PVLDB 16(7)).

An operator that may return more rows than it reads counts the rows before it creates them, and calls
`Budget.check` when the count reaches the number that the last call of `Budget.check` returned. Because
operators count rows before they create them, a row limit stops a repeated evaluation at the same place each
time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from quadrill.store.dictionary import TermDictionary
from quadrill.store.documents.times import readable_duration

from .algebra.nodes import Term
from .errors import BudgetError
from .slices import SLICE, yield_control

Solution: TypeAlias = tuple[Term | None, ...]
"""One solution: terms in the order of the answer's variables; None means unbound."""
IdRow: TypeAlias = tuple[int, ...]
Delta: TypeAlias = dict[IdRow, int]
K = TypeVar("K")

CHECK_EVERY = 16_384
"""Number of rows between two checks of the evaluation's time limit and of its cancellation."""

EMPTY: Delta = {}
"""The empty delta. Operators return the shared empty delta, so no caller may change a delta that an operator
returned."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: the variables of a row in order, and the set of variables that every row binds."""

    vars: tuple[str, ...]
    certain: frozenset[str] = frozenset()

    @classmethod
    def bound(cls, *names: str) -> Schema:
        """Return the schema of rows that bind all of these variables."""
        return cls(names, frozenset(names))

    def columns(self, names: Iterable[str]) -> list[int]:
        """Return the column of each variable in the schema; -1 for an unknown variable."""
        return [self.vars.index(name) if name in self.vars else -1 for name in names]

    def position(self, name: str) -> int:
        """Return the column of a variable; raise ValueError if the schema does not have the variable."""
        return self.vars.index(name)

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the columns of several variables; raise ValueError if one is missing."""
        return tuple(map(self.vars.index, names))


def merge(into: dict[K, int], change: Mapping[K, int]) -> dict[K, int]:
    """Add ``change`` to ``into`` in place, remove rows whose weight becomes 0, and return ``into``."""
    for row, weight in change.items():
        total = into.get(row, 0) + weight
        if total:
            into[row] = total
        else:
            del into[row]
    return into


def add(delta: dict[K, int], row: K, weight: int) -> None:
    """Add one row, or another counted key, to a delta in place."""
    total = delta.get(row, 0) + weight
    if total:
        delta[row] = total
    else:
        delta.pop(row, None)


def negate(delta: Mapping[K, int]) -> dict[K, int]:
    """Return the delta with all weights negated."""
    return {row: -weight for row, weight in delta.items()}


def difference(new: Mapping[K, int], old: Mapping[K, int]) -> dict[K, int]:
    """Return ``new - old``, the delta that leads from the old relation to the new one."""
    if len(old) > len(new) // 4:
        # Most rows are in both the old and the new relation, so a comparison row by row costs less than a
        # copy and a subtraction.
        change = {row: weight - old.get(row, 0) for row, weight in new.items() if old.get(row) != weight}
        change.update((row, -weight) for row, weight in old.items() if row not in new)
        return change
    return merge(dict(new), negate(old))


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The limits of one continuous query; 0 means no limit.

    ``rows`` and ``ms`` bound one evaluation of a query, and ``kept`` bounds the rows of its current answer.
    ``bytes`` bounds the characters of the events of one evaluation and of the strings that its expressions
    create, of which each has at most ``text`` characters. ``minute_rows``, ``minute_ms`` (CPU time) and
    ``minute_bytes`` bound sums of a query's costs over a sliding minute. ``process`` bounds the memory of a
    child process of an evaluation, in bytes.
    """

    rows: int = 0
    ms: int = 0
    kept: int = 0
    bytes: int = 0
    text: int = 1 << 20
    minute_rows: int = 0
    minute_ms: int = 0
    minute_bytes: int = 0
    process: int = 0


class Budget:
    """The limits of one plan and the state of its running evaluation.

    Any thread may set ``stop``, which cancels the running evaluation.

    Attributes:
        since: the monotonic time at which the running evaluation began; 0.0 if no evaluation is limited now.
        next_check: the number of rows at which an operator makes its first call of `check`.
        stop: the reason for which the running evaluation is cancelled; empty if the evaluation may continue.
        grace: a factor for the time limit; greater than 1 in a replay, where no evaluation may time out that
            did not before.
        text: the number of characters that expressions have created, and the ``since`` of that evaluation.
        rows: the rows of intermediate results that operators have counted since the query began.
        elsewhere: the CPU seconds that child processes have used for the query since it began.
    """

    __slots__ = ("_made", "elsewhere", "grace", "limits", "next_check", "rows", "since", "stop", "text")

    def __init__(self, limits: QueryLimits) -> None:
        self.since, self.grace, self.stop = 0.0, 1.0, ""
        self.rows = self._made = 0
        self.elsewhere = 0.0
        self.text = (0, 0.0)
        self.limit(limits)

    def limit(self, limits: QueryLimits) -> None:
        """Replace the limits of the plan."""
        self.limits = limits
        self.next_check = min(limits.rows or CHECK_EVERY, CHECK_EVERY)

    def check(self, made: int, where: Any) -> int:
        """Check the plan's limits at ``made`` rows of an operator; return the row count of the next check.

        Raises:
            BudgetError: the rows or the time exceed a limit, or the evaluation was cancelled.
        """
        if not self.since:
            return sys.maxsize
        now = time.monotonic()
        if now > SLICE.until:
            now = self._yield_control(now)
        # The count of an operator starts at 0 in each evaluation, so a smaller count than before shows that a
        # new evaluation has begun.
        self.rows += made - self._made if made > self._made else made
        self._made = made
        limits, took_ms = self.limits, (now - self.since) * 1000
        self.check_stop(where)
        if limits.rows and made > limits.rows:
            raise BudgetError(
                f"one evaluation makes {made} rows or more, its limit (max_rows) is {limits.rows}",
                where=where,
                limit=limits.rows,
            )
        if limits.ms and took_ms > limits.ms * self.grace:
            raise self.too_slow(took_ms, made, where)
        return min(limits.rows or sys.maxsize, made + CHECK_EVERY)

    def check_stop(self, where: Any) -> None:
        """Raise BudgetError if the running evaluation was cancelled."""
        if self.stop:
            raise BudgetError(self.stop, where=where, again=False, code="cancelled")

    def too_slow(self, took_ms: float, made: int, where: Any) -> BudgetError:
        """Return the error for an evaluation that exceeded its time limit."""
        return BudgetError(
            f"one evaluation took {took_ms:.0f} ms and had made {made} rows, its limit (max_time) is "
            f"{readable_duration(self.limits.ms)}",
            where=where,
            again=False,
            limit=self.limits.ms,
        )

    def _yield_control(self, now: float) -> float:
        """Let other queries run without counting their time for this evaluation; return the new time."""
        yield_control(now, inside=True)
        later = time.monotonic()
        self.exclude(later - now)
        return later

    def exclude(self, seconds: float) -> None:
        """Exclude that many seconds from the counted time of the running evaluation."""
        since, (characters, counted) = self.since, self.text
        if since:
            self.since = since + seconds
            if counted == since:
                self.text = characters, self.since


UNLIMITED = Budget(QueryLimits())
"""The budget without limits, of operators that were created without a budget."""


class PinnedIds:
    """Term ids that one owner has pinned in the dictionary and releases together."""

    def __init__(self, terms: TermDictionary) -> None:
        self._terms = terms
        self._ids: list[int] = []

    def pin(self, term_ids: Iterable[int]) -> None:
        """Pin term ids in the dictionary until `release`."""
        pinned = list(term_ids)
        self._ids += pinned
        self._terms.pin(pinned)

    def release(self) -> None:
        """Undo every pin of these term ids; a second call does nothing."""
        pinned, self._ids = self._ids, []
        self._terms.unpin(pinned)
