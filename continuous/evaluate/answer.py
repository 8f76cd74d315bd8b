"""The answer of a query at an instant, and what a step changes in it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ..element import Solution
from ..output.emission import difference
from ..plan.plan_state import PlanState
from ..rows import Delta, IdRow


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer at one instant.

    ``rows`` are in ORDER BY order when ``ordered``; otherwise their order means nothing. ``boolean`` is
    ASK's answer. For CONSTRUCT the rows are the solutions over all visible variables of the WHERE clause.
    """

    vars: tuple[str, ...]
    rows: list[Solution] = field(default_factory=list)
    ordered: bool = False
    boolean: bool | None = None


class Answering(Protocol):
    """Gives the answer after the newest change."""

    vars: tuple[str, ...]

    def rows_after(self, change: AnswerChange) -> list[Solution]:
        """The whole answer after a step that may not be the last; called in any thread."""
        ...


class AnswerChange:
    """What one step did to the answer, and the answer after it.

    ``deleted`` and ``inserted`` hold each row as often as it came or went, in the answer's order. ``rows`` is
    the whole answer after this step, also when it is read after later ones and in another thread: it is then
    made from the newest answer and the changes since.
    """

    def __init__(
        self,
        answering: Answering,
        deleted: list[Solution],
        inserted: list[Solution],
        boolean: bool | None,
        rows: list[Solution] | None,
    ) -> None:
        self.vars = answering.vars
        self.deleted = deleted
        self.inserted = inserted
        self.boolean = boolean
        self.later: AnswerChange | None = None
        self._answering = answering
        self._rows = rows

    @property
    def rows(self) -> list[Solution]:
        """The whole answer after this step."""
        if self._rows is None:
            self._rows = self._answering.rows_after(self)
        return self._rows

    def settle(self) -> None:
        """Make the rows now: whoever knows the answer is about to forget it."""
        self._rows = self.rows

    def known_later(self) -> list[Solution] | None:
        """The whole answer after the last of the changes since, where somebody made it; see `undone`."""
        last = self
        while last.later is not None:
            last = last.later
        return last._rows

    def undone(self, rows: list[Solution]) -> list[Solution]:
        """The answer after this step, made from the newest answer and the changes since."""
        later = self.later
        if later is None:
            return rows
        counted = Counter(rows)
        while later is not None:
            counted.subtract(later.inserted)
            counted.update(later.deleted)
            later = later.later
        return list(counted.elements())


class IncrementalAnswer:
    """The answer of one plan and what the last step did to it.

    Attributes:
        rows: the plan's rows with their weights.
        reading: to be held while the plan takes a step, since other threads read the answer.
    """

    def __init__(self, state: PlanState, names: Sequence[str], *, ask: bool, ordered: bool) -> None:
        self.vars = () if ask else tuple(names)
        self.rows: Delta = {}
        self.reading = threading.Lock()
        self._names = names
        self._decode = state.decoder(names)
        self._places = state.places(names)
        self._top = state.top
        self._ask = ask
        self._ordered = ordered
        self._newest: AnswerChange | None = None
        # What steps that change nothing give until the next that does.
        self._unchanged: AnswerChange | None = None
        self._shown_revision = -1

    def step(self, delta: Delta, *, told: bool) -> AnswerChange:
        """Apply a change, while `reading` is held; ``told``: somebody asks which rows came and went."""
        if not delta and self._unchanged is not None and not self._reordered():
            return self._unchanged
        deleted: list[Solution] = []
        inserted: list[Solution] = []
        mine = self.rows
        decode = self._decode
        ordered: Sequence[IdRow] | Delta = delta
        if self._ordered and self._top is not None and len(delta) > 1:
            ordered = self._top.sorted(list(delta))
        for row in ordered:
            weight = delta[row]
            total = mine.get(row, 0) + weight
            if total:
                mine[row] = total
            else:
                del mine[row]
            if not told:
                continue
            if weight == 1:
                inserted.append(decode(row))
            elif weight == -1:
                deleted.append(decode(row))
            else:
                (inserted if weight > 0 else deleted).extend([decode(row)] * abs(weight))
        rows: list[Solution] | None = None
        if self._ask:
            rows = []
        elif self._ordered:
            same = not delta and self._newest is not None and not self._reordered()
            rows = self._newest.rows if same and self._newest is not None else self.whole().rows
        change = AnswerChange(self, deleted, inserted, bool(mine) if self._ask else None, rows)
        if self._newest is not None:
            self._newest.later = change
        self._newest = change
        if self._top is not None:
            self._shown_revision = self._top.revision
        self._unchanged = change if not delta else None
        return change

    def _reordered(self) -> bool:
        """True when the order of the answer may be another than that of the last one given."""
        return self._top is not None and self._top.revision != self._shown_revision

    def rows_after(self, change: AnswerChange) -> list[Solution]:
        """The whole answer after a step that may not be the last; called in any thread."""
        with self.reading:
            # Of what came before `settle` the last step is known, and the rows here are not its answer.
            rows = change.known_later()
            return change.undone(self._decoded(self.rows) if rows is None else rows)

    def whole(self) -> Answer:
        """The whole answer after the last step."""
        if self._ask:
            return Answer((), [], False, bool(self.rows))
        if self._top is not None:
            return Answer(self.vars, [self._decode(row) for row in self._top.rows()], self._ordered)
        return Answer(self.vars, self._decoded(self.rows), self._ordered)

    def equals(self, other: IncrementalAnswer) -> bool:
        """True when both, perhaps of different plans, are the same answer."""
        return bool(self.rows) == bool(other.rows) if self._ask else self._ids() == other._ids()

    def _ids(self) -> Delta:
        """The rows in ids and in the columns of the answer, with their weights."""
        found: Delta = {}
        for row, weight in self.rows.items():
            own = tuple([row[place] if place >= 0 else 0 for place in self._places])
            found[own] = found.get(own, 0) + weight
        return found

    def settle(self) -> None:
        """The plan ends: what was given out must not need it any more."""
        if self._newest is not None:
            self._newest.settle()
        with self.reading:
            self.rows = {}

    def _decoded(self, rows: Mapping[IdRow, int]) -> list[Solution]:
        ordered: Sequence[IdRow] = list(rows)
        if self._ordered and self._top is not None:
            ordered = self._top.sorted(ordered)
        decode = self._decode
        return [solution for row in ordered for solution in [decode(row)] * rows[row]]


class RecomputedAnswer:
    """An answer that was computed anew, and the one before; what changed is worked out when asked for."""

    def __init__(
        self,
        names: tuple[str, ...],
        before: Sequence[Solution],
        rows: Sequence[Solution],
        boolean: bool | None,
    ) -> None:
        self.vars = names
        self.rows = rows
        self.boolean = boolean
        self._before = before

    @cached_property
    def deleted(self) -> list[Solution]:
        """The rows that are not there any more."""
        return difference(self._before, self.rows)

    @cached_property
    def inserted(self) -> list[Solution]:
        """The rows that are new."""
        return difference(self.rows, self._before)
