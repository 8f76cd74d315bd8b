"""One static sub-query as a table that queries share, and what one query has not taken of its tables.

commit -> a change waits for the commit's turn -> the table takes it -> a step waits for the query
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
    """What a commit does to a table; ``at_ms`` is the commit's wall clock time.

    ``weights``: how often each row comes (positive) or goes (negative). ``all_rows``: all rows behind it, in
    their order. ``before``, of a part that is looked up: what changed is not known, this is the dataset
    without it. None of these: too much to be worked out at the commit; the rows before it serve until all
    have been read anew.
    """

    version: int
    at_ms: int
    weights: Mapping[Solution, int] | None = None
    all_rows: Sequence[Solution] | None = None
    before: FrozenReader | None = None

    @property
    def is_known(self) -> bool:
        """False where the table is to be read anew."""
        return self.weights is not None or self.all_rows is not None or self.before is not None


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change of one table as queries take it.

    ``delta`` holds rows of ids. ``listed`` is set for a table whose rows have an order: all rows, in it.
    ``renewals`` counts commits that replaced a part which is looked up; ``delta`` is what came after them.
    """

    delta: Delta
    listed: Sequence[Solution] | None = None
    renewals: int = 0

    def __bool__(self) -> bool:
        return bool(self.delta) or self.listed is not None or bool(self.renewals)

    def then(self, later: TableChange) -> TableChange:
        """This change and a later one as one."""
        if later.renewals:
            return TableChange(later.delta, later.listed, self.renewals + later.renewals)
        listed = self.listed if later.listed is None else later.listed
        return TableChange(merge(dict(self.delta), later.delta), listed, self.renewals)


@dataclass(slots=True)
class ReloadedRows:
    """All rows of a table, encoded, ready to take the place of those it has.

    ``delta`` is how they differ from those that it has, where that is known. Not ``whole``: these are only
    the rows that come by it.
    """

    table: Table
    rows: Delta
    listed: list[Solution] | None
    delta: Delta | None = None
    whole: bool = True


Changes = Mapping[int, TableChange]
"""By the place of the static part."""


@dataclass(slots=True)
class CommitWatchers:
    """What look-ups into the store need of commits.

    Attributes:
        changed: called with each change of the part at its commit.
        frozen: the dataset from before a bulk load that is under way.
    """

    changed: list[Callable[[Change], None]] = field(default_factory=list)
    frozen: FrozenReader | None = None


_NO_IDENTITY = PartIdentity()


class Table(SharedRows):
    """The rows of a static sub-query at one version of the store, and the changes after it.

    The writers' side (`waiting`, `blind`) is ahead of the engine's side (`rows`, `version`) by the commits
    whose turn has not come. A part that is looked up has a table without rows: only its changes take their
    turns.

    Attributes:
        identity: what it is; queries share the table of a part.
        name: a short name made from the key of that, the same after a restart.
        part: pattern and columns under canonical names.
        triggers: where a quad can match that; none where commits do not change the table by themselves
            (``follows``): its query reads it by hand, by a timer, or because of SERVICE.
        background: evaluates the part; used by writers, one at a time. Others use a ``new_background``.
        is_held: its rows are; else they are looked up.
        since: the oldest version of which it is known that the rows were the same from there on.
        waiting: changes whose turn has not come, oldest first.
        blind: the writers' side does not look at commits, because all rows will be read anew.
        live: some query reads it: its changes take their turns.
        behind: the first version that the rows do not reflect although its turn has come, None for none.
        reading: how all rows were read the last time.
        readers: of the queries that have begun.
        watchers: of a part that is looked up.
        users: queries that have it, also those that have not begun.
        ready: set when the rows are there, or cannot be had.
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
        """True while its rows are read anew for a query that reads them."""
        return self.live and (self.blind or self.behind is not None)

    def begin_at(self, version: int, fresh: Delta, listed: Sequence[Solution] | None) -> None:
        """Have all rows at a version, as `encode` gives them."""
        self.load(fresh, listed)
        self.version = self.since = version

    # --- the engine's side ----------------------------------------------------------------------

    def catch_up(self, version: int) -> None:
        """Take the changes up to a version, each as its own; stops where one has to be read anew."""
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
        """Take rows that were read anew at a version; those that go, whose terms are still pinned."""
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
        """Take the rows of another version, of a part that does not follow the store; the change."""
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
    """The newest version that rows reflect."""

    version: int


@dataclass(slots=True)
class TableFrontier(Frontier):
    """The newest version whose turn has come, and the names of the queries whose tables it has ``moved``.

    ``place`` is the number of the task at work in the one order of everything.
    """

    moved: dict[str, None] = field(default_factory=dict)
    place: int = 0


@dataclass(slots=True)
class StaticStep:
    """The static parts of a query move to a version, all together, by the changes since ``before``.

    ``before`` is a version with the rows as they were; ``at_ms`` the wall clock time of the commit. While the
    step waits, ``caught_up`` are the tables whose rows were not known at some version in between. ``place``
    is the number of the task that completed it.
    """

    version: int
    before: int
    at_ms: int
    changes: dict[int, TableChange] = field(default_factory=dict)
    caught_up: list[Table] = field(default_factory=list)
    place: int = 0

    def add(self, changes: Changes) -> None:
        """Add later changes; nobody changes those that tables gave."""
        for place, change in changes.items():
            earlier = self.changes.get(place)
            self.changes[place] = change if earlier is None else earlier.then(change)


class PendingSteps:
    """The steps that one query has before it. Filled in the engine's thread by tables, taken by the query.

    A step waits while the rows of some table are not known at its version. When they are again, those in
    between have become one: no query sees tables at different versions.

    Attributes:
        tables: those of the query ``name``, by the places of its static parts.
        frontier: the version that its rows reflect: that of the turn while nothing waits.
        task: the engine's; ``own`` is the query's, which is another one while its backlog is not empty.
        held: steps are taken only when it is told to: refreshed by hand or by a timer.
        ahead: the steps that wait, by version.
        unknown: from which version on the rows of a table are not known.
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
        """The query begins at the present turn."""
        self.frontier = Frontier(self.own.version) if self.held else self.own

    def move(self, task: TableFrontier) -> None:
        """The query is at this turn: its own one, which moves on by itself, or the engine's again."""
        quiet, self.own = self.is_quiet, task
        if quiet:
            self.frontier = task
        elif not self.held:
            self._rest()

    @property
    def is_quiet(self) -> bool:
        """True when nothing waits or is being taken, and all rows are known."""
        return self.frontier is self.own

    def version_at(self, task: int) -> int:
        """The version of the rows at an earlier turn, behind which no step was taken."""
        return task if self.is_quiet else min(task, self.frontier.version)

    # --- what tables tell -----------------------------------------------------------------------

    def took(self, table: Table, version: int, at_ms: int, change: TableChange) -> None:
        """The table is at a version now, by this change: that of a commit, or of all since it fell behind."""
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
        """The rows of a table are not known from a version on."""
        self._part(version)
        self.unknown[table] = version

    def _part(self, version: int) -> None:
        """From before a version on the query is not where the turn is."""
        if self.is_quiet:
            self.frontier = Frontier(min(self.own.version, version - 1))

    def _gathered(self, start: int, last: StaticStep) -> StaticStep:
        """The steps from a version on as one with the last."""
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
        """Versions at which some rows are not known: from one to before another, or to no known end."""
        late = {(step.before + 1, step.version) for step in self.ahead.values() if step.caught_up}
        return frozenset(late | {(start, None) for start in self.unknown.values()})

    @property
    def behind(self) -> frozenset[int]:
        """The places of parts whose rows are not known at some version in these."""
        tables = [*self.unknown, *(table for step in self.ahead.values() for table in step.caught_up)]
        return frozenset(place for place, each in enumerate(self.tables) if each in tables)

    def untaken(self, place: int) -> TableChange:
        """What the table of a part is ahead of the query."""
        found = TableChange({})
        for version in sorted(self.ahead):
            change = self.ahead[version].changes.get(place)
            if change is not None:
                found = found.then(change)
        return found

    def rows_ahead(self, place: int) -> int:
        """How many rows more the table of a part has; called in any thread."""
        waiting = [step.changes[place] for step in list(self.ahead.values()) if place in step.changes]
        return sum(sum(change.delta.values()) for change in waiting)

    def waiting(self) -> Iterator[IdRow]:
        """The rows of steps that the query has not taken, read in pieces while steps come and go."""
        for step in list(self.ahead.values()):
            for change in list(step.changes.values()):
                yield from list(change.delta)

    # --- taking them ----------------------------------------------------------------------------

    def ready(self) -> Iterator[StaticStep]:
        """The steps that the query can take now; its `frontier` moves on with each."""
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
        """A step was not taken after all: it is the next one again."""
        self.ahead[step.version] = step
        self.frontier = Frontier(step.before)

    def _rest(self) -> None:
        """No step can be taken now: the rows are those of all versions before the next."""
        if not (self.held or self.ahead or self.unknown):
            self.frontier = self.own
        elif not self.is_quiet:
            known = [version - 1 for version in self.unknown.values()]
            known += [step.before for step in self.ahead.values()]
            self.frontier.version = max(self.frontier.version, min([self.own.version, *known]))
