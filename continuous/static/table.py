"""Tables of static parts, which queries share, and the steps that one query has not applied.

commit -> a change waits for the task of the commit -> the table applies the change -> a step waits for the
query
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quadrill.store.quads.frozen import FrozenReader

from ..algebra.graphs import Dataset
from ..algebra.static import StaticPattern
from ..algebra.triggers import Trigger
from ..rows import Delta, IdRow, Solution, difference, merge
from ..windows.encoded import EngineTerms
from .rule_graphs import RuleGraphs
from .shared_rows import SharedRows
from .static_evaluator import StaticEvaluator
from .table_facts import PartIdentity, RowsReading


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one table by one commit.

    If none of ``weights``, ``all_rows`` and ``before`` is set, the change of the table was too large to be
    computed at the commit. A table whose change at a commit is unknown keeps its old rows until all rows have
    been read again.

    Attributes:
        version: the version of the commit.
        at_ms: wall-clock time of the commit in milliseconds.
        weights: the number of times that each row is inserted (positive) or deleted (negative).
        all_rows: all rows of the table after the commit, in order.
        before: for a look-up part with an unknown change, a copy of the dataset before the commit.
    """

    version: int
    at_ms: int
    weights: Mapping[Solution, int] | None = None
    all_rows: Sequence[Solution] | None = None
    before: FrozenReader | None = None

    @property
    def is_known(self) -> bool:
        """False if the change of the table is unknown, so that all rows of the table must be read again."""
        return self.weights is not None or self.all_rows is not None or self.before is not None


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change of one static part's table in encoded form, as queries apply it.

    Attributes:
        delta: the changed id rows with their weights.
        listed: for a table with ordered rows, all rows after the change, in order.
        renewals: the number of commits whose changes of a look-up part are unknown; ``delta`` is the change
            after the last of these commits.
    """

    delta: Delta
    listed: Sequence[Solution] | None = None
    renewals: int = 0

    def __bool__(self) -> bool:
        return bool(self.delta) or self.listed is not None or bool(self.renewals)

    def then(self, later: TableChange) -> TableChange:
        """Return one change of the table that combines this change and a later change."""
        if later.renewals:
            return TableChange(later.delta, later.listed, self.renewals + later.renewals)
        listed = self.listed if later.listed is None else later.listed
        return TableChange(merge(dict(self.delta), later.delta), listed, self.renewals)


@dataclass(slots=True)
class ReloadedRows:
    """The encoded rows of a table after a reload, before they replace the table's current rows.

    Attributes:
        rows: all rows of the table if ``whole`` is True, otherwise only the rows of ``delta`` that the table
        lacks.
        listed: for a table with ordered rows, all rows in order.
        delta: the difference from the table's current rows; None if the difference is not computed yet.
    """

    table: Table
    rows: Delta
    listed: list[Solution] | None
    delta: Delta | None = None
    whole: bool = True


Changes = Mapping[int, TableChange]
"""The changes of a query's static parts, by the position of the part in the query."""


@dataclass(slots=True)
class CommitWatchers:
    """The objects by which the look-ups of one static part observe commits.

    Attributes:
        changed: callbacks that receive each change of the part at its commit.
        frozen: a copy of the dataset before a running bulk load; None if no bulk load is running.
    """

    changed: list[Callable[[Change], None]] = field(default_factory=list)
    frozen: FrozenReader | None = None


_NO_IDENTITY = PartIdentity()


class Table(SharedRows):
    """The rows of a static part at one version of the store, and the changes after that version.

    Writers of the store change the attributes `waiting` and `blind`, the engine's thread changes the table's
    `rows` and `version`. Between the state of `waiting` and that of `rows` lie the commits whose tasks have
    not run. The table of a look-up part has no rows; it only passes on the changes of the static part to
    queries.

    Attributes:
        identity: the identity of the part, by which queries share the table.
        name: a short hash of the identity's key, which stays the same across restarts.
        part: the pattern and columns under canonical names.
        follows: True if commits change the table; False if only a refresh by request or timer changes the
            table, or if the part is a SERVICE call.
        triggers: the quad patterns, one of which a changed quad must match to change the table; empty if the
            table does not follow commits.
        background: the evaluator of the part for writers, of which one runs at a time.
        new_background: a function that creates further evaluators for other threads.
        scope: the graphs that the part reads.
        is_held: True if the rows are in memory, False for a look-up part.
        version: the version of the store that the rows reflect.
        since: the oldest version since which the rows are known to be unchanged.
        waiting: the changes of commits whose tasks have not run, oldest first.
        blind: True if the changes of commits are not computed, because all rows will be read again.
        live: True if some query reads the table, so that the engine applies changes.
        behind: the first version whose task has run and whose change the rows lack; None if the rows lack no
            change.
        reading: information about the last reading of all rows.
        readers: the pending steps of each query that reads the table.
        watchers: the look-ups of a look-up part.
        users: the number of queries that use the table, including queries that have not begun.
        ready: an event that is set when the rows are available or their reading has failed.
    """

    def __init__(
        self,
        part: StaticPattern,
        background: Callable[[], StaticEvaluator],
        terms: EngineTerms,
        identity: PartIdentity = _NO_IDENTITY,
        triggers: Sequence[Trigger] | None = None,
        *,
        ordered: bool = False,
        held: bool = True,
    ) -> None:
        super().__init__(terms, ordered=ordered)
        self.identity = identity
        self.name = hashlib.sha256(identity.key.encode()).hexdigest()[:12]
        self.part = part
        self.follows = triggers is not None
        self.triggers = triggers or ()
        self.background = background()
        self.new_background = background
        self.scope: Dataset = self.background.scope(self.part)
        self.is_held = held
        self.version = -1
        self.since = -1
        self.waiting: deque[Change] = deque()
        self.blind = False
        self.live = False
        self.behind: int | None = None
        self.reading = RowsReading()
        self.readers: list[PendingSteps] = []
        self.watchers = CommitWatchers()
        self.users = 0
        self.ready = threading.Event()

    @property
    def is_awaited(self) -> bool:
        """True while a query waits for the reload of the table's rows."""
        return self.live and (self.blind or self.behind is not None)

    def begin_at(self, version: int, fresh: Delta, listed: Sequence[Solution] | None) -> None:
        """Set all rows of the table, which `encode` returned as ``fresh``, at a version of the store."""
        self.load(fresh, listed)
        self.version = self.since = version

    # --- changes in the engine's thread ---------------------------------------------------------

    def catch_up(self, version: int) -> None:
        """Apply the waiting changes up to a version one by one; stop at an unknown change."""
        while self.behind is None and self.waiting and self.waiting[0].version <= version:
            change = self.waiting.popleft()
            if change.version <= self.version:
                continue
            if not change.is_known:
                self.behind = change.version
                for reader in self.readers:
                    reader.fell_behind(self, change.version)
                return
            taken = self._take(change)
            for reader in self.readers:
                reader.took(self, change.version, change.at_ms, taken)
        if self.behind is None:
            self.version = max(self.version, version)

    def swap(self, fresh: ReloadedRows, version: int, at_ms: int) -> Delta:
        """Replace the table's rows by rows read at a version; return the removed rows, still pinned."""
        delta = difference(fresh.rows, self.rows) if fresh.delta is None else fresh.delta
        change = TableChange(delta, fresh.listed)
        old = self.change_to(fresh.rows, fresh.listed, delta) if fresh.whole else self.change_by(delta)
        self.version = self.since = version
        self.behind = self.reading.from_disk = self.reading.problem = None
        while self.waiting and self.waiting[0].version <= version:
            self.waiting.popleft()
        for reader in self.readers:
            reader.took(self, version, at_ms, change)
        return old

    def replace(self, rows: Sequence[Solution]) -> TableChange:
        """Replace the rows of a static part that does not follow the store, and return the change."""
        before = self.listed
        fresh, listed = ({}, list(rows)) if self.is_ordered else (self.encode(rows), None)
        delta = difference(fresh, self.rows)
        self.give_back(self.change_to(fresh, listed, delta))
        return TableChange(delta, None if listed == before else listed)

    def _take(self, change: Change) -> TableChange:
        self.version = change.version
        if change.before is not None:
            return TableChange({}, renewals=1)
        rows = change.all_rows
        if rows is not None and self.is_ordered:
            same = list(rows) == self.listed
            self.load({}, list(rows))
            self.since = change.version
            return TableChange({}, None if same else self.listed)
        delta = self.encoded(change.weights or {} if rows is None else Counter(rows))
        if rows is not None:
            delta = difference(delta, self.rows)
        if self.is_held:
            self.since = change.version
            self.change(delta)
        return TableChange(delta)


# --- steps of static rows that one query has not applied ---------------------------------------


@dataclass(slots=True)
class Frontier:
    """The newest version of the store that the static rows of a query reflect."""

    version: int


@dataclass(slots=True)
class TableFrontier(Frontier):
    """The newest version of the store whose commit's task the engine has run.

    Attributes:
        moved: the names of queries whose tables have changed and that have not been notified.
        place: the number of the running task in the engine's input order.
    """

    moved: dict[str, None] = field(default_factory=dict)
    place: int = 0


@dataclass(slots=True)
class StaticStep:
    """The joint change of all static parts of a query from one version to a later one.

    Attributes:
        version: the version of the store after the step.
        before: a version at which the rows are those before the step.
        at_ms: wall-clock time of the commit in milliseconds.
        changes: the changes of the static parts by their positions in the query.
        caught_up: the tables whose rows are unknown at some version within the step.
        place: the number of the task that completed the step.
    """

    version: int
    before: int
    at_ms: int
    changes: dict[int, TableChange] = field(default_factory=dict)
    caught_up: list[Table] = field(default_factory=list)
    place: int = 0

    def add(self, changes: Changes) -> None:
        """Add later changes of static parts to this step of a query, without modifying the given objects."""
        for place, change in changes.items():
            earlier = self.changes.get(place)
            self.changes[place] = change if earlier is None else earlier.then(change)


class PendingSteps:
    """The changes of static parts that one query has not applied; tables add them in the engine's thread.

    A step of a query waits while the rows of some table of the query are unknown at the step's version. When
    the rows of the table are known again, the steps in between are merged into one step, so a query never
    sees tables at different versions.

    Attributes:
        name: the name of the query.
        tables: the query's tables by the positions of its static parts.
        frontier: the version that the query's rows reflect; the object `own` itself while no step waits.
        task: the task frontier of the engine.
        own: the task frontier of the query, which differs from the engine's while the query has a backlog.
        held: True if the query applies steps only at a refresh by request or timer.
        rules: the graphs that the rules of the query's entailment read; None without rules.
        ahead: the waiting steps by version.
        unknown: for each table with unknown rows, the first version at which the rows are unknown.
    """

    def __init__(self, name: str, task: TableFrontier) -> None:
        self.name = name
        self.tables: list[Table] = []
        self.task = self.own = task
        self.frontier: Frontier = task
        self.held = False
        self.rules: RuleGraphs | None = None
        self.ahead: dict[int, StaticStep] = {}
        self.unknown: dict[Table, int] = {}

    def begin(self) -> None:
        """Begin to apply steps of the static rows, after the version of the running task."""
        self.frontier = Frontier(self.own.version) if self.held else self.own

    def move(self, task: TableFrontier) -> None:
        """Let a query with a backlog apply steps up to its own last task, or again up to the engine's."""
        quiet, self.own = self.is_quiet, task
        if quiet:
            self.frontier = task
        elif not self.held:
            self._rest()

    @property
    def is_quiet(self) -> bool:
        """True if no step of the query waits or is being applied, and the rows of its tables are known."""
        return self.frontier is self.own

    def version_at(self, task: int) -> int:
        """Return the version of the query's rows at an earlier task; it must have applied no step since."""
        return task if self.is_quiet else min(task, self.frontier.version)

    # --- changes of rows that tables report -----------------------------------------------------

    def took(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """Record that a table reached a version by a change, which one commit or a reload caused."""
        self._part(version)
        self.task.moved[self.name] = None
        step = self.ahead.get(version) or StaticStep(version, version - 1, at_ms)
        start = self.unknown.pop(table, None)
        if start is not None:
            step = self._gathered(start, step)
            step.caught_up.append(table)
        step.add({place: change for place, each in enumerate(self.tables) if each is table})
        step.place = self.task.place
        self.ahead[version] = step

    def fell_behind(self, table: Table, version: int) -> None:
        """Record for a query that the rows of one of its tables are unknown from a version on."""
        self._part(version)
        self.unknown[table] = version

    def graphs_changed(self, version: int, at_ms: int) -> None:
        """Record that a commit changed graphs that the rules of the query's entailment read."""
        self._part(version)
        self.task.moved[self.name] = None
        step = self.ahead.get(version) or StaticStep(version, version - 1, at_ms)
        step.place = self.task.place
        self.ahead[version] = step

    def _part(self, version: int) -> None:
        """Set the query's frontier apart from the task frontier, to a version before ``version``."""
        if self.is_quiet:
            self.frontier = Frontier(min(self.own.version, version - 1))

    def _gathered(self, start: int, last: StaticStep) -> StaticStep:
        """Merge the waiting steps from version ``start`` on with the later step ``last``."""
        earlier = [self.ahead.pop(each) for each in sorted(self.ahead) if start <= each < last.version]
        before = min(start - 1, last.before, *(each.before for each in earlier))
        found = StaticStep(last.version, before, last.at_ms)
        for each in (*earlier, last):
            found.add(each.changes)
            found.caught_up += each.caught_up
        return found

    # --- waiting steps --------------------------------------------------------------------------

    @property
    def gaps(self) -> frozenset[tuple[int, int | None]]:
        """The ranges of versions with unknown rows: first version, and end (exclusive; None if unknown)."""
        late = {(step.before + 1, step.version) for step in self.ahead.values() if step.caught_up}
        return frozenset(late | {(start, None) for start in self.unknown.values()})

    @property
    def behind(self) -> frozenset[int]:
        """The positions of the static parts whose rows are unknown at some version in `gaps`."""
        tables = [*self.unknown, *(table for step in self.ahead.values() for table in step.caught_up)]
        return frozenset(place for place, each in enumerate(self.tables) if each in tables)

    def untaken(self, place: int) -> TableChange:
        """Return the change that the table of a static part has applied and the query has not."""
        found = TableChange({})
        for version in sorted(self.ahead):
            change = self.ahead[version].changes.get(place)
            if change is not None:
                found = found.then(change)
        return found

    def rows_ahead(self, place: int) -> int:
        """Return by how many rows a table exceeds the rows that the query sees; callable in any thread."""
        waiting = [step.changes[place] for step in list(self.ahead.values()) if place in step.changes]
        return sum(sum(change.delta.values()) for change in waiting)

    def waiting(self) -> Iterator[IdRow]:
        """Yield the changed rows of all waiting steps; other threads may add and remove steps meanwhile."""
        for step in list(self.ahead.values()):
            for change in list(step.changes.values()):
                yield from list(change.delta)

    # --- taking them ----------------------------------------------------------------------------

    def ready(self) -> Iterator[StaticStep]:
        """Yield the waiting steps that the query can apply now; each step advances the `frontier`."""
        end = min(self.unknown.values(), default=None)
        try:
            for version in sorted(self.ahead):
                if (end is not None and version >= end) or self.ahead[version].place > self.own.place:
                    break
                step = self.ahead.pop(version)
                step.caught_up = []
                self.frontier.version = version
                yield step
        finally:
            self._rest()

    def put_back(self, step: StaticStep) -> None:
        """Put a step that could not be applied back in front of the query's waiting steps."""
        self.ahead[step.version] = step
        self.frontier = Frontier(step.before)

    def _rest(self) -> None:
        """Advance the query's frontier to just before the first waiting step or unknown rows."""
        if not (self.held or self.ahead or self.unknown):
            self.frontier = self.own
        elif not self.is_quiet:
            known = [version - 1 for version in self.unknown.values()]
            known += [step.before for step in self.ahead.values()]
            self.frontier.version = max(self.frontier.version, min([self.own.version, *known]))
