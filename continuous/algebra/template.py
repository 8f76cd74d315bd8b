"""Queries that differ only in constants as one pattern: their constants become columns of a table.

For example, the patterns of two member queries:

    Project(Join(Window(w, Bgp(?x :in :kitchen)), Table(0)), ?x)      member 1
    Project(Join(Window(w, Bgp(?x :in :hall)), Table(0)), ?x)         member 2

become one pattern, with the rows (1, :kitchen) and (2, :hall) in the table ``template``:

    Project(Join(Table(template: ?member ?c0), Window(w, Bgp(?x :in ?c0)), Table(0)), ?x ?member ?c0)

The solutions of the common pattern with a member's number are the solutions of that member's query. The
solutions of a shared plan's members stay separate because every input of an operator that differs between
members binds the member's number, so that operators never combine rows of two members. A constant stays in
the common pattern where members' rows would be mixed: in EXISTS, on the right of MINUS, in paths, VALUES and
GRAPH, below LIMIT, and below a GROUP BY without keys. Where constants are not replaced, a static part must
have the same rows for all members, unless the static part is the whole pattern of an EXISTS or MINUS.
Operands that are equal for all members of a group are joined only once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pyoxigraph import Literal, NamedNode, Triple

from .build import (
    all_nodes,
    conjuncts,
    expressions,
    join,
    map_expression,
    sub_expressions,
    with_expressions,
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
    Group,
    Join,
    LeftJoin,
    Minus,
    Project,
    TableNode,
    Term,
    TermPattern,
    TriplePattern,
    Union,
    Var,
    Window,
)
from .variables import certain

MEMBER = Var("_:member")
"""The variable that is bound to the number of a member query."""
PARAMETERS = "template"
"""The name of the table that contains the number and the constants of each member query."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A query without its constants; queries with an equal ``digest`` can be members of one group.

    ``constants`` are the constants removed from the query, in order. ``tables`` are the names of the static
    parts whose rows may differ between members.
    """

    digest: bytes
    constants: tuple[Term, ...]
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class MemberPattern:
    """The common pattern of all member queries of a group.

    ``parameters`` are the columns of the members' table after the column `MEMBER`.
    """

    root: Algebra
    parameters: tuple[Var, ...]


def skeleton(root: Algebra) -> Skeleton:
    """Return the skeleton of a query: a digest of the query without constants, and the constants."""
    constants: list[Term] = []

    def take(term: Term) -> Var:
        constants.append(term)
        return _parameter(len(constants) - 1)

    holes = _Holes(take)
    digest = hashlib.sha256(repr(holes.visit(root)).encode("utf-8", "surrogatepass")).digest()
    everywhere = Counter(node.name for node in all_nodes(root) if isinstance(node, TableNode))
    tables = frozenset(name for name, met in holes.tables.items() if met == everywhere[name])
    return Skeleton(digest, tuple(constants), tables)


def lift(root: Algebra, varying: Collection[int], labelled: Collection[str]) -> MemberPattern:
    """Return the common pattern of all members of a group.

    Args:
        root: the pattern of one member's query.
        varying: the positions of the constants that differ between members.
        labelled: the names of the static parts whose rows differ between members, a subset of
            `Skeleton.tables`.
    """
    place = -1

    def change(term: Term) -> Var | None:
        nonlocal place
        place += 1
        return _parameter(place) if place in varying else None

    holed = _Holes(change).visit(root)
    parameters = tuple(map(_parameter, sorted(varying)))
    return MemberPattern(_Labels(parameters, frozenset(labelled)).label(holed), parameters)


def _parameter(place: int) -> Var:
    return Var(f"_:constant{place}")


class _Holes:
    """A visitor of a pattern's constants in a fixed order, which may replace constants by variables.

    The function ``change`` returns the variable for a constant, or None to keep the constant.

    Attributes:
        tables: the number of occurrences of each static part at places where its rows may have the member's
            number as an additional column.
    """

    def __init__(self, change: Callable[[Term], Var | None]) -> None:
        self._change = change
        self.tables: Counter[str] = Counter()

    def visit(self, node: Algebra) -> Algebra:
        match node:
            case Bgp(patterns):
                return Bgp(tuple(self._pattern(each) for each in patterns))
            case Join(left, right) | Union(left, right):
                return replace(node, left=self.visit(left), right=self.visit(right))
            case LeftJoin(left, right, _):
                return self._expressions(replace(node, left=self.visit(left), right=self.visit(right)))
            case Minus(left, right):
                # With a column for the member's number, MINUS would also remove rows that share only this
                # number. A static part that shares a further column with the other side of MINUS is safe.
                if isinstance(right, TableNode) and certain(left) & right.certain:
                    self.tables[right.name] += 1
                return replace(node, left=self.visit(left))
            case Filter() | Extend():
                return self._expressions(replace(node, input=self.visit(node.input)))
            case TableNode(name, _, _):
                self.tables[name] += 1
                return node
            case Group(_, keys, aggregates):
                # COUNT(DISTINCT *) would also read the columns that replace constants.
                whole = any(each.expr is None and each.distinct for _, each in aggregates)
                return node if whole or not keys else replace(node, input=self.visit(node.input))
            case Project() | Distinct() | Window():
                return replace(node, input=self.visit(node.input))
            case _:
                return node

    def _pattern(self, pattern: TriplePattern) -> TriplePattern:
        return replace(pattern, subject=self._term(pattern.subject), object=self._term(pattern.object))

    def _term(self, term: TermPattern) -> TermPattern:
        return (self._change(term) if isinstance(term, NamedNode | Literal) else None) or term

    def _expressions(self, node: Algebra) -> Algebra:
        changed = []
        for expr in expressions(node):
            below = sub_expressions(expr)
            for each in below:
                if isinstance(each, Exists) and isinstance(each.pattern, TableNode):
                    self.tables[each.pattern.name] += 1
            plain = all(isinstance(each, Call | Constant | Var) for each in below)
            changed.append(map_expression(expr, self._constant) if plain else expr)
        return with_expressions(node, changed)

    def _constant(self, expr: Expr) -> Expr | None:
        if isinstance(expr, Constant) and not isinstance(expr.term, Triple):
            return self._change(expr.term)
        return None


class _Labels:
    """A rewriter that adds the member's number and parameters to every solution of a pattern."""

    def __init__(self, parameters: tuple[Var, ...], labelled: frozenset[str]) -> None:
        self._parameters = parameters
        self._labelled = labelled
        self._columns = (MEMBER, *parameters)
        self._members = TableNode(PARAMETERS, self._columns, frozenset(var.name for var in self._columns))

    def label(self, node: Algebra) -> Algebra:
        """Return the pattern with the variable `MEMBER` and the parameters bound in every solution."""
        if not self._differs(node):
            return join(self._members, node)
        match node:
            case Project(inner, names):
                return Project(self.label(inner), (*names, *self._columns))
            case Distinct() | Extend() | Filter():
                return replace(node, input=self.label(node.input))
            case Group(inner, keys, _):
                return replace(node, input=self.label(inner), keys=(*keys, *self._columns))
            case Union(left, right):
                return Union(self.label(left), self.label(right))
            case LeftJoin(left, right, _):
                below = self.label(right) if self._differs(right) else right
                return replace(node, left=self.label(left), right=below)
            case Minus(left, _):
                return replace(node, left=self.label(left))
            case _:
                return self._join(conjuncts(node))

    def _join(self, operands: list[Algebra]) -> Algebra:
        """Join operands, and let them bind the member's number and the parameters.

        Operands that match the members' constants like variables are joined with the table of members if
        necessary; other operands that differ between members are rewritten by `label`.
        """
        labelled = whole = False
        joined: list[Algebra] = []
        for each in operands:
            if isinstance(each, TableNode) and each.name in self._labelled:
                labelled = True
                certain = each.certain | {MEMBER.name}
                joined.append(replace(each, vars=(*each.vars, MEMBER), certain=certain))
            elif not self._differs(each) or _is_open(each):
                joined.append(each)
            elif isinstance(each, Window):
                whole = True
                joined.append(replace(each, input=self.label(each.input)))
            else:
                whole = True
                joined.append(self.label(each))
        # An operand rewritten for members binds the member's number and constants; a static part that differs
        # binds only the number.
        if not whole and (self._parameters or not labelled):
            joined.insert(0, self._members)
        return join(*joined)

    def _differs(self, node: Algebra) -> bool:
        """Return True if a pattern contains a member's parameter, or a static part that differs by member."""
        return any(self._differs_itself(each) for each in all_nodes(node))

    def _differs_itself(self, node: Algebra) -> bool:
        match node:
            case Bgp(patterns):
                terms = [term for each in patterns for term in (each.subject, each.object)]
                return any(each in self._parameters for each in terms)
            case TableNode(name, _, _):
                return name in self._labelled
            case _:
                below = [each for expr in expressions(node) for each in sub_expressions(expr)]
                return any(each in self._parameters for each in below)


def _is_open(node: Algebra) -> bool:
    """Return True for a pattern whose member parameters are ordinary variables of triple patterns."""
    match node:
        case Bgp():
            return True
        case Join(left, right):
            return _is_open(left) and _is_open(right)
        case Window(_, inner, _):
            return _is_open(inner)
        case _:
            return False
