"""Commits that make shapes visible or remove them, with the graph of their report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit, GraphName
from quadrill.store.changes.owners import Owner
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest
from quadrill.store.registry import ShapesRecord

from ..shapes.kept_results import KeptResults
from ..shapes.report_graph import report_quads
from ..shapes.shape_set import ShapeSet
from .result_notes import Computed, Failed, Removed, ResultNote
from .shape_consequences import ShapeConsequences
from .shape_feeds import ShapeFeeds
from .shape_records import ShapeRecords


class ShapeCommits:
    """Makes the commits of one store's shapes."""

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
        """Commit the report of shapes, make them visible with the commit, and note their state.

        Args:
            candidate: the shapes; ``results`` may set its attribute ``error``.
            record: the record of the shapes in the registry, with the graph of the former report.
            results: returns the results in the dataset of the commit.
        """
        former = former_graph(record)

        def derive(pending: PendingChanges) -> None:
            kept = results(pending)
            if former is not None:
                pending.drop(former)
            candidate.kept = KeptResults()
            candidate.kept.apply(kept.by_focus())
            into = candidate.definition.into
            if into is not None:
                pending.replace(into, () if candidate.error is not None else report_quads(kept, into))

        def committed(commit: Commit) -> None:
            self._consequences.install(candidate)
            error = candidate.error
            what = Computed(list(candidate.kept.by_focus().values())) if error is None else Failed(error)
            self._feeds.add([ResultNote(candidate.name, commit.version, what, commit.at_ms)])

        self._submit(candidate.name, candidate.owner, derive, committed)
        state: Literal["ready", "failed"] = "ready" if candidate.error is None else "failed"
        finished = replace(record, former=None, state=state, error=candidate.error)
        if finished != self._records.get(candidate.name):
            self._records.put(finished)
        if former is not None:
            self._store.queue.disown(former, candidate.owner)

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
            self._consequences.leaving = None
        self._feeds.publish()


def former_graph(record: ShapesRecord) -> NamedNode | None:
    """Return the graph of the former report, which a PUT under way removes."""
    return None if record.former is None else NamedNode(record.former)
