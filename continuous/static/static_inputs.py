"""What one query sees of its static parts: their rows at one version, and the steps that lead to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from quadrill.store.errors import LimitError

from ..algebra.canonical import Arranged, Canonical, arranged, without_canonical_form
from ..algebra.rewrites import has_order
from ..algebra.static import StaticPattern
from ..rows import IdRow, Solution, difference
from ..windows.encoded import EngineTerms
from .lookup import Lookup
from .shared_rows import SharedArrangement
from .static_evaluator import EvaluationOptions, StaticEvaluator
from .table import Changes, Frontier, PendingSteps, Table, TableChange, TableFrontier
from .table_reading import active
from .table_registry import TableRegistry


class StaticInputs:
    """The static parts of one query; `open` or `open_next` make their tables.

    Everything but these and its making is called in the engine's thread.

    With a registry the parts are shared tables that follow the store; `steps` are what they took and the
    query has not. Without one, and for parts that cannot follow, `refresh` evaluates them. With ``whole``
    the one part is the whole query, whose rows may have an order; ``earlier`` are parts that were arranged
    before, by name.

    Attributes:
        parts: the static parts, their columns in the order that equal parts have in common.
        tables: of each part.
        shares: True with a registry.
        follows: some part follows the store by itself.
        has_own: some part is read only when asked for.
        background: evaluates those of them that follow nothing.
        looked_up: the places of the parts that are not held, and why where nobody asked for it.
        held_because: the places of those that are held though look-ups were asked for, and why.
        arrangements: by place what joins look into, where the query does not hold the rows itself.
        begun: the query takes part.
    """

    def __init__(
        self,
        options: EvaluationOptions,
        given: Sequence[StaticPattern],
        new_background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        registry: TableRegistry | None,
        *,
        whole: bool = False,
        earlier: Mapping[str, Arranged] | None = None,
    ) -> None:
        """Arrange the static parts ``given``; their tables are opened later."""
        self._options = options
        self._new_background = new_background
        self._terms = terms
        self._registry = registry
        self.whole = whole
        self.looked_up: dict[int, str | None] = {}
        self.held_because: dict[int, str] = {}
        self.arrangements: dict[int, list[Lookup | SharedArrangement]] = {}
        self.begun = False
        # The least version to begin at, and what looked up parts have taken since the query waits for it.
        self._least: int | None = None
        self._passed: dict[int, TableChange] = {}
        known = earlier or {}
        self.background = self._new_background()
        found = [
            without_canonical_form(p) if registry is None else known.get(p.name) or arranged(p) for p in given
        ]
        self.parts = [each.part for each in found]
        self._forms = [each.form for each in found]
        self._permutations = [each.permutation for each in found]
        self.shares = registry is not None
        self.follows = any(form is not None for form in self._forms)
        self.has_own = any(form is None for form in self._forms)
        self.steps = PendingSteps(
            self._options.name, TableFrontier(-1) if registry is None else registry.task
        )
        self.tables = self.steps.tables

    def open(self) -> None:
        """Find the tables of all parts or make them, as `open_next` does; none is looked up."""
        for _ in self.parts:
            self.open_next("the query is evaluated anew each time")

    def open_next(self, held_because: str | None) -> None:
        """Find the table of the next part or make it; when it cannot be made, those before are let go of.

        Args:
            held_because: why it cannot be looked up by keys beside those that are; None: it can.

        Raises:
            ReportedError: the part cannot be evaluated.
        """
        place = len(self.tables)
        progress = active()
        if not place:
            progress.parts += len(self.parts)
        try:
            progress.check()
            form = self._forms[place]
            if form is None:
                part = self.parts[place]
                ordered = self.whole and has_order(part.pattern)
                self.tables.append(Table(part, self._new_background, self._terms, ordered=ordered))
            else:
                self._open(place, form, held_because)
            progress.ready += 1
        except BaseException:
            self.close()
            raise

    @property
    def may_be_looked_up(self) -> bool:
        """The next part may be, or somebody asks why it is not."""
        wish, earlier = self._options.static_tables, self._options.looked_up
        return self.follows and (wish == "lookup" or earlier is None or len(self.tables) in earlier)

    def _open(self, place: int, form: Canonical, held_because: str | None) -> None:
        """The table of a part that follows the store: whether it is looked up is decided here, once."""
        assert self._registry is not None
        wish, earlier = self._options.static_tables, self._options.looked_up
        part, background = self.parts[place], self._new_background
        if held_because is None and self.background.is_heavy(part):
            held_because = "its evaluation may hold many rows back"
        asked = wish == "lookup" if earlier is None else place in earlier
        if asked and held_because is None:
            self.looked_up[place] = (earlier or {}).get(place)
        else:
            may_fall_back = wish is None and held_because is None and earlier is None
            limited = active().limited or may_fall_back
            ordered = self.whole and has_order(part.pattern)
            try:
                table = self._registry.table(part, form, background, ordered=ordered, limited=limited)
                self.tables.append(table)
                if limited:
                    self._registry.budget.check_query(sum(each.count for each in self.tables if each.follows))
                if wish == "lookup" and held_because is not None:
                    self.held_because[place] = held_because
                return
            except LimitError as error:
                if not may_fall_back:
                    raise
                if len(self.tables) > place:
                    self._registry.release(self.tables.pop())
                self.looked_up[place] = error.message
        self.tables.append(self._registry.table(part, form, background, held=False))

    def arrangement(self, place: int) -> Lookup | SharedArrangement:
        """What a join looks into for a part that follows the store; before the query begins."""
        assert self._registry is not None
        table = self.tables[place]
        made = SharedArrangement(table) if table.is_held else self._registry.look_into(table)
        self.arrangements.setdefault(place, []).append(made)
        return made

    def _looks(self) -> list[Lookup | SharedArrangement]:
        return list(chain.from_iterable(self.arrangements.values()))

    def shared_by(self, tables: Collection[Table]) -> list[SharedArrangement]:
        """What joins look into some tables with."""
        return [
            each for each in self._looks() if isinstance(each, SharedArrangement) and each.shared in tables
        ]

    def rejoin(self) -> None:
        """No evaluation is suspended any more: look into the tables as they are now."""
        for each in self._looks():
            if isinstance(each, SharedArrangement):
                each.rejoin()

    def look_away(self) -> None:
        """No join looks into shared rows any more: others evaluate the query."""
        for each in self._looks():
            each.detach()
        self.arrangements = {}

    def look_again(self) -> Changes:
        """A query begins, or has new joins: all rows of the parts that these do not look into."""
        for place, found in self.arrangements.items():
            for each in found:
                if isinstance(each, SharedArrangement):
                    each.attach(self.steps.untaken(place).delta)
        return self.as_taken(but=self.arrangements)

    def abandon(self) -> None:
        """The query is gone; called in any thread, also while rubbish is collected."""
        if self._registry is None:
            self.close()
        else:
            self._registry.commits.gone.append(self.close)

    def stop(self) -> None:
        """The query has failed: it takes no steps any more, its description still tells of the tables."""
        for each in self._looks():
            each.detach()
        for table in self.tables:
            if self.steps in table.readers:
                table.readers.remove(self.steps)

    def close(self) -> None:
        """Let the tables go; called where nobody walks over tables."""
        self.stop()
        while self.tables:
            table = self.tables.pop()
            if table.follows:
                assert self._registry is not None
                self._registry.release(table)
            else:
                table.give_back(table.load({}, None))

    # --- what it is -----------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the store that the query's rows reflect."""
        if self._registry is not None and not self.begun:
            return max([self.steps.frontier.version, *(each.version for each in self.tables if each.follows)])
        return self.steps.frontier.version

    def as_taken(self, but: Collection[int] = ()) -> Changes:
        """All rows of the parts that follow the store as the query has taken them, ``but`` of some places."""
        return {
            place: TableChange(difference(table.rows, self.steps.untaken(place).delta), table.listed)
            for place, table in enumerate(self.tables)
            if table.follows and place not in but
        }

    def own_rows(self) -> Changes:
        """All rows of the parts that do not follow the store."""
        tables = enumerate(self.tables)
        return {at: TableChange(dict(each.rows), each.listed) for at, each in tables if not each.follows}

    def rows(self, place: int) -> list[Solution]:
        """The rows of a part in the order of its `parts` columns, each as often as it is there."""
        table = self.tables[place]
        if table.listed is not None:
            return list(table.listed)
        found: list[Solution] = []
        for row, count in list(table.rows.items()):
            found += [self.decoded(row)] * count
        return found

    def decoded(self, row: IdRow) -> Solution:
        """A row of ids as terms."""
        return tuple(map(self._terms.dictionary.decode, row))

    def arranged(self, place: int, row: Solution) -> Solution:
        """A row of a part in the order of the columns that the query has itself."""
        return tuple([row[column] for column in self._permutations[place]])

    # --- moving on ------------------------------------------------------------------------------

    def known(self, at: int | None = None) -> bool:
        """True when the query can `begin`: at ``at``, the version of the turn, or the first one that can be.

        While rows are read anew, what tables take waits as steps: however many large commits come, it begins
        at the version that was read.
        """
        if self.begun or self._registry is None:
            return True
        steps = self.steps
        if self._least is None:
            followed = [table for table in self.tables if table.follows]
            for table in followed:
                self._registry.bring_up(table)
            self._least = steps.task.version if at is None else at
            for each in self._looks():
                if isinstance(each, Lookup):
                    each.attach()
            for table in followed:
                if steps not in table.readers:
                    table.readers.append(steps)
                if table.behind is not None:
                    steps.fell_behind(table, table.behind)
        for step in steps.ready():
            for place in self.looked_up.keys() & step.changes.keys():
                self._passed[place] = self._passed.get(place, TableChange({})).then(step.changes[place])
        return steps.frontier.version >= self._least

    def begin(self) -> Changes:
        """The query begins in this turn, when it is `known`: all rows of the parts that it holds."""
        assert self._registry is not None
        assert self.known(), "the rows of a static part are read anew"
        changes = {**self.look_again(), **self._passed}
        if (self.follows or not self.tables) and self.steps.is_quiet:
            self.steps.begin()
        self.begun = True
        return changes

    def refresh(self, at: int | None = None) -> Changes:
        """Bring the parts that do not follow the store to its newest version, in a replay to that of then."""
        places = [place for place, table in enumerate(self.tables) if not table.follows]
        if not places and self.tables:
            return {}
        own = [self.tables[place] for place in places]
        since = min((table.version for table in own), default=-1)
        version, results = self.background.evaluate([self.parts[place] for place in places], since, at)
        changes: dict[int, TableChange] = {}
        for place, table, rows in zip(places, own, results, strict=True):
            change = None if rows is None else table.replace(rows)
            table.version = version
            if change:
                changes[place] = change
        if self._registry is None or (self.tables and not self.follows):
            self.steps.frontier = Frontier(version)
        return changes
