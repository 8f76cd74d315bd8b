"""One table for static parts that differ in constants alone, and the selections of it that queries read."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..algebra.canonical import Canonical
from ..algebra.static import StaticPattern
from ..algebra.triggers import Trigger
from ..evaluate.static_evaluator import StaticEvaluator
from ..rows import EMPTY, Delta, IdRow, add
from .changes import RowChange, TableChange, VersionedChange
from .columnar import Choice
from .shared_index import Columns, TableIndex, TableIndexes
from .table import Reader, SharedTable

if TYPE_CHECKING:
    from ..windows.engine_terms import EngineTerms
    from .shared_arrangement import SharedArrangement

Constants: TypeAlias = IdRow
"""The ids of what one member has where the members differ."""


class BaseTable(SharedTable):
    """The rows of a part whose constants are columns, the last ones, held by the values of these columns.

    Queries do not read it, its members do: each has the rows with its constants, without these columns.

    Attributes:
        width: the columns of a member.
        parts: by constants the rows, without them.
        members: by constants.
    """

    def __init__(
        self,
        key: str,
        form: Canonical,
        width: int,
        triggers: tuple[Trigger, ...],
        background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
    ) -> None:
        self.width = width
        self.parts: dict[Constants, Delta] = {}
        self.members: dict[Constants, MemberTable] = {}
        super().__init__(key, form, "static", triggers, background, terms, ordered=False)

    @property
    def rows(self) -> Delta:
        """All rows with their constants, in a dictionary of their own."""
        return {(*row, *part): weight for part, rows in self.parts.items() for row, weight in rows.items()}

    @rows.setter
    def rows(self, rows: Delta) -> None:
        self.parts = {}
        self._change(rows)

    def of_member(self, change: RowChange, constants: Constants) -> RowChange:
        """What a change of rows that has not been taken means for a member."""
        width, terms = self.width, self._ids.terms
        wanted = tuple([terms[each] for each in constants])
        return RowChange(
            {row[:width]: weight for row, weight in change.weights.items() if row[width:] == wanted}
        )

    @property
    def told(self) -> Sequence[MemberTable]:
        """The members that queries read."""
        return [each for each in list(self.members.values()) if each.readers]

    def _change(self, delta: Delta) -> tuple[list[IdRow], list[IdRow]]:
        width, parts = self.width, self.parts
        come: list[IdRow] = []
        gone: list[IdRow] = []
        for whole, weight in delta.items():
            row, constants = whole[:width], whole[width:]
            part = parts.get(constants)
            if part is None:
                parts[constants] = {row: weight}
                come.append(whole)
                continue
            before = row in part
            add(part, row, weight)
            after = row in part
            if after and not before:
                come.append(whole)
            elif before and not after:
                gone.append(whole)
                if not part:
                    del parts[constants]
        return come, gone

    def _index(self, delta: Delta) -> None:
        for constants, change in self._divided(delta).items():
            member = self.members.get(constants)
            if member is not None:
                member.by_columns.apply(change)

    def _tell_views(self, delta: Delta) -> None:
        for constants, change in self._divided(delta).items():
            member = self.members.get(constants)
            if member is not None:
                for view in list(member.views):
                    view.ahead_by(change)

    def _tell_took(self, version: int, at_ms: int, change: TableChange) -> None:
        for constants, rows in self._divided(change.delta).items():
            member = self.members.get(constants)
            if member is not None:
                for reader in list(member.readers):
                    reader.took(member, version, at_ms, TableChange(rows))

    def _tell_behind(self, version: int) -> None:
        for member in self.told:
            for reader in list(member.readers):
                reader.fell_behind(member, version)

    def _tell_caught_up(self, version: int, at_ms: int, change: TableChange) -> None:
        divided = self._divided(change.delta)
        for member in self.told:
            rows = TableChange(divided.get(member.constants, {}))
            for reader in list(member.readers):
                reader.caught_up(member, version, at_ms, rows)

    def _divided(self, delta: Delta) -> Mapping[Constants, Delta]:
        width = self.width
        found: dict[Constants, Delta] = {}
        for row, weight in delta.items():
            found.setdefault(row[width:], {})[row[:width]] = weight
        return found


class MemberTable:
    """The rows of a base with certain constants: what a query reads as if it were a table of its own.

    Attributes:
        key: that of the part; queries with an equal key share the member.
        name: as that of a table of its own would be.
        part: pattern and columns under canonical names.
        constants: those of its rows.
        users: queries that read it or are about to.
        by_columns: the indexes that queries look into, of its rows alone.
        views: of the queries that do.
    """

    listed: None = None

    def __init__(self, key: str, part: StaticPattern, base: BaseTable, constants: Constants) -> None:
        self.key = key
        self.name = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.part = part
        self.base = base
        self.constants = constants
        self.users = 0
        self.readers: list[Reader] = []
        self.views: list[SharedArrangement] = []
        self.by_columns = TableIndexes(base.by_columns.lock)

    @property
    def rows(self) -> Delta:
        """Its rows now; they change in the engine's thread."""
        return self.base.parts.get(self.constants, EMPTY)

    @property
    def count(self) -> int:
        """How many there are, each as often as it is there."""
        return sum(list(self.rows.values()))

    @property
    def version(self) -> int:
        """The version of the store that the rows reflect."""
        return self.base.version

    @property
    def behind(self) -> int | None:
        """See `SharedTable`."""
        return self.base.behind

    @property
    def problem(self) -> str | None:
        """See `SharedTable`."""
        return self.base.problem

    @property
    def took_s(self) -> float:
        """See `SharedTable`: of the base."""
        return self.base.took_s

    @property
    def choice(self) -> Choice | None:
        """See `SharedTable`: of the base."""
        return self.base.choice

    @property
    def from_disk(self) -> int | None:
        """See `SharedTable`: of the base."""
        return self.base.from_disk

    @property
    def anew_because(self) -> str | None:
        """See `SharedTable`: of the base."""
        return self.base.anew_because

    @property
    def blind(self) -> bool:
        """See `SharedTable`."""
        return self.base.blind

    @property
    def waiting(self) -> Iterator[VersionedChange]:
        """See `SharedTable`: those that concern it."""
        for each in self.base.waiting:
            if not isinstance(each.change, RowChange):
                yield each
            elif own := self.base.of_member(each.change, self.constants).weights:
                yield VersionedChange(each.version, each.at_ms, RowChange(own))

    @property
    def new_background(self) -> Callable[[], StaticEvaluator]:
        """See `SharedTable`."""
        return self.base.new_background

    @property
    def ready(self) -> threading.Event:
        """Set when the base has been read."""
        return self.base.ready

    def acquire(self, columns: Columns) -> TableIndex:
        """See `SharedTable`."""
        return self.by_columns.acquire(columns, lambda: self.rows)

    def take_over(self, table: SharedTable) -> None:
        """The queries of a table with the same rows at the same version read this one from now on."""
        self.users = table.users
        self.readers, table.readers = table.readers, []
        self.views, table.views = table.views, []
        self.by_columns.inherit(table.by_columns)
        for reader in self.readers:
            reader.exchange(table, self)
        for view in self.views:
            view.table = self

    def leave(self) -> None:
        """Nobody reads it any more."""
        del self.base.members[self.constants]
        self.base.unpin(self.constants)
