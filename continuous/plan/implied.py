"""Which variables a filter's success proves to be bound."""

from __future__ import annotations

from ..algebra.nodes import Call, Constant, Exists, Expr, FunctionCall, Var

_TOLERANT = frozenset({"IF", "COALESCE", "BOUND", "IN", "NOT IN", "||", "&&", "!"})
"""Calls that can have a value although an argument is an error."""

Names = frozenset[str]


def bound_when_true(expr: Expr) -> Names:
    """Variables that are bound in every row for which the condition is true.

    ``?a > 1 && (?b < 2 || ?b > ?c)`` proves ?a and ?b. Joins use such variables as keys.
    """
    match expr:
        case Call("&&", args):
            return frozenset().union(*map(bound_when_true, args))
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
    """Variables without which the expression is an error."""
    match expr:
        case Var(name):
            return frozenset((name,))
        case Call("!", (inner,)):
            return _needed(inner)
        case Call(name, args) if name not in _TOLERANT:
            return frozenset().union(*map(_needed, args))
        case FunctionCall(_, args):
            return frozenset().union(*map(_needed, args))
        case Call() | Constant() | Exists():
            return frozenset()
