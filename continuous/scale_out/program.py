"""The work order of a job, and the query as each worker process prepares it from the order.

A worker process prepares the query once; each of its key groups then starts in less than a millisecond.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.errors import ReportedError
from quadrill.store.formats import guess_rdf_format
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql import extensions

from ..algebra.nodes import Var
from ..algebra.variables import in_scope
from ..language.analysis import Analysis
from ..language.registration import Registration
from ..queries.prepare import PreparedQuery, prepare
from ..rows import QueryLimits
from ..settings import EngineSettings
from .key_groups import KeysOf, keys_by, restricted
from .split import Split, split_of


class StaticFileError(ReportedError):
    """Error that a static file cannot be read."""

    code = "recording"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """An RDF file of static data: its path, its graph (None for its own graphs) and its digest."""

    path: str
    graph: str | None
    digest: str

    @classmethod
    def of(cls, given: str) -> StaticFile:
        """Read the option ``[GRAPH=]FILE``; raises StaticFileError if the file cannot be read."""
        graph, _, name = given.rpartition("=")
        path = Path(name).absolute()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StaticFileError(f"--static {given} cannot be read: {error.strerror}") from error
        if guess_rdf_format(path.name) is None:
            raise StaticFileError(f"the ending of {path} names no known format")
        try:
            name_of = NamedNode(graph).value if graph else None
        except ValueError as error:
            raise StaticFileError(f"--static {given}: {graph!r} is not an IRI") from error
        return cls(str(path), name_of, hashlib.sha256(content).hexdigest())

    def load(self, store: QuadStore) -> None:
        """Load the file into a store."""
        kind = guess_rdf_format(Path(self.path).name)
        assert kind is not None
        graph = NamedNode(self.graph) if self.graph else None
        store.writer.load(Path(self.path).read_bytes(), kind, graph=graph)


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What the workers of a job must know; a change of a member makes another job.

    Attributes:
        text: the query text.
        options: the members of the registration, as JSON values.
        streams: the IRIs of the streams with a source, in the order of the sources.
        self_contained: the IRIs of the streams with the promise of `KeyLaw`.
        static: the static files.
        groups: the number of key groups.
        base_iri: the base of relative IRIs.
        limits: the limits of one evaluation.
        extensions: the modules of extensions to load.
    """

    text: str
    options: Mapping[str, Any]
    streams: tuple[str, ...]
    self_contained: tuple[str, ...] = ()
    static: tuple[StaticFile, ...] = ()
    groups: int = 64
    base_iri: str = "http://localhost/"
    limits: QueryLimits = field(default_factory=QueryLimits)
    extensions: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the members that a restart compares, as JSON."""
        found = asdict(self)
        del found["limits"], found["extensions"]
        return found


class Program:
    """One query as prepared from a work order, with its static data.

    Attributes:
        order: the work order.
        prepared: the whole query.
        settings: the limits of the query.
        store: the static data.
    """

    def __init__(self, order: WorkOrder) -> None:
        """Prepare a query and read its static files; raises the errors of `prepare`."""
        extensions.load(order.extensions)
        self.order = order
        self.settings = EngineSettings(base_iri=order.base_iri, limits=order.limits, threaded=False)
        members = {**order.options, "query": order.text, "name": "run"}
        self.prepared = prepare(Registration.from_json(members), self.settings)

    @cached_property
    def split(self) -> Split:
        """How key groups evaluate the query."""
        return split_of(self.prepared, frozenset(self.order.self_contained))

    @cached_property
    def store(self) -> QuadStore:
        """A store in memory with the static files."""
        store = QuadStore.open(None)
        for each in self.order.static:
            each.load(store)
        return store

    @property
    def merges(self) -> bool:
        """True if the rows of the groups are merged in a second stage."""
        return self.order.groups > 1 and self.split.stages == 2

    @cached_property
    def keys_of(self) -> KeysOf:
        """A function that returns the keys of an element."""
        assert self.split.key is not None
        return keys_by(self.split.routes, self.split.key)

    @cached_property
    def row_columns(self) -> tuple[Var, ...]:
        """The columns of the rows that groups hand to the second stage."""
        return tuple(map(Var, sorted(in_scope(self.split.grouped))))

    def of_group(self, group: int) -> PreparedQuery:
        """Return the query restricted to the solutions whose key is in one group."""
        prepared, split, groups = self.prepared, self.split, self.order.groups
        if groups == 1:
            return prepared
        assert split.key is not None
        root = restricted(split.grouped, split.pattern, split.key, groups, group)
        # The labels of blank nodes in CONSTRUCT templates follow from the name.
        named = replace(prepared, name=f"{prepared.name}-{group}")
        if not self.merges:
            steps = {"root": root, "columns": prepared.analysis.columns}
            return replace(named, analysis=Analysis.of_steps(None, prepared.query, steps))
        query = replace(
            prepared.query,
            form="select",
            root=root,
            columns=self.row_columns,
            template=(),
            emission=replace(prepared.query.emission, once_per=None),
        )
        steps = {"root": root, "columns": self.row_columns}
        return replace(named, query=query, output="changes", analysis=Analysis.of_steps(None, query, steps))
