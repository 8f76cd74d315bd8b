"""What a commit does to a table: changed rows, all rows anew, or not known yet."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..element import Solution
from ..rows import Delta, merge

if TYPE_CHECKING:
    from quadrill.store.quads.frozen import FrozenReader


@dataclass(slots=True)
class CommitOrder:
    """What orders commits and those who look at tables between two of them.

    ``lock`` is held while a commit becomes visible and what it changes is worked out; ``made_at`` is the wall
    clock time of the newest commit, read under it.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    made_at: int = 0


@dataclass(frozen=True, slots=True)
class RowChange:
    """How often each row comes (positive) or goes (negative)."""

    weights: Mapping[Solution, int]


@dataclass(frozen=True, slots=True)
class AllRows:
    """All rows after the commit, in their order."""

    rows: Sequence[Solution]


@dataclass(frozen=True, slots=True)
class Recompute:
    """Too much to be worked out at the commit; the rows before it serve until it is done."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Of a part that is looked up: what changed is not known, ``before`` is the dataset without it."""

    before: FrozenReader


Change: TypeAlias = RowChange | AllRows | Recompute | Replaced


@dataclass(frozen=True, slots=True)
class VersionedChange:
    """The change of one table by one commit; ``at_ms`` is the commit's wall clock time."""

    version: int
    at_ms: int
    change: Change


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change of one table as queries take it.

    ``delta`` holds rows of ids. ``listed`` is set for a table whose rows have an order: all rows, in it.
    ``renewals`` counts commits that replaced a part which is looked up; ``delta`` is what came after them.
    """

    delta: Delta
    listed: Sequence[Solution] | None = None
    renewals: int = 0

    def __bool__(self) -> bool:
        return bool(self.delta) or self.listed is not None or bool(self.renewals)

    def then(self, later: TableChange) -> TableChange:
        """This change and a later one as one."""
        if later.renewals:
            return TableChange(later.delta, later.listed, self.renewals + later.renewals)
        listed = self.listed if later.listed is None else later.listed
        return TableChange(merge(dict(self.delta), later.delta), listed, self.renewals)
