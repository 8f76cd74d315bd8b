"""What a commit changes in the rows of a table, worked out before it is made and behind it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadrill.store.changes.commit import Commit

from ..element import Solution
from .changes import AllRows, Change, Recompute, Replaced, RowChange
from .deltas import TooManyRowsError, difference, rows_with
from .index import Touched
from .lookup import LookupTable
from .table import SharedTable

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

MOST_KEYS = 2_000
"""A commit that may change rows with more keys than this has the table read anew."""
KEY_S = 0.00002
"""Seconds of a key, looked up before a commit and after it; a quick table may be cheaper as a whole."""
_FEW_KEYS = 100
MOST_ROWS = 20_000
"""So has one whose keys reach more rows than this."""
QUICK_S = 0.01
"""A table whose changed rows are not known by keys is evaluated at the commit when that took no longer."""


@dataclass(slots=True)
class Past:
    """What a replay knows of the first time: commits at which tables fell behind, versions read anew."""

    behind: set[tuple[str, int]] = field(default_factory=set)
    swaps: set[tuple[str, int]] = field(default_factory=set)


class CommitDeltas:
    """The evaluations that a commit needs; called by writers, one at a time, while nothing becomes visible.

    Attributes:
        past: during a replay, what happened the first time; then without limits.
    """

    def __init__(self, store: QuadStore) -> None:
        """Work on the tables of one store."""
        self._store = store
        self.past: Past | None = None

    def before(
        self, table: SharedTable, touched: Touched, commit: Commit
    ) -> Counter[Solution] | Change | None:
        """The rows that the commit may change, before it; None when all are to be read behind it."""
        version = commit.version
        if isinstance(table, LookupTable):
            if touched.whole or touched.size > MOST_KEYS:
                return Recompute()
            return self._rows(table, touched, limited=True)
        past = self.past
        if past is not None and (table.name, version) in past.behind:
            return Recompute()
        limited = past is None
        if touched.whole:
            if not limited or table.took_s <= QUICK_S:
                return None
            table.anew_because = f"the commit of version {version} does not tell which rows change"
            return Recompute()
        if limited and touched.size > MOST_KEYS:
            table.anew_because = f"version {version} changed {touched.size} keys, the limit is {MOST_KEYS}"
            return Recompute()
        if limited and touched.size * KEY_S > table.took_s <= QUICK_S and touched.size > _FEW_KEYS:
            return None
        return self._rows(table, touched, limited=limited)

    def after(
        self, table: SharedTable, touched: Touched, before: Counter[Solution] | Change | None
    ) -> Change | None:
        """The change, behind the commit, of which `before` gave the rows; None when there is none."""
        if isinstance(before, Recompute):
            return before
        if before is None:
            return self._all_rows(table)
        after = self._rows(table, touched, limited=self.past is None or isinstance(table, LookupTable))
        if isinstance(after, Recompute):
            return after
        assert not isinstance(before, RowChange | AllRows | Replaced)
        weights = difference(after, before)
        return RowChange(weights) if weights else None

    def _rows(self, table: SharedTable, touched: Touched, *, limited: bool) -> Counter[Solution] | Recompute:
        try:
            at_most = MOST_ROWS if limited else None
            return rows_with(self._store, table.background, table.part, touched.keys, at_most)
        except TooManyRowsError:
            table.anew_because = f"a commit reached more than {MOST_ROWS} rows"
            return Recompute()
        except Exception as error:
            log.warning("the static part %s is read anew: %s", table.name, error)
            return Recompute()

    def _all_rows(self, table: SharedTable) -> Change:
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
