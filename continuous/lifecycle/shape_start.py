"""Loads the registered shapes at a start, and completes what a crash has interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pyoxigraph import NamedNode

from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import ShapesRecord

from ..shapes.definition import ShapesDefinition, from_members
from ..shapes.shape_set import ShapeSet
from .derived_graphs import own_reports, own_views
from .shape_commits import ShapeCommits, former_graph
from .shape_records import ShapeRecords

log = logging.getLogger("quadrill.continuous")


class ShapeStart:
    """Loads the shapes of a registry. After a crash, exactly the shapes in the registry exist."""

    def __init__(
        self,
        store: QuadStore,
        records: ShapeRecords,
        commits: ShapeCommits,
        parse_shapes: Callable[[str, ShapesDefinition], ShapeSet],
    ) -> None:
        """Prepare the load; `run` does it. ``parse_shapes`` returns the shapes of a name and a definition."""
        self._store = store
        self._records = records
        self._commits = commits
        self._parse = parse_shapes

    def run(self) -> None:
        """Load all shapes, and commit their results and reports; finish removals that a crash interrupted."""
        records = self._records.all()
        if records and self._records.registry is not None:
            own_views(self._store, self._records.registry)
            own_reports(self._store, self._records.registry)
        loaded = [(shapes, record) for record in records if (shapes := self._load(record)) is not None]
        for shapes, record in loaded:
            if record.state == "dropping":
                graphs = (shapes.definition.into, former_graph(record))
                named = [each for each in graphs if isinstance(each, NamedNode)]
                self._commits.remove(shapes.name, shapes.owner, named)
        kept = [(shapes, record) for shapes, record in loaded if record.state != "dropping"]
        if kept:
            self._commits.start(kept)

    def _load(self, record: ShapesRecord) -> ShapeSet | None:
        """Return the shapes of a record; None, with a log line, if this version cannot read them."""
        try:
            shapes = self._parse(record.name, from_members(record.definition))
        except ReportedError as error:
            log.error("the shapes %s cannot be loaded: %s", record.name, error.message)
            self._records.put(replace(record, state="failed", error=error.message))
            return None
        if record.state == "failed":
            shapes.error = record.error
        return shapes
