"""Reading of shapes for clients: descriptions, reports, and validation without storing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyoxigraph import NamedNode, Quad, Store

from quadrill.store.changes.pending import StoreView
from quadrill.store.errors import NotFoundError
from quadrill.store.feeds.feed import Feed
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.results import in_fixed_order, solutions

from ..errors import FeedGoneError
from ..shapes.conformance import unknown_shapes
from ..shapes.data_graph import ShapesBudget
from ..shapes.errors import ShapesFailedError
from ..shapes.report import COLUMNS, result_row
from ..shapes.result import Result
from ..shapes.shape_set import ShapeSet
from ..shapes.snapshot import Snapshot
from ..shapes.validation_counts import ValidationCounts
from .shape_consequences import ShapeConsequences
from .shape_feeds import ShapeFeeds
from .shape_records import ShapeRecords

_MOST_DELAY_MS = 200
"""Maximum time in milliseconds for which the validation of a graph delays commits."""


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """The results of shapes at one version.

    Attributes:
        version: the version of the dataset.
        count: number of all results.
        results: the results, up to the limit that the caller asked for.
    """

    version: int
    count: int
    results: list[Result]


@dataclass(frozen=True, slots=True)
class ShapeFigures:
    """The state of shapes for metrics.

    Attributes:
        name: the name of the shapes.
        failed: True if their validation was stopped.
        severities: number of results by severity.
        counts: how often they have validated changes; the counts go on.
    """

    name: str
    failed: bool
    severities: Mapping[NamedNode, int]
    counts: ValidationCounts


class ShapeReports:
    """Reads shapes and their results. Any thread may call the methods."""

    def __init__(
        self, store: QuadStore, records: ShapeRecords, consequences: ShapeConsequences, feeds: ShapeFeeds
    ) -> None:
        self._store = store
        self._records = records
        self._consequences = consequences
        self._feeds = feeds

    def get(self, name: str) -> ShapeSet:
        """Return shapes. Raises: NotFoundError."""
        found = self._consequences.sets.get(name)
        if found is None:
            raise unknown_shapes(name)
        return found

    def describe(self, name: str) -> dict[str, Any]:
        """Return shapes as JSON members.

        Raises:
            NotFoundError: there are no such shapes.
        """
        record, shapes = self._records.get(name), self._consequences.sets.get(name)
        if record is None:
            raise unknown_shapes(name)
        with self._consequences.reading() as version:
            counts = {} if shapes is None else {each.value: n for each, n in shapes.kept.severities.items()}
        error = record.error if shapes is None else shapes.error
        return {
            "name": name,
            **{key: value for key, value in record.definition.items() if key != "text"},
            "state": "ready" if error is None else "failed",
            "version": version,
            "results": sum(counts.values()),
            "severities": counts,
            "cost_ms": 0.0 if shapes is None else round(shapes.counts.last_ms, 3),
            "error": error,
            "created": record.created_ms,
        }

    def text(self, name: str) -> str:
        """Return the shapes graph of shapes as N-Triples. Raises: NotFoundError."""
        record = self._records.get(name)
        if record is None:
            raise unknown_shapes(name)
        return str(record.definition["text"])

    def describe_all(self) -> list[dict[str, Any]]:
        """Return all shapes as JSON members, oldest first."""
        found = []
        for record in self._records.current():
            with suppress(NotFoundError):  # removed in the meantime
                found.append(self.describe(record.name))
        return found

    def figures(self) -> list[ShapeFigures]:
        """Return the state and the counts of all shapes that are loaded, for metrics."""
        with self._consequences.reading():
            return [
                ShapeFigures(each.name, each.error is not None, dict(each.kept.severities), each.counts)
                for each in self._consequences.ordered
            ]

    def report(self, name: str, limit: int) -> ShapeReport:
        """Return the results of shapes, ``limit`` at most.

        Raises:
            NotFoundError: there are no such shapes.
            ShapesFailedError: the shapes are over a budget, so that they have no report.
        """
        with self._consequences.reading() as version:
            shapes = self._working(name)
            results = list(islice(shapes.kept.results(), limit))
            return ShapeReport(version, shapes.kept.count, results)

    def rows(self, name: str) -> dict[str, Any]:
        """Return the results as SPARQL Results JSON, with `COLUMNS` and the members ``at`` and ``version``.

        Raises:
            FeedGoneError, NotFoundError, ShapesFailedError: see `feed` and `report`.
        """
        self.feed(name)
        with self._consequences.reading() as version:
            shapes = self._working(name)
            results = list(shapes.kept.results())
        rows = in_fixed_order([result_row(each) for each in results])
        return {"at": self._feeds.time_of(name), "version": version, **solutions(COLUMNS, rows)}

    def feed(self, name: str) -> Feed:
        """Return the feed of the rows that commits add to the report and remove from it.

        Raises:
            FeedGoneError: the shapes were removed.
            NotFoundError: there were never such shapes.
        """
        found = self._feeds.get(name) if name in self._consequences.sets else None
        if found is not None:
            return found
        if self._feeds.has_had(name):
            raise FeedGoneError(f"the shapes {name} were removed")
        raise unknown_shapes(name)

    def _working(self, name: str) -> ShapeSet:
        shapes = self.get(name)
        if shapes.error is not None:
            raise ShapesFailedError(
                f"the shapes {name} have failed: {shapes.error}", hint="put the shapes again", shapes=name
            )
        return shapes

    def validate(self, name: str, triples: Iterable[Quad]) -> list[Result]:
        """Return the results of a graph alone, which is not stored; see `ShapeSet.complete_snapshot`."""
        shapes = self.get(name)
        return list(shapes.complete_snapshot(Snapshot(quads=[triples]), shapes.budget(timed=True)).results())

    def added_by(self, name: str, triples: Iterable[Quad], *, most_ms: int | None = None) -> list[Result]:
        """Return the results that an insertion of triples would add; see `Conformance.added_by`.

        Commits wait for the validation only if they are so frequent that each attempt without a lock reads
        more than one version; then for at most `_MOST_DELAY_MS`.
        """
        shapes = self._working(name)
        quads = list(triples)

        def validate(database: Store, budget: ShapesBudget) -> list[Result]:
            owned = self._store.queue.owned
            inputs = self._consequences.inputs(shapes, owned)
            return shapes.added_by(StoreView(database, owned), quads, inputs, budget)

        budget = shapes.budget(timed=True, most_ms=most_ms)
        found = self._store.reader.read_at_once(lambda database: validate(database, budget))
        if found is not None:
            return found[0]
        with self._store.reader.snapshot_read() as snapshot:
            return validate(snapshot.database(), shapes.budget(timed=True, most_ms=_MOST_DELAY_MS))
