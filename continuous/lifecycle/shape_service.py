"""The shapes of one store: registration, replacement and removal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.owners import Owner
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.errors import ConflictError, InputError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry, ShapesRecord

from ..algebra.flows import FlowEdge, find_cycle
from ..rules.order import report_is_read
from ..rules.store_facts import InputGraphs
from ..shapes.conformance import unknown_shapes
from ..shapes.definition import ShapesDefinition
from ..shapes.errors import ValidationStoppedError
from ..shapes.kept_results import KeptResults
from ..shapes.result import Result
from ..shapes.shape_order import require_no_cycle
from ..shapes.shape_set import ShapeSet
from .derived_graphs import claim, missed_changes, require_free
from .shape_commits import ShapeCommits
from .shape_consequences import ShapeConsequences
from .shape_feeds import ShapeFeeds
from .shape_records import ShapeRecords
from .shape_reports import ShapeReports
from .shape_start import ShapeStart

log = logging.getLogger("quadrill.continuous")


@dataclass(frozen=True, slots=True)
class StreamsOfShapes:
    """Access to the declared streams, which may name shapes.

    Attributes:
        lock: held while a stream is declared.
        names: returns the names of the streams whose declaration names the given shapes.
    """

    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    names: Callable[[str], list[str]] = lambda name: []


@dataclass(frozen=True, slots=True)
class ShapesPut:
    """The outcome of a PUT of shapes.

    Attributes:
        created: True if the shapes are new.
        changed: False if the same shapes were registered already.
    """

    created: bool
    changed: bool


class ShapeService:
    """Registers shapes. Any thread may call the methods.

    A lock of the service guards the names of shapes that a request is changing; no commit is made while a
    thread holds it.

    Attributes:
        consequences: applies the shapes to commits.
        reports: reads the shapes and their results.
        feeds: publishes how results change.
        flows_of_others: functions that return the graphs that rule sets and queries read and write.
        streams: the declared streams, which may name shapes.
        flows_of_rules: returns the graphs that rule sets read and write.
    """

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        *,
        base_iri: str,
        clock_ms: Callable[[], int],
        feeds: ShapeFeeds | None = None,
    ) -> None:
        """Create the service; `start` loads the shapes. Without ``feeds``, feeds are kept in memory."""
        self.flows_of_others: tuple[Callable[[], list[FlowEdge]], ...] = ()
        self.streams = StreamsOfShapes()
        self.flows_of_rules: Callable[[], list[FlowEdge]] = list
        self._store = store
        self._records = ShapeRecords(registry)
        self.feeds = feeds or ShapeFeeds(store)
        self.consequences = ShapeConsequences(store, self._records, self.feeds)
        self.reports = ShapeReports(store, self._records, self.consequences, self.feeds)
        self._commits = ShapeCommits(store, self._records, self.consequences, self.feeds)
        self._base_iri = base_iri
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._under_way: dict[str, ShapeSet | None] = {}

    def start(self) -> None:
        """Load the shapes, and compute their reports; called before any client can read."""
        ShapeStart(self._store, self._records, self._commits, self._parse).run()

    # --- registration -------------------------------------------------------------------------

    def put(self, name: str, definition: ShapesDefinition) -> ShapesPut:
        """Create or replace shapes, and compute their report.

        Raises:
            ShapesInvalidError, UnsupportedError, LimitError: the shapes are refused.
            ConflictError: the graph of the report is not empty or belongs to another owner, or a change of
                the shapes is under way.
            ValidationStoppedError: the shapes have mode reject, and their validation was stopped, for
                instance by too many results.
        """
        candidate = self._parse(name, definition)
        with self._lock:
            self._require_idle(name)
            old = self.consequences.sets.get(name)
            if old is not None and old.error is None and old.definition == definition:
                return ShapesPut(False, False)
            self._require_possible(candidate, old)
            into = definition.into
            if into is not None:
                claim(self._store, into, candidate.owner)
            self._under_way[name] = candidate
        record = self._records.get(name)
        try:
            self._replace(candidate, old)
        except BaseException:
            if self.consequences.sets.get(name) is not candidate:
                self._restore(name, record)
                if into is not None and (old is None or old.definition.into != into):
                    self._store.queue.disown(into, candidate.owner)
            raise
        finally:
            self._under_way.pop(name, None)
        if definition.graph is not None or (old is not None and old.definition.graph is not None):
            self._regroup()
        return ShapesPut(old is None, True)

    def compare(self, name: str, definition: ShapesDefinition) -> Literal["create", "change", "same"]:
        """Return what a PUT would do, without doing it; raises the errors of `put` but for the validation."""
        candidate = self._parse(name, definition)
        with self._lock:
            old = self.consequences.sets.get(name)
            if old is not None and old.error is None and old.definition == definition:
                return "same"
            self._require_possible(candidate, old)
            if definition.into is not None:
                require_free(self._store, definition.into, candidate.owner)
        return "create" if old is None else "change"

    def _replace(self, candidate: ShapeSet, old: ShapeSet | None) -> None:
        """Compute results at one version without the writer lock, then update them for later commits."""
        store, name = self._store, candidate.name
        before = self._records.get(name)
        with store.reader.snapshot_read() as snapshot:
            version, owned = snapshot.version, store.queue.owned
            inputs = self.consequences.inputs(candidate, owned)
            graphs = candidate.snapshot(StoreView(snapshot.database(), owned), inputs)
        budget = candidate.budget(timed=False)
        error = None
        kept = KeptResults()
        try:
            kept = candidate.complete_snapshot(graphs, budget)
        except ValidationStoppedError as refused:
            if candidate.definition.mode == "reject":
                raise refused.of_shapes(name) from None
            error = refused.message
        former = (
            None if old is None or old.definition.into == candidate.definition.into else old.definition.into
        )
        record = ShapesRecord(
            name,
            candidate.definition.members(),
            None if former is None else former.value,
            created_ms=self._clock_ms() if before is None else before.created_ms,
        )
        self._records.put(record)

        def results(pending: PendingChanges) -> KeptResults:
            candidate.error = error
            new = KeptResults(kept)
            if error is not None:
                return new
            try:
                self._catch_up(
                    candidate,
                    new,
                    pending,
                    version,
                    None if former is not None and former in inputs else inputs,
                )
            except ValidationStoppedError as refused:
                if candidate.definition.mode == "reject":
                    raise refused.of_shapes(name) from None
                candidate.error = refused.message
                return KeptResults()
            return new

        self._commits.replace(candidate, record, results)

    def _catch_up(
        self,
        candidate: ShapeSet,
        kept: KeptResults,
        pending: PendingChanges,
        version: int,
        read: InputGraphs | None,
    ) -> None:
        """Update the results ``kept`` of an earlier version to the dataset of ``pending``.

        ``read`` are the graphs from which ``kept`` were computed; graphs may have changed their owners since.
        None stands for graphs with the former report, which the commit drops.
        """
        inputs = self.consequences.inputs(candidate, pending.owned)
        budget = candidate.budget(timed=False)
        missed = missed_changes(self._store, version) if inputs == read else None
        if missed is None:
            kept.apply(kept.replacing(candidate.complete(pending, inputs, budget).by_focus()))
        elif missed:
            below = PendingChanges(pending)
            for change in reversed(missed):
                below.replay(change.inverse())
            kept.apply(
                candidate.update(kept, below, pending, below.net().inverse(), inputs, budget, size=lambda: 0)
            )

    def _restore(self, name: str, record: ShapesRecord | None) -> None:
        try:
            if record is None:
                self._records.remove(name)
            else:
                self._records.put(record)
        except ReportedError:
            log.exception("the record of the shapes %s could not be restored", name)

    def delete(self, name: str) -> None:
        """Remove shapes and the graph of their report.

        Raises:
            NotFoundError: there are no such shapes.
            ConflictError: other shapes read their report, a stream names the shapes, or a change of the
                shapes is under way.
        """
        with self.streams.lock, self._lock:
            self._require_idle(name)
            record = self._records.get(name)
            shapes = self.consequences.sets.get(name)
            if record is None:
                raise unknown_shapes(name)
            into = None if shapes is None else shapes.definition.into
            if into is not None and (readers := self._readers(into, without=name)):
                raise _in_use(f"the report of the shapes {name} is", readers)
            if streams := self.streams.names(name):
                raise _in_use(f"the shapes {name} are", [f"the stream {each}" for each in streams])
            self._under_way[name] = None
        try:
            self._records.put(replace(record, state="dropping"))
            owner = Owner("shapes", name)
            graphs = [graph for graph, other in self._store.queue.owned.items() if other == owner]
            try:
                self._commits.remove(name, owner, graphs)
            except BaseException:
                if name in self.consequences.sets:
                    self._restore(name, record)
                raise
        finally:
            self._under_way.pop(name, None)
        if shapes is not None and shapes.definition.graph is not None:
            self._regroup()

    # --- elements of streams ------------------------------------------------------------------

    def require(self, name: str) -> None:
        """Raise NotFoundError if there are no shapes of this name; see `Conformance.require`."""
        with self._lock:
            if name in self._under_way and self._under_way[name] is None:
                raise unknown_shapes(name)
        self.reports.get(name)

    def added_by(self, name: str, triples: Iterable[Quad], *, most_ms: int | None = None) -> list[Result]:
        """Return the results that an insertion of triples would add; see `Conformance.added_by`."""
        return self.reports.added_by(name, triples, most_ms=most_ms)

    def _regroup(self) -> None:
        """Update the reports of shapes without ``data`` after a graph began or ceased to hold shapes."""
        try:
            self.consequences.regroup("shapes")
        except ReportedError as error:  # the next commit tries again
            log.warning("reports were not updated after shapes changed: %s", error.message)

    # --- conditions ---------------------------------------------------------------------------

    def _parse(self, name: str, definition: ShapesDefinition) -> ShapeSet:
        return ShapeSet(name, definition, self._base_iri)

    def _require_idle(self, name: str) -> None:
        if name in self._under_way:
            raise ConflictError(
                f"a change of the shapes {name} is under way",
                code="in-progress",
                hint="wait for its end, then repeat the request",
            )

    def _require_possible(self, candidate: ShapeSet, old: ShapeSet | None) -> None:
        """Raise the errors of `put` about other shapes, rule sets and queries.

        A report must not be in a graph that a rule set reads, and a report that other shapes read stays.
        """
        under_way = {name: shapes for name, shapes in self._under_way.items() if shapes is not None}
        require_no_cycle({**self.consequences.sets, **under_way, candidate.name: candidate}.values())
        self._require_no_flow_cycle(candidate)
        into = candidate.definition.into
        if into is not None and any(("graph", into.value) in reads for reads, _ in self.flows_of_rules()):
            raise report_is_read(str(into), f"the shapes {candidate.name}", "a rule set")
        former = None if old is None else old.definition.into
        if former is not None and former != candidate.definition.into:
            readers = self._readers(former, without=candidate.name)
            if readers:
                raise _in_use(f"the report of the shapes {candidate.name} is", readers)

    def _readers(self, graph: NamedNode, *, without: str) -> list[str]:
        names = [name for name in self.consequences.names_reading(graph) if name != without]
        return [f"the shapes {name}" for name in names]

    def _require_no_flow_cycle(self, candidate: ShapeSet) -> None:
        reads, makes = _flow(candidate)
        others = (edge for flows in self.flows_of_others for edge in flows())
        cycle = find_cycle(makes, reads, [*self.flows(candidate.name), *others])
        if cycle is not None:
            raise InputError(
                f"the shapes {candidate.name} would check their own report: "
                f"{cycle[0][1]} leads to {cycle[1][1]}",
                code="cycle",
                hint="leave the view that reads the report out of data",
                cycle=[candidate.name],
            )

    def flows(self, without: str | None = None) -> list[FlowEdge]:
        """Return the graphs that shapes name as their data, and those of their reports."""
        return [_flow(each) for each in self.consequences.ordered if each.name != without]


def _flow(shapes: ShapeSet) -> FlowEdge:
    data, into = shapes.definition.data or (), shapes.definition.into
    reads = {("graph", each.value) for each in data if isinstance(each, NamedNode)}
    return reads, [] if into is None else [("graph", into.value)]


def _in_use(what: str, readers: list[str]) -> ConflictError:
    return ConflictError(
        f"{what} in use by {', '.join(readers)}",
        code="in-use",
        hint="drop or change these first",
        used_by=readers,
    )
