"""What one query sees of its static parts: their rows at one version, and the steps that lead to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quadrill.store.errors import LimitError

from ..algebra.canonical import Canonical, canonical
from ..algebra.rewrites import has_order
from ..algebra.static import StaticPattern
from ..algebra.triggers import triggers
from ..element import Solution
from ..evaluate.static_evaluator import StaticEvaluator
from ..rows import IdRow, difference
from .base import MemberTable
from .changes import TableChange
from .facts import GroupFacts, LookupFacts, TableFacts
from .keyed_rows import unfit
from .lookup import Lookup, LookupTable
from .own_table import OwnTable
from .progress import active
from .shared_arrangement import SharedArrangement
from .steps import Changes, StaticStep, Steps
from .table import SharedTable, Table

if TYPE_CHECKING:
    from ..windows.engine_terms import EngineTerms
    from .table_registry import TableRegistry

Unkeyed = Callable[[int, Collection[int]], str | None]
"""Why the plan cannot look a part up by keys, when those at some other places are looked up; None: it can."""


class StaticInputs:
    """The static parts of one query. Everything but the constructor is called in the engine's thread.

    With a catalogue the parts are shared tables that follow the store; `ready` gives the steps that the query
    may take. Without one, and for parts that cannot follow, `refresh` evaluates them.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[StaticPattern],
        new_background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        catalogue: TableRegistry | None,
        *,
        whole: bool = False,
    ) -> None:
        """Prepare the parts; `open` makes their tables.

        Args:
            name: the query's.
            parts: its static parts.
            new_background: makes what evaluates them.
            terms: the dictionary.
            catalogue: where shared tables are; None to share nothing and follow nothing.
            whole: the one part is the whole query, whose rows may have an order.
        """
        self.name = name
        self._catalogue = catalogue
        self._new_background = new_background
        self._background = new_background()
        self._terms = terms
        self.tables: list[Table | OwnTable] = []
        self.parts: list[StaticPattern] = []
        self._permutations: list[tuple[int, ...]] = []
        self._begun = False
        self._steps = Steps()
        self._own_version = -1
        self.held = False
        """True while the query takes its steps only when it is told to: refreshed by hand or by a timer."""
        # Called before the rows or the version may become others than at the last evaluation.
        self.before_news: Callable[[], None] = _nobody
        self._whole = whole
        self._forms: list[Canonical | None] = []
        self._lookups: dict[int, list[Lookup]] = {}
        self._held_because: dict[int, str] = {}
        self.looked_up: dict[int, str | None] = {}
        """The places of the parts that are not held, and why where nobody asked for it."""
        self._views: dict[int, list[SharedArrangement]] = {}
        for part in parts:
            self._arrange(part)

    def _arrange(self, part: StaticPattern) -> None:
        """Columns of parts that follow the store are in the order that equal parts have in common."""
        if self._catalogue is None or triggers(part.pattern) is None:
            self._forms.append(None)
            self.parts.append(part)
            self._permutations.append(tuple(range(len(part.vars))))
            return
        form = canonical(part.pattern, part.vars)
        columns = [each.name for each in form.columns]
        own = {form.names[each.name]: each for each in part.vars}
        self._forms.append(form)
        self.parts.append(replace(part, vars=tuple(own[name] for name in columns)))
        self._permutations.append(tuple(columns.index(form.names[each.name]) for each in part.vars))

    def open(
        self,
        unkeyed: Unkeyed | None = None,
        wish: str | None = None,
        earlier: Mapping[int, str | None] | None = None,
    ) -> None:
        """Find the tables or make them, which may take as long as evaluating the parts.

        Args:
            unkeyed: tells why a part cannot be looked up by keys (None: it can) beside those that are.
            wish: ``lookup`` where it can be, never (``table``), never and shared with no part that differs in
                constants (``own``), or where it is too large to be held.
            earlier: the places that were looked up before a restart, and are again; None decides it anew.

        Raises:
            QuadrillError: a part cannot be evaluated.
        """
        progress = active()
        progress.parts += len(self.parts)
        try:
            for place, form in enumerate(self._forms):
                progress.check()
                if form is None or self._catalogue is None:
                    self.tables.append(OwnTable(self._terms))
                else:
                    self._open(place, form, unkeyed, wish, earlier)
                progress.ready += 1
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        place: int,
        form: Canonical,
        unkeyed: Unkeyed | None,
        wish: str | None,
        earlier: Mapping[int, str | None] | None,
    ) -> None:
        """The table of a part that follows the store, or what stands for one that is looked up."""
        assert self._catalogue is not None
        part = self.parts[place]
        if unkeyed is None:
            reason: str | None = "the query is evaluated anew each time"
        else:
            reason = unfit(part) or unkeyed(place, self._lookups.keys())
        asked = wish == "lookup" if earlier is None else place in earlier
        if asked and reason is None:
            self._open_lookup(place, form, (earlier or {}).get(place))
            return
        ordered = self._whole and has_order(part.pattern)
        may_fall_back = wish is None and reason is None and earlier is None
        limited = active().limited or may_fall_back
        try:
            table = self._catalogue.table(
                part, form, self._new_background, ordered=ordered, limited=limited, alone=wish == "own"
            )
            self.tables.append(table)
            if limited:
                held = [each for each in self.tables if not isinstance(each, OwnTable)]
                self._catalogue.budget.check_query(held)
        except LimitError as error:
            if not may_fall_back:
                raise
            if len(self.tables) > place:
                self._catalogue.release(table)
                self.tables.pop()
            self._open_lookup(place, form, error.message)
            return
        if wish == "lookup" and reason is not None:
            self._held_because[place] = reason

    def _open_lookup(self, place: int, form: Canonical, why: str | None) -> None:
        assert self._catalogue is not None
        part = self.parts[place]
        table = self._catalogue.table(part, form, self._new_background, ordered=False, held=False)
        self.tables.append(table)
        self._lookups[place] = []
        self.looked_up[place] = why

    def look_into(self, place: int) -> Lookup:
        """What a join looks into for a part that is not held; before the query begins."""
        table = self.tables[place]
        assert self._catalogue is not None
        assert isinstance(table, LookupTable)
        self._lookups[place].append(self._catalogue.look_into(table))
        return self._lookups[place][-1]

    def lookups(self, place: int) -> Sequence[Lookup]:
        """What joins look into for a part that is not held."""
        return self._lookups.get(place, ())

    def can_share(self, place: int) -> bool:
        """True when other queries may look into the same rows of the part."""
        table = self.tables[place]
        return not isinstance(table, OwnTable | LookupTable)

    def view(self, place: int) -> SharedArrangement:
        """What a join looks into for a part that others may share; before the query begins."""
        table = self.tables[place]
        assert not isinstance(table, OwnTable)
        view = SharedArrangement(table)
        self._views.setdefault(place, []).append(view)
        return view

    def look_away(self) -> None:
        """No join looks into shared rows any more: others evaluate the query."""
        views, self._views = self._views, {}
        for each in [view for found in views.values() for view in found]:
            each.detach()

    def look_again(self) -> Changes:
        """A query that had begun has new joins, which see the parts that they look into `as_taken`.

        Returns:
            All rows of the other parts.
        """
        for place, views in self._views.items():
            for view in views:
                view.attach(self.untaken(place).delta)
        return self.as_taken(but=self._views)

    def waiting(self) -> Iterator[IdRow]:
        """The rows of steps that the query has not taken, read in pieces while steps come and go."""
        return self._steps.waiting()

    def abandon(self) -> None:
        """The query is gone; called in any thread, also while rubbish is collected."""
        if self._catalogue is None:
            self.close()
        else:
            self._catalogue.gone.append(self)

    def close(self) -> None:
        """Let the tables go; called where nobody walks over tables."""
        self._detach()
        tables, self.tables = self.tables, []
        for table in tables:
            if isinstance(table, OwnTable):
                table.release()
            else:
                if self in table.readers:
                    table.readers.remove(self)
                assert self._catalogue is not None
                self._catalogue.release(table)

    def stop(self) -> None:
        """The query has failed: it takes no steps any more, its description still tells of the tables."""
        self._detach()
        for table in self.tables:
            if not isinstance(table, OwnTable) and self in table.readers:
                table.readers.remove(self)

    def _detach(self) -> None:
        for lookups in self._lookups.values():
            for each in lookups:
                each.detach()
        for views in self._views.values():
            for view in views:
                view.detach()

    # --- what it is -----------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """True when some part follows the store by itself."""
        # Asked for at each evaluation.
        for table in self.tables:
            if not isinstance(table, OwnTable):
                return True
        return False

    @property
    def shares(self) -> bool:
        """True with a catalogue."""
        return self._catalogue is not None

    @property
    def has_own(self) -> bool:
        """True when some part is read only when asked for."""
        return any(isinstance(table, OwnTable) for table in self.tables)

    @property
    def version(self) -> int:
        """The version of the store that the query's rows reflect."""
        if self._catalogue is None or (self.tables and not self.follows):
            return self._own_version
        if not self._begun:
            return max([self._catalogue.version, *self._table_versions()])
        return self.version_when(self._catalogue.version)

    def version_when(self, passed: int) -> int:
        """The version of its rows at the turn of version ``passed``, if nothing has come for it since."""
        if self.held or self._steps:
            return self._steps.reached
        return max(self._steps.reached, passed)

    @property
    def passed(self) -> int:
        """The newest version whose turn has come."""
        return -1 if self._catalogue is None else self._catalogue.version

    @property
    def is_settled(self) -> bool:
        """True when no step waits and all rows are known."""
        return self._begun and not self._steps

    @property
    def behind(self) -> frozenset[int]:
        """The places of parts whose rows are not known at some version that has passed."""
        return frozenset(
            place
            for place, table in enumerate(self.tables)
            if not isinstance(table, OwnTable) and self._steps.is_behind(table)
        )

    @property
    def gaps(self) -> frozenset[tuple[int, int | None]]:
        """See `Steps.gaps`."""
        return self._steps.gaps

    def as_taken(self, but: Collection[int] = ()) -> Changes:
        """All rows of the parts that follow the store as the query has taken them, without waiting steps.

        Args:
            but: the places of parts that nobody asks for.
        """
        found: dict[int, TableChange] = {}
        for place, table in enumerate(self.tables):
            if isinstance(table, OwnTable) or place in but:
                continue
            found[place] = TableChange(difference(table.rows, self.untaken(place).delta))
        return found

    @property
    def begun(self) -> bool:
        """True once the query takes part."""
        return self._begun

    def facts(self, place: int) -> TableFacts:
        """What is known of the table of a part."""
        table = self.tables[place]
        if isinstance(table, OwnTable):
            choice = self._background.choice(self.parts[place])
            return TableFacts(table.count, self._own_version, choice=choice)
        lookup = self._lookup_facts(place)
        others = {each.name for each in table.readers if isinstance(each, StaticInputs) and each is not self}
        # What the query has not taken yet is in the table, but not among the rows that it reads.
        count = table.count - self._steps.rows_ahead(place)
        return TableFacts(
            count if lookup is None else lookup.rows,
            self.version,
            not self.held,
            tuple(sorted(others)),
            table.behind,
            table.problem,
            round(table.took_s, 6),
            table.choice,
            table.from_disk,
            lookup,
            self._held_because.get(place),
            None if lookup is None else self.looked_up[place] or "the registration asks for it",
            table.anew_because,
            self._group_facts(table),
        )

    def _group_facts(self, table: Table) -> GroupFacts | None:
        assert self._catalogue is not None
        if isinstance(table, MemberTable):
            return GroupFacts(table.base.name, len(table.base.members), table.base.count)
        reason = self._catalogue.groups.alone_because(table)
        return None if reason is None else GroupFacts(None, 1, table.count, reason)

    def _lookup_facts(self, place: int) -> LookupFacts | None:
        lookups = self._lookups.get(place)
        if lookups is None:
            return None
        facts = [each.facts() for each in lookups]
        return LookupFacts(
            sum(each.keys for each in facts),
            sum(each.rows for each in facts),
            sum(each.asked for each in facts),
            sum(each.found for each in facts),
        )

    def rows(self, place: int) -> list[Solution]:
        """The rows of a part in the order of its `parts` columns, each as often as it is there."""
        table = self.tables[place]
        if not isinstance(table, OwnTable) and table.listed is not None:
            return list(table.listed)
        found: list[Solution] = []
        for row, count in list(table.rows.items()):
            found += [self.decoded(row)] * count
        return found

    def decoded(self, row: IdRow) -> Solution:
        """A row of ids as terms."""
        terms = self._terms.dictionary.terms
        return tuple([terms[term_id] if term_id else None for term_id in row])

    def arranged(self, place: int, row: Solution) -> Solution:
        """A row of a part in the order of the columns that the query has itself."""
        return tuple([row[column] for column in self._permutations[place]])

    # --- moving on ------------------------------------------------------------------------------

    def known(self) -> bool:
        """True when the query can `begin` in this turn; False while rows are being read anew."""
        if self._begun or self._catalogue is None:
            return True
        self._catalogue.groups.adopt()
        tables = [table for table in self.tables if not isinstance(table, OwnTable)]
        for table in tables:
            self._catalogue.bring_up(table)
        return all(table.behind is None for table in tables)

    def begin(self) -> Changes:
        """The query begins in this turn, when all is `known`: all rows of the parts that it holds."""
        assert self._catalogue is not None
        changes: dict[int, TableChange] = {}
        for place, table in enumerate(self.tables):
            if isinstance(table, OwnTable):
                continue
            self._catalogue.bring_up(table)
            assert table.behind is None, "the rows of a static part are read anew"
            if isinstance(table, LookupTable):
                for each in self._lookups[place]:
                    each.attach()
            elif place in self._views:
                for view in self._views[place]:
                    view.attach()
            else:
                changes[place] = TableChange(dict(table.rows), table.listed)
            if self not in table.readers:
                table.readers.append(self)
        self._begun = True
        self._steps.reached = max([self._catalogue.version, *self._table_versions()])
        return changes

    def _table_versions(self) -> list[int]:
        return [table.version for table in self.tables if not isinstance(table, OwnTable)]

    def refresh(self) -> Changes:
        """Evaluate the parts that do not follow the store, all at its newest version."""
        places = [place for place, table in enumerate(self.tables) if isinstance(table, OwnTable)]
        if not places and self.tables:
            return {}
        version, results = self._background.evaluate([self.parts[place] for place in places])
        changes: dict[int, TableChange] = {}
        for place, rows in zip(places, results, strict=True):
            table = self.tables[place]
            assert isinstance(table, OwnTable)
            change = TableChange(table.replace(rows))
            if change:
                changes[place] = change
        self._own_version = version
        return changes

    def ready(self) -> Iterator[StaticStep]:
        """The steps that the query can take now; `version` moves on with each.

        Steps that lie where some part's rows are not known go into the next one where all are.
        """
        return self._steps.ready(lambda: self.passed)

    def put_back(self, step: StaticStep) -> None:
        """One of the `ready` steps was not taken after all: it is the next one again."""
        self._steps.put_back(step)

    def untaken(self, place: int) -> TableChange:
        """What the table of a part is ahead of the query."""
        return self._steps.untaken(place)

    # --- what tables tell -----------------------------------------------------------------------

    def places_of(self, table: Table) -> list[int]:
        """See `table.Reader`."""
        return [place for place, each in enumerate(self.tables) if each is table]

    def took(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """See `table.Reader`."""
        assert self._catalogue is not None
        self.before_news()
        self._catalogue.moved[self] = None
        places = self.places_of(table)
        self._steps.took(version, at_ms, places, change)

    def fell_behind(self, table: Table, version: int) -> None:
        """See `table.Reader`."""
        self.before_news()
        self._steps.fell_behind(table, version)

    def caught_up(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """See `table.Reader`."""
        self._steps.caught_up(table, version)
        self.took(table, version, at_ms, change)

    def exchange(self, table: SharedTable, member: MemberTable) -> None:
        """See `table.Reader`."""
        self.tables = [member if each is table else each for each in self.tables]
        # It is not behind, but the steps that end a gap may wait.
        self._steps.exchange(table, member)


def _nobody() -> None:
    """Nobody wants to know."""
