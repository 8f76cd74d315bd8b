"""The variables that a pattern can bind, always binds, and mentions (SPARQL 1.1 section 18.2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyoxigraph import NamedNode

from .build import children, expressions
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
    TermPattern,
    TriplePattern,
    TripleTerm,
    Union,
    Values,
    Var,
    Window,
)

Names = frozenset[str]
NO_NAMES: Names = frozenset()


def term_variables(term: TermPattern | NamedNode) -> Iterator[str]:
    """Yield the variables of one position of a triple pattern, including those inside triple terms."""
    if isinstance(term, Var):
        yield term.name
    elif isinstance(term, TripleTerm):
        yield from term_variables(term.subject)
        yield from term_variables(term.predicate)
        yield from term_variables(term.object)


def triple_variables(pattern: TriplePattern) -> Names:
    """Return the variables of a triple pattern, including those inside triple terms."""
    names: list[str] = []
    for term in (pattern.subject, pattern.predicate, pattern.object):
        if isinstance(term, Var):
            names.append(term.name)
        elif isinstance(term, TripleTerm):
            names += term_variables(term)
    return frozenset(names)


def expression_variables(expr: Expr) -> Names:
    """Return the variables that an expression mentions, including those in EXISTS patterns."""
    match expr:
        case Var(name):
            return frozenset((name,))
        case Call(_, args) | FunctionCall(_, args):
            return frozenset().union(*map(expression_variables, args))
        case Exists(pattern, _):
            return mentioned(pattern)
        case Constant():
            return NO_NAMES


def _names(variables: tuple[Var, ...]) -> Names:
    return frozenset(each.name for each in variables)


def in_scope(node: Algebra) -> Names:
    """Return the variables in scope outside a pattern: those that a solution may bind."""
    match node:
        case Bgp(patterns):
            return frozenset().union(*map(triple_variables, patterns))
        case Path(subject, _, object_):
            return frozenset((*term_variables(subject), *term_variables(object_)))
        case Join(left, right) | Union(left, right) | LeftJoin(left, right, _):
            return in_scope(left) | in_scope(right)
        case Minus(left, _):
            return in_scope(left)
        case Graph(name, inner) | Service(name, inner, _):
            return in_scope(inner) | frozenset(term_variables(name))
        case Window(_, inner):
            return in_scope(inner) | _names(node.own_vars)
        case Extend(inner, var, _):
            return in_scope(inner) | {var.name}
        case Values(variables, _) | TableNode(_, variables, _) | Project(_, variables):
            return _names(variables)
        case Group(_, keys, aggregates):
            return _names(keys) | {var.name for var, _ in aggregates}
        case Filter(_, inner) | OrderBy(inner, _) | Distinct(inner) | Slice(inner, _, _):
            return in_scope(inner)


def certain(node: Algebra) -> Names:
    """Return the variables that every solution binds (cVars of the RSP-QL* paper, section 4)."""
    match node:
        case Bgp() | Path():
            return in_scope(node)
        case Join(left, right):
            return certain(left) | certain(right)
        case Union(left, right):
            return certain(left) & certain(right)
        case LeftJoin(left, _, _) | Minus(left, _):
            return certain(left)
        case Graph(name, inner):
            return certain(inner) | frozenset(term_variables(name))
        case Service(_, inner, silent):
            return NO_NAMES if silent else certain(inner)
        case Window(name, inner):
            # A block that ranges over all windows binds the bounds of those windows only that have them.
            own = node.own_vars if isinstance(name, NamedNode) else replace(node, bounds=()).own_vars
            return certain(inner) | _names(own)
        case Extend(inner, var, expr):
            return certain(inner) | ({var.name} if isinstance(expr, Constant) else NO_NAMES)
        case Values(variables, rows):
            return frozenset(
                var.name for index, var in enumerate(variables) if all(row[index] is not None for row in rows)
            )
        case TableNode(_, _, bound):
            return bound
        case Project(inner, variables):
            return certain(inner) & _names(variables)
        case Group(inner, keys, aggregates):
            counts = {var.name for var, aggregate in aggregates if aggregate.name == "COUNT"}
            return (certain(inner) & _names(keys)) | counts
        case Filter(_, inner) | OrderBy(inner, _) | Distinct(inner) | Slice(inner, _, _):
            return certain(inner)


def bound_when_true(expr: Expr) -> Names:
    """Return variables that are bound in every row for which a condition is true.

    ``?a > 1 && (?b < 2 || ?b > ?c)`` proves ?a and ?b. Joins use variables that a condition proves to be
    bound as keys.
    """
    match expr:
        case Call("&&", args):
            return NO_NAMES.union(*map(bound_when_true, args))
        case Call("||", args):
            first, *others = map(bound_when_true, args)
            return first.intersection(*others)
        case Call("BOUND", (Var(name),)):
            return frozenset((name,))
        case Call("IN" | "NOT IN", (first_argument, *_)):
            return _needed(first_argument)
        case _:
            return _needed(expr)


def _needed(expr: Expr) -> Names:
    """Return variables without which an expression is an error: those it cannot leave unbound."""
    match expr:
        case Var(name):
            return frozenset((name,))
        case Call("!", (inner,)):
            return _needed(inner)
        case Call(name, args) if name not in _TOLERANT:
            return NO_NAMES.union(*map(_needed, args))
        case FunctionCall(_, args):
            return NO_NAMES.union(*map(_needed, args))
        case Call() | Constant() | Exists():
            return NO_NAMES


_TOLERANT = frozenset({"IF", "COALESCE", "BOUND", "IN", "NOT IN", "||", "&&", "!"})
"""Operators and built-ins that can have a value although an argument is an error."""


def always_bound(expr: Expr) -> bool:
    """Return True for an expression that has a value in every row."""
    match expr:
        case Constant():
            return True
        case Call("COALESCE", args):
            return any(map(always_bound, args))
        case _:
            return False


def mentioned(node: Algebra) -> Names:
    """Return every variable name that occurs in a pattern, including inner scopes and expressions."""
    names = set() if isinstance(node, _WITHOUT_OWN) else set(in_scope(node))
    if isinstance(node, Group):
        names |= _names(node.keys)
    for expr in expressions(node):
        names |= expression_variables(expr)
    for child in children(node):
        names |= mentioned(child)
    return frozenset(names)


_WITHOUT_OWN = (Join, Union, LeftJoin, Minus, Filter, OrderBy, Distinct, Slice)
"""Node classes whose variables are only those of their operands and expressions."""


class Scopes:
    """Computes and caches in-scope variables during one translation, as groups grow step by step."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Algebra, dict[Var, None]]] = {}

    def of(self, node: Algebra) -> dict[Var, None]:
        """Return the in-scope variables of a pattern, including hidden ones, as keys of an ordered dict."""
        known = self._known.get(id(node))
        if known is not None:
            return known[1]
        scope = self._compute(node)
        self._known[id(node)] = (node, scope)
        return scope

    def visible(self, node: Algebra) -> list[Var]:
        """Return the variables that ``SELECT *`` selects."""
        return [var for var in self.of(node) if not var.hidden]

    def _compute(self, node: Algebra) -> dict[Var, None]:
        match node:
            case Bgp(patterns):
                return dict.fromkeys(var for pattern in patterns for var in variables_of(pattern))
            case Path(subject, _, obj):
                return dict.fromkeys((*variables_of(subject), *variables_of(obj)))
            case Join(left, right) | LeftJoin(left, right) | Union(left, right):
                return {**self.of(left), **self.of(right)}
            case Minus(left, _):
                return self.of(left)
            case Graph(name, inner) | Service(name, inner):
                return {**({name: None} if isinstance(name, Var) else {}), **self.of(inner)}
            case Window(_, inner):
                own = dict.fromkeys(replace(node, stream=None, time=None).own_vars)
                return {**own, **self.of(inner), **({} if node.time is None else {node.time: None})}
            case Extend(inner, var, _):
                return {**self.of(inner), var: None}
            case Values(vars_, _) | TableNode(_, vars_):
                return dict.fromkeys(vars_)
            case Group(_, keys, aggregates):
                return dict.fromkeys((*keys, *(var for var, _ in aggregates)))
            case Project(_, vars_):
                return dict.fromkeys(vars_)
            case Filter(_, inner) | OrderBy(inner) | Distinct(inner) | Slice(inner):
                return self.of(inner)


def variables_of(term: object) -> Iterator[Var]:
    """Yield the variables of a term or triple pattern, nested triple terms included."""
    if isinstance(term, Var):
        yield term
    elif isinstance(term, (TripleTerm, TriplePattern)):
        yield from variables_of(term.subject)
        if isinstance(term.predicate, Var):
            yield term.predicate
        yield from variables_of(term.object)
