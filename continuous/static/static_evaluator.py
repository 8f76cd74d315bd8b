"""Evaluates static parts on the quad store, all at one version of the background dataset."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, Union

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadrill.store.errors import GoneError, UnsupportedError
from quadrill.store.sparql.guard import AlikeTexts

from ..algebra.build import UNIT, all_nodes
from ..algebra.columnar import Choice, Graphs
from ..algebra.graphs import expand, predicates_of
from ..algebra.nodes import (
    MERGED,
    Algebra,
    Bgp,
    Distinct,
    Graph,
    Join,
    OrderBy,
    Project,
    Reduced,
    Service,
    Slice,
    Term,
    TriplePattern,
    Values,
    Var,
    Window,
)
from ..algebra.query import ContinuousQuery
from ..algebra.static import MERGED_PART, StaticPattern
from ..algebra.text import SparqlText, row_text
from ..algebra.variables import in_scope
from ..element import Solution
from ..expressions.oxigraph import Functions
from ..remote.dataset import ScratchReader, reads_remote, with_remote
from ..remote.query import NO_SOURCES
from ..uncertainty import custom_functions
from .options import EvaluationOptions

if TYPE_CHECKING:
    from quadrill.store.changes.commit import Commit
    from quadrill.store.quads.frozen import FrozenReader
    from quadrill.store.quads.quad_store import QuadStore
    from quadrill.store.quads.reading import StoreReads
    from quadrill.store.sparql.guard import TextFacts
    from quadrill.store.sparql.query import QueryResult

Reader: TypeAlias = Union["StoreReads", "ScratchReader", "FrozenReader"]
"""The store as it is, one version of it, one with remote graphs beside it, or a copy."""

_ALL_GRAPHS = "SELECT ?g WHERE { GRAPH ?g { } }"
_COMMITS_READ = 1000


@dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs of one evaluation; None and None are the whole dataset."""

    default: tuple[NamedNode | DefaultGraph, ...] | None
    named: tuple[NamedNode | BlankNode, ...] | None


class StaticEvaluator:
    """The background dataset as one query sees it (docs/semantics.md, section 1).

    In CQELS-QL FROM NAMED without FROM leaves the default graph in place, and FROM without FROM NAMED the
    named graphs; the other dialects, and CQELS-QL under ``strict_dataset``, follow SPARQL 1.1 section 13.2.
    """

    def __init__(self, query: ContinuousQuery, store: QuadStore, options: EvaluationOptions) -> None:
        self._clause = query.dataset
        self._lenient = query.dialect == "cqels" and not options.strict_dataset
        self._store = store
        self._base = query.base_iri
        self._functions = Functions(options.name, custom_functions())
        self._columnar = options.columnar
        self._sources = options.sources or NO_SOURCES
        self._texts = AlikeTexts(store.limits)

    def scope(self, part: StaticPattern) -> Dataset:
        """The graphs that a part reads; named None: all there are."""
        default, named = self._clause.default, self._clause.named
        if part.name == MERGED_PART:
            return Dataset(default or (DefaultGraph(),), ())
        if not default and not named:
            return Dataset((DefaultGraph(),), None)
        if self._lenient and not default:
            return Dataset((DefaultGraph(),), named)
        if self._lenient and not named:
            return Dataset(default, None)
        return Dataset(default, named)

    @property
    def signature(self) -> str:
        """Equal for queries over the same dataset: what a pattern means, besides its text."""
        return repr((self._clause, self._lenient, self._base))

    @property
    def newest(self) -> int:
        """The newest version of the store."""
        return self._store.version

    def evaluate(
        self, parts: Sequence[StaticPattern], since: int = -1
    ) -> tuple[int, list[list[Solution] | None]]:
        """The version read and the rows of each part, in ORDER BY order where it has one.

        None for each part that nothing fetched and no commit after version ``since`` can have touched.
        """
        fetched = self._sources.take()
        with self._store.snapshot_read() as snapshot:
            dataset = self._dataset(snapshot)
            commits = self._commits(since, snapshot.version)
            return snapshot.version, [
                self._rows(snapshot, part, dataset)
                if self._may_differ(part, dataset, commits, fetched)
                else None
                for part in parts
            ]

    def _may_differ(
        self,
        part: StaticPattern,
        dataset: Dataset,
        commits: Sequence[Commit] | None,
        fetched: frozenset[str],
    ) -> bool:
        """True when commits (None: unknown ones) or what was fetched may have changed a part's rows."""
        if commits is None:
            return True
        if isinstance(part.pattern, Service):
            return self._sources.of(part.pattern).key in fetched
        return _may_touch(commits, part.pattern) or (bool(fetched) and self._is_remote(part, dataset))

    def _is_remote(self, part: StaticPattern, dataset: Dataset) -> bool:
        """True when a part looks into a graph that is fetched."""
        return bool(self._sources.remote_graphs) and reads_remote(
            part.pattern, self._sources, dataset.default or (), dataset.named or ()
        )

    def _commits(self, since: int, version: int) -> list[Commit] | None:
        """Every commit after ``since`` up to ``version``; None when they can not all be told."""
        if since < 0:
            return None
        if since == version:
            return []
        try:
            commits = list(self._store.commits_after(since, limit=_COMMITS_READ))
        except GoneError:
            return None
        return commits if commits and commits[-1].version == version else None

    def columnar(
        self, snapshot: StoreReads, part: StaticPattern
    ) -> Callable[[], list[Solution] | None] | None:
        """What reads a part by the columnar engine at the snapshot's version; None when the store is to.

        The snapshot is not needed any more when the rows are read; without rows the engine was not able to.
        """
        columnar = self._columnar
        if columnar is None:
            return None
        dataset = self._dataset_of(snapshot, part)
        if self._is_remote(part, dataset) or not columnar.wants(part.name, part.pattern):
            return None
        pattern = expand(part.pattern, partial(self._nameable, snapshot, dataset))
        graphs = Graphs.of(dataset.default, dataset.named)
        version, store, base = snapshot.version, self._store, self._base
        return lambda: columnar.rows(store, version, part.name, pattern, part.vars, graphs, base)

    def choice(self, part: StaticPattern) -> Choice | None:
        """Who evaluated a part the last time, and why; None without a columnar engine."""
        return None if self._columnar is None else self._columnar.choices.get(part.name)

    def _rows(self, snapshot: StoreReads, part: StaticPattern, dataset: Dataset) -> list[Solution]:
        if isinstance(part.pattern, Service):
            return self._sources.rows(part.pattern, part.vars)
        if self._is_remote(part, dataset):
            default, named = dataset.default or (), dataset.named or ()
            reader = with_remote(snapshot, part.pattern, self._sources, default, named)
            return list(_drained(self._start(reader, part, dataset), len(part.vars)))
        asked = self.columnar(snapshot, part)
        found = None if asked is None else asked()
        return list(self.whole(snapshot, part)) if found is None else found

    def whole(self, reader: Reader, part: StaticPattern) -> Generator[Solution]:
        """All rows of a part by the store alone, to be drained in this thread.

        The query begins now: commits may become visible while the rows are read.
        """
        return _drained(self.start(reader, part), len(part.vars))

    def start(self, reader: Reader, part: StaticPattern, rows: Sequence[Sequence[Term]] = ()) -> QueryResult:
        """The rows of one part as the store is now, to be drained in this thread.

        A row may have columns behind those of the part. ``rows`` is inline data that stands in the pattern:
        texts that differ in it alone are judged once.
        """
        return self._start(reader, part, self._dataset_of(reader, part), rows)

    def _dataset_of(self, reader: Reader, part: StaticPattern) -> Dataset:
        if part.name == MERGED_PART:
            return Dataset(self._clause.default or (DefaultGraph(),), ())
        return self._dataset(reader)

    def _start(
        self, reader: Reader, part: StaticPattern, dataset: Dataset, rows: Sequence[Sequence[Term]] = ()
    ) -> QueryResult:
        pattern = self._written(reader, part, dataset)
        text = static_text(pattern, part.vars, self._functions, self._base)
        return self._query(reader, text, dataset, self._texts.judged(text, [row_text(row) for row in rows]))

    def _written(self, reader: Reader, part: StaticPattern, dataset: Dataset) -> Algebra:
        """The pattern as the store can evaluate it."""
        if any(isinstance(each, Graph) for each in all_nodes(part.pattern)):
            return expand(part.pattern, lambda: self._nameable(reader, dataset))
        return part.pattern

    def _query(
        self, reader: Reader, text: str, dataset: Dataset, judged: TextFacts | None = None
    ) -> QueryResult:
        return reader.query(
            text,
            default_graphs=dataset.default,
            named_graphs=dataset.named,
            custom_functions=self._functions.functions,
            custom_aggregates=self._functions.aggregates,
            judged=judged,
        )

    def _dataset(self, snapshot: Reader) -> Dataset:
        default, named = self._clause.default, self._clause.named
        if not default and not named:
            return Dataset(None, None)
        if self._lenient and not default:
            return Dataset((DefaultGraph(),), named)
        if self._lenient and not named:
            return Dataset(default, tuple(self._named(snapshot, Dataset(None, None))))
        return Dataset(default, named)

    def _named(self, snapshot: Reader, dataset: Dataset) -> list[NamedNode | BlankNode]:
        """The named graphs that GRAPH ranges over."""
        with self._query(snapshot, _ALL_GRAPHS, dataset) as result:
            rows = list(result.rows())
        return sorted((row[0] for row in rows if isinstance(row[0], (NamedNode, BlankNode))), key=str)

    def _nameable(self, snapshot: Reader, dataset: Dataset) -> list[NamedNode]:
        """The named graphs for a text that lists them, which it can only by IRI."""
        names: list[NamedNode] = []
        for name in self._named(snapshot, dataset):
            if isinstance(name, BlankNode):
                raise UnsupportedError(
                    "a sub-query inside GRAPH ?variable over graphs with blank names",
                    hint="give the graphs IRIs, or name the graph in the query",
                )
            names.append(name)
        return names


def _drained(result: QueryResult, width: int) -> Generator[Solution]:
    with result:
        for row in result.rows():
            yield row[:width]


def _may_touch(commits: Sequence[Commit], pattern: Algebra) -> bool:
    """True when one of the commits may change the rows of the pattern."""
    nodes = list(all_nodes(pattern))
    if any(isinstance(each, Graph) and _has_unit(each) for each in nodes):
        return True
    predicates = predicates_of(nodes)
    return any(commit.touches(predicates=predicates) for commit in commits)


def _has_unit(graph: Graph) -> bool:
    """GRAPH around an empty pattern asks which graphs there are, whatever is in them."""
    return any(each == UNIT or isinstance(each, Values) for each in all_nodes(graph.input))


def merged_background(root: Algebra) -> StaticPattern:
    """The triples of the FROM graphs (the default graph if none) that C-SPARQL's merged window can match."""
    columns = (Var("o"), Var("p"), Var("s"))
    pattern: Algebra = Bgp((TriplePattern(Var("s"), Var("p"), Var("o")),))
    predicates = predicates_of(
        inner
        for each in all_nodes(root)
        if isinstance(each, Window) and each.name == MERGED
        for inner in all_nodes(each.input)
    )
    if predicates is not None:
        pattern = Join(Values((Var("p"),), tuple((each,) for each in sorted(predicates, key=str))), pattern)
    return StaticPattern(MERGED_PART, pattern, columns)


def static_text(
    pattern: Algebra,
    columns: Sequence[Var],
    functions: Functions | None,
    base_iri: str | None = None,
) -> str:
    """The text that the store evaluates for a static part; without functions, the plain SPARQL of it."""
    if tuple(columns) != projected(pattern) or not isinstance(pattern, (Project, Distinct, Reduced, Slice)):
        pattern = Project(pattern, tuple(columns))
    return SparqlText(pattern, choices=functions, base_iri=base_iri).select()


def projected(node: Algebra) -> tuple[Var, ...]:
    """The columns of a SELECT, in its order; of another pattern its visible variables by name."""
    while isinstance(node, (Distinct, Reduced, Slice, OrderBy)):
        node = node.input
    if isinstance(node, Project):
        return node.vars
    return tuple(Var(name) for name in sorted(in_scope(node)) if not name.startswith("_:"))
