"""Rows, schemas and deltas of the incremental engine.

A row is a tuple of term ids (store/dictionary.py) in the order of its schema, 0 is unbound. A delta is a
Z-set: a finite map from rows to non-zero integer weights, +1 for a row that came, -1 for one that went. The
running sum of an operator's deltas is its relation, a multiset. Source: DBSP (Budiu et al., PVLDB 16(7)).

Whatever makes more rows than it is given counts them before it makes them, and looks at the `Budget` when it
has come to the number at which to look: a limit of rows stops an evaluation at one place however often it is
repeated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from quadrill.store.dictionary import TermDictionary

from .algebra.nodes import Term
from .errors import BudgetError
from .slices import SLICE, yield_control

Solution: TypeAlias = tuple[Term | None, ...]
"""One solution, in the order of the answer's variables; None is unbound."""
IdRow: TypeAlias = tuple[int, ...]
Delta: TypeAlias = dict[IdRow, int]
K = TypeVar("K")

CHECK_EVERY = 16_384
"""Rows between two looks at the time, and at whether somebody has called the evaluation off."""

EMPTY: Delta = {}
"""The delta of nothing. Operators return it as it is; nobody changes a delta that was handed over."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The variables of a row in order, and those that every row binds."""

    vars: tuple[str, ...]
    certain: frozenset[str] = frozenset()

    @classmethod
    def bound(cls, *names: str) -> Schema:
        """The schema of rows that bind all of these."""
        return cls(names, frozenset(names))

    def columns(self, names: Iterable[str]) -> list[int]:
        """The places of some variables; -1 for one that no row has."""
        return [self.vars.index(name) if name in self.vars else -1 for name in names]

    def position(self, name: str) -> int:
        """The place of a variable. Raises ValueError when the row has none."""
        return self.vars.index(name)

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """The places of several variables."""
        return tuple(map(self.vars.index, names))


def merge(into: dict[K, int], change: Mapping[K, int]) -> dict[K, int]:
    """Add ``change`` to ``into`` in place, dropping rows whose weight becomes 0; gives ``into``."""
    for row, weight in change.items():
        total = into.get(row, 0) + weight
        if total:
            into[row] = total
        else:
            del into[row]
    return into


def add(delta: dict[K, int], row: K, weight: int) -> None:
    """Add one row, or whatever else is counted, to a delta in place."""
    total = delta.get(row, 0) + weight
    if total:
        delta[row] = total
    else:
        delta.pop(row, None)


def negate(delta: Mapping[K, int]) -> dict[K, int]:
    """The opposite change."""
    return {row: -weight for row, weight in delta.items()}


def difference(new: Mapping[K, int], old: Mapping[K, int]) -> dict[K, int]:
    """``new - old``: the change that leads from one relation to the other."""
    if len(old) > len(new) // 4:
        # Most rows are in both: they are compared, not copied and taken away again.
        change = {row: weight - old.get(row, 0) for row, weight in new.items() if old.get(row) != weight}
        change.update((row, -weight) for row, weight in old.items() if row not in new)
        return change
    return merge(dict(new), negate(old))


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may cost before it fails; 0 is no limit.

    ``rows`` and ``ms`` are those of one evaluation, ``kept`` the rows of the answer that is kept, ``bytes``
    what one evaluation tells, and what its expressions put together, each value at most ``text`` characters.
    ``minute_rows``, ``minute_ms`` (of CPU time) and ``minute_bytes`` are sums over a sliding minute.
    ``process`` is the memory, in bytes, that a child process of an evaluation may take.
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
    """The limits of one plan, and the evaluation at work. ``stop`` may be set in any thread.

    Attributes:
        since: when the evaluation at work began, by the monotonic clock; 0.0 while nothing is limited.
        look: so many rows may be made before somebody has to look.
        stop: why the evaluation is to end, once it is.
        grace: the time is longer by this factor; a replay must not fail at what was in time before.
        text: the characters that expressions have made, and in the evaluation since when.
        rows: rows of intermediate results that operators have counted here since the query began.
        elsewhere: seconds of CPU time that child processes have used for it since then.
    """

    __slots__ = ("_made", "elsewhere", "grace", "limits", "next_check", "rows", "since", "stop", "text")

    def __init__(self, limits: QueryLimits) -> None:
        self.since, self.grace, self.stop = 0.0, 1.0, ""
        self.rows = self._made = 0
        self.elsewhere = 0.0
        self.text = (0, 0.0)
        self.limit(limits)

    def limit(self, limits: QueryLimits) -> None:
        """Other limits are in force from now on."""
        self.limits = limits
        self.next_check = min(limits.rows or CHECK_EVERY, CHECK_EVERY)

    def check(self, made: int, where: Any) -> int:
        """The number of rows at which to look again, after so many were made by an operator or are about to.

        Raises:
            BudgetError: these are too many, it has taken too long, or somebody has called it off.
        """
        if not self.since:
            return sys.maxsize
        now = time.monotonic()
        if now > SLICE.until:
            now = self._yield_control(now)
        # The counter of an operator begins anew with each evaluation.
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
        """Raise BudgetError when somebody has called the evaluation off."""
        if self.stop:
            raise BudgetError(self.stop, where=where, again=False, code="cancelled")

    def too_slow(self, took_ms: float, made: int, where: Any) -> BudgetError:
        """The error of an evaluation that takes longer than it may."""
        return BudgetError(
            f"one evaluation took {took_ms:.0f} ms and had made {made} rows, its limit (max_time) is "
            f"{self.limits.ms} ms",
            where=where,
            again=False,
            limit=self.limits.ms,
        )

    def _yield_control(self, now: float) -> float:
        """Let other queries go on; the time now, while the evaluation's own does not count theirs."""
        yield_control(now, inside=True)
        later = time.monotonic()
        self.exclude(later - now)
        return later

    def exclude(self, seconds: float) -> None:
        """So many seconds do not count as time of the evaluation at work."""
        since, (characters, counted) = self.since, self.text
        if since:
            self.since = since + seconds
            if counted == since:
                self.text = characters, self.since


UNLIMITED = Budget(QueryLimits())
"""The budget of operators that nobody has given one."""


class PinnedIds:
    """Ids that one owner pins, to be let go together."""

    def __init__(self, terms: TermDictionary) -> None:
        self._terms = terms
        self._ids: list[int] = []

    def pin(self, term_ids: Iterable[int]) -> None:
        """Pin ids in the dictionary until `release`."""
        pinned = list(term_ids)
        self._ids += pinned
        self._terms.pin(pinned)

    def release(self) -> None:
        """Undo every pin; a second call does nothing."""
        pinned, self._ids = self._ids, []
        self._terms.unpin(pinned)
