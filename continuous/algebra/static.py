"""Splits a query into its static parts and a windowed remainder (docs/semantics.md, section 6).

A static part is a maximal sub-pattern without a window and without anything that changes from one
evaluation to the next (NOW, RAND, ...). In a join group the static operands are gathered and split into
components that share variables, so that no static part is ever a cross product; each part keeps the columns
that the rest of the query mentions or ``COUNT(DISTINCT *)`` counts, and all its rows with their
multiplicities. A SERVICE call is a separate static part, since its rows change at other times than the rows
of the store. Before:

    Join(Window(w, A), Join(Bgp(?x :p ?y . ?u :q ?v), Filter(e, B(?y))))

The result, if the expression e mentions only ?y:

    Join(Window(w, A), Join(Table(0: Bgp(?x :p ?y), Filter(e, B)), Table(1: Bgp(?u :q ?v))))

Inside EXISTS the variables of the group that is tested are substituted before evaluation (section 18.6), so a
static part inside EXISTS must have the same rows with and without that substitution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError

from .build import (
    UNIT,
    all_nodes,
    conjuncts,
    expressions,
    has_exists,
    join,
    operands,
    patterns_of,
    sub_expressions,
    with_operands,
    with_patterns,
)
from .graphs import predicates_of
from .nodes import (
    MERGED,
    Algebra,
    Bgp,
    Call,
    Distinct,
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
from .variables import NO_NAMES, Names, certain, expression_variables, in_scope, mentioned

VOLATILE = frozenset(("NOW", "RAND", "UUID", "STRUUID", "BNODE"))
"""Volatile built-in functions, whose value depends on the evaluation."""

MERGED_PART = "merged"
"""Name of the static part that holds the background graphs of C-SPARQL's merged window."""

VOLATILE_PREFIX = "urn:quadrill:function:"
"""Namespace of the functions that replace calls of volatile built-ins."""


@dataclass(frozen=True, slots=True)
class StaticPattern:
    """One static part: the name of the part and its `TableNode`, its pattern, and the columns to keep."""

    name: str
    pattern: Algebra
    vars: tuple[Var, ...]


def is_volatile(expr: Expr) -> bool:
    """Return True if the expression, without EXISTS patterns, calls a volatile function."""
    return any(
        (isinstance(each, Call) and each.name in VOLATILE)
        or (isinstance(each, FunctionCall) and each.iri.value.startswith(VOLATILE_PREFIX))
        for each in sub_expressions(expr)
    )


def calls_service(node: Algebra) -> bool:
    """Return True if the pattern contains a SERVICE call, even inside EXISTS."""
    return any(isinstance(each, Service) for each in all_nodes(node))


def is_static(node: Algebra) -> bool:
    """Return True if the pattern, including EXISTS patterns, has neither windows nor volatile functions."""
    return not any(
        isinstance(each, Window) or any(map(is_volatile, expressions(each))) for each in all_nodes(node)
    )


def split_static(root: Algebra, keep: Names) -> tuple[Algebra, tuple[StaticPattern, ...]]:
    """Return the query with a `TableNode` in the place of each static part, and the parts.

    ``keep`` are the variables that the caller reads from the solutions of the query. Raises UnsupportedError
    for a volatile function inside SERVICE or inside a sub-query in ``GRAPH ?g``, and for SERVICE inside GRAPH
    or inside an EXISTS that depends on the tested solution.
    """
    splitter = _Splitter()
    rest = splitter.split(root, _SplitContext())
    parts = splitter.parts
    names = [mentioned(part) for part in parts]
    outside = keep | mentioned(rest) | _counted_columns(root)
    columns = []
    for index, part in enumerate(parts):
        elsewhere = outside.union(*(each for other, each in enumerate(names) if other != index))
        columns.append(tuple(Var(name) for name in sorted(in_scope(part) & elsewhere)))
    tables = {
        str(index): TableNode(str(index), kept, certain(parts[index]) & {var.name for var in kept})
        for index, kept in enumerate(columns)
    }
    return _set_columns(rest, tables), tuple(
        StaticPattern(str(index), part, columns[index]) for index, part in enumerate(parts)
    )


def _counted_columns(root: Algebra) -> Names:
    """Return the columns that ``COUNT(DISTINCT *)`` reads without naming them: all of its input."""
    return NO_NAMES.union(
        *(
            in_scope(each.input)
            for each in all_nodes(root)
            if isinstance(each, Group)
            and any(one.expr is None and one.distinct for _, one in each.aggregates)
        )
    )


@dataclass(frozen=True, slots=True)
class _SplitContext:
    """The context of a node that is split: its GRAPH, and the variables that an outer EXISTS substitutes."""

    graph: NamedNode | Var | None = None
    substituted: Names = NO_NAMES


class _Splitter:
    def __init__(self) -> None:
        self.parts: list[Algebra] = []

    def split(self, node: Algebra, at: _SplitContext) -> Algebra:
        """Return an algebra node with its static sub-patterns replaced by tables."""
        if isinstance(node, Join) or self._is_part(node, at):
            return self._split_group(node, [], at)
        match node:
            case Window():
                return node
            case Filter():
                return self._split_filter(node, at)
            case Graph(name, inner):
                if isinstance(name, Var) and not _distributes_over_graphs(inner):
                    raise UnsupportedError(
                        "NOW() in a sub-query of GRAPH ?variable",
                        hint="move the FILTER or BIND that uses it out of the GRAPH block",
                    )
                return self.split(inner, replace(at, graph=name))
            case Service():
                if not is_static(node):
                    raise UnsupportedError(
                        "NOW() or RAND() inside SERVICE", hint="move it out of the SERVICE block"
                    )
                raise UnsupportedError(
                    "SERVICE inside EXISTS over a pattern that depends on the solution tested",
                    hint="join the SERVICE block outside EXISTS",
                )
            case Union(left, right) | Minus(left, right) | LeftJoin(left, right, _):
                changed: Algebra = replace(node, left=self.split(left, at), right=self.split(right, at))
                return self._split_expressions(changed, in_scope(left) | in_scope(right), at)
            case Bgp() | Path() | Values() | TableNode():
                return node
            case _:
                changed = replace(node, input=self.split(node.input, at))
                return self._split_expressions(changed, in_scope(node.input), at)

    def _split_filter(self, node: Filter, at: _SplitContext) -> Algebra:
        """Move conditions over one static part into the part; other conditions stay above, in their order."""
        inner: Algebra = node
        conditions: list[Expr] = []
        while isinstance(inner, Filter):
            conditions.insert(0, inner.condition)
            inner = inner.input
        result = self._split_group(inner, conditions, at)
        for condition in conditions:
            result = self._split_expressions(Filter(condition, result), in_scope(inner), at)
        return result

    def _split_group(self, node: Algebra, conditions: list[Expr], at: _SplitContext) -> Algebra:
        """Gather the static operands of a join group, and the conditions that belong to them.

        FILTER conditions that move into a static part leave the list ``conditions``.
        """
        operands = conjuncts(node)
        static = [each for each in operands if self._is_part(each, at)]
        rest = [self.split(each, at) for each in operands if not self._is_part(each, at)]
        calls = [each for each in static if isinstance(each, Service)]
        static = [each for each in static if not isinstance(each, Service)]
        rest += [self._call(each, at) for each in calls]
        components = [join(*static)] if isinstance(at.graph, Var) and static else _components(static)
        for component in components:
            bound = certain(component)
            for condition in list(conditions):
                if expression_variables(condition) <= bound and is_static(Filter(condition, UNIT)):
                    conditions.remove(condition)
                    component = Filter(condition, component)
            rest.append(self._table(component, at))
        return join(*rest)

    def _table(self, part: Algebra, at: _SplitContext) -> Algebra:
        """Return a table for a new static part; inline data is returned unchanged."""
        if isinstance(part, Values) and not isinstance(at.graph, Var):
            return part
        self.parts.append(part if at.graph is None else Graph(at.graph, part))
        return TableNode(str(len(self.parts) - 1), ())

    def _call(self, call: Service, at: _SplitContext) -> Algebra:
        if at.graph is not None:
            raise UnsupportedError(
                "SERVICE inside GRAPH", hint="write the SERVICE block next to the GRAPH block"
            )
        self.parts.append(call)
        return TableNode(str(len(self.parts) - 1), ())

    def _is_part(self, node: Algebra, at: _SplitContext) -> bool:
        if not is_static(node) or (calls_service(node) and not isinstance(node, Service)):
            return False
        used = at.substituted & mentioned(node)
        return not used or _commutes_with_substitution(node, used)

    def _split_expressions(self, node: Algebra, bound: Names, at: _SplitContext) -> Algebra:
        """Split the patterns of EXISTS, which see the substituted variables ``bound`` of the tested row."""
        inside = replace(at, substituted=at.substituted | bound)
        patterns = [each for expr in expressions(node) for each in patterns_of(expr)]
        return with_patterns(node, [self.split(each, inside) for each in patterns])


def _components(operands: Sequence[Algebra]) -> list[Algebra]:
    """Join operands into components that share no variable; each triple pattern is a separate operand."""
    groups: list[tuple[Names, list[Algebra]]] = []
    for operand in operands:
        pieces = [Bgp((each,)) for each in operand.patterns] if isinstance(operand, Bgp) else [operand]
        for piece in pieces:
            names = in_scope(piece)
            touching = [group for group in groups if group[0] & names]
            groups = [group for group in groups if not group[0] & names]
            merged = names.union(*(group[0] for group in touching))
            groups.append((merged, [each for group in touching for each in group[1]] + [piece]))
    return [join(*members) for _, members in groups]


def _distributes_over_graphs(node: Algebra) -> bool:
    """Return True if ``GRAPH ?g { node }`` equals the node with each static leaf inside ``GRAPH ?g``."""
    if is_static(node):
        return True
    match node:
        case Join(left, right) | Union(left, right) | LeftJoin(left, right, _):
            return _distributes_over_graphs(left) and _distributes_over_graphs(right)
        case Filter(_, inner) | Extend(inner, _, _):
            return _distributes_over_graphs(inner)
        case _:
            return False


def _commutes_with_substitution(node: Algebra, used: Names) -> bool:
    """Return True if substituting variables ``used`` in a pattern equals joining its rows with them."""
    if not used & mentioned(node):
        return True
    match node:
        case Bgp() | Path():
            return True
        case Values(variables, _):
            return used & {var.name for var in variables} <= certain(node)
        case Join(left, right) | Union(left, right):
            return _commutes_with_substitution(left, used) and _commutes_with_substitution(right, used)
        case Graph(_, inner) | Service(_, inner, _):
            return _commutes_with_substitution(inner, used)
        case Filter(condition, inner):
            free = expression_variables(condition) & used
            return (
                free <= certain(inner)
                and not (free and has_exists(condition))
                and _commutes_with_substitution(inner, used)
            )
        case _:
            return False


def _set_columns(node: Algebra, tables: dict[str, TableNode]) -> Algebra:
    """Return the query with the columns of each static part's table filled in."""
    if isinstance(node, TableNode):
        return tables.get(node.name, node)
    return with_operands(node, [_set_columns(each, tables) for each in operands(node)])


def needed_tables(rest: Algebra) -> frozenset[str]:
    """Return the names of the static parts without whose rows a split query has no solution."""
    match rest:
        case TableNode(name):
            return frozenset((name,))
        case Join(left, right):
            return needed_tables(left) | needed_tables(right)
        case Union(left, right):
            return needed_tables(left) & needed_tables(right)
        case LeftJoin(left) | Minus(left):
            return needed_tables(left)
        case Group(pattern, keys):
            return needed_tables(pattern) if keys else frozenset()
        case Filter() | Extend() | Graph() | Project() | Distinct() | OrderBy() | Slice():
            return needed_tables(rest.input)
    return frozenset()


def correlation(node: Algebra, outer: Names) -> None:
    """Check that EXISTS equals a join with the tested row; raise UnsupportedError if it does not.

    ``outer`` are the variables of the row for which an EXISTS is tested.

    EXISTS substitutes the variables of the row into its pattern before the evaluation (SPARQL 1.1, section
    18.6). For patterns that only restrict (joins, unions, filters over variables that they bind), joining the
    solutions of the pattern with the row gives the same result and can be maintained incrementally. Patterns
    in EXISTS that do more than restrict are rejected.
    """
    if outer & mentioned(node) and not _joins(node, outer):
        raise UnsupportedError(
            "EXISTS over a pattern in which the outer row is used below OPTIONAL, MINUS or BIND"
        )


def _joins(node: Algebra, outer: Names) -> bool:
    used = outer & mentioned(node)
    if not used:
        return True
    match node:
        case Bgp() | Path() | TableNode() | Values():
            return True
        case Join(left, right) | Union(left, right):
            return _joins(left, outer) and _joins(right, outer)
        case Graph(_, inner) | Window(_, inner, _) | Distinct(inner):
            return _joins(inner, outer)
        case Filter(condition, inner):
            return (
                not has_exists(condition)
                and expression_variables(condition) & outer <= certain(inner)
                and _joins(inner, outer)
            )
        case LeftJoin(left, right, condition):
            inside = mentioned(right) | (
                expression_variables(condition) if condition is not None else frozenset()
            )
            return inside & outer <= certain(left) and _joins(left, outer) and _joins(right, outer)
        case Extend(inner, var, expr):
            return (
                var.name not in outer
                and not has_exists(expr)
                and expression_variables(expr) & outer <= certain(inner)
                and _joins(inner, outer)
            )
        case Project(inner, variables):
            return _joins(inner, outer & {each.name for each in variables})
        case Group(inner, keys, _):
            return bool(keys) and _joins(inner, outer & {each.name for each in keys})
        case _:
            return False


def merged_background(root: Algebra) -> StaticPattern:
    """Return a static part with those triples of the FROM graphs that C-SPARQL's merged window can match.

    Without FROM, the triples of C-SPARQL's background are those of the default graph.
    """
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


def projected(node: Algebra) -> tuple[Var, ...]:
    """Return the columns of a SELECT; for other patterns, the visible variables sorted by name."""
    while isinstance(node, (Distinct, Slice, OrderBy)):
        node = node.input
    if isinstance(node, Project):
        return node.vars
    return tuple(Var(name) for name in sorted(in_scope(node)) if not name.startswith("_:"))
