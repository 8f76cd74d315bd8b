"""ONCE PER: of the rows that come those are told whose key has not been told for a while, or ever.

    ONCE PER ?v … [EVERY d]    a row at t is told unless one of its key was told at an instant > t - d

Of rows that go those are told that had been told. Rows of one instant are looked at one after the other, in
their own order or the fixed one, so that a key is told by one of them however the instant is cut into
transactions. Source: docs/semantics.md, section 8.
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
    """What is told of an answer: ``standing`` are the rows that were told and stand."""

    deleted: Sequence[Solution]
    inserted: Sequence[Solution]
    standing: Counter[Solution]
    boolean: bool | None = None

    @property
    def rows(self) -> Sequence[Solution]:
        """Those that stand; most outputs need not ask."""
        return tuple(self.standing.elements())

    def listed(self, kind: EventKind) -> None:
        """Rows are terms here."""

    def coded(self, *, whole: bool = False) -> None:
        """Rows are terms here."""


@dataclass(frozen=True, slots=True)
class OnceSnapshot:
    """Keys with the instants at which they were told last, oldest first; rows that were told and stand."""

    told: list[tuple[Solution, int]]
    standing: list[tuple[Solution, int]]


@dataclass(slots=True)
class OnceEmission:
    """Tells by ``inner`` what passes.

    ``places`` are those of the key in a row. ``most`` is how many keys and rows may be remembered, 0 for
    any number.
    """

    inner: SelectEmission | ConstructEmission
    places: tuple[int, ...]
    every_ms: int | None
    most: int = 0
    told: OrderedDict[Solution, int] = field(default_factory=OrderedDict)
    standing: Counter[Solution] = field(default_factory=Counter)

    @property
    def counts(self) -> EmissionCounts:
        """What was told."""
        return self.inner.counts

    @property
    def empty(self) -> dict[str, Any]:
        """The answer before the first evaluation."""
        return self.inner.empty

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """One event for each sign that has rows to tell."""
        self._forget(moment.at)
        deleted = [row for row in answer.deleted if self._leaves(row)]
        rows = answer.inserted if self.inner.ordered else in_fixed_order(answer.inserted)
        inserted = [row for row in rows if self._is_news(row, moment.at)]
        if 0 < self.most < len(self.told) + len(self.standing):
            raise BudgetError(
                f"ONCE PER remembers {len(self.told)} keys and {len(self.standing)} rows, "
                f"the limit is {self.most} (max_answer_rows); say EVERY with a shorter time",
                limit=self.most,
            )
        return self.inner.events(moment, EmittedAnswer(deleted, inserted, self.standing))

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """All rows of the answer, told or not."""
        return self.inner.current(moment, answer)

    def snapshot(self) -> OnceSnapshot:
        """For a checkpoint."""
        return OnceSnapshot(list(self.told.items()), list(self.standing.items()))

    def restore(self, kept: OnceSnapshot) -> None:
        """Go on from a checkpoint."""
        self.told, self.standing = OrderedDict(kept.told), Counter(dict(kept.standing))
        if isinstance(self.inner, ConstructEmission):
            self.inner.go_on(EmittedAnswer((), (), self.standing))

    def _is_news(self, row: Solution, at: int) -> bool:
        key = tuple(row[place] for place in self.places)
        last = self.told.get(key)
        if last is not None and (self.every_ms is None or last > at - self.every_ms):
            return False
        self.told[key] = at
        self.told.move_to_end(key)
        if self.inner.output == "changes":
            self.standing[row] += 1
        return True

    def _leaves(self, row: Solution) -> bool:
        many = self.standing.get(row, 0)
        if many > 1:
            self.standing[row] = many - 1
        elif many:
            del self.standing[row]
        return many > 0

    def _forget(self, at: int) -> None:
        """Keys that were told too long ago may be told again."""
        told, every = self.told, self.every_ms
        while every is not None and told and next(iter(told.values())) <= at - every:
            told.popitem(last=False)
