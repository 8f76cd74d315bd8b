"""C-SPARQL's ``timestamp(?v)``: the greatest event time among the window triples that bind ?v in a solution.

Each basic graph pattern of a window that has ?v is extended by the time of its matched triples, and the
call becomes the greatest of these. Before:

    Filter(TIMESTAMP(?v) > 5, Window(w, Bgp(?v :p ?o)))

after, with f = <urn:quadrill:function:event-time> and g = <urn:quadrill:function:greatest>:

    Filter(g(COALESCE(?t1, none)) > 5, Window(w, Extend(Bgp(?v :p ?o), ?t1, f(<w>, TRIPLE(?v, :p, ?o)))))

Sub-selects pass the hidden times on; a sub-query that groups can not, and paths have no triples of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from pyoxigraph import NamedNode

from quadrill.store.errors import UnsupportedError

from .build import (
    all_nodes,
    children,
    map_children,
    map_expression,
    map_expressions,
    map_patterns,
    sub_expressions,
)
from .build import expressions as own_expressions
from .nodes import (
    Algebra,
    Bgp,
    Call,
    Constant,
    Distinct,
    Expr,
    Extend,
    FunctionCall,
    Path,
    Project,
    Reduced,
    Slice,
    TermPattern,
    TriplePattern,
    TripleTerm,
    Var,
    Window,
)
from .static import VOLATILE_PREFIX
from .variables import in_scope, triple_variables
from .volatile import UNBOUND

EVENT_TIME = NamedNode(VOLATILE_PREFIX + "event-time")
GREATEST = NamedNode(VOLATILE_PREFIX + "greatest")


def uses_timestamps(root: Algebra) -> bool:
    """True when ``timestamp(?v)`` occurs anywhere in the query."""
    return any(
        isinstance(each, Call) and each.name == "TIMESTAMP"
        for node in all_nodes(root)
        for expr in own_expressions(node)
        for each in sub_expressions(expr)
    )


@dataclass(frozen=True, slots=True)
class TimedPattern:
    """A basic graph pattern of a window whose solutions get event times.

    ``marks`` are the variables of the times, innermost first, each with the triple patterns, as `triple_of`
    writes them, of which it is the greatest event time.
    """

    pattern: Bgp
    marks: tuple[tuple[Var, tuple[Expr, ...]], ...]


def timed_pattern(node: Algebra) -> TimedPattern | None:
    """The pattern below the times that `read_timestamps` has put over it; None for anything else."""
    marks: list[tuple[Var, tuple[Expr, ...]]] = []
    while isinstance(node, Extend) and isinstance(node.expr, FunctionCall) and node.expr.iri == EVENT_TIME:
        _, *triples = node.expr.args
        marks.insert(0, (node.var, tuple(triples)))
        node = node.input
    return TimedPattern(node, tuple(marks)) if marks and isinstance(node, Bgp) else None


def greatest_of(times: Sequence[Var]) -> Expr:
    """The greatest of some times; those that are unbound do not count."""
    if len(times) == 1:
        return times[0]
    return FunctionCall(GREATEST, tuple(Call("COALESCE", (each, Constant(UNBOUND))) for each in times))


def read_timestamps(root: Algebra) -> Algebra:
    """The query with each ``timestamp(?v)`` read from the triples that its windows matched.

    Raises UnsupportedError where the triples can not be told: ?v bound by a property path or in a sub-query
    that groups.
    """
    if not uses_timestamps(root):
        return root
    rewrite = _Timestamps()
    wanted = {
        each.args[0].name
        for node in all_nodes(root)
        for expr in own_expressions(node)
        for each in sub_expressions(expr)
        if isinstance(each, Call) and each.name == "TIMESTAMP" and isinstance(each.args[0], Var)
    }
    return _with_columns_of(root, rewrite.replace_calls(rewrite.mark(root, wanted, None)))


def _with_columns_of(original: Algebra, node: Algebra) -> Algebra:
    """The root's own columns: the times are no part of the answer."""
    match original, node:
        case (Project(_, columns), Project(inner, _)):
            return Project(inner, columns)
        case (Distinct() | Reduced() | Slice(), Distinct() | Reduced() | Slice()):
            return replace(node, input=_with_columns_of(original.input, node.input))
        case _:
            return node


class _Timestamps:
    def __init__(self) -> None:
        self._fresh = count(1)

    def mark(self, node: Algebra, wanted: set[str], window: NamedNode | None) -> Algebra:
        """Extend the patterns inside windows by the times of their triples, one variable per wanted one."""
        if isinstance(node, Window):
            if not isinstance(node.name, NamedNode) or node.stream is not None:
                raise UnsupportedError("timestamp() in a window with a variable name")
            return replace(node, input=self.mark(node.input, wanted, node.name))
        if isinstance(node, Distinct):
            # Times that went through DISTINCT would tell rows apart that are equal.
            return replace(node, input=_with_columns_of(node.input, self.mark(node.input, wanted, window)))
        if isinstance(node, Path) and window is not None and in_scope(node) & wanted:
            raise UnsupportedError("timestamp() of a variable that a property path binds")
        if isinstance(node, Bgp) and window is not None:
            return self._mark_bgp(node, wanted, window)
        node = map_expressions(
            node, lambda expr: map_patterns(expr, lambda pattern: self.mark(pattern, wanted, window))
        )
        node = map_children(node, lambda child: self.mark(child, wanted, window))
        if isinstance(node, Project):
            hidden = tuple(Var(name) for name in sorted(in_scope(node.input)) if name.startswith(_PREFIX))
            return replace(node, vars=node.vars + hidden)
        return node

    def _mark_bgp(self, node: Bgp, wanted: set[str], window: NamedNode) -> Algebra:
        result: Algebra = node
        for variable in sorted(in_scope(node) & wanted):
            triples = [each for each in node.patterns if variable in triple_variables(each)]
            time = FunctionCall(EVENT_TIME, (Constant(window), *map(triple_of, triples)))
            result = Extend(result, Var(f"{_PREFIX}{variable}.{next(self._fresh)}"), time)
        return result

    def replace_calls(self, node: Algebra) -> Algebra:
        """Each call becomes the greatest of the times in scope where it stands."""
        scopes = children(node)
        times = frozenset().union(*map(in_scope, scopes))

        def change(expr: Expr) -> Expr | None:
            if not isinstance(expr, Call) or expr.name != "TIMESTAMP" or not isinstance(expr.args[0], Var):
                return None
            variable = expr.args[0].name
            names = sorted(each for each in times if each.startswith(f"{_PREFIX}{variable}."))
            if not names and any(_has_time(each, variable) for each in scopes):
                raise UnsupportedError(
                    f"timestamp(?{variable})",
                    f"timestamp(?{variable}) can not be told of a variable that comes"
                    " from a sub-query with GROUP BY or DISTINCT",
                    hint="call timestamp() inside the sub-query",
                )
            return greatest_of([Var(each) for each in names])

        node = map_expressions(node, lambda expr: map_expression(expr, change))
        node = map_expressions(node, lambda expr: map_patterns(expr, self.replace_calls))
        return map_children(node, self.replace_calls)


_PREFIX = "_:time."


def _has_time(node: Algebra, variable: str) -> bool:
    return any(
        name.startswith(f"{_PREFIX}{variable}.") for each in all_nodes(node) for name in in_scope(each)
    )


def triple_of(pattern: TriplePattern | TripleTerm) -> Expr:
    """The triple that a pattern matches, as an expression."""
    return Call("TRIPLE", (_term(pattern.subject), _term(pattern.predicate), _term(pattern.object)))


def _term(term: TermPattern | NamedNode) -> Expr:
    if isinstance(term, Var):
        return term
    if isinstance(term, TripleTerm):
        return triple_of(term)
    return Constant(term)
