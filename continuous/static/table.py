"""Table of a static part, shared by queries, and the steps that one query has not applied.

commit -> a change waits for the commit's task -> the table applies it -> a step waits for the query
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
from .shared_rows import SharedRows
from .static_evaluator import StaticEvaluator
from .table_facts import PartIdentity, RowsReading


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one table by one commit.

    If none of ``weights``, ``all_rows`` and ``before`` is set, the change was too large to be computed at the
    commit; the table retains its old rows until all rows have been read again.

    Attributes:
        version: the version of the commit.
        at_ms: wall-clock time of the commit in milliseconds.
        weights: how often each row is inserted (positive) or deleted (negative).
        all_rows: all rows after the commit, in their order.
        before: for a look-up part with an unknown change, a copy of the dataset before the commit.
    """

    version: int
    at_ms: int
    weights: Mapping[Solution, int] | None = None
    all_rows: Sequence[Solution] | None = None
    before: FrozenReader | None = None

    @property
    def is_known(self) -> bool:
        """False if all rows of the table must be read again."""
        return self.weights is not None or self.all_rows is not None or self.before is not None


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change of one table in the form that queries apply.

    Attributes:
        delta: the changed id rows with their weights.
        listed: for a table with ordered rows, all rows after the change, in order.
        renewals: the number of commits with unknown changes of a look-up part; ``delta`` is the change since.
    """

    delta: Delta
    listed: Sequence[Solution] | None = None
    renewals: int = 0

    def __bool__(self) -> bool:
        return bool(self.delta) or self.listed is not None or bool(self.renewals)

    def then(self, later: TableChange) -> TableChange:
        """Return this change and a later change as one change."""
        if later.renewals:
            return TableChange(later.delta, later.listed, self.renewals + later.renewals)
        listed = self.listed if later.listed is None else later.listed
        return TableChange(merge(dict(self.delta), later.delta), listed, self.renewals)


@dataclass(slots=True)
class ReloadedRows:
    """The encoded rows of a table after a reload, before they replace the table's current rows.

    Attributes:
        rows: all rows if ``whole``, else only the new rows of ``delta``.
        listed: for a table with ordered rows, all rows in order.
        delta: the difference to the table's current rows; None if it is not computed yet.
    """

    table: Table
    rows: Delta
    listed: list[Solution] | None
    delta: Delta | None = None
    whole: bool = True


Changes = Mapping[int, TableChange]
"""The changes of static parts, by the position of the part in its query."""


@dataclass(slots=True)
class CommitWatchers:
    """The connection between commits and the look-ups of one part.

    Attributes:
        changed: callbacks that are called with each change of the part at its commit.
        frozen: a copy of the dataset before a running bulk load; None if no bulk load is running.
    """

    changed: list[Callable[[Change], None]] = field(default_factory=list)
    frozen: FrozenReader | None = None


_NO_IDENTITY = PartIdentity()


class Table(SharedRows):
    """The rows of a static part at one version of the store, and the changes after that version.

    The writers' side (`waiting`, `blind`) is ahead of the engine's side (`rows`, `version`) by the commits
    whose tasks have not run. A look-up part has a table without rows, which only carries the part's changes.

    Attributes:
        identity: the identity of the part, by which queries share the table.
        name: a short name that is derived from the identity's key and stable across restarts.
        part: the pattern and columns under canonical names.
        follows: True if commits change the table; False if its query refreshes the part by request or timer,
            or if the part is a SERVICE call.
        triggers: the quad patterns that a changed quad must match to change the table; empty if not
            ``follows``.
        background: evaluates the part for writers, one writer at a time.
        new_background: creates further evaluators for other threads.
        scope: the graphs that the part reads.
        is_held: True if the rows are in memory, False for a look-up part.
        version: the version of the store that the rows reflect.
        since: the oldest version from which on the rows are known to be unchanged.
        waiting: changes of commits whose tasks have not run, oldest first.
        blind: True if commits are ignored, because all rows will be read again.
        live: True if some query reads the table, so that the engine applies changes.
        behind: the first version that the rows do not reflect although its task has run; None if there is
            none.
        reading: facts about the last reading of all rows.
        readers: the pending steps of the queries that have begun.
        watchers: the look-ups of a look-up part.
        users: the number of queries that use the table, including queries that have not begun.
        ready: set when the rows are available, or when reading them has failed.
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
        """True while a query reads the table and the table's rows are being read again."""
        return self.live and (self.blind or self.behind is not None)

    def begin_at(self, version: int, fresh: Delta, listed: Sequence[Solution] | None) -> None:
        """Set all rows at a version; ``fresh`` are rows from `encode`."""
        self.load(fresh, listed)
        self.version = self.since = version

    # --- the engine's side ----------------------------------------------------------------------

    def catch_up(self, version: int) -> None:
        """Apply the waiting changes up to a version one by one; stop at a change that is not known."""
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
        """Replace the rows by rows read at a version; return the removed rows, which are still pinned."""
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
        """Replace the rows of a part that does not follow the store; return the change."""
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


# --- what one query has not taken ---------------------------------------------------------------


@dataclass(slots=True)
class Frontier:
    """The newest version of the store that rows reflect."""

    version: int


@dataclass(slots=True)
class TableFrontier(Frontier):
    """The newest version whose task has run.

    Attributes:
        moved: the names of queries whose tables have changed and which have not been notified.
        place: the number of the running task in the engine's input order.
    """

    moved: dict[str, None] = field(default_factory=dict)
    place: int = 0


@dataclass(slots=True)
class StaticStep:
    """The joint change of all static parts of a query from one version to a later one.

    Attributes:
        version: the version after the step.
        before: a version with the rows before the step.
        at_ms: wall-clock time of the commit in milliseconds.
        changes: the changes of the static parts by position.
        caught_up: while the step waits, the tables whose rows were not known at some version in between.
        place: the number of the task that completed the step.
    """

    version: int
    before: int
    at_ms: int
    changes: dict[int, TableChange] = field(default_factory=dict)
    caught_up: list[Table] = field(default_factory=list)
    place: int = 0

    def add(self, changes: Changes) -> None:
        """Add later changes to the step without modifying the tables' change objects."""
        for place, change in changes.items():
            earlier = self.changes.get(place)
            self.changes[place] = change if earlier is None else earlier.then(change)


class PendingSteps:
    """The steps that one query has not applied; tables add steps in the engine's thread.

    A step waits while the rows of some table are not known at the step's version. Once the rows are known
    again, the steps in between are merged into one, so a query never sees tables at different versions.

    Attributes:
        name: the name of the query.
        tables: the query's tables by the positions of its static parts.
        frontier: the version that the query's rows reflect; the task frontier itself while no step waits.
        task: the engine's task frontier.
        own: the query's task frontier, which differs from the engine's while the query has a backlog.
        held: True if steps are applied only at a refresh by request or timer.
        ahead: the waiting steps by version.
        unknown: for each table with unknown rows, the first version at which they are unknown.
    """

    def __init__(self, name: str, task: TableFrontier) -> None:
        self.name = name
        self.tables: list[Table] = []
        self.task = self.own = task
        self.frontier: Frontier = task
        self.held = False
        self.ahead: dict[int, StaticStep] = {}
        self.unknown: dict[Table, int] = {}

    def begin(self) -> None:
        """Begin at the version of the running task."""
        self.frontier = Frontier(self.own.version) if self.held else self.own

    def move(self, task: TableFrontier) -> None:
        """Switch the query to a private task frontier for its backlog, or back to the engine's."""
        quiet, self.own = self.is_quiet, task
        if quiet:
            self.frontier = task
        elif not self.held:
            self._rest()

    @property
    def is_quiet(self) -> bool:
        """True if no step waits or is being applied and the rows of all tables are known."""
        return self.frontier is self.own

    def version_at(self, task: int) -> int:
        """Return the version of the rows at an earlier task, if no step was applied since."""
        return task if self.is_quiet else min(task, self.frontier.version)

    # --- what tables tell -----------------------------------------------------------------------

    def took(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """Record that a table reached a version by the change of one commit or of a reload."""
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
        """Record that the rows of a table are not known from a version on."""
        self._part(version)
        self.unknown[table] = version

    def _part(self, version: int) -> None:
        """Separate the query's frontier from the task frontier, at the latest version before ``version``."""
        if self.is_quiet:
            self.frontier = Frontier(min(self.own.version, version - 1))

    def _gathered(self, start: int, last: StaticStep) -> StaticStep:
        """Merge the waiting steps from version ``start`` on with the step ``last``."""
        earlier = [self.ahead.pop(each) for each in sorted(self.ahead) if start <= each < last.version]
        before = min(start - 1, last.before, *(each.before for each in earlier))
        found = StaticStep(last.version, before, last.at_ms)
        for each in (*earlier, last):
            found.add(each.changes)
            found.caught_up += each.caught_up
        return found

    # --- what waits -----------------------------------------------------------------------------

    @property
    def gaps(self) -> frozenset[tuple[int, int | None]]:
        """The ranges of versions with unknown rows: the first version, and the end (exclusive) or None."""
        late = {(step.before + 1, step.version) for step in self.ahead.values() if step.caught_up}
        return frozenset(late | {(start, None) for start in self.unknown.values()})

    @property
    def behind(self) -> frozenset[int]:
        """The positions of parts whose rows are unknown at some version within `gaps`."""
        tables = [*self.unknown, *(table for step in self.ahead.values() for table in step.caught_up)]
        return frozenset(place for place, each in enumerate(self.tables) if each in tables)

    def untaken(self, place: int) -> TableChange:
        """Return the change that a part's table has applied and the query has not."""
        found = TableChange({})
        for version in sorted(self.ahead):
            change = self.ahead[version].changes.get(place)
            if change is not None:
                found = found.then(change)
        return found

    def rows_ahead(self, place: int) -> int:
        """Return how many more rows a part's table has than the query sees; may be called in any thread."""
        waiting = [step.changes[place] for step in list(self.ahead.values()) if place in step.changes]
        return sum(sum(change.delta.values()) for change in waiting)

    def waiting(self) -> Iterator[IdRow]:
        """Yield the rows of all waiting steps, safely while steps are added and removed."""
        for step in list(self.ahead.values()):
            for change in list(step.changes.values()):
                yield from list(change.delta)

    # --- taking them ----------------------------------------------------------------------------

    def ready(self) -> Iterator[StaticStep]:
        """Yield the steps that the query can apply now; each one advances the query's `frontier`."""
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
        """Make a step that could not be applied the next waiting step again."""
        self.ahead[step.version] = step
        self.frontier = Frontier(step.before)

    def _rest(self) -> None:
        """Advance the frontier as far as possible after the last applicable step."""
        if not (self.held or self.ahead or self.unknown):
            self.frontier = self.own
        elif not self.is_quiet:
            known = [version - 1 for version in self.unknown.values()]
            known += [step.before for step in self.ahead.values()]
            self.frontier.version = max(self.frontier.version, min([self.own.version, *known]))
