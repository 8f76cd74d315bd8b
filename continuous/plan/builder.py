"""The builder of a query's plan: adds inputs, joins, filters and projections as plan nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from pyoxigraph import BlankNode, NamedNode

from quadrill.store.dictionary import TermDictionary
from quadrill.store.terms import Term

from ..algebra.nodes import MERGED, Call, Expr, TableNode, Values, Var
from ..algebra.query import WindowDeclaration
from ..algebra.static import MERGED_PART
from ..algebra.variables import Names, always_bound, bound_when_true, certain
from ..algebra.volatile import CLOCK, NOW
from ..expressions.compile import ExpressionContext, compile_condition, compile_id, compile_pair_condition
from ..expressions.oxigraph import canonical
from ..expressions.values import OrderKeys
from ..operators import linear
from ..operators.join import DeltaJoin
from ..operators.matching import Match
from ..operators.ordering import SortKey, TopK
from ..operators.thresholds import Bound, Relation
from ..rows import Delta, IdRow, PinnedIds, Schema, add
from .plan import CLOCK_KEY, PlanNode, SourceKey, source_key

TRIPLE = ("s", "p", "o")
_TURNED: dict[str, Relation] = {"<": ">", ">": "<", "=": "="}
"""Each comparison operator with its counterpart for exchanged sides, for example ``<`` and ``>``."""


@dataclass(slots=True)
class Compilation:
    """The services for compiling one query's plan; ``tables`` maps static parts to their column names.

    With ``late_filters``, conditions with uncertainty functions are evaluated after the joins of their group.
    """

    terms: TermDictionary
    pins: PinnedIds
    context: ExpressionContext
    keys: OrderKeys
    windows: Sequence[WindowDeclaration]
    tables: Mapping[str, Sequence[str]]
    late_filters: bool = False


@dataclass(frozen=True, slots=True)
class PatternScope:
    """The scope of a pattern: a window, a graph in that window, and the variable of the window's stream."""

    window: NamedNode | None = None
    graph: NamedNode | BlankNode | Var | None = None
    stream: str | None = None

    @property
    def columns(self) -> list[Var]:
        """The variables of the blocks ``GRAPH ?g`` and ``STREAM ?s`` that enclose the pattern."""
        columns = [self.graph] if isinstance(self.graph, Var) else []
        return [*columns, Var(self.stream)] if self.stream else columns

    @property
    def context(self) -> Names:
        """The names of the variables of the enclosing blocks ``GRAPH ?g`` and ``STREAM ?s``."""
        return frozenset(each.name for each in self.columns)


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """A node of the plan under construction, by its position in the plan, and the schema of its rows."""

    place: int
    schema: Schema


class PlanBuilder:
    """Collects plan nodes, each after its input nodes; two reads of the same input share one node."""

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self.nodes: list[PlanNode] = []
        self.declared = {each.name: each for each in compilation.windows}
        self._sources: dict[SourceKey, PlanOutput] = {}
        self._merged: dict[bool, PlanOutput] = {}
        self._fresh = count(1)

    def add(
        self,
        label: str,
        operator: linear.Operator,
        inputs: Sequence[PlanOutput],
        detail: str = "",
        exprs: Sequence[Expr | None] = (),
    ) -> PlanOutput:
        """Append a node after its inputs, and return its output."""
        places = tuple(each.place for each in inputs)
        static = all(self.nodes[each].static for each in places)
        self.nodes.append(PlanNode(label, operator.schema, places, operator, None, detail, exprs, static))
        return PlanOutput(len(self.nodes) - 1, operator.schema)

    def fresh(self, stem: str) -> Var:
        """Return a new variable that does not occur in the query."""
        return Var(f"_:{stem}{next(self._fresh)}")

    def pinned(self, term: Term) -> int:
        """Return the term id of a constant, pinned in the dictionary until the plan is released."""
        term_id = self.compilation.terms.ids[canonical(term)]
        self.compilation.pins.pin([term_id])
        return term_id

    # --- inputs ---------------------------------------------------------------------------------

    def triples(self, scope: PatternScope) -> PlanOutput:
        """Return the triples (s, p, o) of a window that patterns outside GRAPH match."""
        return self._merge(False) if scope.window == MERGED else self._window("triples", (), scope)

    def quads(self, scope: PatternScope) -> PlanOutput:
        """Return the quads (s, p, o, g) of a window's named graphs."""
        return self._window("quads", ("g",), scope)

    def times(self, scope: PatternScope) -> PlanOutput:
        """Return the triples that patterns outside GRAPH match with their event times: (s, p, o, time)."""
        return self._merge(True) if scope.window == MERGED else self._window("times", ("time",), scope)

    def streams(self, scope: PatternScope) -> PlanOutput:
        """Return the streams met so far in a window on a stream variable, as one column of stream IRIs."""
        assert scope.window is not None and scope.stream is not None
        key = source_key("streams", scope.window)
        given = self._source(key, Schema.bound("stream"), "streams")
        named = linear.Select(Schema.bound(scope.stream), (0,), lambda row: True)
        return self.add("named", named, [given])

    def table(self, node: TableNode) -> PlanOutput:
        """Return the rows of a static part, or the one row with the current instant."""
        if node.name == CLOCK.name:
            return self._source(CLOCK_KEY, Schema.bound(NOW), "clock")
        schema = Schema(tuple(self.compilation.tables[node.name]), node.certain)
        return self._source(source_key("table", node.name), schema, "table", node.name)

    def _source(self, key: SourceKey, schema: Schema, label: str, detail: str = "") -> PlanOutput:
        """Return the plan node that receives the deltas of the input with source key ``key``."""
        if key not in self._sources:
            self._sources[key] = PlanOutput(len(self.nodes), schema)
            static = label == "table"
            self.nodes.append(PlanNode(label, schema, source=key, detail=detail, static=static))
        return self._sources[key]

    def _window(self, kind: str, more: tuple[str, ...], scope: PatternScope) -> PlanOutput:
        """Return the node that receives a window's deltas.

        A stream variable adds the stream as last column of the window's rows.
        """
        assert scope.window is not None
        names = (*TRIPLE, *more, *(("stream",) if scope.stream else ()))
        stream = self.declared[scope.window].stream
        shown = f"?{stream.name}" if isinstance(stream, Var) else str(stream)
        key = source_key(kind, scope.window)
        return self._source(key, Schema.bound(*names), "window", f"{shown} ({kind})")

    def _merge(self, timed: bool) -> PlanOutput:
        """Return the merge of all windows and the background graphs, with event times if ``timed``."""
        if timed not in self._merged:
            read = self.times if timed else self.triples
            inputs = [read(PatternScope(window)) for window in self.declared]
            background = self.table(TableNode(MERGED_PART, (), frozenset(TRIPLE)))
            columns = background.schema.columns(TRIPLE)
            if timed:
                schema = Schema((*TRIPLE, "time"), frozenset(TRIPLE))
                union = linear.UnionAll(schema, *(range(4) for _ in inputs), (*columns, -1))
                rows = self.add("union", union, [*inputs, background])
                first = TopK(schema, tuple, self._newest_first, 0, 1, by=range(3))
                self._merged[timed] = self.add("merge of times", first, [rows])
            else:
                merge = linear.Deduplicate(Schema.bound(*TRIPLE), *(None for _ in inputs), columns)
                self._merged[timed] = self.add("merge", merge, [*inputs, background])
        return self._merged[timed]

    def _newest_first(self, row: IdRow, floor: SortKey | None) -> SortKey:
        """Sort key that puts the greatest event time of a triple first, and a triple without a time last."""
        time = self.compilation.context.values[row[3]]
        assert time is None or isinstance(time, int)
        return (1, 0) if time is None else (0, -time)

    # --- rows -----------------------------------------------------------------------------------

    def values(self, node: Values) -> PlanOutput:
        """Return the rows of VALUES as an input."""
        encode = self.compilation.terms.encode
        counted: Delta = {}
        for row in node.rows:
            add(counted, tuple(encode(None if term is None else canonical(term)) for term in row), 1)
        schema = Schema(tuple(each.name for each in node.vars), certain(node))
        return self.add("values", linear.ConstantRows(schema, counted), [])

    def filter(self, built: PlanOutput, condition: Expr) -> PlanOutput:
        """Filter rows by a condition without EXISTS."""
        names = built.schema.vars
        test = compile_condition(condition, names, self.compilation.context)
        proved = bound_when_true(condition) & frozenset(names)
        schema = Schema(names, built.schema.certain | proved)
        return self.add("filter", linear.RowFilter(schema, test), [built], exprs=[condition])

    def left_join(self, left: PlanOutput, right: PlanOutput, condition: Expr | None) -> PlanOutput:
        """Plan OPTIONAL with a condition without EXISTS."""
        residual = None
        if condition is not None:
            names = left.schema.vars, right.schema.vars
            residual = compile_pair_condition(condition, *names, self.compilation.context)
        return self.add("optional", Match("left", left.schema, right.schema, residual), [left, right])

    def without(self, left: PlanOutput, right: PlanOutput) -> PlanOutput:
        """Return the left rows without a match among the right rows, which have the same columns."""
        return self.add("absent", Match("anti", left.schema, right.schema), [left, right])

    def constant(self, built: PlanOutput, name: str, term_id: int) -> PlanOutput:
        """Append a column with one term id; id 0 leaves the column unbound."""
        sure = built.schema.certain | {name} if term_id else built.schema.certain
        schema = Schema((*built.schema.vars, name), sure)
        self.compilation.pins.pin([term_id])
        return self.add("constant", linear.AddColumn(schema, lambda row: term_id), [built], f"?{name}")

    def join(self, *inputs: PlanOutput, conditions: Sequence[Expr] = ()) -> PlanOutput:
        """Join planned inputs of a query's plan.

        Ids in rows of static tables need no pins of the plan, because the tables pin these ids. The join may
        omit rows for which one of ``conditions`` is not true.
        """
        operator = DeltaJoin([each.schema for each in inputs])
        nodes = [self.nodes[each.place] for each in inputs]
        operator.static = tuple(each.static for each in nodes)
        operator.pinned = tuple(each.is_table for each in nodes)
        bounds = [[bound for each in conditions for bound in _bounds(each, node)] for node in nodes]
        if any(bounds):
            operator.set_bounds(bounds, self.compilation.context.values.number)
        return self.add("join", operator, inputs)

    def union(self, left: PlanOutput, right: PlanOutput) -> PlanOutput:
        """Plan UNION: return the rows of both inputs."""
        names = tuple(dict.fromkeys((*left.schema.vars, *right.schema.vars)))
        schema = Schema(names, left.schema.certain & right.schema.certain)
        operator = linear.UnionAll(schema, left.schema.columns(names), right.schema.columns(names))
        return self.add("union", operator, [left, right])

    def extend(self, built: PlanOutput, name: str, expr: Expr) -> PlanOutput:
        """Append a column with the value of an expression."""
        names, sure = built.schema.vars, built.schema.certain
        if (isinstance(expr, Var) and expr.name in sure) or always_bound(expr):
            sure |= {name}
        operator = linear.AddColumn(
            Schema((*names, name), sure), compile_id(expr, names, self.compilation.context)
        )
        return self.add("extend", operator, [built], f"?{name}", [expr])

    def project(self, built: PlanOutput, names: Sequence[str]) -> PlanOutput:
        """Project the rows of a planned input to the columns ``names``.

        An input with exactly the columns ``names`` is returned unchanged.
        """
        if tuple(names) == built.schema.vars:
            return built
        schema = Schema(tuple(names), built.schema.certain & frozenset(names))
        return self.add("project", linear.Projection(schema, built.schema.columns(names)), [built])

    def distinct(self, built: PlanOutput) -> PlanOutput:
        """Plan DISTINCT: return each distinct row once."""
        return self.add("distinct", linear.Deduplicate(built.schema), [built])


def _bounds(condition: Expr, node: PlanNode) -> Iterator[Bound]:
    """Yield the comparisons, in a filter, of a static input's columns with variables of other join inputs."""
    match condition:
        case Call(("<" | "<=" | ">" | ">=" | "=") as name, (Var(left), Var(right))) if node.static:
            turned = _TURNED[name[0]]
            for mine, other, relation in ((left, right, _TURNED[turned]), (right, left, turned)):
                if mine in node.schema.certain and other not in node.schema.vars:
                    yield Bound(node.schema.position(mine), relation, other)
