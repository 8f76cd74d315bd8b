"""ONCE PER: suppresses an inserted row if another row with the same key was emitted recently, or ever.

    ONCE PER ?v … [EVERY d]    emits a row at t unless a row with its key was emitted at an instant > t - d

With ONCE PER, a deletion is emitted only for a row that was emitted. For ONCE PER, the rows of one instant
are checked one after the other, in the query's order or a fixed order, so that one row emits the key however
the instant is split into transactions. Source of ONCE PER: docs/semantics.md, section 8.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quadrill.store.feeds.subscription import EventKind
from quadrill.store.results import in_fixed_order

from ..errors import BudgetError
from ..rows import Solution
from .emission import ChangedAnswer, ConstructEmission, EmissionCounts, EvaluationInfo, Event, SelectEmission


@dataclass(frozen=True, slots=True)
class EmittedAnswer:
    """The part of an answer that ONCE PER emits; ``standing`` counts emitted rows still in it."""

    deleted: Sequence[Solution]
    inserted: Sequence[Solution]
    standing: Counter[Solution]
    boolean: bool | None = None

    @property
    def rows(self) -> Sequence[Solution]:
        """The rows that ONCE PER has emitted and that are still in the answer, built on demand."""
        return tuple(self.standing.elements())

    def json_rows(self, kind: EventKind) -> None:
        """Return None, because the rows that ONCE PER passes are terms without term ids."""

    def id_delta(self, *, whole: bool = False) -> None:
        """Return None, because the rows that ONCE PER passes are terms without term ids."""


@dataclass(frozen=True, slots=True)
class OnceSnapshot:
    """The state of ONCE PER: keys with the instants of their last emissions, and emitted rows."""

    emitted_at: list[tuple[Solution, int]]
    standing: list[tuple[Solution, int]]


@dataclass(slots=True)
class OnceEmission:
    """The ONCE PER operator: suppresses rows with repeated keys; ``inner`` writes events of the others.

    ``places`` are the positions of the ONCE PER key in a row. ``max_entries`` bounds the keys and rows that
    ONCE PER remembers; 0 is no bound.
    """

    inner: SelectEmission | ConstructEmission
    places: tuple[int, ...]
    every_ms: int | None
    max_entries: int = 0
    emitted_at: OrderedDict[Solution, int] = field(default_factory=OrderedDict)
    standing: Counter[Solution] = field(default_factory=Counter)

    @property
    def counts(self) -> EmissionCounts:
        """The counts of rows that the query has emitted."""
        return self.inner.counts

    @property
    def empty(self) -> dict[str, Any]:
        """The query's answer before the first evaluation."""
        return self.inner.empty

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """Return one event for each kind with rows that pass ONCE PER."""
        self._forget(moment.at)
        deleted = [row for row in answer.deleted if self._retract(row)]
        rows = answer.inserted if self.inner.ordered else in_fixed_order(answer.inserted)
        inserted = [row for row in rows if self._passes(row, moment.at)]
        if 0 < self.max_entries < len(self.emitted_at) + len(self.standing):
            raise BudgetError(
                f"ONCE PER remembers {len(self.emitted_at)} keys and {len(self.standing)} rows, "
                f"the limit is {self.max_entries} (max_answer_rows); say EVERY with a shorter time",
                limit=self.max_entries,
            )
        return self.inner.events(moment, EmittedAnswer(deleted, inserted, self.standing))

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """Return all rows of the answer, including rows that ONCE PER suppressed, as one line of JSON."""
        return self.inner.current(moment, answer)

    def snapshot(self) -> OnceSnapshot:
        """Return the keys and rows that ONCE PER remembers, for a checkpoint."""
        return OnceSnapshot(list(self.emitted_at.items()), list(self.standing.items()))

    def restore(self, kept: OnceSnapshot) -> None:
        """Restore the keys and rows that ONCE PER remembers from a checkpoint."""
        self.emitted_at, self.standing = OrderedDict(kept.emitted_at), Counter(dict(kept.standing))
        if isinstance(self.inner, ConstructEmission):
            self.inner.resume(EmittedAnswer((), (), self.standing))

    def _passes(self, row: Solution, at: int) -> bool:
        key = tuple(row[place] for place in self.places)
        last = self.emitted_at.get(key)
        if last is not None and (self.every_ms is None or last > at - self.every_ms):
            return False
        self.emitted_at[key] = at
        self.emitted_at.move_to_end(key)
        if self.inner.output == "changes":
            self.standing[row] += 1
        return True

    def _retract(self, row: Solution) -> bool:
        many = self.standing.get(row, 0)
        if many > 1:
            self.standing[row] = many - 1
        elif many:
            del self.standing[row]
        return many > 0

    def _forget(self, at: int) -> None:
        """Forget ONCE PER keys whose last emission was at least EVERY milliseconds before instant ``at``."""
        emitted_at, every = self.emitted_at, self.every_ms
        while every is not None and emitted_at and next(iter(emitted_at.values())) <= at - every:
            emitted_at.popitem(last=False)
