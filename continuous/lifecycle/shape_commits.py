"""Commits that make shapes visible or remove them, with the graph of their report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit, GraphName
from quadrill.store.changes.owners import Owner, Owners
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest
from quadrill.store.registry import ShapesRecord

from ..rules.store_facts import InputGraphs
from ..shapes.errors import ValidationStoppedError
from ..shapes.kept_results import KeptResults
from ..shapes.report_graph import report_quads
from ..shapes.shape_order import in_order
from ..shapes.shape_set import ShapeSet
from .result_notes import Computed, Failed, Removed, ResultNote
from .shape_consequences import ShapeConsequences
from .shape_feeds import ShapeFeeds
from .shape_inputs import holding, inputs_of
from .shape_records import ShapeRecords


class ShapeCommits:
    """Makes the commits that add, replace or remove shapes of one store."""

    def __init__(
        self, store: QuadStore, records: ShapeRecords, consequences: ShapeConsequences, feeds: ShapeFeeds
    ) -> None:
        self._store = store
        self._records = records
        self._consequences = consequences
        self._feeds = feeds

    def replace(
        self,
        candidate: ShapeSet,
        record: ShapesRecord,
        results: Callable[[PendingChanges], KeptResults],
    ) -> None:
        """Commit the report of shapes, make the shapes visible with the commit, and record their state.

        Args:
            candidate: the shapes; ``results`` may set its attribute ``error``.
            record: the record of the shapes in the registry, with the graph of the former report.
            results: returns the results in the dataset of the commit.
        """
        former = former_graph(record)

        def derive(pending: PendingChanges) -> None:
            _drop(former, pending)
            kept = results(pending)
            candidate.kept = KeptResults()
            candidate.kept.apply(kept.by_focus())
            _write_report(candidate, pending)
            owned.append(pending.owned)

        def committed(commit: Commit) -> None:
            self._consequences.install(candidate, owned=owned[-1])
            self._note(candidate, commit)

        owned: list[Owners] = []
        self._submit(candidate.name, candidate.owner, derive, committed)
        self._finish(candidate, record)

    def _note(self, shapes: ShapeSet, commit: Commit) -> None:
        """Enqueue the results of shapes at a commit for their feed."""
        results = list(shapes.kept.by_focus().values())
        what = Computed(results) if shapes.error is None else Failed(shapes.error)
        self._feeds.add([ResultNote(shapes.name, commit.version, what, commit.at_ms)])

    def start(self, loaded: Sequence[tuple[ShapeSet, ShapesRecord]]) -> None:
        """Commit the reports of all shapes at a start of the server, and make the shapes visible.

        The commits change nothing, unless a crash has interrupted an earlier commit. No shapes check these
        commits. Shapes that exceed a budget get the state failed.
        """
        sets = [shapes for shapes, _ in loaded]
        records = {record.name: record for _, record in loaded}
        owned, with_shapes = self._store.queue.owned, holding(sets)
        for shapes in in_order(sets):
            inputs = inputs_of(shapes, owned, with_shapes)
            load = partial(_load, shapes, inputs, former_graph(records[shapes.name]))
            self._submit(shapes.name, shapes.owner, load, partial(self._note, shapes))
        self._consequences.install(*sets, owned=owned)
        for shapes, record in loaded:
            self._finish(shapes, record)

    def _finish(self, shapes: ShapeSet, record: ShapesRecord) -> None:
        """Record the state of shapes after their commit."""
        former = former_graph(record)
        state: Literal["ready", "failed"] = "ready" if shapes.error is None else "failed"
        finished = replace(record, former=None, state=state, error=shapes.error)
        if finished != self._records.get(shapes.name):
            self._records.put(finished)
        if former is not None:
            self._store.queue.disown(former, shapes.owner)

    def remove(self, name: str, owner: Owner, graphs: Iterable[GraphName]) -> None:
        """Remove shapes and the graphs of their reports, and then their record."""

        def derive(pending: PendingChanges) -> None:
            for graph in graphs:
                if isinstance(graph, NamedNode):
                    pending.drop(graph)

        def committed(commit: Commit) -> None:
            self._consequences.remove(name)
            self._feeds.add([ResultNote(name, commit.version, Removed(), commit.at_ms)])

        self._submit(name, owner, derive, committed)
        self._records.remove(name)
        for graph in graphs:
            self._store.queue.disown(graph, owner)

    def _submit(
        self,
        name: str,
        owner: Owner,
        make: Callable[[PendingChanges], None],
        committed: Callable[[Commit], None],
    ) -> None:
        """Commit the replacement or the removal of shapes, which do not check this commit."""

        def derive(pending: PendingChanges) -> None:
            self._consequences.leaving = pending, name
            make(pending)

        request = WriteRequest(
            derive, f"shapes {name}", owner=owner, alone=True, committed=committed, timed=False
        )
        try:
            self._store.queue.submit(request)
        finally:
            leaving = self._consequences.leaving
            if leaving is not None and leaving[1] == name:
                self._consequences.leaving = None
        self._feeds.publish()


def _load(shapes: ShapeSet, inputs: InputGraphs, former: NamedNode | None, pending: PendingChanges) -> None:
    """Compute the results of shapes, write their report, and drop the former report."""
    _drop(former, pending)
    if shapes.error is None:
        try:
            shapes.kept = shapes.complete(pending, inputs, shapes.budget(timed=False))
        except ValidationStoppedError as error:
            shapes.error = error.message
    _write_report(shapes, pending)


def _drop(former: NamedNode | None, pending: PendingChanges) -> None:
    """Drop the former report before results are computed, because the shapes may check its graph."""
    if former is not None:
        pending.drop(former)


def _write_report(shapes: ShapeSet, pending: PendingChanges) -> None:
    into = shapes.definition.into
    if into is not None:
        pending.replace(into, report_quads(shapes.kept, into) if shapes.error is None else ())


def former_graph(record: ShapesRecord) -> NamedNode | None:
    """Return the graph of the former report, which an unfinished PUT removes; None if there is none."""
    return None if record.former is None else NamedNode(record.former)
