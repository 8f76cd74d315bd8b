"""Which tables become one, because their parts differ in constants alone (docs/decisions/0266).

    third table of a kind  ->  a thread reads the base  ->  in a turn the tables become members of it
    a later part           ->  a member at once, nothing is read

What a member reads is what its table would have, version by version, so nothing but costs depends on when
this happens, and a replay does without.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyoxigraph import Literal

from quadrill.store.errors import ConflictError, LimitError, QuadrillError

from ..algebra.canonical import Canonical, Lifted, lifted
from ..algebra.nodes import Term
from ..algebra.triggers import triggers
from ..element import Solution
from ..streams.terms import TermForms
from .base import BaseTable, MemberTable
from .table import SharedTable

if TYPE_CHECKING:
    from .table_registry import TableRegistry

log = logging.getLogger("quadrill.continuous")

LEAST_MEMBERS = 3
"""Fewer tables stay alone."""
FREE_ROWS = 1_000
"""A base may have so many rows anyway."""
ROWS_A_MEMBER = 100
"""And so many a member: each table that a commit touches keeps writers waiting."""
_AGAIN = 1.5
"""A base that was too large is tried again when it may have so many times the rows."""
_EACH = 1_000


@dataclass(slots=True)
class Base:
    """A base, or one that is being read.

    Attributes:
        places: of the constants in which the members differ.
        fixed: the other constants.
        is_open: it takes members.
    """

    table: BaseTable
    places: tuple[int, ...]
    fixed: tuple[Term, ...]
    is_open: bool = False

    def takes(self, constants: Sequence[Term]) -> bool:
        """True for the constants of a part that can be a member."""
        return _split(constants, self.places)[1] == self.fixed


@dataclass(slots=True)
class Group:
    """Parts that are equal but for constants.

    Attributes:
        alone: their tables, and what was lifted.
        bases: those that are there or being read.
        refused: how many rows a base might have had when it was too large, by its places.
    """

    alone: dict[SharedTable, Lifted] = field(default_factory=dict)
    bases: list[Base] = field(default_factory=list)
    refused: dict[tuple[int, ...], int] = field(default_factory=dict)


class Groups:
    """The groups of one catalogue, whose lock is held wherever they change."""

    def __init__(self, catalogue: TableRegistry) -> None:
        self._catalogue = catalogue
        self._groups: dict[str, Group] = {}
        self._of: dict[SharedTable, tuple[str, Group]] = {}
        self._moving: list[Base] = []
        self._forms = TermForms()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.factor = 8
        """A base may have so many times the rows of its members' tables; 0 for none."""

    # --- registrations --------------------------------------------------------------------------

    @contextmanager
    def newcomer(self, scope: str, form: Canonical) -> Iterator[Lifted | None]:
        """What a base may take: its constants are not forgotten meanwhile. Not under the catalogue's lock.

        Others read tables while they hold the lock of the terms.
        """
        lift = lifted(form) if self.factor else None
        if lift is None or f"{scope} {lift.text}" not in self._groups:
            yield None
            return
        terms = self._catalogue.terms
        with terms.planning:
            ids = [terms.dictionary.ids[term] for term in self._stored(lift.constants)]
            terms.dictionary.pin(ids)
        try:
            yield lift
        finally:
            terms.dictionary.unpin(ids)

    def member(self, scope: str, lift: Lifted, table: SharedTable) -> MemberTable | None:
        """A new member that stands for a table that has not been read; None when no base takes it."""
        group = self._groups.get(f"{scope} {lift.text}")
        for base in () if group is None else group.bases:
            if base.is_open and base.takes(lift.constants):
                return self._make(base, table, lift)
        return None

    def joined(self, table: SharedTable, scope: str, form: Canonical) -> None:
        """A table was made; with others of its kind it may become one."""
        lift = lifted(form) if self.factor else None
        if lift is None:
            return
        key = f"{scope} {lift.text}"
        group = self._groups.setdefault(key, Group())
        group.alone[table] = lift
        self._of[table] = key, group

    def left(self, table: SharedTable) -> None:
        """A table is gone, or a base."""
        key, group = self._of.pop(table, ("", None))
        if group is None:
            return
        group.alone.pop(table, None)
        group.bases = [base for base in group.bases if base.table is not table]
        if not (group.alone or group.bases):
            del self._groups[key]

    def alone_because(self, table: SharedTable) -> str | None:
        """Why a table is alone though others differ from it in constants alone; None for no reason."""
        _, group = self._of.get(table, ("", None))
        if group is None or len(group.alone) < LEAST_MEMBERS:
            return None
        if group.refused:
            return f"a table of all would have more than {max(group.refused.values())} rows"
        return None

    # --- making a base --------------------------------------------------------------------------

    def consider(self, table: SharedTable) -> None:
        """Read a base for a table and those like it, if there are enough; in a thread, where there are."""
        with self._catalogue.order:
            found = self._candidate(table)
        if found is None:
            return
        base, tables = found
        if self._catalogue.recomputer.threaded:
            thread = threading.Thread(target=self._read, args=found, name="quadrill-static-base", daemon=True)
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()
        else:
            self._read(base, tables)

    def close(self) -> None:
        """End the threads."""
        self._closed = True
        for thread in self._threads:
            thread.join()

    def consider_all(self) -> None:
        """After a replay, in which no table becomes one with others."""
        for group in list(self._groups.values()):
            for table in list(group.alone):
                if table in self._of:
                    self.consider(table)

    def _candidate(self, table: SharedTable) -> tuple[Base, list[SharedTable]] | None:
        """The base with the fewest lifted constants that enough tables could be members of."""
        key, group = self._of.get(table, ("", None))
        if group is None or len(group.alone) < LEAST_MEMBERS:
            return None
        mine = group.alone[table].constants
        differing = {
            tuple(place for place, term in enumerate(mine) if lift.constants[place] != term)
            for other, lift in group.alone.items()
            if other is not table
        }
        for places in sorted(differing, key=lambda each: (len(each), each)):
            fixed = _split(mine, places)[1]
            tables = [t for t, lift in group.alone.items() if _split(lift.constants, places)[1] == fixed]
            if (
                len(tables) < LEAST_MEMBERS
                or any(base.places == places and base.fixed == fixed for base in group.bases)
                or self._most(tables) < _AGAIN * group.refused.get(places, 0)
            ):
                continue
            base = Base(self._new(key, group.alone[table], table, places), places, fixed)
            group.bases.append(base)
            self._of[base.table] = key, group
            return base, tables
        return None

    def _new(self, scope: str, lift: Lifted, like: SharedTable, places: tuple[int, ...]) -> BaseTable:
        pattern, more = lift.general(places)
        columns = (*like.part.vars, *more)
        form = Canonical(f"{pattern!r}", pattern, columns, {}, pattern)
        found = triggers(pattern)
        assert found is not None, "lifting constants adds no SERVICE"
        key = f"base {scope} {form.text} {[each.name for each in columns]!r}"
        terms = self._catalogue.terms
        return BaseTable(key, form, len(like.part.vars), found, like.new_background, terms)

    def _read(self, base: Base, tables: Sequence[SharedTable]) -> None:
        _, group = self._of[base.table]
        most = self._most(tables)
        try:
            self._catalogue.read_base(base.table, lambda read: self._at_most(read, base.table, most))
        except Exception as error:
            if not isinstance(error, QuadrillError):
                log.exception("the tables of a group could not become one")
            with self._catalogue.order:
                group.refused[base.places] = most
                self.left(base.table)
            return
        with self._catalogue.order:
            self._moving.append(base)

    def _most(self, tables: Sequence[SharedTable]) -> int:
        """How many rows a base may have that takes their place."""
        rows = sum(each.count for each in tables)
        return max(FREE_ROWS, ROWS_A_MEMBER * len(tables), self.factor * rows)

    def _at_most(self, rows: Iterable[Solution], base: BaseTable, most: int) -> Iterator[Solution]:
        budget = self._catalogue.budget
        for number, row in enumerate(rows, 1):
            if number % _EACH == 0:
                base.count = number
                if self._closed:
                    raise ConflictError("the catalogue is closed")
                if budget.most and self._catalogue.rows() > budget.most:
                    raise LimitError("the limit of static rows", limit=budget.most)
            if number > most:
                raise LimitError(f"the table of a group would have more than {most} rows", limit=most)
            yield row

    # --- the engine's thread --------------------------------------------------------------------

    def adopt(self) -> None:
        """Between two turns: tables whose base has been read become members of it."""
        if self._moving:
            with self._catalogue.order:
                for base in list(self._moving):
                    self._adopt(base)

    def _adopt(self, base: Base) -> None:
        catalogue, table = self._catalogue, base.table
        if table.version > catalogue.version:
            return
        catalogue.bring_up(table)
        if table.behind is not None:
            return
        _, group = self._of[table]
        waiting = [(each, lift) for each, lift in group.alone.items() if base.takes(lift.constants)]
        for each, lift in waiting:
            if self._can_move(each):
                catalogue.replace(each, self._make(base, each, lift))
        base.is_open = True
        if not any(base.takes(lift.constants) for lift in group.alone.values()):
            self._moving.remove(base)
            # Until now the base was held by being in line here.
            catalogue.release(table)

    def _can_move(self, table: SharedTable) -> bool:
        """True when all who use the table have begun, and it is where the base is."""
        catalogue = self._catalogue
        if not table.live or table.problem is not None:
            return False
        if table.behind is None:
            catalogue.bring_up(table)
        reading = sum(len(reader.places_of(table)) for reader in table.readers)
        return table.behind is None and table.version == catalogue.version and reading == table.users

    def _make(self, base: Base, table: SharedTable, lift: Lifted) -> MemberTable:
        """In the engine's thread, which alone forgets terms, or of a `newcomer`."""
        dictionary = self._catalogue.terms.dictionary
        own = _split(lift.constants, base.places)[0]
        ids = tuple([dictionary.ids[term] for term in self._stored(own)])
        dictionary.pin(ids)
        member = MemberTable(table.key, table.part, base.table, ids)
        base.table.members[ids] = member
        base.table.users += 1
        return member

    def _stored(self, constants: Iterable[Term]) -> list[Term]:
        """The constants in the form in which the store gives them back."""
        return [self._forms.literal(each) if isinstance(each, Literal) else each for each in constants]


def _split(constants: Sequence[Term], places: Sequence[int]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The constants at the places, and the others."""
    return (
        tuple(constants[place] for place in places),
        tuple(term for place, term in enumerate(constants) if place not in places),
    )
