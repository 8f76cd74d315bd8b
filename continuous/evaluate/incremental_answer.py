"""The answer of a plan, kept up to date by the changes of its rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from ..element import Solution
from ..plan.plan_state import PlanState
from ..rows import Delta, IdRow
from .answer import Answer, AnswerChange


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
