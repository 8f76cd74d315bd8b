"""The reference evaluator: the answer at each instant by recomputing it with Oxigraph.

The reference evaluator states the meaning of a query in one page of code. A scratch store contains the rows
of the static parts and the contents of the windows. At each instant, Oxigraph evaluates the query over the
scratch store, with windows rewritten to named graphs. docs/decisions/0030-recompute-on-one-store.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from quadrill.store.logs.process_copy import COPIES
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.window_graphs import LoadedTable, WindowGraphs
from quadrill.store.sparql.workspace import Workspace

from ..algebra.build import all_nodes
from ..algebra.corrections import corrected
from ..algebra.join_order import JoinOrder
from ..algebra.nodes import MERGED, Graph, Var, Window
from ..algebra.query import ContinuousQuery
from ..algebra.reify import assert_quoted, canonical_content, has_reifiers
from ..algebra.rewrites import windows_read
from ..algebra.static import MERGED_PART
from ..algebra.text import SparqlText
from ..algebra.volatile import uses_timestamps
from ..algebra.windows_as_graphs import WindowsAsGraphs
from ..algebra.work_bound import WorkBound
from ..expressions.choices import Functions
from ..inputs import WindowContent
from ..language.analysis import Analysis
from ..output.emission import difference
from ..rows import IdRow, Solution
from ..static.entailed_windows import EntailedWindows
from ..static.static_evaluator import EvaluationOptions
from ..static.table import Changes
from ..static.table_registry import TableRegistry
from ..uncertainty import custom_functions
from ..windows.encoded import EngineTerms
from ..windows.kinds import kind_of
from ..windows.live import LiveQuads
from ..windows.window_delta import WindowKey
from .evaluator import Evaluator
from .in_child import evaluate_in_child

_CACHED_TEXTS = 16
"""Number of cached query texts, for different shapes of tables and windows, above which the cache is cleared
before the next text is added.
"""
MERGED_KEY: WindowKey = (MERGED, None)

Contents = Mapping[WindowKey, WindowContent]


@dataclass(frozen=True)
class RecomputedAnswer:
    """The answer at one instant, and its difference from the earlier answer ``before``, computed on demand.

    The answer's ``rows`` are in ORDER BY order if ``ordered``; otherwise their order has no meaning.
    ``boolean`` is the answer of an ASK query. The rows of a CONSTRUCT are solutions over all visible
    variables of the WHERE clause.
    """

    vars: tuple[str, ...]
    rows: Sequence[Solution] = ()
    ordered: bool = False
    boolean: bool | None = None
    before: Sequence[Solution] = ()

    @cached_property
    def deleted(self) -> list[Solution]:
        """The rows that left the answer since the previous instant."""
        return difference(self.before, self.rows)

    @cached_property
    def inserted(self) -> list[Solution]:
        """The rows that entered the answer since the previous instant."""
        return difference(self.rows, self.before)

    def json_rows(self, kind: str) -> None:
        """Return None, because the rows are terms, which the caller formats as JSON."""

    def id_delta(self, *, whole: bool = False) -> None:
        """Return None, because the answer's rows are terms without term ids."""


class ReferenceEvaluator(Evaluator):
    """Evaluates one continuous query by recomputing each answer; not thread-safe, one thread at a time."""

    engine = "reference"
    most_in_process = 10_000
    """Number of rows above which an evaluation runs in a child process, as Oxigraph cannot be interrupted.

    With the slowest text and data that were tried (columns of 8 patterns, or a custom function for each row),
    Oxigraph takes 0.5 s for 10,000 rows.
    """

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        terms: EngineTerms | None = None,
        *,
        statics: TableRegistry | None = None,
        analysis: Analysis | None = None,
    ) -> None:
        """As `Evaluator`."""
        super().__init__(query, store, options, terms, statics, analysis, whole=True)
        self._union = options.window_default_graph == "union"
        self._windows_read = windows_read(query)
        self._functions = Functions(options.name, custom_functions(), self.budget)
        # A window block that uses GRAPH needs the graphs of elements as separate named graphs in the scratch
        # store.
        self._uses_graphs = any(
            isinstance(each, Graph)
            for window in all_nodes(self.root)
            if isinstance(window, Window)
            for each in all_nodes(window.input)
        )
        self._uses_times = uses_timestamps(query.root)
        rules = self.statics.steps.rules
        self._entailed = (
            None if rules is None else EntailedWindows(rules, self.terms, self.budget, query.base_iri)
        )
        self._workspace = Workspace()
        self._windows: dict[WindowKey, WindowGraphs] = {}
        self._tables: dict[str, LoadedTable] = {}
        for part in self.statics.parts:
            if part.name == MERGED_PART:
                self._windows[MERGED_KEY] = WindowGraphs(self._workspace, MERGED_KEY, 0)
            elif not self.is_whole:
                self._tables[part.name] = LoadedTable(part.name, self._workspace)
        # The rows of a query without windows; ``_ordered_rows`` has the rows of an ordered query.
        self._rows: Counter[Solution] = Counter()
        self._ordered_rows: list[Solution] | None = None
        self._texts: dict[object, str] = {}
        try:
            self.statics.open()
            if self.statics.has_own or not self.statics.parts:
                self.take(self.statics.refresh())
            self.answer(0, {})
        except BaseException:
            self.close()  # Closing the evaluator releases tables that other queries may share.
            raise

    # --- static parts ---------------------------------------------------------------------------

    def take(self, changes: Changes) -> bool:
        """Apply changes of static parts to the scratch store; return True if any row changed."""
        statics = self.statics
        for place, change in changes.items():
            if change.listed is not None:
                self._ordered_rows = [statics.arranged(place, row) for row in change.listed]
            rows = {
                statics.arranged(place, statics.decoded(row)): weight for row, weight in change.delta.items()
            }
            name = statics.parts[place].name
            if self.is_whole:
                self._rows.update(rows)
                self._rows = +self._rows
            elif name == MERGED_PART:
                graph = self._windows[MERGED_KEY].graph
                # The part of `merged_background` has the columns (object, predicate, subject).
                quads = {Quad(s, p, o, graph): weight for (o, p, s), weight in rows.items()}  # type: ignore[arg-type]
                self._workspace.add(quads)
            elif rows:
                self._tables[name].apply(rows)
        return any(changes.values()) or statics.rules_moved

    # --- one evaluation ------------------------------------------------------------------------

    def answer(self, at: int, contents: Contents) -> RecomputedAnswer:
        """Return the query's answer at instant ``at`` (milliseconds).

        A window without an entry in ``contents`` is empty.
        """
        found: Sequence[Solution] | bool
        if self.is_whole:
            rows = list(self._rows.elements()) if self._ordered_rows is None else self._ordered_rows
            found = bool(rows) if self.query.form == "ask" else rows
        else:
            given: dict[WindowKey, WindowContent] = {
                (each.name, None): {} for each in self._windows_read if not isinstance(each.stream, Var)
            }
            given.update(contents)
            self._functions.begin(at, self._load(given))
            found = self._evaluate(self._text(list(given)))
        self.budget.check(1 if isinstance(found, bool) else len(found), self)
        if isinstance(found, bool):
            return RecomputedAnswer((), boolean=found)
        return RecomputedAnswer(self.vars, found, self.ordered, before=self.checkpoint_rows)

    def _evaluate(self, text: str) -> list[Solution] | bool:
        """Evaluate a SPARQL text over the scratch store.

        An evaluation that may be slow runs in a child process, because Oxigraph cannot be interrupted.
        """
        functions, budget, width = self._functions, self.budget, len(self.columns)
        begin = partial(self._workspace.stream, text, width, functions.functions, functions.aggregates)
        check = functions.limited.check
        # One row above the row limit is enough to fail the evaluation.
        most = budget.limits.rows + 1 if budget.limits.rows and budget.since else 0
        if COPIES and (budget.since or budget.limits.ms) and self._work_bound() > self.most_in_process:
            answer = evaluate_in_child(begin, check, most, budget, self)
            if answer is not None:
                return answer
        found = begin()
        try:
            rows = found if isinstance(found, bool) else list(islice(found, most or None))
        finally:
            if not isinstance(found, bool):
                found.close()
        check()
        return rows

    def _work_bound(self) -> int:
        """Upper bound of the rows that an evaluation over the scratch store enumerates."""
        sizes: Counter[NamedNode] = Counter()
        for (name, _), window in self._windows.items():
            sizes[name] += window.size
        whole = self._workspace.size
        bound = WorkBound(
            lambda name: whole if isinstance(name, Var) or name == MERGED else sizes[name],
            lambda name: self._tables[name].size,
        )
        return bound.of(self.rest, whole)

    def advance(self, at: int, windows: Iterable[tuple[WindowKey, LiveQuads]]) -> RecomputedAnswer:
        """Return the answer over the windows' present contents, compared with the answer of the last call."""
        found = self.answer(at, {key: live.content for key, live in windows})
        self.checkpoint_rows = found.rows
        return found

    def resume(
        self,
        at: int,
        windows: Iterable[tuple[WindowKey, LiveQuads]],
        checkpoint_rows: Sequence[Solution] = (),
        boolean: bool | None = None,
    ) -> RecomputedAnswer:
        """Restore the answer of the last evaluation before a restart, without computing it again."""
        self.checkpoint_rows = checkpoint_rows
        return RecomputedAnswer(self.vars, checkpoint_rows, boolean=boolean, before=checkpoint_rows)

    def _load(self, given: Contents) -> dict[NamedNode, dict[Triple, int]]:
        """Load the windows into the scratch store; return event times by window if the query reads them."""
        times: dict[NamedNode, dict[Triple, int]] = {}
        if self._entailed is not None:
            self._entailed.begin()
        for key in [*given, *(self._windows.keys() - given.keys() - {MERGED_KEY})]:
            content = given.get(key, {})
            if has_reifiers(content):
                if self.options.asserts_quoted(key, self._windows_read):
                    content = assert_quoted(content)
                content = canonical_content(content)
            if self._entailed is not None:
                content = self._with_consequences(self._entailed, key, content)
            window = self._windows.get(key)
            if window is None:
                window = self._windows[key] = WindowGraphs(self._workspace, key, len(self._windows) + 1)
            merged = self._windows.get(MERGED_KEY)
            into = [window.graph] if merged is None else [window.graph, merged.graph]
            window.load(content, into, union=self._union, named=self._uses_graphs)
            if self._uses_times:
                for name in (key[0], MERGED):
                    _add_times(times.setdefault(name, {}), content, union=self._union)
        if self._entailed is not None:
            self._entailed.end()
        return times

    def _with_consequences(
        self, entailed: EntailedWindows, key: WindowKey, content: WindowContent
    ) -> WindowContent:
        """Return a window's content with its consequences, which have no event time of their own."""
        triples = [
            quad.triple for quad in content if self._union or isinstance(quad.graph_name, DefaultGraph)
        ]
        return {**content, **dict.fromkeys(entailed.derived(key, triples), 0)}

    @property
    def inferred_triples(self) -> int:
        """The number of triples that follow from the contents of the query's windows."""
        return 0 if self._entailed is None else self._entailed.size

    def _answer_rows(self) -> Iterator[IdRow]:
        if self._entailed is not None:
            yield from self._entailed.referenced_rows()

    def _text(self, keys: Sequence[WindowKey]) -> str:
        """Return the cached query text for the present window keys, row shapes and graph names."""
        tables = {name: table.shapes for name, table in self._tables.items()}
        key = (tuple(keys), tuple(tuple(map(tuple, shapes)) for shapes in tables.values()))
        if key in self._texts:
            return self._texts[key]
        windows = WindowsAsGraphs(self._windows_read, keys, self._windows)
        order = JoinOrder(
            {each.name: kind_of(each.spec).size(each.spec) for each in self._windows_read},
            {name: table.size for name, table in self._tables.items()},
        )
        text = SparqlText(
            corrected(windows.rewrite(order.order(self.rest)), replaces=False)[0],
            choices=self._functions,
            tables=tables,
            base_iri=self.query.base_iri,
        )
        result = text.ask() if self.query.form == "ask" else text.select(var.name for var in self.columns)
        if not windows.reads_names:
            if len(self._texts) > _CACHED_TEXTS:
                self._texts.clear()
            self._texts[key] = result
        return result


def _add_times(times: dict[Triple, int], content: WindowContent, *, union: bool) -> None:
    """Record the greatest event time of each triple that patterns outside GRAPH can match."""
    for quad, time in content.items():
        triple = quad.triple
        if (union or isinstance(quad.graph_name, DefaultGraph)) and time > times.get(triple, time - 1):
            times[triple] = time
