"""In a replay tables fall behind, and are read anew, where they did so the first time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .recompute import FreshRows, Recomputer, Swap
from .table import Table


@dataclass(slots=True)
class Past:
    """Where tables fell behind and were read anew before a crash, by their names: a replay repeats it."""

    behind: set[tuple[str, int]] = field(default_factory=set)
    swaps: set[tuple[str, int]] = field(default_factory=set)


class TableReplay:
    """The tables of one registry while a journal is replayed."""

    def __init__(self, past: Past, recomputer: Recomputer) -> None:
        """Repeat what ``past`` tells; rows are read by the recomputer, at once."""
        self._past = past
        self._recomputer = recomputer
        self._fresh: dict[tuple[str, int], tuple[FreshRows, int]] = {}

    def fell_behind(self, version: int, tables: Iterable[Table]) -> list[Table]:
        """The tables that fell behind at the commit of a version, touched by it themselves or not."""
        behind = self._past.behind
        if not behind:
            return []
        return [table for table in tables if not table.blind and (table.name, version) in behind]

    def read(self, version: int, tables: Iterable[Table]) -> None:
        """At the versions at which rows were read anew they are read again."""
        swaps = self._past.swaps
        for table in tables if swaps else ():
            if (table.name, version) in swaps and table.blind:
                swap = self._recomputer.read([table])
                self._fresh[table.name, version] = swap.fresh[0], swap.at_ms

    def swap(self, names: Sequence[str], version: int) -> Swap | None:
        """The rows of tables that were read at a version; None when none of them was."""
        found = [each for name in names if (each := self._fresh.pop((name, version), None)) is not None]
        return Swap(version, found[0][1], [fresh for fresh, _ in found]) if found else None

    def close(self) -> None:
        """Give back what was read for turns that are not in the journal."""
        for fresh, _ in self._fresh.values():
            fresh.table.give_back(fresh.rows)
        self._fresh.clear()
