"""What a commit changes in the rows of tables, worked out before it is made and behind it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from quadrill.store.changes.commit import Commit

from ..element import Solution
from .changes import AllRows, Change, Recompute, RowChange
from .index import Touched
from .keyed_rows import TooManyRowsError, rows_with
from .table import Table
from .table_group import TableGroup

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

MOST_KEYS = 2_000
"""A commit that may change rows with more keys than this has the tables read anew."""
KEY_S = 0.00002
"""Seconds of a key, looked up before a commit and after it; a quick table may be cheaper as a whole."""
_FEW_KEYS = 100
MOST_ROWS = 20_000
"""So has one whose keys reach more rows than this."""
QUICK_S = 0.01
"""Tables whose changed rows are not known by keys are evaluated at the commit when that took no longer."""

Before: TypeAlias = Counter[Solution] | Recompute | None
"""The rows that a commit may change, before it; None when all are to be read behind it."""


class CommitDeltas:
    """The evaluations that a commit needs; called by writers, one at a time, while nothing becomes visible.

    Attributes:
        unlimited: in a replay, which knows itself what was too much.
    """

    def __init__(self, store: QuadStore) -> None:
        """Work on the tables of one store."""
        self._store = store
        self.unlimited = False

    def before(self, group: TableGroup, touched: Touched, commit: Commit) -> Before:
        """The rows of a group that the commit may change, before it."""
        version = commit.version
        limited = self._is_limited(group)
        if touched.whole:
            if group.is_held and (not limited or group.took_s <= QUICK_S):
                return None
            return _anew(group, f"the commit of version {version} does not tell which rows change")
        if limited and touched.size > MOST_KEYS:
            return _anew(group, f"version {version} changed {touched.size} keys, the limit is {MOST_KEYS}")
        if group.is_held and limited and touched.size > _FEW_KEYS:
            took_s = group.took_s
            if touched.size * KEY_S > took_s <= QUICK_S:
                return None
        return self._rows(group, touched)

    def after(self, group: TableGroup, touched: Touched, before: Before) -> Mapping[Table, Change]:
        """The changes of its tables that are not blind, behind the commit that `before` was asked for."""
        if before is None:
            return {table: self._all_rows(table) for table in group.tables if not table.blind}
        after = before if isinstance(before, Recompute) else self._rows(group, touched)
        if isinstance(after, Recompute) or isinstance(before, Recompute):
            return dict.fromkeys([table for table in group.tables if not table.blind], Recompute())
        divided = group.divided(difference(after, before))
        return {table: RowChange(each) for table, each in divided.items() if each and not table.blind}

    def _is_limited(self, group: TableGroup) -> bool:
        """Look-ups take a copy where there is too much, whether or not it is a replay."""
        return not self.unlimited or not group.is_held

    def _rows(self, group: TableGroup, touched: Touched) -> Counter[Solution] | Recompute:
        at_most = MOST_ROWS if self._is_limited(group) else None
        try:
            return rows_with(self._store, group.background, group.part, touched.keys, at_most)
        except TooManyRowsError:
            return _anew(group, f"a commit reached more than {MOST_ROWS} rows")
        except Exception as error:
            log.warning(
                "the static parts of %s are read anew: %s", [each.name for each in group.tables], error
            )
            return Recompute()

    def _all_rows(self, table: Table) -> Change:
        began = time.perf_counter()
        width = len(table.part.vars)
        try:
            with table.background.start(self._store, table.part) as result:
                rows = [row[:width] for row in result.rows()]
        except Exception as error:
            log.warning("the static part %s is read anew: %s", table.name, error)
            return Recompute()
        table.took_s = time.perf_counter() - began
        return AllRows(rows)


def _anew(group: TableGroup, why: str) -> Recompute:
    for table in group.tables:
        table.anew_because = why
    return Recompute()


def difference(after: Counter[Solution], before: Counter[Solution]) -> dict[Solution, int]:
    """``after - before`` without zeros."""
    weights = {row: count - before[row] for row, count in after.items() if count != before[row]}
    weights.update((row, -count) for row, count in before.items() if row not in after)
    return weights
