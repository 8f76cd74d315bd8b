"""Evaluation of a query's static parts on the quad store, all at one version of the background dataset."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal as OneOf

from pyoxigraph import DefaultGraph, NamedNode

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import GoneError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.reading import StoreReader
from quadrill.store.sparql.query import QueryRequest, QueryResult
from quadrill.store.sparql.scan import SimilarTexts

from ..algebra.buffered_rows import count_buffered_patterns
from ..algebra.columnar import EngineChoice, Graphs, StaticEngines
from ..algebra.graphs import Dataset, dataset_of, expand, graphs_read, is_lenient, may_change
from ..algebra.nodes import Service, Term
from ..algebra.printer import row_text
from ..algebra.query import ContinuousQuery, WindowDeclaration
from ..algebra.static import MERGED_PART, StaticPattern
from ..algebra.text import static_text
from ..expressions.choices import Functions, may_grow
from ..remote.dataset import Reader, graphs_of, nameable, reads_remote, with_remote
from ..remote.query import NO_SOURCES, QuerySources
from ..rows import Budget, QueryLimits, Solution
from ..uncertainty import custom_functions
from ..windows.window_delta import WindowKey
from .rule_graphs import NamedRules

log = logging.getLogger("quadrill.continuous")

_COMMITS_READ = 1000
_BY_A_WORKER = EngineChoice("oxigraph", "in a worker process: it may buffer many rows")


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The settings of one query that affect the meaning of its text and the evaluation of its parts.

    Attributes:
        name: the query's name, from which the values of RAND, UUID, STRUUID and BNODE and the blank nodes of
            CONSTRUCT are derived.
        window_default_graph: the triples that a window's patterns outside GRAPH match: the ``union`` of all
            graphs of the window's elements, or their ``default`` graph (Definition 16.5 of the RSP-QL*
            paper).
        strict_dataset: True if a CQELS-QL query with FROM NAMED and without FROM has an empty default graph,
            as in SPARQL.
        quoted_asserted: True if annotated triples count as asserted on all streams; or the streams on which
            they do.
        sources: the remote sources of the query.
        engines: the engines for static parts that are too large for the store.
        static_engine: the engine that the client chose for static parts; None lets ``engines`` choose.
        static_tables: whether static parts are tables in memory or look-ups; None decides by the memory
            limits.
        uncertain_filters: when filters over uncertain values are evaluated.
        looked_up: the positions of parts that were look-ups before a restart, each with the reason, or None
            if the client asked for a look-up; the whole value is None if there was no restart.
        limits: the limits of the query's evaluations.
        rules: the rule set whose consequences the windows of the query include; None for no consequences.
    """

    name: str = ""
    window_default_graph: OneOf["union", "default"] = "union"
    strict_dataset: bool = False
    quoted_asserted: bool | frozenset[NamedNode] = False
    base_iri: str | None = None
    sources: QuerySources | None = None
    engines: StaticEngines = StaticEngines()
    static_engine: str | None = None
    static_tables: OneOf["table", "lookup", "own"] | None = None
    uncertain_filters: OneOf["early", "late", "auto"] = "early"
    looked_up: Mapping[int, str | None] | None = None
    limits: QueryLimits = QueryLimits()
    rules: NamedRules | None = None

    def asserts_quoted(self, key: WindowKey, windows: Sequence[WindowDeclaration]) -> bool:
        """Return True if annotated triples of a window's content count as asserted."""
        if isinstance(self.quoted_asserted, bool):
            return self.quoted_asserted
        streams = [key[1], *(each.stream for each in windows if each.name == key[0])]
        return any(each in self.quoted_asserted for each in streams)


class StaticEvaluator:
    """An evaluator of one query's static parts over the graphs that the query reads (algebra/graphs.py).

    Attributes:
        choices: by the name of a static part, the engine of its last evaluation and the reason for the
            choice.
    """

    def __init__(self, query: ContinuousQuery, store: QuadStore, options: EvaluationOptions) -> None:
        self._query, self._options = query, options
        self._lenient = is_lenient(query, strict=options.strict_dataset)
        self._scope = dataset_of(query, lenient=self._lenient)
        self._store = store
        self._held: dict[str, int] = {}
        self._sources = options.sources or NO_SOURCES
        self._texts = SimilarTexts(store.limits)
        self.choices: dict[str, EngineChoice] = {}

    @cached_property
    def _functions(self) -> Functions:
        # The extension functions for store queries are created on first use, because most evaluators never
        # evaluate a static part.
        budget = Budget(self._options.limits)
        return Functions(self._options.name, custom_functions(), budget, may_grow(self._query))

    def scope(self, part: StaticPattern) -> Dataset:
        """Return the dataset that a static part reads; its field ``named`` is None for all named graphs."""
        if part.name == MERGED_PART:
            clause = self._query.dataset
            return Dataset((*(clause.default or (DefaultGraph(),)), *clause.added), ())
        return self._scope

    @property
    def signature(self) -> str:
        """A text for all settings, besides a pattern's own text, that determine the pattern's meaning.

        Queries share tables of static parts only if these signatures are equal. The signature of a query's
        static parts includes the engine that the client chose for them, so a query with a chosen engine
        shares no tables with queries without.
        """
        meant = repr((self._query.dataset, self._lenient, self._query.base_iri))
        engine = self._options.static_engine
        return meant if engine is None else f"{meant} by {engine}"

    # --- evaluation at one version of the store -------------------------------------------------

    def evaluate(
        self, parts: Sequence[StaticPattern], since: int = -1, at: int | None = None
    ) -> tuple[int, list[list[Solution] | None]]:
        """Evaluate static parts at one version; return the version, and the rows of each part in order.

        The rows of a static part are None if no commit after ``since`` can have changed the part. A replay
        passes the version of the dataset to read as ``at``; the store, which recovery has rewound, advances
        to this version.
        """
        if at is not None:
            self._store.committer.forward(at)
        fetched = self._sources.take()
        with self._store.reader.snapshot_read() as snapshot:
            commits = self._commits(since, snapshot.version)
            found: list[list[Solution] | None] = []
            for part in parts:
                dataset = self._dataset(snapshot, part)
                changed = self._may_differ(part, dataset, commits, fetched)
                found.append(self._rows(snapshot, part, dataset) if changed else None)
            return snapshot.version, found

    def _may_differ(
        self, part: StaticPattern, dataset: Dataset, commits: Sequence[Commit] | None, fetched: frozenset[str]
    ) -> bool:
        """Return True if commits or fetched remote contents may have changed the rows of a static part.

        If ``commits`` is None, the commits since the last evaluation are unknown and the result is True.
        """
        if commits is None:
            return True
        if isinstance(part.pattern, Service):
            return self._sources.of(part.pattern).key in fetched
        return may_change(part.pattern, commits) or (
            bool(fetched) and reads_remote(part.pattern, self._sources, dataset)
        )

    def _commits(self, since: int, version: int) -> list[Commit] | None:
        """Return every commit after ``since`` up to ``version``; None if some are unknown or too many."""
        if since < 0:
            return None
        if since == version:
            return []
        try:
            commits = list(self._store.commits_after(since, limit=_COMMITS_READ))
        except GoneError:
            return None
        return commits if commits and commits[-1].version == version else None

    def _rows(self, snapshot: StoreReader, part: StaticPattern, dataset: Dataset) -> list[Solution]:
        if isinstance(part.pattern, Service):
            return self._sources.rows(part.pattern, part.vars)
        if reads_remote(part.pattern, self._sources, dataset):
            reader = with_remote(snapshot, part.pattern, self._sources, dataset)
            return list(_drained(self._start(reader, part, dataset), len(part.vars)))
        found = asked() if (asked := self.columnar(snapshot, part)) else None
        return list(self.whole(snapshot, part)) if found is None else found

    def columnar(
        self, snapshot: StoreReader, part: StaticPattern
    ) -> Callable[[], list[Solution] | None] | None:
        """Return a function that evaluates a part by the columnar engine; None if the store must.

        The returned function reads the dataset at the snapshot's version, even after the snapshot was closed.
        If the columnar engine fails, the returned function returns None, and the caller must evaluate the
        static part by the store.
        """
        engine = self._options.engines.columnar
        if engine is None:
            return None
        dataset = self._dataset(snapshot, part)
        if self._sources.remote_graphs and reads_remote(part.pattern, self._sources, dataset):
            return None
        try:
            choice = engine.choose(part.pattern, self._options.static_engine)
        except ReportedError as error:
            choice = _not_able(error)
        self.choices[part.name] = choice
        if choice.engine == "oxigraph":
            return None
        pattern = expand(part.pattern, partial(nameable, snapshot, dataset))
        graphs = Graphs.of(dataset.default, dataset.named)
        version, store, base = snapshot.version, self._store, self._query.base_iri

        def rows() -> list[Solution] | None:
            try:
                return engine.rows(store, version, pattern, part.vars, graphs, base)
            except ReportedError as error:
                log.warning("the static part %s is left to the store: %s", part.name, error.message)
                self.choices[part.name] = _not_able(error)
                return None

        return rows

    # --- evaluation by the store ----------------------------------------------------------------

    def is_heavy(self, part: StaticPattern) -> bool:
        """Return True if evaluating a static part may buffer more rows than the memory limit allows."""
        bounded = self._options.engines.bounded
        if bounded is None:
            return False
        held = self._held.get(part.name)
        if held is None:
            held = self._held[part.name] = count_buffered_patterns(part.pattern)
        return held > 0 and bounded.is_heavy(held)

    def whole(
        self, reader: Reader, part: StaticPattern, check: Callable[[], None] = lambda: None
    ) -> Generator[Solution]:
        """Return an iterator over all rows of a static part; only the calling thread may read it.

        The iterator yields the rows of the store's version at the call, even if commits become visible while
        rows are read. While a worker process evaluates a heavy static part, the function ``check`` is called
        regularly and may raise.
        """
        bounded = self._options.engines.bounded
        if bounded is None or not isinstance(reader, StoreReader) or not self.is_heavy(part):
            return _drained(self.start(reader, part), len(part.vars))
        self.choices[part.name] = _BY_A_WORKER
        dataset = self._dataset(reader, part)
        pattern = expand(part.pattern, partial(nameable, reader, dataset))
        return bounded.rows(pattern, part.vars, self._query.base_iri, dataset, check)

    def start(self, reader: Reader, part: StaticPattern, rows: Sequence[Sequence[Term]] = ()) -> QueryResult:
        """Start a store query for the rows of one static part; only the calling thread may read the result.

        A row of the store query's result may have additional columns at the end. ``rows`` is the inline data
        (VALUES) in the static part's pattern; query texts that differ only in their inline data are checked
        once.
        """
        return self._start(reader, part, self._dataset(reader, part), rows)

    def _start(
        self, reader: Reader, part: StaticPattern, dataset: Dataset, rows: Sequence[Sequence[Term]] = ()
    ) -> QueryResult:
        pattern = expand(part.pattern, partial(nameable, reader, dataset))
        merged = dataset.default is not None and len(dataset.default) > 1
        text = static_text(pattern, part.vars, self._functions, self._query.base_iri, merged=merged)
        return reader.query(
            QueryRequest(
                text,
                default_graphs=dataset.default,
                named_graphs=dataset.named,
                custom_functions=self._functions.functions,
                custom_aggregates=self._functions.aggregates,
                check=self._functions.limited.begun(),
                text_facts=self._texts.facts_of(text, [row_text(row) for row in rows]),
            )
        )

    def _dataset(self, reader: Reader, part: StaticPattern) -> Dataset:
        """Return the graphs that a static part reads, as arguments of a query to the store."""
        clause, scope = self._query.dataset, self.scope(part)
        hidden = self._store.queue.inferred_graphs() if clause.asserted else frozenset()
        restricted = hidden or clause.default or clause.named or clause.added
        if part.name != MERGED_PART and not restricted:
            return Dataset(None, None)
        default, named = scope.default or (), scope.named
        if named is None:
            read = graphs_read(part.pattern)
            named = tuple(graphs_of(reader, Dataset(None, None))) if read.every or read.names else ()
        if hidden:
            default = tuple(graph for graph in default if graph not in hidden)
            named = tuple(graph for graph in named if graph not in hidden)
        return Dataset(default, named)


def _not_able(error: ReportedError) -> EngineChoice:
    return EngineChoice("oxigraph", f"spark was not able to: {error.message}")


def _drained(result: QueryResult, width: int) -> Generator[Solution]:
    with result:
        for row in result.rows():
            yield row[:width]
