"""The static parts of one query: their rows at one store version, and the later changes of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from quadrill.store.errors import LimitError, UnsupportedError

from ..algebra.canonical import Arranged, Canonical, arranged, without_canonical_form
from ..algebra.rewrites import has_order
from ..algebra.static import StaticPattern
from ..rows import IdRow, Solution, difference
from ..windows.encoded import EngineTerms
from .lookup import Lookup
from .rule_graphs import NamedRules, RuleGraphs
from .shared_rows import SharedArrangement
from .static_evaluator import EvaluationOptions, StaticEvaluator
from .table import Changes, Frontier, PendingSteps, Table, TableChange, TableFrontier
from .table_reading import active
from .table_registry import TableRegistry


class StaticInputs:
    """The static parts of one query; `open` or `open_next` create their tables.

    The constructor of a query's static parts, `open` and `open_next` are called by threads that register
    queries, `abandon` and `close` by any thread, all other methods in the engine's thread.

    With a table registry, the query's static parts are shared tables that follow the store's commits, and
    `steps` contains the changes that the tables have applied and the query has not. Without a registry of
    tables, and for static parts that cannot follow the store, the method `refresh` evaluates the parts. With
    ``whole``, the whole query is the only static part, and its rows may have an order (ORDER BY). ``earlier``
    contains canonical forms of static parts that were computed before, by the name of the part.

    Attributes:
        parts: the static parts, with columns in the order that all equal parts share.
        tables: the table of each part.
        shares: True if the query uses a table registry.
        follows: True if some part follows the store commit by commit.
        has_own: True if some part does not follow the store and is evaluated only by `refresh`.
        background: the evaluator of the parts that do not follow the store.
        looked_up: the positions of look-up parts, each with the reason; None if the client asked for a
            look-up.
        held_because: the positions of parts that are in memory although the client asked for look-ups, each
            with the reason.
        arrangements: by position of the part, the join inputs that read shared tables or the store.
        begun: True once the query has begun and applies steps.
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
        """Convert the static parts ``given`` to canonical form; `open` or `open_next` opens their tables."""
        self._options = options
        self._new_background = new_background
        self._terms = terms
        self._registry = registry
        self.whole = whole
        self.looked_up: dict[int, str | None] = {}
        self.held_because: dict[int, str] = {}
        self.arrangements: dict[int, list[Lookup | SharedArrangement]] = {}
        self.begun = False
        # The query begins at version `_least` of the store or later. `_passed` contains the changes of
        # look-up parts while the query waits for version `_least`.
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

    def read_rule_graphs(self, named: NamedRules) -> RuleGraphs:
        """Find the graphs that the rules of the query's entailment read, whose changes become steps.

        Raises:
            UnsupportedError: the query reads its static parts itself.
        """
        if self._registry is None:
            raise UnsupportedError(
                "a query with windows that names an entailment and reads remote graphs",
                hint="Load the remote graphs into the store first.",
            )
        found = self.steps.rules = self._registry.rules.read(named)
        return found

    @property
    def rules_moved(self) -> bool:
        """True if a commit changed graphs that the rules read, and the query has not applied the change."""
        return self.steps.rules is not None and self.steps.rules.have_moved

    def open(self) -> None:
        """Find or create the tables of all static parts, with all rows in memory instead of look-ups."""
        for _ in self.parts:
            self.open_next("the query is evaluated completely each time")

    def open_next(self, held_because: str | None) -> None:
        """Find or create the table of the next static part.

        After an error, all tables of the query are released.

        Args:
            held_because: the reason why the static part cannot be a look-up; None if the part can be a
                look-up.

        Raises:
            ReportedError: the static part cannot be evaluated.
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
        """True if the next static part may become a look-up, or the client asked for look-ups."""
        wish, earlier = self._options.static_tables, self._options.looked_up
        return self.follows and (wish == "lookup" or earlier is None or len(self.tables) in earlier)

    def _open(self, place: int, form: Canonical, held_because: str | None) -> None:
        """Open the table of a part that follows the store, with rows in memory or as a look-up."""
        assert self._registry is not None
        wish, earlier = self._options.static_tables, self._options.looked_up
        part, background = self.parts[place], self._new_background
        if held_because is None and self.background.is_heavy(part):
            held_because = "its evaluation may buffer many rows"
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
        """Create a join input for a static part that follows the store; the query must not have begun."""
        assert self._registry is not None
        table = self.tables[place]
        made = SharedArrangement(table) if table.is_held else self._registry.look_into(table)
        self.arrangements.setdefault(place, []).append(made)
        return made

    def _looks(self) -> list[Lookup | SharedArrangement]:
        return list(chain.from_iterable(self.arrangements.values()))

    def shared_by(self, tables: Collection[Table]) -> list[SharedArrangement]:
        """Return the query's join inputs that read some of these tables of static parts."""
        return [
            each for each in self._looks() if isinstance(each, SharedArrangement) and each.shared in tables
        ]

    def rejoin(self) -> None:
        """Let the join inputs read the current tables again, because a suspended evaluation has ended."""
        for each in self._looks():
            if isinstance(each, SharedArrangement):
                each.rejoin()

    def look_away(self) -> None:
        """Detach all join inputs from their tables, because a shared plan evaluates the query from now on."""
        for each in self._looks():
            each.detach()
        self.arrangements = {}

    def look_again(self) -> Changes:
        """Attach all join inputs to their tables; return all rows of the parts without a join input."""
        for place, found in self.arrangements.items():
            for each in found:
                if isinstance(each, SharedArrangement):
                    each.attach(self.steps.untaken(place).delta)
        return self.as_taken(but=self.arrangements)

    def abandon(self) -> None:
        """Request the release of a dropped query's tables; may be called in any thread or finalizer."""
        if self._registry is None:
            self.close()
        else:
            self._registry.commits.gone.append(self.close)

    def stop(self) -> None:
        """Stop recording changes of the tables, because the query has ended; the tables stay readable."""
        for each in self._looks():
            each.detach()
        if self.steps.rules is not None:
            self.steps.rules.steps = None
        for table in self.tables:
            if self.steps in table.readers:
                table.readers.remove(self.steps)

    def close(self) -> None:
        """Release all tables of the query; called while no other thread iterates over the list of tables."""
        self.stop()
        rules, self.steps.rules = self.steps.rules, None
        if rules is not None:
            assert self._registry is not None
            self._registry.rules.release(rules)
        while self.tables:
            table = self.tables.pop()
            if table.follows:
                assert self._registry is not None
                self._registry.release(table)
            else:
                table.give_back(table.load({}, None))

    # --- version and rows of the static parts ---------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the store that the query's static rows reflect."""
        if self._registry is not None and not self.begun:
            return max([self.steps.frontier.version, *(each.version for each in self.tables if each.follows)])
        return self.steps.frontier.version

    def as_taken(self, but: Collection[int] = ()) -> Changes:
        """Return all rows, at the query's version, of parts that follow the store; omit the parts ``but``."""
        return {
            place: TableChange(difference(table.rows, self.steps.untaken(place).delta), table.listed)
            for place, table in enumerate(self.tables)
            if table.follows and place not in but
        }

    def own_rows(self) -> Changes:
        """Return all rows of the static parts that do not follow the store."""
        tables = enumerate(self.tables)
        return {at: TableChange(dict(each.rows), each.listed) for at, each in tables if not each.follows}

    def rows(self, place: int) -> list[Solution]:
        """Return the rows of the static part at position ``place``, with duplicates.

        The columns of the static part's rows are in the order of the part's table.
        """
        table = self.tables[place]
        if table.listed is not None:
            return list(table.listed)
        found: list[Solution] = []
        for row, count in list(table.rows.items()):
            found += [self.decoded(row)] * count
        return found

    def decoded(self, row: IdRow) -> Solution:
        """Decode an id row as a solution of terms."""
        return tuple(map(self._terms.dictionary.decode, row))

    def arranged(self, place: int, row: Solution) -> Solution:
        """Return a row of a shared static part in the column order of the query's own text."""
        return tuple([row[column] for column in self._permutations[place]])

    # --- begin and refresh of the static parts --------------------------------------------------

    def known(self, at: int | None = None) -> bool:
        """Return True if the query can `begin`: its static rows are known at the required version.

        The required version of the store is ``at``, or by default the version of the running task; a later
        version is enough. While all rows of a table are read again, changes of the other tables wait, so the
        query can begin at the version that the reload has read even if further large commits follow.
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
            if steps.rules is not None:
                steps.rules.attach(steps, steps.task.version)
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
        """Begin the query after `known` has returned True.

        Returns all rows of the static parts without join inputs.
        """
        assert self._registry is not None
        assert self.known(), "the rows of a static part are being read again"
        changes = {**self.look_again(), **self._passed}
        if (self.follows or not self.tables) and self.steps.is_quiet:
            self.steps.begin()
        self.begun = True
        return changes

    def refresh(self, at: int | None = None) -> Changes:
        """Evaluate the parts that do not follow the store, at the newest version or in a replay at ``at``.

        Returns the changes of the evaluated static parts by their positions in the query.
        """
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
