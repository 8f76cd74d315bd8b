"""Algebra -> operators.

A group (joins, windows, basic graph patterns, filters) is flattened to its members: stars of one subject,
single patterns, paths, static tables and whatever is planned on its own. They meet in one delta join, and
each filter goes to the member that binds its variables. The other nodes become one operator each. What
cannot be kept up to date raises UnsupportedError; the query is then recomputed instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.dictionary import TermDictionary
from quadrill.store.errors import QueryTextError, UnsupportedError

from ..algebra.build import sub_expressions
from ..algebra.clock import CLOCK
from ..algebra.nodes import Aggregate as AggregateNode
from ..algebra.nodes import (
    Algebra,
    Bgp,
    Distinct,
    Exists,
    Expr,
    Extend,
    Filter,
    FunctionCall,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    OrderCondition,
    Path,
    Project,
    Reduced,
    Service,
    Slice,
    Table,
    Union,
    Values,
    Var,
    Window,
    ZeroOrMore,
    ZeroOrOne,
)
from ..algebra.query import WindowDeclaration
from ..algebra.variables import expression_variables, in_scope
from ..expressions.compile import ExpressionContext, compile_condition, compile_value
from ..expressions.oxigraph import canonical
from ..r2r import linear
from ..r2r.aggregate import Aggregate, Aggregation
from ..r2r.join import Join as JoinOperator
from ..r2r.matching import Match
from ..r2r.ordering import Descending, OrderKeys
from ..r2r.policies import Policy
from ..r2r.topk import SortKey, TopK
from ..rows import Row, Schema
from .exists import correlation, has_exists
from .functions import accumulator_factory
from .implied import bound_when_true
from .patterns import Patterns, Scope
from .plan import CLOCK_KEY, Built, Plan, PlanBuilder, source_key

Names = frozenset[str]
NO_NAMES: Names = frozenset()


@dataclass(frozen=True, slots=True)
class StaticTable:
    """What the planner must know of a static part: its columns and those that every row binds."""

    name: str
    vars: tuple[str, ...]
    certain: Names


@dataclass(slots=True)
class Compilation:
    """What one query's plan is built from."""

    terms: TermDictionary
    context: ExpressionContext
    keys: OrderKeys
    windows: Sequence[WindowDeclaration]
    tables: Mapping[str, StaticTable]
    union: bool = True
    order: Sequence[int] | Policy | None = None
    """Forces the order of look-ups in joins, or a policy that chooses it; for tests and measurements."""
    costly_late: bool = False
    """Filters that call extension functions come behind joins (H4 of the RSP-QL* paper)."""


@dataclass(slots=True)
class _Group:
    """Members of a flattened group, the filters over them, and filters that need the outer row of EXISTS."""

    members: list[Built] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    residual: list[Expr] = field(default_factory=list)
    outer: Names = NO_NAMES

    def certain(self) -> Names:
        return NO_NAMES.union(*(member.schema.certain for member in self.members))

    def vars(self) -> Names:
        return frozenset(name for member in self.members for name in member.schema.vars)


@dataclass(frozen=True, slots=True)
class Grouping:
    """What the plan compiler must know of a GROUP BY besides its operator."""

    aggregates: Sequence[tuple[Var, AggregateNode]]
    exprs: Sequence[Expr | None]


def build_plan(root: Algebra, compilation: Compilation, *, ordered: bool) -> Plan:
    """The plan of a query whose static parts are `Table` nodes.

    Args:
        root: the prepared algebra, its modifiers included.
        compilation: dictionary, expression context, windows and tables of the query.
        ordered: the order of the root's rows means something.

    Raises:
        UnsupportedError: a construct has no delta form here.
    """
    planner = _Planner(compilation)
    built = planner.ordered_root(root) if ordered else planner.build(root, Scope())
    return Plan(planner.builder.nodes, built.place, planner.tables)


class _Planner:
    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self.builder = PlanBuilder()
        self.tables: set[str] = set()
        self._fresh = count(1)
        self._patterns = Patterns(compilation.terms, self.builder, self._source, self._fresh)
        self._declared = {each.name: each for each in compilation.windows}

    # --- nodes ----------------------------------------------------------------------------------

    def build(self, node: Algebra, scope: Scope) -> Built:
        """The operator of a node and all below it."""
        match node:
            case Bgp() | Join() | Window() | Graph() | Filter() | Path() | Table() | Values():
                group = _Group()
                self._flatten(node, scope, group)
                return self._finish(group)
            case LeftJoin(left, right, condition):
                return self._left_join(self.build(left, scope), self.build(right, scope), condition)
            case Union(left, right):
                return self._union(self.build(left, scope), self.build(right, scope))
            case Minus(left, right):
                a, b = self.build(left, scope), self.build(right, scope)
                return self.builder.add(
                    "minus", Match("minus", a.schema, b.schema, ignored=scope.context), [a, b]
                )
            case Extend(inner, var, expr):
                return self._extend(self.build(inner, scope), var.name, expr, scope)
            case Project(inner, variables):
                names = [each.name for each in variables]
                built = self.build(inner, scope)
                hidden = [each for each in built.schema.vars if each in scope.context and each not in names]
                return self._project(built, [*names, *hidden])
            case Distinct(inner):
                built = self.build(inner, scope)
                return self.builder.add("distinct", linear.Distinct(built.schema), [built])
            case Reduced(inner):
                return self.build(inner, scope)
            case OrderBy(inner, _):
                return self.build(inner, scope)
            case Slice():
                self._refuse_context(scope, "LIMIT")
                return self._top_k(node, scope)
            case Group():
                self._refuse_context(scope, "GROUP BY")
                return self._group_by(node, scope)
            case Service():
                raise UnsupportedError("SERVICE beside a window")

    def ordered_root(self, node: Algebra) -> Built:
        """The root of a query whose rows have an order."""
        return self._top_k(node, Scope())

    # --- groups ---------------------------------------------------------------------------------

    def _flatten(self, node: Algebra, scope: Scope, group: _Group) -> None:
        """Add the members of a group, and the filters that may look at all of them."""
        match node:
            case Join(left, right):
                self._flatten(left, scope, group)
                self._flatten(right, scope, group)
            case Bgp(patterns):
                self._refuse_outside(scope, bool(patterns))
                group.members += self._patterns.basic(patterns, scope)
            case Path(subject, path, object_):
                self._refuse_outside(scope, True)
                group.members.append(self._patterns.path(subject, path, object_, scope))
            case Window():
                self._flatten_window(node, scope, group)
            case Graph(name, inner):
                if scope.window is None:
                    raise UnsupportedError("GRAPH outside a window in a part that is not static")
                group.members += self._graph(name, inner, scope, group)
            case Table(name, _):
                group.members.append(self._table(name))
            case Values(variables, rows):
                group.members.append(self._values(variables, rows))
            case Filter(condition, inner):
                self._flatten_filter(condition, inner, scope, group)
            case _:
                correlation(node, group.outer)
                group.members.append(self.build(node, scope))

    def _flatten_filter(self, condition: Expr, inner: Algebra, scope: Scope, group: _Group) -> None:
        """A filter joins the group's filters when it means the same there, else its part stays apart."""
        below = _Group(outer=group.outer)
        self._flatten(inner, scope, below)
        names = expression_variables(condition)
        if has_exists(condition):
            if names & group.outer - below.certain():
                raise UnsupportedError("EXISTS inside EXISTS that uses the outer row")
            built = self._with_condition(self._finish(below), condition, scope)
            group.members.append(built)
            group.residual += below.residual
        elif names <= below.certain():
            group.members += below.members
            group.conditions += [*below.conditions, condition]
            group.residual += below.residual
        elif names & group.outer - below.certain():
            if names & group.outer & (below.vars() - below.certain()):
                raise UnsupportedError(
                    "a FILTER of EXISTS over a variable that its pattern may leave unbound"
                )
            group.members += below.members
            group.conditions += below.conditions
            group.residual += [*below.residual, condition]
        else:
            group.members.append(self._filter(self._finish(below), condition))
            group.residual += below.residual

    def _flatten_window(self, node: Window, scope: Scope, group: _Group) -> None:
        if scope.window is not None:
            raise QueryTextError("a window inside a window is an error")
        if isinstance(node.name, Var):
            variable = node.name
            branches = []
            for name in self._declared:
                branch = Join(replace(node, name=name), Values((variable,), ((name,),)))
                branches.append(self.build(branch, scope))
            if not branches:
                raise QueryTextError("WINDOW ?w needs a declared window", hint="add FROM NAMED WINDOW ...")
            built = branches[0]
            for branch_built in branches[1:]:
                built = self._union(built, branch_built)
            group.members.append(built)
            return
        declaration = self._declared.get(node.name)
        if declaration is None:
            raise UnsupportedError("a window over all windows (C-SPARQL)")
        stream = declaration.stream
        variable_stream = stream.name if isinstance(stream, Var) else None
        inside = Scope(
            node.name, None, variable_stream, frozenset((variable_stream,)) if variable_stream else NO_NAMES
        )
        if variable_stream is None:
            self._flatten(node.input, inside, group)
            return
        correlation(node, group.outer)
        built = self.build(node.input, inside)
        if variable_stream not in built.schema.certain:
            raise UnsupportedError("a block of a variable stream without a triple pattern in every solution")
        group.members.append(built)

    def _graph(self, name: NamedNode | Var, inner: Algebra, scope: Scope, group: _Group) -> list[Built]:
        if not isinstance(name, Var):
            below = _Group(outer=group.outer)
            self._flatten(inner, replace(scope, graph=name), below)
            group.residual += below.residual
            apart = [self._finish(below)]
            return apart if _touches_graph(inner) else [*apart, self._patterns.graph_exists(name, scope)]
        inside = replace(scope, graph=name, context=scope.context | {name.name})
        below = _Group(outer=group.outer)
        self._flatten(inner, inside, below)
        group.residual += below.residual
        built = self._finish(below)
        if name.name in built.schema.certain:
            return [built]
        return [built, self._patterns.graph_names(name, scope)]

    def _is_costly(self, condition: Expr) -> bool:
        functions = self.compilation.context.functions
        return any(
            isinstance(each, FunctionCall) and each.iri in functions for each in sub_expressions(condition)
        )

    def _finish(self, group: _Group) -> Built:
        """Join the members, each filter as early as its variables allow."""
        members = list(group.members)
        late: list[Expr] = []
        for condition in group.conditions:
            names = expression_variables(condition)
            waits = self.compilation.costly_late and self._is_costly(condition)
            for place, member in enumerate(members):
                if names and names <= member.schema.certain and not waits:
                    members[place] = self._filter(member, condition)
                    break
            else:
                late.append(condition)
        if not members:
            built = self.builder.add("unit", linear.Constant(Schema(()), {(): 1}), [])
        elif len(members) == 1:
            built = members[0]
        else:
            forced = self.compilation.order
            order: Sequence[int] | Policy | None = None
            if callable(forced):
                order = forced
            elif forced is not None:
                order = sorted(range(len(members)), key=lambda place: forced[place % len(forced)])
            operator = JoinOperator([member.schema for member in members], order)
            built = self.builder.add("join", operator, members)
        for condition in late:
            built = self._filter(built, condition)
        return built

    # --- leaves ---------------------------------------------------------------------------------

    def _source(self, scope: Scope, quads: bool) -> Built:
        """The changes of a window: its triples, or the quads of its named graphs."""
        assert scope.window is not None
        names = ("s", "p", "o", *(("g",) if quads else ()), *(("stream",) if scope.stream else ()))
        key = source_key("quads" if quads else "triples", scope.window)
        declaration = self._declared[scope.window]
        stream = declaration.stream
        shown = f"?{stream.name}" if isinstance(stream, Var) else str(stream)
        detail = f"{shown} ({'quads' if quads else 'triples'})"
        return self.builder.source(key, Schema(names, frozenset(names)), "window", detail)

    def _table(self, name: str) -> Built:
        if name == CLOCK.name:
            schema = Schema(tuple(var.name for var in CLOCK.vars), CLOCK.certain)
            return self.builder.source(CLOCK_KEY, schema, "clock")
        table = self.compilation.tables[name]
        schema = Schema(table.vars, table.certain)
        self.tables.add(name)
        return self.builder.source(source_key("table", name), schema, "table", name)

    def _values(self, variables: Sequence[Var], rows: Sequence[Sequence[Any]]) -> Built:
        encode = self.compilation.terms.encode
        counted: dict[Row, int] = {}
        for row in rows:
            ids = tuple(encode(None if term is None else canonical(term)) for term in row)
            counted[ids] = counted.get(ids, 0) + 1
        names = tuple(each.name for each in variables)
        certain = frozenset(
            name for place, name in enumerate(names) if all(row[place] is not None for row in rows)
        )
        return self.builder.add("values", linear.Constant(Schema(names, certain), counted), [])

    # --- rows -----------------------------------------------------------------------------------

    def _filter(self, built: Built, condition: Expr) -> Built:
        test = compile_condition(condition, built.schema.vars, self.compilation.context)
        proved = bound_when_true(condition) & frozenset(built.schema.vars)
        schema = Schema(built.schema.vars, built.schema.certain | proved)
        return self.builder.add("filter", linear.Filter(schema, test), [built], expr=condition)

    def _with_condition(self, built: Built, condition: Expr, scope: Scope) -> Built:
        """A filter whose condition has EXISTS in it."""
        if isinstance(condition, Exists):
            right, residual = self._exists_side(condition, built.schema, scope)
            mode = "anti" if condition.negated else "semi"
            operator = Match(mode, built.schema, right.schema, residual)  # type: ignore[arg-type]
            return self.builder.add("not exists" if condition.negated else "exists", operator, [built, right])
        names = built.schema.vars
        built, condition = self._marked(built, condition, scope)
        return self._project(self._filter(built, condition), names)

    def _marked(self, built: Built, expr: Expr, scope: Scope) -> tuple[Built, Expr]:
        """Each EXISTS in the expression as a boolean column of the rows."""
        from ..algebra.build import map_expression

        places: list[Built] = [built]

        def change(each: Expr) -> Expr | None:
            if not isinstance(each, Exists):
                return None
            right, residual = self._exists_side(each, places[0].schema, scope)
            mark = f"_:exists{next(self._fresh)}"
            true_id, false_id = (self.compilation.context.values.id_of(value) for value in (True, False))
            if each.negated:
                true_id, false_id = false_id, true_id
            operator = Match(
                "mark",
                places[0].schema,
                right.schema,
                residual,
                mark=mark,
                true_id=true_id,
                false_id=false_id,
            )
            places[0] = self.builder.add("exists mark", operator, [places[0], right])
            return Var(mark)

        changed = map_expression(expr, change)
        return places[0], changed

    def _exists_side(self, exists: Exists, left: Schema, scope: Scope) -> tuple[Built, Any]:
        """The right side of EXISTS, and the test of the merged row for filters that see both sides."""
        group = _Group(outer=frozenset(left.vars))
        self._flatten(exists.pattern, scope, group)
        right = self._finish(group)
        if not group.residual:
            return right, None
        merged = (*left.vars, *(name for name in right.schema.vars if name not in left.vars))
        tests = [compile_condition(each, merged, self.compilation.context) for each in group.residual]
        return right, (tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests))

    def _left_join(self, left: Built, right: Built, condition: Expr | None) -> Built:
        residual = None
        if condition is not None:
            if has_exists(condition):
                raise UnsupportedError("EXISTS in the condition of OPTIONAL")
            added = [name for name in right.schema.vars if name not in left.schema.vars]
            residual = compile_condition(condition, (*left.schema.vars, *added), self.compilation.context)
        operator = Match("left", left.schema, right.schema, residual)
        return self.builder.add("optional", operator, [left, right], expr=condition)

    def _union(self, left: Built, right: Built) -> Built:
        names = tuple(dict.fromkeys((*left.schema.vars, *right.schema.vars)))
        schema = Schema(names, left.schema.certain & right.schema.certain)
        operator = linear.Union(schema, _columns(left.schema, names), _columns(right.schema, names))
        return self.builder.add("union", operator, [left, right])

    def _extend(self, built: Built, name: str, expr: Expr, scope: Scope) -> Built:
        names = built.schema.vars
        if has_exists(expr):
            built, expr = self._marked(built, expr, scope)
        vars_ = built.schema.vars
        compute = self._id_of(expr, vars_)
        certain = built.schema.certain
        if isinstance(expr, Var) and expr.name in certain:
            certain |= {name}
        operator = linear.Extend(Schema((*vars_, name), certain), compute)
        extended = self.builder.add("extend", operator, [built], f"?{name}", expr)
        return extended if vars_ == names else self._project(extended, [*names, name])

    def _id_of(self, expr: Expr, names: tuple[str, ...]) -> Any:
        """The id of an expression's value; a variable passes its id on."""
        if isinstance(expr, Var):
            place = names.index(expr.name) if expr.name in names else -1
            return (lambda row: row[place]) if place >= 0 else (lambda row: 0)
        value = compile_value(expr, names, self.compilation.context)
        id_of = self.compilation.context.values.id_of
        return lambda row: id_of(value(row))

    def _project(self, built: Built, names: Sequence[str]) -> Built:
        if tuple(names) == built.schema.vars:
            return built
        schema = Schema(tuple(names), built.schema.certain & frozenset(names))
        operator = linear.Project(schema, _columns(built.schema, names))
        return self.builder.add("project", operator, [built])

    # --- groups of rows -------------------------------------------------------------------------

    def _group_by(self, node: Group, scope: Scope) -> Built:
        built = self.build(node.input, scope)
        visible = [name for name in built.schema.vars if not name.startswith("_:")]
        if any(each.expr is None and each.distinct for _, each in node.aggregates):
            built = self._project(built, visible)
        aggregations = []
        exprs: list[Expr | None] = []
        for _, aggregate in node.aggregates:
            new = accumulator_factory(
                aggregate, self.compilation.context.values, self.compilation.keys, self.compilation.terms
            )
            exprs.append(aggregate.expr)
            if aggregate.expr is None:
                aggregations.append(Aggregation(new))
                continue
            expr = aggregate.expr
            if has_exists(expr):
                built, expr = self._marked(built, expr, scope)
                exprs[-1] = expr
            if isinstance(expr, Var):
                (column,) = _columns(built.schema, [expr.name])
                aggregations.append(Aggregation(new, column=column))
            else:
                compute = compile_value(expr, built.schema.vars, self.compilation.context)
                aggregations.append(Aggregation(new, compute=compute))
        keys = [each.name for each in node.keys]
        results = [var.name for var, _ in node.aggregates]
        counts = {var.name for var, each in node.aggregates if each.name == "COUNT"}
        schema = Schema((*keys, *results), (built.schema.certain & frozenset(keys)) | counts)
        operator = Aggregate(
            schema, _columns(built.schema, keys), aggregations, self.compilation.context.values
        )
        return self.builder.add(
            "group",
            operator,
            [built],
            f"by ({' '.join('?' + each for each in keys)})",
            extra=Grouping(node.aggregates, exprs),
        )

    def _top_k(self, node: Algebra, scope: Scope) -> Built:
        """Slice over DISTINCT over projection over ORDER BY, with ties by the projected columns."""
        offset, limit = 0, None
        if isinstance(node, Slice):
            offset, limit, node = node.offset, node.limit, node.input
        distinct = isinstance(node, Distinct)
        if isinstance(node, Distinct | Reduced):
            node = node.input
        columns: tuple[str, ...] | None = None
        if isinstance(node, Project):
            columns, node = tuple(each.name for each in node.vars), node.input
        conditions: tuple[OrderCondition, ...] = ()
        if isinstance(node, OrderBy):
            conditions, node = node.conditions, node.input
        if columns is None:
            columns = tuple(sorted(name for name in in_scope(node)))
        built = self.build(node, scope)
        for condition in conditions:
            if has_exists(condition.expr):
                raise UnsupportedError("EXISTS in ORDER BY")
        if distinct:
            outside = NO_NAMES.union(*(expression_variables(each.expr) for each in conditions)) - set(columns)
            if outside:
                raise UnsupportedError("ORDER BY a variable that SELECT DISTINCT does not show")
            built = self._project(built, columns)
            built = self.builder.add("distinct", linear.Distinct(built.schema), [built])
        schema = Schema(columns, built.schema.certain & frozenset(columns))
        places = _columns(built.schema, columns)
        key = self._sort_key(built.schema.vars, conditions, places)
        shown = f"offset {offset} limit {'all' if limit is None else limit}"
        return self.builder.add(
            "order", TopK(schema, places, key, offset, limit), [built], shown, extra=conditions
        )

    def _sort_key(
        self, names: tuple[str, ...], conditions: Sequence[OrderCondition], columns: Sequence[int]
    ) -> Any:
        """Keys of the conditions, then of the columns shown under the total order."""
        keys = self.compilation.keys
        parts = [(self._id_of(each.expr, names), each.descending) for each in conditions]

        def sort_key(row: Row) -> SortKey:
            key: list[Any] = []
            for id_of, descending in parts:
                value = keys.value(id_of(row))
                key.append(Descending(value) if descending else value)
            key += [keys.total(row[column] if column >= 0 else 0) for column in columns]
            return tuple(key)

        return sort_key

    # --- refusals -------------------------------------------------------------------------------

    @staticmethod
    def _refuse_context(scope: Scope, construct: str) -> None:
        if scope.context:
            raise UnsupportedError(f"{construct} inside GRAPH ?variable or a block of a variable stream")

    @staticmethod
    def _refuse_outside(scope: Scope, patterns: bool) -> None:
        if patterns and scope.window is None:
            raise UnsupportedError("a pattern outside windows that changes at every instant")


def _touches_graph(node: Algebra) -> bool:
    """True when every solution comes from a quad of the graph, so that there is none without the graph."""
    match node:
        case Bgp(patterns):
            return bool(patterns)
        case Path(_, path, _):
            return not isinstance(path, ZeroOrMore | ZeroOrOne)
        case Join(left, right):
            return _touches_graph(left) or _touches_graph(right)
        case Union(left, right):
            return _touches_graph(left) and _touches_graph(right)
        case LeftJoin(left, _, _) | Minus(left, _):
            return _touches_graph(left)
        case Filter(_, inner) | Extend(inner, _, _):
            return _touches_graph(inner)
        case _:
            return False


def _columns(schema: Schema, names: Sequence[str]) -> list[int]:
    """Places of the names; -1 where the schema has none."""
    return [schema.vars.index(name) if name in schema.vars else -1 for name in names]
