"""The native evaluator: the answer kept up to date by deltas.

It has the surface of `ReferenceEvaluator` and is exact in the same sense; what it cannot keep up to date
it refuses at construction, and the query is then recomputed. On top of that surface stands `step`, which
takes the changes of the windows and gives the change of the answer, at a cost that follows the change.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode, Quad

from quadrill.store.dictionary import TermDictionary
from quadrill.store.errors import UnsupportedError

from .algebra.nodes import Algebra, Distinct, OrderBy, Project, Reduced, Slice, Var
from .algebra.query import ContinuousQuery
from .algebra.static import is_static, split_static
from .algebra.variables import certain
from .element import Row, WindowContent
from .expressions.compile import ExpressionContext
from .expressions.values import ValueTable
from .planner.compiled import CompiledPlan
from .planner.physical import Compilation, StaticTable, build_plan
from .planner.plan import Plan, SourceKey, source_key
from .r2r.ordering import OrderKeys
from .r2r.reifiers import CanonicalReifiers
from .r2r.source import WindowSource
from .r2r.topk import TopK
from .reference.answer import Answer, EvaluationOptions, StaticPart
from .reference.background import Background, projected
from .reference.functions import Functions
from .reference.parts import described, streams_of_variable
from .reference.prepare import prepare
from .reference.template import Template
from .rows import Delta, merge
from .rows import Row as IdRow
from .uncertainty import custom_functions

if TYPE_CHECKING:
    from quadrill.store.quads import QuadStore

Contents = Mapping[NamedNode, WindowContent | Mapping[NamedNode, WindowContent]]
WindowKey = tuple[NamedNode, NamedNode | None]
Changes = Mapping[WindowKey, Mapping[Quad, int]]
"""For each window (and stream, where that is a variable) the quads that entered (+1) and left (-1)."""


class EngineTerms:
    """The dictionary and the caches over it that all native queries of an engine share."""

    def __init__(self) -> None:
        self.dictionary = TermDictionary()
        self.values = ValueTable(self.dictionary)
        self.keys = OrderKeys(self.dictionary)
        # Held while a query is planned: its ids have no holder yet.
        self.planning = threading.Lock()

    def tidy(self) -> None:
        """Forget terms that nothing holds when the dictionary has doubled; called between transactions."""
        if self.dictionary.grown and self.planning.acquire(blocking=False):
            try:
                self.dictionary.sweep()
                self.values.clear()
                self.keys.clear()
            finally:
                self.planning.release()


class AnswerChange:
    """What one step did to the answer, and the answer after it.

    ``deleted`` and ``inserted`` hold each row as often as it came or went, in the answer's order. ``rows`` is
    the whole answer after this step, also when it is read after later ones and in another thread: it is then
    made from the newest answer and the changes since.
    """

    def __init__(
        self,
        evaluator: NativeEvaluator,
        deleted: list[Row],
        inserted: list[Row],
        boolean: bool | None,
        rows: list[Row] | None,
    ) -> None:
        self.vars = evaluator.vars
        self.deleted = deleted
        self.inserted = inserted
        self.boolean = boolean
        self.later: AnswerChange | None = None
        self._evaluator = evaluator
        self._rows = rows

    @property
    def rows(self) -> list[Row]:
        """The whole answer after this step."""
        if self._rows is None:
            self._rows = self._evaluator.rows_after(self)
        return self._rows


class NativeEvaluator:
    """Evaluates one continuous query incrementally; not thread-safe.

    Raises UnsupportedError at construction for a construct without a delta form, QueryTextError for a wrong
    query.
    """

    engine = "native"

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        terms: EngineTerms | None = None,
        *,
        order: Sequence[int] | None = None,
        compiled: bool = True,
    ) -> None:
        """``order`` forces the order of look-ups in joins; without ``compiled`` the operators run one by one.

        Both are for tests and measurements.
        """
        self._compile = compiled
        if query.form == "describe":
            raise UnsupportedError("DESCRIBE")
        if not query.windows:
            raise UnsupportedError("a query without windows", "a query without windows has nothing to keep")
        self._query = query
        self._options = options
        self._terms = EngineTerms() if terms is None else terms
        self._functions = Functions(options.name, custom_functions())
        root = prepare(query)
        if is_static(root):
            raise UnsupportedError("a query without windows", "a query without windows has nothing to keep")
        self._columns = query.columns if query.form == "select" else projected(root)
        self.vars = () if query.form == "ask" else tuple(var.name for var in self._columns)
        self._ordered = query.form != "ask" and _is_ordered(root)
        rest, self._parts = split_static(root, frozenset(var.name for var in self._columns))
        self._background = Background(query, store, options, self._functions)
        self._template = Template(query.template, self._columns, options.name)
        with self._terms.planning:
            self._prepare_plan(rest, order)

    def _prepare_plan(self, rest: Algebra, order: Sequence[int] | None) -> None:
        self._plan = self._build(rest, order)
        self._places = [
            self._plan.schema.vars.index(var.name) if var.name in self._plan.schema.vars else -1
            for var in self._columns
        ]
        self._sources: dict[WindowKey, WindowSource] = {}
        self._inputs = {
            each.name: (source_key("triples", each.name), source_key("quads", each.name))
            for each in self._query.windows
        }
        self._reified: dict[WindowKey, CanonicalReifiers] = {}
        self._held: dict[WindowKey, dict[Quad, int]] = {}
        self._rows: list[list[Row]] = [[] for _ in self._parts]
        self._pending: dict[SourceKey, Delta] = {}
        self._answer: Delta = {}
        self._newest: AnswerChange | None = None
        # Held while the answer changes and while another thread reads it.
        self._reading = threading.Lock()
        release = self._terms.dictionary.hold(_weakly(self._live_ids))
        # Also an evaluator that was only made to check a query lets go of its terms.
        self.close = weakref.finalize(self, _let_go, release, self._plan)
        self.static_version = -1
        self.refresh()

    # --- the surface of the reference ---------------------------------------------------------------

    def refresh(self) -> bool:
        """Evaluate the static parts again, all at the newest version; True when any row changed.

        The change enters the answer with the next step.
        """
        version, results = self._background.evaluate(self._parts)
        changed = False
        ids = self._terms.dictionary.ids
        for place, (part, rows) in enumerate(zip(self._parts, results, strict=True)):
            self._rows[place] = rows
            if part.name not in self._plan.tables:
                continue
            counted: Delta = {}
            for row in rows:
                encoded = tuple([0 if term is None else ids[term] for term in row])
                counted[encoded] = counted.get(encoded, 0) + 1
            change = self._plan.tables[part.name].replace(counted)
            if change:
                changed = True
                key = source_key("table", part.name)
                self._pending[key] = merge(self._pending.get(key, {}), change)
        self.static_version = version
        return changed

    def answer(self, at: int, contents: Contents) -> Answer:
        """The whole answer over whole contents: they are compared with those of the last step."""
        self.step(at, self._differences(contents))
        return self.whole()

    def construct(self, rows: Sequence[Row], at: int) -> list[Quad]:
        """The template over some rows of an answer at ``at``: distinct quads in the order of the rows."""
        return self._template.quads(rows, at)

    def static_parts(self) -> list[StaticPart]:
        """What each static part is and how many rows it has."""
        return described(self._query, self._parts, self._rows, self.static_version)

    def streams_of_variable(self, window_name: NamedNode) -> frozenset[NamedNode] | None:
        """The streams to which static data bind a window's variable stream; None when they do not bind it."""
        return streams_of_variable(self._query, self._parts, self._rows, window_name)

    # --- steps ------------------------------------------------------------------------------------

    def step(self, at: int, changes: Changes) -> AnswerChange:
        """Take the changes of one transaction; the change of the answer at instant ``at`` (milliseconds)."""
        given, self._pending = self._pending, {}
        for key, quads in changes.items():
            if quads:
                self._enter(key, quads, given)
        with self._reading:
            delta = self._step(given)
            deleted: list[Row] = []
            inserted: list[Row] = []
            if delta:
                merge(self._answer, delta)
                deleted = self._decoded({row: -weight for row, weight in delta.items() if weight < 0})
                inserted = self._decoded({row: weight for row, weight in delta.items() if weight > 0})
            ask = self._query.form == "ask"
            rows: list[Row] | None = None
            if ask:
                rows = []
            elif self._ordered:
                same = not delta and self._newest is not None
                rows = self._newest.rows if same and self._newest is not None else self.whole().rows
            change = AnswerChange(self, deleted, inserted, bool(self._answer) if ask else None, rows)
            if self._newest is not None:
                self._newest.later = change
            self._newest = change
            self._terms.tidy()
        return change

    def rows_after(self, change: AnswerChange) -> list[Row]:
        """The whole answer after a step that may not be the last; called in any thread."""
        with self._reading:
            rows = self._decoded(self._answer)
            later = change.later
            if later is None:
                return rows
            counted = Counter(rows)
            while later is not None:
                counted.subtract(later.inserted)
                counted.update(later.deleted)
                later = later.later
            return list(counted.elements())

    def whole(self) -> Answer:
        """The whole answer after the last step."""
        if self._query.form == "ask":
            return Answer((), [], False, bool(self._answer))
        operator = self._plan.nodes[self._plan.root].operator
        if isinstance(operator, TopK):
            return Answer(self.vars, [self._terms_of(row) for row in operator.rows()], self._ordered)
        return Answer(self.vars, self._decoded(self._answer), self._ordered)

    def explain(self, *, analyze: bool = False) -> str:
        """The operators with the rows that they keep; with ``analyze`` also what they did."""
        return self._plan.explain(analyze=analyze)

    def measured(self) -> dict[str, Any]:
        """Live figures: ``operators`` as in `Plan.measured`, ``steps`` taken and ``timed_steps`` of them."""
        figures = self._plan.figures
        return {
            "operators": self._plan.measured(),
            "steps": figures.steps,
            "timed_steps": figures.timed_steps,
        }

    @property
    def code(self) -> str | None:
        """The generated function that runs the plan now, as text."""
        return None if self._code is None else self._code.source

    def state_size(self) -> int:
        """Rows kept by the operators."""
        return self._plan.size()

    # --- preparation ------------------------------------------------------------------------------

    def _build(self, rest: Algebra, order: Sequence[int] | None) -> Plan:
        tables = {
            part.name: StaticTable(
                part.name,
                tuple(var.name for var in part.vars),
                certain(part.pattern) & {var.name for var in part.vars},
            )
            for part in self._parts
        }
        context = ExpressionContext(self._terms.values, self._options.base_iri, custom_functions())
        compilation = Compilation(
            self._terms.dictionary,
            context,
            self._terms.keys,
            self._query.windows,
            tables,
            self._options.window_default_graph == "union",
            order,
        )
        plan = build_plan(rest, compilation, ordered=self._ordered)
        self._code = CompiledPlan(plan, context) if self._compile else None
        self._step = plan.step if self._code is None else self._code.step
        return plan

    # --- one step ---------------------------------------------------------------------------------

    def _enter(self, key: WindowKey, quads: Mapping[Quad, int], given: dict[SourceKey, Delta]) -> None:
        """Encode the change of one window and add it to the plan's inputs."""
        name, stream = key
        source = self._sources.get(key)
        if source is None:
            union = self._options.window_default_graph == "union"
            source = self._sources[key] = WindowSource(self._terms.dictionary, union=union)
        triples = self._fed(key, source, quads)
        named = source.quads
        if stream is not None:
            last = self._terms.dictionary.ids[stream]
            triples = {(*row, last): weight for row, weight in triples.items()}
            named = {(*row, last): weight for row, weight in named.items()}
        for place, delta in zip(self._inputs[name], (triples, named), strict=True):
            if delta:
                given[place] = {**given[place], **delta} if place in given else delta

    def _fed(self, key: WindowKey, source: WindowSource, quads: Mapping[Quad, int]) -> Delta:
        """The change of the triples, with canonical reifiers from the first reifier on."""
        canonical = self._reified.get(key)
        if canonical is None:
            triples = source.feed(quads)
            if not source.met_reifier:
                return triples
            # Take the change back: what was there before it had no reifiers.
            source.feed({quad: -weight for quad, weight in quads.items()})
            canonical = self._reified[key] = CanonicalReifiers(self._asserts_quoted(key), source.live())
        triples = source.feed(canonical.change(quads))
        if not len(canonical):
            del self._reified[key]
            source.met_reifier = False
        return triples

    def _differences(self, contents: Contents) -> dict[WindowKey, dict[Quad, int]]:
        """The changes that lead from the contents of the last call to these."""
        given: dict[WindowKey, WindowContent] = {}
        for declaration in self._query.windows:
            content = contents.get(declaration.name, {})
            if isinstance(declaration.stream, Var):
                for stream, each in content.items():
                    given[(declaration.name, stream)] = each  # type: ignore[index,assignment]
            else:
                given[(declaration.name, None)] = content  # type: ignore[assignment]
        changes: dict[WindowKey, dict[Quad, int]] = {}
        for key in given.keys() | self._held.keys():
            new, old = given.get(key, {}), self._held.get(key, {})
            change = {quad: 1 for quad in new if quad not in old}
            change |= {quad: -1 for quad in old if quad not in new}
            changes[key] = change
            self._held[key] = dict.fromkeys(new, 1)
        return changes

    def _asserts_quoted(self, key: WindowKey) -> bool:
        setting = self._options.quoted_asserted
        if isinstance(setting, bool):
            return setting
        name, stream = key
        streams = [stream] + [each.stream for each in self._query.windows if each.name == name]
        return any(each in setting for each in streams)

    def _decoded(self, rows: Mapping[IdRow, int]) -> list[Row]:
        """Rows of terms in the columns of the answer, as often as their weight, in the answer's order."""
        ordered: Sequence[IdRow] = list(rows)
        operator = self._plan.nodes[self._plan.root].operator
        if self._ordered and isinstance(operator, TopK):
            ordered = operator.sorted(ordered)
        found: list[Row] = []
        for row in ordered:
            found += [self._terms_of(row)] * rows[row]
        return found

    def _terms_of(self, row: IdRow) -> Row:
        terms = self._terms.dictionary.terms
        return tuple([terms[row[place]] if place >= 0 and row[place] else None for place in self._places])

    def _live_ids(self) -> set[int]:
        live: set[int] = set()
        for row in self._plan.held():
            live.update(row)
        for row in self._answer:
            live.update(row)
        for source in self._sources.values():
            for row in source.held():
                live.update(row)
        return live


def _weakly(live_ids: Callable[[], set[int]]) -> Callable[[], set[int]]:
    """The method of an object that this does not keep alive."""
    method = weakref.WeakMethod(live_ids)

    def ids() -> set[int]:
        found = method()
        return set() if found is None else found()

    return ids


def _let_go(release: Callable[[], None], plan: Plan) -> None:
    release()
    for table in plan.tables.values():
        table.release()


def _is_ordered(root: Algebra) -> bool:
    """True when the query itself has ORDER BY, LIMIT or OFFSET; those of a sub-query order nothing here."""
    if isinstance(root, Slice):
        return True
    inner = root.input if isinstance(root, Distinct | Reduced) else root
    inner = inner.input if isinstance(inner, Project) else inner
    return isinstance(inner, OrderBy)
