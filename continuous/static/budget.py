"""How many rows of static parts may be in memory (docs/decisions/0170-tables-that-follow-the-store.md).

A registration looks up what would be over the limits, and is refused where that cannot be. What is there goes
on when commits make it grow: a query that ran does not end because of the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from quadrill.store.errors import LimitError

from ..element import Solution

_EACH = 1_000
"""Rows between two looks at the limits."""


class Held(Protocol):
    """What a query reads."""

    @property
    def count(self) -> int:
        """How many rows it has."""
        ...


class Counted(Protocol):
    """A table, and how many rows it has, or has read so far."""

    count: int


class StaticBudget:
    """The rows of static parts that queries may have in memory, counted as often as the parts have them.

    Attributes:
        most: of all tables together, a shared one counted once; 0 for no limit.
        most_of_query: of the tables that one query reads, shared ones included; 0 for no limit.
    """

    def __init__(self, most: int = 0, most_of_query: int = 0) -> None:
        self.most = most
        self.most_of_query = most_of_query

    def limited(
        self,
        rows: Iterable[Solution],
        table: Counted,
        tables: Mapping[str, Counted],
    ) -> Iterator[Solution]:
        """The same rows, counted in their table while they are read for a registration.

        Args:
            rows: of a part.
            table: what they are read for.
            tables: all tables, this one included.

        Raises:
            LimitError: they are more than there is room for; the table then counts none.
        """
        table.count = 0
        try:
            number = 0
            for number, row in enumerate(rows, 1):
                if number % _EACH == 0:
                    table.count = number
                    self._check_all(tables)
                    self._check_query([number])
                yield row
            table.count = number
            self._check_all(tables)
        except BaseException:
            table.count = 0
            raise

    def check_query(self, tables: Sequence[Held]) -> None:
        """Raise LimitError when the tables of a query have too many rows together."""
        self._check_query([table.count for table in tables])

    def _check_all(self, tables: Mapping[str, Counted]) -> None:
        if self.most and (rows := sum(table.count for table in list(tables.values()))) > self.most:
            raise LimitError(
                f"the static parts of all queries would have {rows} rows or more in memory, the limit is "
                f"{self.most}",
                limit=self.most,
                hint="Narrow the static parts, drop queries, or raise the setting max_static_rows",
            )

    def _check_query(self, counts: Sequence[int]) -> None:
        rows = sum(counts)
        if self.most_of_query and rows > self.most_of_query:
            raise LimitError(
                f"the static parts of the query have {rows} rows or more, the limit of a query is "
                f"{self.most_of_query}",
                limit=self.most_of_query,
                hint="Narrow the static parts, or raise the setting max_query_static_rows",
            )
