"""The planner: compiles the part of a query that reads windows to incremental operators.

A group (joins, windows, basic graph patterns, filters) is flattened to its members: stars of one subject,
single patterns, paths, static tables, and other nodes with a separate plan. One delta join joins the members
of a group, and each filter moves to a member that binds its variables. Every algebra node outside such a
group becomes one operator. A SPARQL construct that cannot be evaluated incrementally raises UnsupportedError,
and the reference evaluator evaluates the query instead.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from quadrill.store.errors import QueryTextError, UnsupportedError

from ..algebra.build import UNIT, conditions_of, has_exists, map_expression, sub_expressions, union
from ..algebra.graphs import touches_graph
from ..algebra.nodes import (
    MERGED,
    Algebra,
    Bgp,
    Call,
    Constant,
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
    Path,
    Project,
    Service,
    Slice,
    TableNode,
    TriplePattern,
    Union,
    Values,
    Var,
    Window,
)
from ..algebra.static import correlation
from ..algebra.uncertain import is_uncertain
from ..algebra.variables import NO_NAMES, Names, expression_variables
from ..algebra.volatile import UNBOUND, TimedPattern, greatest_of, timed_pattern, triple_of
from ..expressions.compile import compile_pair_condition
from ..operators import linear
from ..operators.matching import Match
from ..rows import Schema
from .builder import Compilation, PatternScope, PlanBuilder, PlanOutput
from .modifiers import group_by, top_k
from .patterns import Patterns
from .plan import Plan


@dataclass(slots=True)
class _FlatGroup:
    """The inputs of one join, flattened from nested joins, and the filters over them.

    Inside an EXISTS, ``residual`` contains filters that use ``outer``, the variables of the row outside.
    """

    outer: Names = NO_NAMES
    residual: list[Expr] = field(default_factory=list)
    members: list[PlanOutput] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)

    def inside(self) -> _FlatGroup:
        """Return a new group nested in this one, with the same outer row of EXISTS."""
        return _FlatGroup(self.outer, self.residual)

    def certain(self) -> Names:
        return NO_NAMES.union(*(member.schema.certain for member in self.members))

    def vars(self) -> Names:
        return frozenset(name for member in self.members for name in member.schema.vars)


def build_plan(root: Algebra, compilation: Compilation, *, ordered: bool) -> Plan:
    """Plan a query whose static parts are `TableNode` nodes.

    ``ordered`` says that the rows of the query's answer have an order (ORDER BY). Raises UnsupportedError for
    a construct that cannot be evaluated incrementally.
    """
    planner = _Planner(compilation)
    built = planner.top_k(root, PatternScope()) if ordered else planner.build(root, PatternScope())
    return Plan(planner.builder.nodes, built.place)


class _Planner:
    def __init__(self, compilation: Compilation) -> None:
        self.builder = PlanBuilder(compilation)
        self._patterns = Patterns(self.builder)

    # --- nodes ----------------------------------------------------------------------------------

    def build(self, node: Algebra, scope: PatternScope) -> PlanOutput:
        """Plan an algebra node and everything below it."""
        builder = self.builder
        match node:
            case Bgp() | Join() | Window() | Graph() | Filter() | Path() | TableNode() | Values():
                group = _FlatGroup()
                self._flatten(node, scope, group)
                return self._finish(group)
            case LeftJoin(left, right, condition):
                return self._left_join(self._whole(left, scope), self.build(right, scope), condition, scope)
            case Union(left, right):
                return builder.union(self.build(left, scope), self.build(right, scope))
            case Minus(left, right):
                a, b = self._whole(left, scope), self.build(right, scope)
                return builder.add("minus", Match("minus", a.schema, b.schema, ignored=scope.context), [a, b])
            case Extend(inner, var, expr):
                timed = timed_pattern(node)
                if timed is not None:
                    return self._timed(timed, scope)
                return self._extend(self.build(inner, scope), var.name, expr, scope)
            case Project(inner, variables):
                built, names = self.build(inner, scope), [each.name for each in variables]
                hidden = [each for each in built.schema.vars if each in scope.context and each not in names]
                return builder.project(built, [*names, *hidden])
            case Distinct(inner):
                return builder.distinct(self.build(inner, scope))
            case OrderBy(inner, _):
                return self.build(inner, scope)
            case Slice():
                return self.top_k(node, scope)
            case Group():
                built = self._whole(node.input, scope)
                context = self._patterns.context(scope) if scope.columns else None
                return group_by(builder, node, built, partial(self._marked, scope=scope), context)
            case Service():
                raise UnsupportedError("SERVICE outside a static part")

    def top_k(self, node: Algebra, scope: PatternScope) -> PlanOutput:
        """Plan an algebra node whose rows have an order (ORDER BY)."""
        marked = partial(self._marked, scope=scope)
        return top_k(self.builder, node, partial(self._whole, scope=scope), marked, scope.context)

    def _whole(self, node: Algebra, scope: PatternScope) -> PlanOutput:
        """Plan an algebra node so that its rows have the graph and stream columns of the enclosing block."""
        return self._patterns.in_context(self.build(node, scope), scope)

    # --- groups ---------------------------------------------------------------------------------

    def _flatten(self, node: Algebra, scope: PatternScope, group: _FlatGroup) -> None:
        """Add an algebra node's join inputs to a group, and the filters that may apply to the whole group."""
        match node:
            case Join(left, right):
                self._flatten(left, scope, group)
                self._flatten(right, scope, group)
            case Bgp() | Path() if scope.window is None and node != UNIT:
                raise UnsupportedError("a pattern outside windows that changes at every instant")
            case Bgp(patterns):
                group.members += self._patterns.basic(patterns, scope)
            case Path(subject, path, object_):
                group.members.append(self._patterns.path(subject, path, object_, scope))
            case Window():
                self._flatten_window(node, scope, group)
            case Graph():
                self._flatten_graph(node, scope, group)
            case TableNode():
                group.members.append(self.builder.table(node))
            case Values():
                group.members.append(self.builder.values(node))
            case Filter(condition, inner):
                self._flatten_filter(condition, inner, scope, group)
            case _:
                correlation(node, group.outer)
                group.members.append(self.build(node, scope))

    def _flatten_filter(
        self, condition: Expr, inner: Algebra, scope: PatternScope, group: _FlatGroup
    ) -> None:
        """Merge a filter into a group of joins if its meaning stays the same; else plan it separately."""
        below = group.inside()
        self._flatten(inner, scope, below)
        names = expression_variables(condition)
        correlated = names & group.outer - below.certain()
        if has_exists(condition):
            if correlated:
                raise UnsupportedError("EXISTS inside EXISTS that uses the outer row")
            group.members.append(self._with_condition(self._finish(below), condition, scope))
        elif names <= below.certain():
            group.members += below.members
            group.conditions += [*below.conditions, condition]
        elif correlated:
            if correlated & below.vars():
                raise UnsupportedError(
                    "a FILTER of EXISTS over a variable that its pattern may leave unbound"
                )
            group.members += below.members
            group.conditions += below.conditions
            group.residual.append(condition)
        else:
            group.members.append(self.builder.filter(self._finish(below), condition))

    def _flatten_window(self, node: Window, scope: PatternScope, group: _FlatGroup) -> None:
        if scope.window is not None:
            raise QueryTextError("a window inside a window is an error")
        variable = node.name
        if isinstance(variable, Var):
            # The branches of WINDOW ?w are planned separately, so a filter in a branch cannot use the row
            # outside an EXISTS.
            correlation(node, group.outer)
            names = self.builder.declared
            if not names:
                raise QueryTextError("WINDOW ?w needs a declared window", hint="add FROM NAMED WINDOW ...")
            branches = [Join(replace(node, name=each), Values((variable,), ((each,),))) for each in names]
            group.members.append(self.build(union(branches), scope))
            return
        stream = None if variable == MERGED else self.builder.declared[variable].stream
        if not isinstance(stream, Var):
            self._flatten(node.input, PatternScope(variable), group)
            return
        correlation(node, group.outer)
        hidden = self._patterns.inside_name(stream.name, node.input, group.outer)
        inside = PatternScope(variable, None, hidden)
        built = self._whole(node.input, inside)
        group.members.append(self._patterns.renamed(built, hidden, stream.name, inside))

    def _flatten_graph(self, node: Graph, scope: PatternScope, group: _FlatGroup) -> None:
        """Plan a GRAPH block separately; a nested GRAPH retains the outer block's window and stream."""
        if scope.window is None:
            raise UnsupportedError("GRAPH outside a window in a part that is not static")
        name, below = node.name, group.inside()
        if not isinstance(name, Var):
            self._flatten(node.input, replace(scope, graph=name), below)
            group.members.append(self._finish(below))
            if not touches_graph(node.input):
                group.members.append(self._patterns.graph_exists(name, scope))
            return
        hidden = self._patterns.inside_name(name.name, node.input, group.outer)
        inside = replace(scope, graph=Var(hidden))
        self._flatten(node.input, inside, below)
        built = self._finish(below)
        if hidden != name.name:
            whole = self._patterns.in_context(built, inside)
            group.members.append(self._patterns.renamed(whole, hidden, name.name, inside))
            return
        group.members.append(built)
        if hidden not in built.schema.certain:
            group.members.append(self._patterns.context(inside))

    def _timed(self, timed: TimedPattern, scope: PatternScope) -> PlanOutput:
        """Plan a basic graph pattern with the greatest event times of its triples as columns."""
        asked = {triple for _, triples in timed.marks for triple in triples}
        times: dict[Expr, Var] = {}
        group = _FlatGroup()
        plain: list[TriplePattern] = []
        for pattern in dict.fromkeys(timed.pattern.patterns):
            triple = triple_of(pattern)
            if triple not in asked:
                plain.append(pattern)
                continue
            times[triple] = self.builder.fresh("at")
            group.members.append(self._patterns.pattern(pattern, scope, times[triple]))
        group.members += self._patterns.basic(plain, scope)
        built = self._finish(group)
        names = [*built.schema.vars, *(var.name for var, _ in timed.marks)]
        for var, triples in timed.marks:
            built = self.builder.extend(built, var.name, greatest_of([times[each] for each in triples]))
        hidden = {var.name for var in times.values()}
        return self.builder.project(built, [name for name in names if name not in hidden])

    def _finish(self, group: _FlatGroup) -> PlanOutput:
        """Join a group's members; apply filters as early as their variables allow, except late filters."""
        members = list(group.members)
        late: list[Expr] = []
        waiting = deque(group.conditions)
        while waiting:
            condition = waiting.popleft()
            names = expression_variables(condition)
            parts = conditions_of(condition)
            if self.builder.compilation.late_filters and is_uncertain(condition):
                (late if len(parts) == 1 else waiting).extend(parts)
                continue
            for place, member in enumerate(members):
                if names and names <= member.schema.certain:
                    members[place] = self.builder.filter(member, condition)
                    break
            else:
                # A filter condition with function calls may be costly, so it is not split and is evaluated
                # after the joins.
                whole = len(parts) == 1 or any(
                    isinstance(x, FunctionCall) for x in sub_expressions(condition)
                )
                (late if whole else waiting).extend([condition] if whole else parts)
        if not members:
            built = self.builder.add("unit", linear.ConstantRows(Schema(()), {(): 1}), [])
        elif len(members) == 1:
            built = members[0]
        else:
            built = self.builder.join(*members, conditions=late)
        for condition in late:
            built = self.builder.filter(built, condition)
        return built

    # --- rows -----------------------------------------------------------------------------------

    def _with_condition(self, built: PlanOutput, condition: Expr, scope: PatternScope) -> PlanOutput:
        """Plan a filter whose condition contains EXISTS."""
        built = self._patterns.in_context(built, scope)
        if isinstance(condition, Exists):
            right, residual = self._exists_side(condition, built.schema, scope)
            mode = "anti" if condition.negated else "semi"
            operator = Match(mode, built.schema, right.schema, residual)  # type: ignore[arg-type]
            return self.builder.add("not exists" if condition.negated else "exists", operator, [built, right])
        names = built.schema.vars
        built, condition = self._marked(built, condition, scope)
        return self.builder.project(self.builder.filter(built, condition), names)

    def _marked(self, built: PlanOutput, expr: Expr, scope: PatternScope) -> tuple[PlanOutput, Expr]:
        """Replace each EXISTS in an expression by a boolean column of the rows."""
        built = self._patterns.in_context(built, scope)
        id_of = self.builder.compilation.context.values.id_of

        def change(each: Expr) -> Expr | None:
            nonlocal built
            if not isinstance(each, Exists):
                return None
            right, residual = self._exists_side(each, built.schema, scope)
            mark = self.builder.fresh("exists")
            operator = Match(
                "mark",
                built.schema,
                right.schema,
                residual,
                mark=mark.name,
                true_id=id_of(not each.negated),
                false_id=id_of(each.negated),
            )
            built = self.builder.add("exists mark", operator, [built, right])
            return mark

        expr = map_expression(expr, change)
        return built, expr

    def _extend(self, built: PlanOutput, name: str, expr: Expr, scope: PatternScope) -> PlanOutput:
        if not has_exists(expr):
            return self.builder.extend(built, name, expr)
        built = self._patterns.in_context(built, scope)
        marked, expr = self._marked(built, expr, scope)
        return self.builder.project(self.builder.extend(marked, name, expr), [*built.schema.vars, name])

    def _left_join(
        self, left: PlanOutput, right: PlanOutput, condition: Expr | None, scope: PatternScope
    ) -> PlanOutput:
        """Plan OPTIONAL; with EXISTS in its condition, as the union of matching rows and unmatched left rows.

        The join of an OPTIONAL may bind a variable that the left row leaves unbound, so copies of such
        columns identify left rows.
        """
        if condition is None or not has_exists(condition):
            return self.builder.left_join(left, right, condition)
        names = left.schema.vars
        identifying = [name for name in names if name in left.schema.certain]
        for name in names:
            if name not in left.schema.certain:
                identifying.append(self.builder.fresh("left").name)
                copy = Call("COALESCE", (Var(name), Constant(UNBOUND)))
                left = self.builder.extend(left, identifying[-1], copy)
        joined = self._with_condition(self.builder.join(left, right), condition, scope)
        absent = self.builder.without(
            self.builder.project(
                left, [*identifying, *(each for each in left.schema.vars if each not in identifying)]
            ),
            self.builder.project(joined, identifying),
        )
        shown = (*names, *(name for name in right.schema.vars if name not in names))
        return self.builder.union(self.builder.project(joined, shown), self.builder.project(absent, names))

    def _exists_side(self, exists: Exists, left: Schema, scope: PatternScope) -> tuple[PlanOutput, Any]:
        """Plan the pattern of EXISTS; also return the test for filters that use the outer row, or None."""
        group = _FlatGroup(outer=frozenset(left.vars))
        self._flatten(exists.pattern, scope, group)
        right = self._finish(group)
        # Columns of an EXISTS pattern that no condition reads are dropped, since they would only cost memory.
        asked = frozenset(left.vars).union(*map(expression_variables, group.residual))
        right = self.builder.project(right, [name for name in right.schema.vars if name in asked])
        if not group.residual:
            return right, None
        names, context = (left.vars, right.schema.vars), self.builder.compilation.context
        tests = [compile_pair_condition(each, *names, context) for each in group.residual]
        return right, (tests[0] if len(tests) == 1 else lambda *pair: all(test(*pair) for test in tests))
