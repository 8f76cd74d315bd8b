"""What a commit does to a table: changed rows, all rows anew, or not known yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..element import Row
from ..rows import Delta


@dataclass(frozen=True, slots=True)
class RowChange:
    """How often each row comes (positive) or goes (negative)."""

    weights: Mapping[Row, int]


@dataclass(frozen=True, slots=True)
class AllRows:
    """All rows after the commit, in their order."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Recompute:
    """Too much to be worked out at the commit; the rows before it serve until it is done."""


Change: TypeAlias = RowChange | AllRows | Recompute


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
    """

    delta: Delta
    listed: Sequence[Row] | None = None

    def __bool__(self) -> bool:
        return bool(self.delta) or self.listed is not None
