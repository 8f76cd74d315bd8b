"""The reference evaluator: the answer at each instant by recomputing it with Oxigraph.

It is the meaning of a query in one page of code: static parts are evaluated on the quad store at one
version of the dataset, their rows and the windows' contents stand in one scratch store, and the query, its
windows turned to graphs, is evaluated there at each instant. docs/decisions/0030-recompute-on-one-store.md.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from quadrill.store.errors import UnsupportedError

from ..algebra.build import all_nodes
from ..algebra.join_order import JoinOrder
from ..algebra.nodes import MERGED, Algebra, Table, Var, Window
from ..algebra.query import ContinuousQuery
from ..algebra.reify import assert_quoted, canonical_content, has_reifiers
from ..algebra.rewrites import has_order, prepare
from ..algebra.static import StaticPattern, calls_service, is_static, split_static
from ..algebra.text import SparqlText
from ..algebra.triggers import triggers
from ..algebra.volatile import uses_timestamps
from ..element import Solution, WindowContent
from ..expressions.oxigraph import Functions
from ..output.construct import Template
from ..static.facts import StaticPart, TableFacts
from ..static.options import EvaluationOptions
from ..static.static_evaluator import StaticEvaluator, merged_background, projected
from ..uncertainty import custom_functions
from ..windows.encoded import WindowKey
from ..windows.kinds import kind_of
from ..windows.live import LiveQuads
from .answer import Answer, RecomputedAnswer
from .static_rows import described, streams_of_variable
from .window_graphs import GraphNames, WindowPlan, windows_with_graphs
from .workspace import LoadedGraph, LoadedTable, LoadedTriples, LoadedWindow, Workspace

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

    from ..static.static_inputs import StaticInputs
    from ..static.steps import Changes as StaticChanges

    MakeStatics = Callable[[Sequence[StaticPattern], bool], StaticInputs]
    """The tables of some parts; True for the one part that is the whole query."""

_TEXTS_KEPT = 16

Contents = Mapping[NamedNode, WindowContent | Mapping[NamedNode, WindowContent]]


class ReferenceEvaluator:
    """Evaluates one continuous query; not thread-safe, used by one thread at a time.

    Raises UnsupportedError or QueryTextError at construction for what it cannot evaluate.
    """

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        make_statics: MakeStatics | None = None,
        *,
        engine: str = "reference",
    ) -> None:
        """Prepare the evaluation and evaluate the static parts.

        Args:
            query: what to evaluate.
            store: where its static parts are.
            options: of the registration.
            make_statics: makes shared tables of the static parts, which follow the store from `begin` on.
                Without it `refresh` evaluates them: the oracle keeps nothing up to date.
            engine: the word for it in descriptions.
        """
        self.engine = engine
        if query.form == "describe":
            raise UnsupportedError(
                "DESCRIBE",
                "DESCRIBE is not supported as a continuous query",
                hint="write a CONSTRUCT that says which triples you want",
            )
        self._query = query
        self._options = options
        self._functions = Functions(options.name, custom_functions())
        self._root = prepare(query)
        self._uses_graphs = windows_with_graphs(self._root)
        self._uses_times = uses_timestamps(query.root)
        self._columns = query.columns if query.form == "select" else projected(self._root)
        self._ordered = has_order(query.root)
        self._rest, self._parts = self._split()
        self._background = StaticEvaluator(query, store, options, self._functions)
        self._template = Template(query.template, self._columns, options.name)
        self._workspace = Workspace()
        self._names = GraphNames()
        self._windows: dict[WindowKey, LoadedWindow] = {}
        self._merged: LoadedGraph | None = None
        self._tables: list[LoadedTable | LoadedTriples] = [LoadedTable(part.name) for part in self._parts]
        if any(isinstance(each, Window) and each.name == MERGED for each in all_nodes(self._root)):
            self._merged = LoadedGraph(self._names.window((MERGED, None)))
            self._workspace.declare(self._names.window((MERGED, None)))
            self._parts += (merged_background(self._root),)
            self._tables.append(LoadedTriples(self._merged))
        self._rows: list[Counter[Solution]] = [Counter() for _ in self._parts]
        # The rows of a query without windows that have an order.
        self._listed: list[Solution] | None = None
        self._texts: dict[object, str] = {}
        self._version = -1
        self.statics: StaticInputs | None = None
        self._finalizer: weakref.finalize[..., ReferenceEvaluator] | None = None
        # The rows of the last `advance`.
        self.kept: Sequence[Solution] = ()
        whole = bool(self._parts) and self._is_whole(0)
        if make_statics is not None and not (whole and triggers(self._root) is None):
            self.statics = make_statics(self._parts, whole)
            self._finalizer = weakref.finalize(self, self.statics.abandon)
            self.statics.open()
        if self.statics is None or self.statics.has_own:
            self.refresh()
        self.answer(0, {})

    @property
    def vars(self) -> tuple[str, ...]:
        """The columns of its answers."""
        return () if self._query.form == "ask" else tuple(var.name for var in self._columns)

    @property
    def explained(self) -> None:
        """Say that the answer is computed anew at each instant."""
        return

    def close(self) -> None:
        """The query has ended."""
        if self._finalizer is not None:
            self._finalizer.detach()
        if self.statics is not None:
            self.statics.close()

    @property
    def static_version(self) -> int:
        """The version of the store that the static parts reflect."""
        return self._version if self.statics is None else self.statics.version

    def begin(self) -> bool:
        """The query begins in this turn, with all rows of the parts that follow the store."""
        assert self.statics is not None
        return self.take(self.statics.begin())

    def take(self, changes: StaticChanges) -> bool:
        """Take changes of static parts that follow the store; True when any row changed."""
        assert self.statics is not None
        changed = False
        for index, change in changes.items():
            if change.listed is not None:
                self._listed = [self.statics.arranged(index, row) for row in change.listed]
                changed = True
            elif change.delta:
                rows = self._rows[index]
                for row, weight in change.delta.items():
                    terms = self.statics.arranged(index, self.statics.decoded(row))
                    rows[terms] += weight
                    if not rows[terms]:
                        del rows[terms]
                if not self._is_whole(index):
                    self._tables[index].load(rows, self._workspace)
                changed = True
        return changed

    def refresh(self) -> bool:
        """Evaluate the static parts again, all at the newest version; True when any row changed."""
        if self.statics is not None:
            return self.take(self.statics.refresh())
        version, results = self._background.evaluate_changed(self._parts, self.static_version)
        changed = False
        for index, rows in enumerate(results):
            if rows is None:
                continue
            counted = Counter(rows)
            if self._is_whole(index):
                changed = changed or rows != self._listed
                self._listed = rows
            elif counted != self._rows[index]:
                self._tables[index].load(counted, self._workspace)
                changed = True
            self._rows[index] = counted
        self._version = version
        return changed

    def answer(self, at: int, contents: Contents) -> Answer:
        """The answer at instant ``at`` (milliseconds) over the windows' contents; a window left out is empty.

        A window whose stream is a variable is given as contents by stream IRI.
        """
        if self._parts and self._is_whole(0):
            return self._shape(list(self._rows[0].elements()) if self._listed is None else self._listed)
        self._functions.begin(at, self._load(contents))
        text = self._text(contents)
        if self._query.form == "ask":
            return self._shape([()] if self._workspace.boolean(text, self._functions) else [])
        return self._shape(self._workspace.solutions(text, len(self._columns), self._functions))

    def content_of(self, window: NamedNode) -> LiveQuads:
        """An empty content of quads for a window."""
        return LiveQuads()

    def advance(self, at: int, windows: Iterable[tuple[WindowKey, LiveQuads]]) -> RecomputedAnswer:
        """The answer over what the windows hold now, beside the one of the last call."""
        contents: dict[NamedNode, Any] = {}
        for (name, stream), live in windows:
            if stream is None:
                contents[name] = live.content
            else:
                contents.setdefault(name, {})[stream] = live.content
        found = self.answer(at, contents)
        before, self.kept = self.kept, found.rows
        return RecomputedAnswer(self.vars, before, found.rows, found.boolean)

    def go_on(
        self, at: int, windows: Iterable[tuple[WindowKey, LiveQuads]], kept: Answer
    ) -> RecomputedAnswer:
        """The answer of the last evaluation before a restart: it is not computed again."""
        self.kept = kept.rows
        return RecomputedAnswer(self.vars, kept.rows, kept.rows, kept.boolean)

    def construct(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        """The template over some rows of an answer at ``at``: distinct quads in the order of the rows."""
        return self._template.quads(rows, at)

    def static_parts(self) -> list[StaticPart]:
        """What each static part is and how many rows it has."""
        return described(self._query, self if self.statics is None else self.statics)

    @property
    def parts(self) -> Sequence[StaticPattern]:
        """The static parts."""
        return self._parts

    def facts(self, place: int) -> TableFacts:
        """What is known of the rows of a part."""
        choice = self._background.choice(self._parts[place])
        return TableFacts(self._rows[place].total(), self.static_version, choice=choice)

    def streams_of_variable(self, window_name: NamedNode) -> frozenset[NamedNode] | None:
        """The streams to which static data bind a window's variable stream; None when they do not bind it."""
        return streams_of_variable(self._query, self._parts, lambda place: self._rows[place], window_name)

    # --- preparation ---------------------------------------------------------------------------

    def _split(self) -> tuple[Algebra, tuple[StaticPattern, ...]]:
        if is_static(self._root) and not calls_service(self._root):
            whole = StaticPattern("0", self._root, self._columns)
            return Table("0", self._columns), (whole,)
        return split_static(self._root, frozenset(var.name for var in self._columns))

    def _is_whole(self, index: int) -> bool:
        """True for the one part of a query without windows: its rows are the answer, in their order."""
        return index == 0 and isinstance(self._rest, Table) and len(self._parts) == 1

    def _shape(self, rows: list[Solution]) -> Answer:
        if self._query.form == "ask":
            return Answer((), [], False, bool(rows))
        return Answer(tuple(var.name for var in self._columns), rows, self._ordered)

    # --- one evaluation ------------------------------------------------------------------------

    def _load(self, contents: Contents) -> dict[NamedNode, dict[Triple, int]]:
        """Bring the evaluation store up to the contents; event times by window where the query reads them."""
        times: dict[NamedNode, dict[Triple, int]] = {}
        given = dict(self._keyed(contents))
        for key in self._windows.keys() - given.keys():
            given[key] = {}
        for key, content in given.items():
            if key not in self._windows:
                self._workspace.declare(self._names.window(key))
                self._workspace.name(self._names.window(key), self._names.names(key), key)
                self._windows[key] = LoadedWindow(
                    key,
                    self._names,
                    union=self._options.window_default_graph == "union",
                    graphs=self._uses_graphs,
                    merged=self._merged,
                )
            content = self._canonical(key, content)
            self._windows[key].load(content, self._workspace)
            if self._uses_times:
                for name in (key[0], MERGED):
                    union = self._options.window_default_graph == "union"
                    _add_times(times.setdefault(name, {}), content, union=union)
        return times

    def _keyed(self, contents: Contents) -> list[tuple[WindowKey, WindowContent]]:
        keyed: list[tuple[WindowKey, WindowContent]] = []
        for declaration in self._query.windows:
            content = contents.get(declaration.name, {})
            if isinstance(declaration.stream, Var):
                keyed += [((declaration.name, stream), each) for stream, each in content.items()]  # type: ignore[misc]
            else:
                keyed.append(((declaration.name, None), content))  # type: ignore[arg-type]
        return keyed

    def _canonical(self, key: WindowKey, content: WindowContent) -> WindowContent:
        if not has_reifiers(content):
            return content
        if self._asserts_quoted(key):
            content = assert_quoted(content)
        return canonical_content(content)

    def _asserts_quoted(self, key: WindowKey) -> bool:
        setting = self._options.quoted_asserted
        if isinstance(setting, bool):
            return setting
        name, stream = key
        streams = [stream] + [each.stream for each in self._query.windows if each.name == name]
        return any(each in setting for each in streams)

    def _text(self, contents: Contents) -> str:
        """The text over the evaluation store; made again when streams, row shapes or graph names change."""
        streams = {
            each.name: tuple(sorted(contents.get(each.name, {}), key=str))
            for each in self._query.windows
            if isinstance(each.stream, Var)
        }
        tables = {part.name: table.shapes for part, table in zip(self._parts, self._tables, strict=True)}
        key = (
            tuple(streams.items()),
            tuple(tuple(tuple(each) for each in shapes) for shapes in tables.values()),
        )
        if key in self._texts:
            return self._texts[key]
        names = {key: window.graph_names for key, window in self._windows.items()}
        plan = WindowPlan(self._query.windows, self._names, streams, names)  # type: ignore[arg-type]
        order = JoinOrder(
            {each.name: kind_of(each.spec).size(each.spec) for each in self._query.windows},
            {part.name: rows.total() for part, rows in zip(self._parts, self._rows, strict=True)},
        )
        text = SparqlText(
            plan.rewrite(order.order(self._rest)),
            choices=self._functions,
            tables=tables,
            base_iri=self._query.base_iri,
        )
        result = text.ask() if self._query.form == "ask" else text.select(var.name for var in self._columns)
        if not plan.reads_names:
            if len(self._texts) > _TEXTS_KEPT:
                self._texts.clear()
            self._texts[key] = result
        return result


def _add_times(times: dict[Triple, int], content: WindowContent, *, union: bool) -> None:
    """Keep the greatest event time of each triple, whatever graph patterns outside GRAPH match it in."""
    for quad, time in content.items():
        triple = quad.triple
        if not union and not isinstance(quad.graph_name, DefaultGraph):
            continue
        if time > times.get(triple, time - 1):
            times[triple] = time
