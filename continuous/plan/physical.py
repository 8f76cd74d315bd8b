"""The planner: the part of a query that is no static part becomes operators.

A group (joins, windows, basic graph patterns, filters) is flattened to its members: stars of one subject,
single patterns, paths, static tables and whatever is planned on its own. They meet in one delta join, and
each filter goes to the member that binds its variables. The other nodes become one operator each. What
cannot be kept up to date raises UnsupportedError; the query is then recomputed instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.errors import QueryTextError, UnsupportedError

from ..algebra.build import has_exists, map_expression
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
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Path,
    Project,
    Reduced,
    Service,
    Slice,
    Table,
    TriplePattern,
    Union,
    Values,
    Var,
    Window,
)
from ..algebra.static import correlation
from ..algebra.variables import expression_variables
from ..algebra.volatile import UNBOUND, TimedPattern, greatest_of, timed_pattern, triple_of
from ..expressions.compile import compile_condition
from ..operators import linear
from ..operators.matching import Match
from ..rows import Schema
from .patterns import Blocks, Patterns, touches_graph
from .plan import Built, Plan, PlanBuilder, pin_tables
from .solutions import Modifiers, Solutions
from .sources import NO_NAMES, Compilation, Names, Scope, Sources


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
    pin_tables(planner.builder.nodes)
    return Plan(planner.builder.nodes, built.place, planner.sources.tables)


class _Planner:
    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self.builder = PlanBuilder()
        self._solutions = Solutions(compilation, self.builder)
        self._modifiers = Modifiers(self._solutions)
        self._fresh = count(1)
        self.sources = Sources(compilation, self.builder)
        self._patterns = Patterns(
            compilation.terms, compilation.pins, self.builder, self.sources, self._fresh
        )
        self._blocks = Blocks(self._patterns, self.sources, self._solutions, self._fresh)

    # --- nodes ----------------------------------------------------------------------------------

    def build(self, node: Algebra, scope: Scope) -> Built:
        """The operator of a node and all below it."""
        match node:
            case Bgp() | Join() | Window() | Graph() | Filter() | Path() | Table() | Values():
                group = _Group()
                self._flatten(node, scope, group)
                return self._finish(group)
            case LeftJoin(left, right, condition):
                return self._left_join(self._whole(left, scope), self.build(right, scope), condition, scope)
            case Union(left, right):
                return self._solutions.union(self.build(left, scope), self.build(right, scope))
            case Minus(left, right):
                a, b = self._whole(left, scope), self.build(right, scope)
                return self.builder.add(
                    "minus", Match("minus", a.schema, b.schema, ignored=scope.context), [a, b]
                )
            case Extend(inner, var, expr):
                timed = timed_pattern(node)
                if timed is not None:
                    return self._timed(timed, scope)
                return self._extend(self.build(inner, scope), var.name, expr, scope)
            case Project(inner, variables):
                names = [each.name for each in variables]
                built = self.build(inner, scope)
                hidden = [each for each in built.schema.vars if each in scope.context and each not in names]
                return self._solutions.project(built, [*names, *hidden])
            case Distinct(inner):
                built = self.build(inner, scope)
                return self.builder.add("distinct", linear.Distinct(built.schema), [built])
            case Reduced(inner):
                return self.build(inner, scope)
            case OrderBy(inner, _):
                return self.build(inner, scope)
            case Slice():
                return self._top_k(node, scope)
            case Group():
                built = self._whole(node.input, scope)
                context = self._blocks.context(scope) if scope.context else None
                return self._modifiers.group_by(node, built, partial(self._marked, scope=scope), context)
            case Service():
                raise UnsupportedError("SERVICE beside a window")

    def ordered_root(self, node: Algebra) -> Built:
        """The root of a query whose rows have an order."""
        return self._top_k(node, Scope())

    def _whole(self, node: Algebra, scope: Scope) -> Built:
        """The operator of a node whose rows tell for which graph or stream of a block they are."""
        return self._blocks.in_context(self.build(node, scope), scope)

    def _top_k(self, node: Algebra, scope: Scope) -> Built:
        marked = partial(self._marked, scope=scope)
        return self._modifiers.top_k(
            node, lambda inner: self._whole(inner, scope), marked, sorted(scope.context)
        )

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
                group.members.append(self.sources.table(name))
            case Values(variables, rows):
                group.members.append(self._solutions.values(variables, rows))
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
            group.members.append(self._solutions.filter(self._finish(below), condition))
            group.residual += below.residual

    def _flatten_window(self, node: Window, scope: Scope, group: _Group) -> None:
        if scope.window is not None:
            raise QueryTextError("a window inside a window is an error")
        if isinstance(node.name, Var):
            # The branches are built apart, so no filter in them can wait for the row of EXISTS.
            correlation(node, group.outer)
            variable = node.name
            branches = []
            for name in self.sources.declared:
                branch = Join(replace(node, name=name), Values((variable,), ((name,),)))
                branches.append(self.build(branch, scope))
            if not branches:
                raise QueryTextError("WINDOW ?w needs a declared window", hint="add FROM NAMED WINDOW ...")
            built = branches[0]
            for branch_built in branches[1:]:
                built = self._solutions.union(built, branch_built)
            group.members.append(built)
            return
        if node.name == MERGED:
            self._flatten(node.input, Scope(MERGED), group)
            return
        stream = self.sources.declared[node.name].stream
        variable_stream = stream.name if isinstance(stream, Var) else None
        if variable_stream is None:
            self._flatten(node.input, Scope(node.name), group)
            return
        correlation(node, group.outer)
        hidden = self._blocks.inside_name(variable_stream, node.input, group.outer)
        inside = Scope(node.name, None, hidden, frozenset((hidden,)))
        built = self._whole(node.input, inside)
        group.members.append(self._blocks.renamed(built, hidden, variable_stream, inside))

    def _graph(self, name: NamedNode | Var, inner: Algebra, scope: Scope, group: _Group) -> list[Built]:
        if not isinstance(name, Var):
            below = _Group(outer=group.outer)
            self._flatten(inner, replace(scope, graph=name, context=self._stream_of(scope)), below)
            group.residual += below.residual
            apart = [self._finish(below)]
            return apart if touches_graph(inner) else [*apart, self._patterns.graph_exists(name, scope)]
        hidden = self._blocks.inside_name(name.name, inner, group.outer)
        inside = replace(scope, graph=Var(hidden), context=self._stream_of(scope) | {hidden})
        below = _Group(outer=group.outer)
        self._flatten(inner, inside, below)
        group.residual += below.residual
        built = self._finish(below)
        if hidden != name.name:
            return [self._blocks.renamed(self._blocks.in_context(built, inside), hidden, name.name, inside)]
        return [built] if hidden in built.schema.certain else [built, self._blocks.context(inside)]

    @staticmethod
    def _stream_of(scope: Scope) -> Names:
        """The names of a context inside another GRAPH: its stream alone, not the graph around it."""
        return frozenset((scope.stream,)) if scope.stream else NO_NAMES

    def _timed(self, timed: TimedPattern, scope: Scope) -> Built:
        """A basic graph pattern with the greatest event times of its triples as columns."""
        asked = {triple for _, triples in timed.marks for triple in triples}
        times: dict[Expr, Var] = {}
        group = _Group()
        plain: list[TriplePattern] = []
        for pattern in dict.fromkeys(timed.pattern.patterns):
            triple = triple_of(pattern)
            if triple not in asked:
                plain.append(pattern)
                continue
            times[triple] = Var(f"_:at{next(self._fresh)}")
            group.members.append(self._patterns.pattern(pattern, scope, times[triple]))
        group.members += self._patterns.basic(plain, scope)
        built = self._finish(group)
        names = [*built.schema.vars, *(var.name for var, _ in timed.marks)]
        for var, triples in timed.marks:
            built = self._solutions.extend(built, var.name, greatest_of([times[each] for each in triples]))
        hidden = {var.name for var in times.values()}
        return self._solutions.project(built, [name for name in names if name not in hidden])

    def _finish(self, group: _Group) -> Built:
        """Join the members, each filter as early as its variables allow."""
        members = list(group.members)
        late: list[Expr] = []
        for condition in group.conditions:
            names = expression_variables(condition)
            for place, member in enumerate(members):
                if names and names <= member.schema.certain:
                    members[place] = self._solutions.filter(member, condition)
                    break
            else:
                late.append(condition)
        if not members:
            built = self.builder.add("unit", linear.Constant(Schema(()), {(): 1}), [])
        elif len(members) == 1:
            built = members[0]
        else:
            built = self._solutions.join(*members)
        for condition in late:
            built = self._solutions.filter(built, condition)
        return built

    # --- rows -----------------------------------------------------------------------------------

    def _with_condition(self, built: Built, condition: Expr, scope: Scope) -> Built:
        """A filter whose condition has EXISTS in it."""
        built = self._blocks.in_context(built, scope)
        if isinstance(condition, Exists):
            right, residual = self._exists_side(condition, built.schema, scope)
            mode = "anti" if condition.negated else "semi"
            operator = Match(mode, built.schema, right.schema, residual)  # type: ignore[arg-type]
            return self.builder.add("not exists" if condition.negated else "exists", operator, [built, right])
        names = built.schema.vars
        built, condition = self._marked(built, condition, scope)
        return self._solutions.project(self._solutions.filter(built, condition), names)

    def _marked(self, built: Built, expr: Expr, scope: Scope) -> tuple[Built, Expr]:
        """Each EXISTS in the expression as a boolean column of the rows."""
        places: list[Built] = [self._blocks.in_context(built, scope)]

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

    def _extend(self, built: Built, name: str, expr: Expr, scope: Scope) -> Built:
        if has_exists(expr):
            built = self._blocks.in_context(built, scope)
        names = built.schema.vars
        if has_exists(expr):
            built, expr = self._marked(built, expr, scope)
        extended = self._solutions.extend(built, name, expr)
        return extended if built.schema.vars == names else self._solutions.project(extended, [*names, name])

    def _left_join(self, left: Built, right: Built, condition: Expr | None, scope: Scope) -> Built:
        """OPTIONAL. With EXISTS in its condition: the joined rows that pass, and the left rows without one.

        Joining may bind a variable that the left row leaves unbound, so those are told apart by copies.
        """
        if condition is None or not has_exists(condition):
            return self._solutions.left_join(left, right, condition)
        names = left.schema.vars
        told = [name for name in names if name in left.schema.certain]
        for name in names:
            if name not in left.schema.certain:
                told.append(f"_:left{next(self._fresh)}")
                copy = Call("COALESCE", (Var(name), Constant(UNBOUND)))
                left = self._solutions.extend(left, told[-1], copy)
        joined = self._with_condition(self._solutions.join(left, right), condition, scope)
        absent = self._solutions.without(
            self._solutions.project(left, [*told, *(each for each in left.schema.vars if each not in told)]),
            self._solutions.project(joined, told),
        )
        shown = (*names, *(name for name in right.schema.vars if name not in names))
        return self._solutions.union(
            self._solutions.project(joined, shown), self._solutions.project(absent, names)
        )

    def _exists_side(self, exists: Exists, left: Schema, scope: Scope) -> tuple[Built, Any]:
        """The right side of EXISTS, and the test of the merged row for filters that see both sides."""
        group = _Group(outer=frozenset(left.vars))
        self._flatten(exists.pattern, scope, group)
        right = self._finish(group)
        # Of what is only looked for, other columns would be made and kept for nothing.
        asked = frozenset(left.vars).union(*map(expression_variables, group.residual))
        right = self._solutions.project(right, [name for name in right.schema.vars if name in asked])
        if not group.residual:
            return right, None
        merged = (*left.vars, *(name for name in right.schema.vars if name not in left.vars))
        tests = [compile_condition(each, merged, self.compilation.context) for each in group.residual]
        return right, (tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests))

    # --- refusals -------------------------------------------------------------------------------

    @staticmethod
    def _refuse_outside(scope: Scope, patterns: bool) -> None:
        if patterns and scope.window is None:
            raise UnsupportedError("a pattern outside windows that changes at every instant")
