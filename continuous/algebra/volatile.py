"""Rewrites of functions that depend on the instant or the row: RAND, UUID, NOW, C-SPARQL's `timestamp()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import UnsupportedError

from .build import (
    all_nodes,
    children,
    expressions,
    join,
    map_expression,
    operands,
    sub_expressions,
    with_children,
    with_expressions,
    with_operands,
)
from .nodes import (
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
    Group,
    Join,
    LeftJoin,
    OrderBy,
    Path,
    Project,
    Slice,
    TableNode,
    TermPattern,
    TriplePattern,
    TripleTerm,
    Union,
    Var,
    Window,
)
from .static import VOLATILE, VOLATILE_PREFIX
from .variables import NO_NAMES, Names, expression_variables, in_scope, triple_variables

UNBOUND = Literal("", datatype=NamedNode("urn:quadrill:unbound"))
"""The term for an unbound variable or an error in the arguments of a custom function."""


def tie_to_rows(root: Algebra) -> Algebra:
    """Return the query with each call of RAND, UUID, STRUUID and BNODE tied to its row.

    The rewrite turns ``Extend(P, ?x, RAND())`` into ``Extend(P, ?x, <urn:quadrill:function:RAND>(1,
    COALESCE(?a, unbound), ...))`` with a number for the place in the text and every variable of P. Functions
    such as RAND derive their value from these arguments, so a replay repeats the value (docs/semantics.md,
    section 1).
    """
    places = count(1)

    def visit(node: Algebra) -> Algebra:
        row: tuple[Expr, ...] | None = None

        def change(expr: Expr) -> Expr | None:
            if isinstance(expr, Exists):
                return Exists(visit(expr.pattern), expr.negated)
            if not isinstance(expr, Call) or expr.name not in VOLATILE or expr.name == "NOW":
                return None
            nonlocal row
            if row is None:
                row = tuple(_or_unbound(name) for name in sorted(in_scope(_base(node))))
            if expr.args:
                label = map_expression(expr.args[0], change)
                return FunctionCall(NamedNode(VOLATILE_PREFIX + "BNODE:named"), (label, *row))
            place = Constant(Literal(str(next(places))))
            return FunctionCall(NamedNode(VOLATILE_PREFIX + expr.name), (place, *row))

        own = [map_expression(each, change) if _may_change(each) else each for each in expressions(node)]
        node = with_expressions(node, own)
        return with_children(node, [visit(each) for each in children(node)])

    return visit(root)


def _may_change(expr: Expr) -> bool:
    """Return True if an expression has EXISTS or a volatile call, which `tie_to_rows` may rewrite."""
    return any(
        isinstance(each, Exists) or (isinstance(each, Call) and each.name in VOLATILE)
        for each in sub_expressions(expr)
    )


def _base(node: Algebra) -> Algebra:
    """Return the pattern whose rows an expression depends on; the BINDs of a group share one pattern."""
    if isinstance(node, (Join, Union, LeftJoin)) or not hasattr(node, "input"):
        return node
    inner: Algebra = node.input
    if isinstance(node, Extend):
        while isinstance(inner, Extend):
            inner = inner.input
    return inner


def _or_unbound(name: str) -> Expr:
    return Call("COALESCE", (Var(name), Constant(UNBOUND)))


NOW = "_:now"
CLOCK = TableNode("clock", (Var(NOW),), frozenset((NOW,)))


def with_clock(node: Algebra, row: Names = NO_NAMES) -> Algebra:
    """Return the pattern with every NOW() read from the clock; the same pattern if it has no NOW().

    The current instant is a relation of one row that changes at every instant. The rewrite turns ``Filter(?t
    > NOW(), P)`` into ``Project(Filter(?t > ?_:now, Join(P, clock)), variables of P)``. An incremental join
    with the clock evaluates the expression for all rows of P again only when the instant changes.

    ``row`` are the variables of the rows for which an EXISTS around the pattern is tested. If an expression
    of the pattern reads a variable of the tested row, the pattern gets no Project, which would hide the
    variable. An EXISTS only tests whether its pattern has a row, and the instant is the same in all rows.
    """
    below = children(node)
    inside = operands(node)[: -len(below) or None]
    tested = row.union(*map(in_scope, below))
    shown = row & {var.name for var in node.vars} if isinstance(node, Project) else row
    node = with_operands(
        node, [*(with_clock(each, tested) for each in inside), *(with_clock(each, shown) for each in below)]
    )
    if not any(map(_calls_now, expressions(node))):
        return node
    visible = in_scope(node)
    correlated = _read_by_expressions(node, row) - visible
    node = with_expressions(node, [map_expression(each, _clock_variable) for each in expressions(node)])
    match node:
        case Filter() | Extend():
            timed: Algebra = replace(node, input=join(node.input, CLOCK))
        case LeftJoin(_, right, _):
            timed = replace(node, right=join(right, CLOCK))
        case Group() | OrderBy():
            return replace(node, input=join(node.input, CLOCK))
        case _:
            return node
    return timed if correlated else Project(timed, tuple(map(Var, sorted(visible))))


def _read_by_expressions(node: Algebra, row: Names) -> Names:
    """Return the variables of the tested row that expressions of a pattern read."""
    if isinstance(node, Project):
        row &= {var.name for var in node.vars}
    read = row.intersection(NO_NAMES.union(*map(expression_variables, expressions(node))))
    return read.union(*(_read_by_expressions(each, row) for each in children(node)))


def _calls_now(expr: Expr) -> bool:
    return any(isinstance(each, Call) and each.name == "NOW" for each in sub_expressions(expr))


def _clock_variable(expr: Expr) -> Expr | None:
    return Var(NOW) if isinstance(expr, Call) and expr.name == "NOW" else None


EVENT_TIME = NamedNode(VOLATILE_PREFIX + "event-time")
GREATEST = NamedNode(VOLATILE_PREFIX + "greatest")


def depends_on_instant(root: Algebra) -> bool:
    """Return True if a function may return another value at another instant over the same windows."""
    return any(
        (isinstance(each, Call) and each.name in VOLATILE)
        or (
            isinstance(each, FunctionCall)
            and each.iri.value.startswith(VOLATILE_PREFIX)
            and each.iri not in (EVENT_TIME, GREATEST)
        )
        for node in all_nodes(root)
        for expr in expressions(node)
        for each in sub_expressions(expr)
    )


def uses_timestamps(root: Algebra) -> bool:
    """Return True if ``timestamp(?v)`` occurs anywhere in the query."""
    return any(
        isinstance(each, Call) and each.name == "TIMESTAMP"
        for node in all_nodes(root)
        for expr in expressions(node)
        for each in sub_expressions(expr)
    )


@dataclass(frozen=True, slots=True)
class TimedPattern:
    """A basic graph pattern of a window whose solutions get the event times of their triples.

    ``marks`` are the variables of the event times, innermost first, each with the triple patterns whose
    greatest event time the variable holds.
    """

    pattern: Bgp
    marks: tuple[tuple[Var, tuple[Expr, ...]], ...]


def timed_pattern(node: Algebra) -> TimedPattern | None:
    """Return the pattern that `read_timestamps` has extended by event times; None for any other node."""
    marks: list[tuple[Var, tuple[Expr, ...]]] = []
    while isinstance(node, Extend) and isinstance(node.expr, FunctionCall) and node.expr.iri == EVENT_TIME:
        _, *triples = node.expr.args
        marks.insert(0, (node.var, tuple(triples)))
        node = node.input
    return TimedPattern(node, tuple(marks)) if marks and isinstance(node, Bgp) else None


def greatest_of(times: Sequence[Var]) -> Expr:
    """Return an expression for the greatest of some event times, which ignores unbound times."""
    if len(times) == 1:
        return times[0]
    return FunctionCall(GREATEST, tuple(Call("COALESCE", (each, Constant(UNBOUND))) for each in times))


def read_timestamps(root: Algebra) -> Algebra:
    """Return the query with each ``timestamp(?v)`` read from the triples that its windows matched.

    Raises UnsupportedError for ``timestamp(?v)`` if the triples that bind ?v are unknown: ?v bound by a
    property path, in a sub-query with GROUP BY or DISTINCT, or in a window whose name or stream is a
    variable.

    ``timestamp(?v)`` is the greatest event time among the window triples that bind ?v in a solution. Each
    basic graph pattern of a window that has ?v is extended by the time of its matched triples, and the call
    of ``timestamp`` becomes the greatest of these times. For example, ``Filter(TIMESTAMP(?v) > 5, Window(w,
    Bgp(?v :p ?o)))`` becomes, with f = <urn:quadrill:function:event-time> and g =
    <urn:quadrill:function:greatest>, ``Filter(g(COALESCE(?t1, none)) > 5, Window(w, Extend(Bgp(?v :p ?o),
    ?t1, f(<w>, TRIPLE(?v, :p, ?o)))))``. Sub-selects pass the hidden event times on.
    """
    if not uses_timestamps(root):
        return root
    rewrite = _Timestamps()
    wanted = {
        each.args[0].name
        for node in all_nodes(root)
        for expr in expressions(node)
        for each in sub_expressions(expr)
        if isinstance(each, Call) and each.name == "TIMESTAMP" and isinstance(each.args[0], Var)
    }
    return _with_columns_of(root, rewrite.replace_calls(rewrite.add_times(root, wanted, None)))


def _with_columns_of(original: Algebra, node: Algebra) -> Algebra:
    """Return the node with the columns of the original root, without the hidden event times."""
    match original, node:
        case (Project(_, columns), Project(inner, _)):
            return Project(inner, columns)
        case (Distinct() | Slice(), Distinct() | Slice()):
            return replace(node, input=_with_columns_of(original.input, node.input))
        case _:
            return node


class _Timestamps:
    def __init__(self) -> None:
        self._fresh = count(1)

    def add_times(self, node: Algebra, wanted: set[str], window: NamedNode | None) -> Algebra:
        """Extend each window pattern by event times of its triples, one for each variable in ``wanted``."""
        if isinstance(node, Window):
            if not isinstance(node.name, NamedNode) or node.stream is not None:
                raise UnsupportedError("timestamp() in a window with a variable name")
            return replace(node, input=self.add_times(node.input, wanted, node.name))
        if isinstance(node, Distinct):
            # Event times must not pass through DISTINCT, because they would distinguish rows that are
            # otherwise equal.
            return replace(
                node, input=_with_columns_of(node.input, self.add_times(node.input, wanted, window))
            )
        if isinstance(node, Path) and window is not None and in_scope(node) & wanted:
            raise UnsupportedError("timestamp() of a variable that a property path binds")
        if isinstance(node, Bgp) and window is not None:
            return self._add_pattern_times(node, wanted, window)
        node = with_operands(node, [self.add_times(each, wanted, window) for each in operands(node)])
        if isinstance(node, Project):
            hidden = tuple(Var(name) for name in sorted(in_scope(node.input)) if name.startswith(_PREFIX))
            return replace(node, vars=node.vars + hidden)
        return node

    def _add_pattern_times(self, node: Bgp, wanted: set[str], window: NamedNode) -> Algebra:
        result: Algebra = node
        for variable in sorted(in_scope(node) & wanted):
            triples = [each for each in node.patterns if variable in triple_variables(each)]
            time = FunctionCall(EVENT_TIME, (Constant(window), *map(triple_of, triples)))
            result = Extend(result, Var(f"{_PREFIX}{variable}.{next(self._fresh)}"), time)
        return result

    def replace_calls(self, node: Algebra, row: Names = NO_NAMES) -> Algebra:
        """Replace each call of ``timestamp`` by the greatest of the event times in scope.

        ``row`` are the event times of the row for which an EXISTS around the pattern is tested. A variable
        that the tested row binds is a constant in the EXISTS pattern (SPARQL 1.1, 18.6), so its event time is
        the row's.
        """
        scopes = children(node)
        times = NO_NAMES.union(*map(in_scope, scopes))
        inside = operands(node)[: -len(scopes) or None]

        def change(expr: Expr) -> Expr | None:
            if not isinstance(expr, Call) or expr.name != "TIMESTAMP" or not isinstance(expr.args[0], Var):
                return None
            variable = expr.args[0].name
            found = [_times_of(variable, each) for each in (row, times)]
            if not any(found) and any(_has_time(each, variable) for each in scopes):
                raise UnsupportedError(
                    f"timestamp(?{variable})",
                    f"timestamp(?{variable}) is unknown for a variable that comes"
                    " from a sub-query with GROUP BY or DISTINCT",
                    hint="call timestamp() inside the sub-query",
                )
            own = [greatest_of(each) for each in found if each]
            return own[0] if len(own) == 1 else Call("COALESCE", tuple(own))

        node = with_expressions(node, [map_expression(each, change) for each in expressions(node)])
        # A sub-query has separate variables, so the tested row's event times are not visible in it.
        passed = NO_NAMES if isinstance(node, Project | Group) else row
        changed = [self.replace_calls(each, row | times) for each in inside]
        return with_operands(node, [*changed, *(self.replace_calls(each, passed) for each in scopes)])


def _times_of(variable: str, names: Names) -> list[Var]:
    return [Var(each) for each in sorted(names) if each.startswith(f"{_PREFIX}{variable}.")]


_PREFIX = "_:time."


def _has_time(node: Algebra, variable: str) -> bool:
    return any(
        name.startswith(f"{_PREFIX}{variable}.") for each in all_nodes(node) for name in in_scope(each)
    )


def triple_of(pattern: TriplePattern | TripleTerm) -> Expr:
    """Return the triple that a triple pattern matches, as an expression."""
    return Call("TRIPLE", (_term(pattern.subject), _term(pattern.predicate), _term(pattern.object)))


def _term(term: TermPattern | NamedNode) -> Expr:
    if isinstance(term, Var):
        return term
    if isinstance(term, TripleTerm):
        return triple_of(term)
    return Constant(term)
