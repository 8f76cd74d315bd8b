"""Validation of every commit by the shapes of a store, which updates their reports in the same commit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from quadrill.store.changes.commit import Commit, GraphName, NetChange
from quadrill.store.changes.owners import Owners
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.quads.committer import ApplyError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest

from ..rules.store_facts import InputGraphs
from ..shapes.errors import ValidationStoppedError
from ..shapes.kept_results import KeptResults, ResultChange
from ..shapes.report_graph import report_quads, write_changes
from ..shapes.result import Result
from ..shapes.shape_order import in_order
from ..shapes.shape_set import ShapeSet
from ..shapes.violations import added_violations, violation_error
from .result_notes import Failed, ResultNote, changed
from .shape_feeds import ShapeFeeds
from .shape_inputs import holding, inputs_of
from .shape_records import ShapeRecords

log = logging.getLogger("quadrill.continuous")


@dataclass(slots=True)
class _ResultGroup:
    """The changes of results by the requests of a group; they take effect when the group is committed.

    Attributes:
        kept: the results after the requests so far, by name of the shapes.
        failed: why shapes fail with the group, by name of the shapes.
        notes: how the requests so far change results, for the feeds.
        version: the version after the requests so far.
        regrouped: True if the results reflect the graphs that have joined or left the data.
    """

    kept: dict[str, KeptResults] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[ResultNote] = field(default_factory=list)
    version: int = 0
    regrouped: bool = False

    def copy(self) -> _ResultGroup:
        """Return a copy, which the next request can change."""
        return _ResultGroup(
            dict(self.kept), dict(self.failed), list(self.notes), self.version, self.regrouped
        )

    def change(self, name: str, kept: KeptResults, change: ResultChange, version: int) -> KeptResults:
        """Note a change of the results ``kept`` of shapes; return the results after it."""
        after = KeptResults(kept)
        after.apply(change)
        self.notes.append(ResultNote(name, version, changed(kept, change)))
        self.kept[name] = after
        return after

    def fail(
        self, shapes: ShapeSet, error: ValidationStoppedError, state: PendingChanges, version: int
    ) -> None:
        """Note that shapes fail, and empty the graph of their report in ``state``."""
        self.failed[shapes.name] = error.message
        self.notes.append(ResultNote(shapes.name, version, Failed(error.message)))
        if shapes.definition.into is not None:
            state.clear(shapes.definition.into)


class ShapeConsequences:
    """Applies the shapes of one store to commits; see `quadrill.store.quads.consequences`.

    Shapes are replaced as a whole under the writer lock. `reading` keeps their results at the version of the
    store; a writer changes results only after a group is logged and applied, which may take long for a load.

    Attributes:
        sets: the shapes by name.
        ordered: the shapes, each after the shapes whose reports it reads.
        leaving: the pending changes of a request that replaces or removes shapes, and the name of the shapes;
            None while there is no such request.
    """

    def __init__(self, store: QuadStore, records: ShapeRecords, feeds: ShapeFeeds) -> None:
        self.sets: dict[str, ShapeSet] = {}
        self.ordered: Sequence[ShapeSet] = ()
        # Guards the results of all shapes.
        self._results = threading.Condition()
        # The version before the group that is being logged and applied; None if there is none.
        self._before: int | None = None
        self.leaving: tuple[PendingChanges, str] | None = None
        self._store = store
        self._records = records
        self._feeds = feeds
        self._group = _ResultGroup()
        # The graphs from which shapes were read.
        self._holding: frozenset[GraphName] = frozenset()
        # The owners of graphs and the graphs with shapes, as the results of shapes without ``data`` reflect
        # them.
        self._reflected: tuple[Owners, frozenset[GraphName]] | None = None

    # --- the shapes ---------------------------------------------------------------------------

    def install(self, *shapes: ShapeSet, owned: Owners) -> None:
        """Add or replace shapes; their results reflect the owners of graphs in ``owned``."""
        first = not self.sets
        self._use({**self.sets, **{each.name: each for each in shapes}})
        if first:
            self.note_owners(owned)

    def remove(self, name: str) -> None:
        """Remove shapes."""
        self._use({other: each for other, each in self.sets.items() if other != name})

    def _use(self, sets: dict[str, ShapeSet]) -> None:
        with self._results:
            self.sets = sets
            self.ordered = in_order(sets.values())
            self._holding = holding(sets.values())

    def inputs(self, shapes: ShapeSet, owned: Owners) -> InputGraphs:
        """Return the graphs whose union shapes check; the shapes need not be installed."""
        others = (each for name, each in self.sets.items() if name != shapes.name)
        return inputs_of(shapes, owned, holding([*others, shapes]))

    @property
    def follows_owners(self) -> bool:
        """True if some shapes check all graphs without an owner."""
        return any(each.definition.data is None for each in self.ordered)

    def names_reading(self, graph: GraphName) -> list[str]:
        """Return the names of the shapes whose ``data`` names a graph."""
        return [each.name for each in self.ordered if graph in (each.definition.data or ())]

    # --- consequences (store.quads.consequences) ----------------------------------------------

    @property
    def active(self) -> bool:
        """True if there are shapes."""
        return bool(self.sets)

    def begin_group(self) -> None:
        """Begin a group of requests; see `Consequences.begin_group`."""
        self._group = _ResultGroup(version=self._store.committer.version)

    def derive(
        self,
        below: PendingChanges,
        pending: PendingChanges,
        change: NetChange,
        *,
        timed: bool,
        regrouping: bool = False,
    ) -> int:
        """Check a change, and update the reports; see `Consequences.derive`.

        Shapes that the request itself replaces or removes do not check it. No shapes refuse the change if
        ``regrouping`` is True: rule sets have made it because graphs have joined or left their input.
        Otherwise no later commit could be made.
        """
        regrouped = not self._group.regrouped and self._regrouped(below)
        if not regrouped and not any(each.sees(change) for each in self.ordered):
            if change:
                self._group.version = self._store.committer.next_version(self._group.version)
            return 0
        leaving = self.leaving[1] if self.leaving is not None and self.leaving[0] is pending else None
        group = self._group.copy()
        if regrouped:
            below = self._regroup(below, leaving, group)
            pending.replay(below.net())

        def update(shapes: ShapeSet, kept: KeptResults, change: NetChange) -> ResultChange:
            inputs = inputs_of(shapes, pending.owned, self._holding)
            budget = shapes.budget(timed=timed)
            return shapes.update(kept, below, pending, change, inputs, budget, size=self._size)

        return self._check(pending, change, update, leaving, group, refuses=not regrouping)

    def _size(self) -> int:
        return self._store.reader.quad_count

    def derive_all(self, pending: PendingChanges) -> int:
        """Check the dataset after unknown changes; see `Consequences.derive_all`."""

        def update(shapes: ShapeSet, kept: KeptResults, _: NetChange) -> ResultChange:
            inputs = inputs_of(shapes, pending.owned, self._holding)
            return kept.replacing(shapes.complete(pending, inputs, shapes.budget(timed=False)).by_focus())

        return self._check(pending, NetChange(), update, None, self._group.copy(), unknown=True)

    def _regrouped(self, below: PendingChanges) -> bool:
        """Return True if quads of ``below`` have joined or left the data of shapes without ``data``."""
        if self._reflected is None or not self.follows_owners:
            return False
        before, now = self._reflected, (below.owned, self._holding)
        if before[0] is now[0] and before[1] == now[1]:
            return False
        changed = (frozenset(before[0]) | before[1]) ^ (frozenset(now[0]) | now[1])
        return next((quad for graph in changed for quad in below.quads_of(graph)), None) is not None

    def _regroup(self, below: PendingChanges, leaving: str | None, group: _ResultGroup) -> PendingChanges:
        """Compute results again after graphs joined or left the data; return the dataset with the reports.

        These results do not refuse a commit, even in mode reject, because no commit has added them.

        Args:
            below: the dataset.
            leaving: the name of shapes that the request replaces or removes; None for none.
            group: gets the results, and the shapes that fail because they exceed a budget.
        """
        state = PendingChanges(below)
        written = set[GraphName]()
        version = self._store.committer.next_version(group.version)
        for shapes in self.ordered:
            name, data, into = shapes.name, shapes.definition.data, shapes.definition.into
            if shapes.error is not None or name in group.failed or name == leaving:
                continue
            if data is not None and written.isdisjoint(data):
                continue
            inputs = inputs_of(shapes, below.owned, self._holding)
            kept = group.kept.get(name, shapes.kept)
            try:
                complete = shapes.complete(state, inputs, shapes.budget(timed=False))
            except ValidationStoppedError as error:
                group.fail(shapes, error, state, version)
            else:
                after = group.change(name, kept, kept.replacing(complete.by_focus()), version)
                if into is not None:
                    state.replace(into, report_quads(after, into))
            if into is not None:
                written.add(into)
        group.regrouped = True
        return state

    def _check(
        self,
        pending: PendingChanges,
        change: NetChange,
        update: Callable[[ShapeSet, KeptResults, NetChange], ResultChange],
        leaving: str | None,
        group: _ResultGroup,
        *,
        unknown: bool = False,
        refuses: bool = True,
    ) -> int:
        """Validate a change; return the number of violations that it adds to shapes with mode warn.

        Args:
            pending: the dataset with the change.
            change: the change.
            update: returns how the results of shapes change.
            leaving: the name of shapes that the request replaces or removes; None for none.
            group: gets the new results; it takes effect with the commit unless the change is refused.
            unknown: True if the dataset has changes besides ``change``, as after a bulk load.
            refuses: True if shapes with mode reject may refuse the change.

        Raises:
            ViolationError: the change adds violations to shapes with mode reject.
            ValidationStoppedError: the validation of shapes with mode reject exceeds a budget.
        """
        version = self._store.committer.next_version(group.version)
        warned = 0
        for shapes in self.ordered:
            name, mode, into = shapes.name, shapes.definition.mode, shapes.definition.into
            if shapes.error is not None or name in group.failed or name == leaving:
                continue
            rejects = refuses and mode == "reject"
            kept = group.kept.get(name, shapes.kept)
            try:
                new = update(shapes, kept, change)
            except ValidationStoppedError as error:
                if rejects:
                    raise error.of_shapes(name) from None
                group.fail(shapes, error, pending, version)
            else:
                violations: list[Result] = added_violations(kept, new) if new and mode != "watch" else []
                if violations and rejects:
                    shapes.counts.refused += 1
                    raise violation_error(name, violations)
                warned += len(violations)
                if new:
                    after = group.change(name, kept, new, version)
                    if into is not None:
                        write_changes(pending, into, kept, after, new, shapes.size)
            if into is not None and len(self.ordered) > 1:
                change = pending.net()
        if unknown or change or pending.net():
            group.version = version
        else:  # only the data of shapes has changed
            for note in group.notes:
                note.version = min(note.version, group.version)
        self._group = group
        return warned

    def committing(self, owned: Owners) -> AbstractContextManager[None]:
        """Return the context in which a group is logged and applied; see `Consequences.committing`."""
        group = self._group
        if not (group.kept or group.failed or group.notes) and self._reflected is not None:
            reflected, with_shapes = self._reflected
            if reflected is owned and with_shapes is self._holding:
                return nullcontext()
        return self._noting(group, owned)

    @contextmanager
    def _noting(self, group: _ResultGroup, owned: Owners) -> Iterator[None]:
        self._before = self._store.committer.version
        try:
            self._feeds.add(group.notes)
            try:
                for name, error in group.failed.items():
                    self._records.fail(name, error)
                yield
            except ApplyError:  # the commit is durable
                self._take(group, owned)
                raise
            except BaseException:
                self._feeds.withdraw(group.notes)
                for name in group.failed:
                    self._records.restore(name)
                raise
            self._take(group, owned)
        finally:
            with self._results:
                self._before = None
                self._results.notify_all()

    @contextmanager
    def reading(self) -> Iterator[int]:
        """Keep the results at the version of the store, which is yielded, until the end of the block.

        A reader waits only between the moment at which a commit becomes visible and that at which its results
        do. Commits that change results wait for the end of the block, so keep it short.
        """
        with self._results:
            while (version := self._store.reader.version) != self._before and self._before is not None:
                self._results.wait()
            yield version

    def regroup(self, cause: str) -> None:
        """Commit what changes in derived graphs when graphs have joined or left the graphs that they read."""
        request = WriteRequest(lambda _: None, cause, alone=True, timed=False, rederive=True)
        self.publish(self._store.queue.submit(request))

    def publish(self, commit: Commit) -> None:
        """Publish changed results after a commit that changed no quad and was therefore not logged."""
        if not commit.changed:
            self._feeds.commit_delivered(commit)

    def _take(self, group: _ResultGroup, owned: Owners) -> None:
        with self._results:
            for name, kept in group.kept.items():
                if name not in group.failed:
                    self.sets[name].kept.take(kept)
            for name, error in group.failed.items():
                self.sets[name].fail(error)
                log.warning("the shapes %s have failed: %s", name, error)
            self.note_owners(owned)

    def note_owners(self, owned: Owners) -> None:
        """Record the owners of graphs that the results reflect."""
        self._reflected = owned, self._holding
