"""ONCE PER … UNTIL GONE: emits a key when it enters the answer, and again only after it has left.

    ONCE PER ?v … UNTIL GONE [RESOLVED] [EVERY d]

    answer    a,1   a,2   –     a,3           insert    a,1 when the key a enters, a,3 when it enters again
                                              resolved  a,1 when the key a leaves, with RESOLVED

With EVERY, the first row of a key is emitted again d after the key's last emission, while the key stays.
Source of UNTIL GONE: docs/semantics.md, section 4.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from quadrill.store.results import in_fixed_order

from ..rows import Solution
from .emission import ChangedAnswer, ConstructEmission, EmissionCounts, EvaluationInfo, Event, SelectEmission
from .once import OnceSnapshot


@dataclass(slots=True)
class UntilGoneEmission:
    """The operator of ONCE PER … UNTIL GONE; ``inner`` writes the events of the emitted rows.

    ``places`` are the positions of the key in a row. The limit of the answer's rows bounds the state: per key
    in the answer, the row emitted last with its instant, and the key's rows (their number without EVERY).

    Attributes:
        emitted: for each key in the answer, the row emitted last and the instant, oldest emission first.
        rows: for each key in the answer, its rows with their counts; without ``every_ms`` or with ORDER BY
            only the number of its rows, under the empty row.
        answer: the answer of the last evaluation.
    """

    inner: SelectEmission | ConstructEmission
    places: tuple[int, ...]
    resolved: bool
    every_ms: int | None
    emitted: OrderedDict[Solution, tuple[Solution, int]] = field(default_factory=OrderedDict)
    rows: dict[Solution, Counter[Solution]] = field(default_factory=dict)
    answer: ChangedAnswer | None = None

    @property
    def counts(self) -> EmissionCounts:
        """The counts of rows that the query has emitted."""
        return self.inner.counts

    @property
    def empty(self) -> dict[str, Any]:
        """The query's answer before the first evaluation."""
        return self.inner.empty

    @property
    def remind_at(self) -> int | None:
        """The instant at which a key is to be emitted again; None without EVERY or without a key."""
        if self.every_ms is None or not self.emitted:
            return None
        return next(iter(self.emitted.values()))[1] + self.every_ms

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """Return the event ``resolved`` of keys that left, then ``insert`` of keys that came or are due."""
        self.answer = answer
        leaving = {key: None for row in answer.deleted if self._remove(row) for key in (self._key(row),)}
        inserted = answer.inserted if self.inner.ordered else in_fixed_order(answer.inserted)
        for row in inserted:
            self._add(row)
        gone = [self.emitted.pop(key)[0] for key in leaving if key not in self.rows]
        new: dict[Solution, Solution] = {}
        for row in inserted:
            if (key := self._key(row)) not in self.emitted:
                new.setdefault(key, row)
        return self._written(moment, new, gone)

    def reminded(self, moment: EvaluationInfo) -> list[Event]:
        """Return the event of the keys that are due at an instant without an evaluation."""
        return self._written(moment, {}, ())

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """Return all rows of the answer, including rows that were not emitted, as one line of JSON."""
        return self.inner.current(moment, answer)

    def snapshot(self) -> OnceSnapshot:
        """Return the keys in the answer, with the row emitted last and its instant, for a checkpoint."""
        return OnceSnapshot(
            [(key, at) for key, (_, at) in self.emitted.items()],
            [(row, 1) for row, _ in self.emitted.values()],
        )

    def restore(self, kept: OnceSnapshot) -> None:
        """Restore the emitted keys from a checkpoint; `resume` restores the rows."""
        self.emitted = OrderedDict(
            (key, (row, at)) for (key, at), (row, _) in zip(kept.emitted_at, kept.standing, strict=True)
        )

    def resume(self, answer: ChangedAnswer) -> None:
        """Set the rows of the answer of the last evaluation before a restart."""
        self.answer, self.rows = answer, {}
        for row in answer.rows:
            self._add(row)

    def _written(
        self, moment: EvaluationInfo, new: dict[Solution, Solution], gone: Sequence[Solution]
    ) -> list[Event]:
        found = new | dict(self._due(moment.at))
        if self.inner.ordered and len(found) > len(new):
            assert self.answer is not None
            rows = self._first(self.answer.rows, found)
        else:
            rows = list(found.values())
        for row in rows:
            key = self._key(row)
            self.emitted[key] = row, moment.at
            self.emitted.move_to_end(key)
        return self.inner.written(
            moment, [("resolved", in_fixed_order(gone) if self.resolved else ()), ("insert", rows)]
        )

    def _due(self, at: int) -> Iterator[tuple[Solution, Solution]]:
        """Yield the keys whose last emission is at least EVERY before ``at``, with their first rows."""
        if self.every_ms is None:
            return
        for key, (_, last) in self.emitted.items():
            if last > at - self.every_ms:
                return
            yield key, in_fixed_order(list(self.rows[key]))[0]

    def _first(self, rows: Iterable[Solution], keys: Iterable[Solution]) -> list[Solution]:
        """Return the first row of each of some keys, in the order of ``rows``."""
        wanted, found = set(keys), []
        for row in rows:
            if (key := self._key(row)) in wanted:
                wanted.remove(key)
                found.append(row)
        return found

    def _key(self, row: Solution) -> Solution:
        return tuple(row[place] for place in self.places)

    def _held(self, row: Solution) -> Solution:
        """Return the row as `rows` counts it."""
        return () if self.every_ms is None or self.inner.ordered else row

    def _add(self, row: Solution) -> None:
        self.rows.setdefault(self._key(row), Counter())[self._held(row)] += 1

    def _remove(self, row: Solution) -> bool:
        """Remove a row; return True if it was the last row of its key for now."""
        key, held = self._key(row), self._held(row)
        rows = self.rows[key]
        rows[held] -= 1
        if not rows[held]:
            del rows[held]
            if not rows:
                del self.rows[key]
                return True
        return False
