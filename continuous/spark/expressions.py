"""Expressions over frames, by Spark's operators on term texts or by the native engine in Python workers.

Spark's operators are exact for BOUND, sameTerm and the connectives, because SQL's three-valued logic with
null for an error is SPARQL's. Spark's operators are also exact for ``=`` and ``!=`` if one side is an IRI or
a blank node, which equal only the same term (section 17.4.1.7). All other SPARQL expressions run in Spark's
Python workers; see `worker`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyoxigraph import BlankNode, NamedNode

from quadrill.store.dictionary import TermDictionary
from quadrill.store.errors import UnsupportedError
from quadrill.store.terms import term_text

from ..algebra.nodes import Call, Constant, Expr, Var
from ..algebra.variables import Names, expression_variables
from ..expressions.compile import ExpressionContext, compile_value
from ..expressions.oxigraph import canonical
from ..expressions.values import ValueTable
from . import worker
from .frames import Columns, Frame, quoted


@dataclass(frozen=True, slots=True)
class SparkScope:
    """The variables of a frame that an expression can refer to.

    Attributes:
        names: the variables that may be bound.
        nodes: the variables that are never bound to a literal or a triple term.
        column: returns the column of a variable.
    """

    names: Names
    nodes: Names
    column: Columns


def scope_of(frame: Frame) -> SparkScope:
    """Return the scope of expressions with all columns of a frame."""
    from pyspark.sql import functions as f

    return SparkScope(frozenset(frame.names), frame.nodes, lambda name: f.col(quoted(name)))


def native(expr: Expr, scope: SparkScope) -> Any:
    """Return a boolean Spark column for an expression (null: error); None if Spark is inexact for it."""
    match expr:
        case Call("&&" | "||" as name, (left, right)):
            one, other = native(left, scope), native(right, scope)
            if one is None or other is None:
                return None
            return one & other if name == "&&" else one | other
        case Call("!", (inner,)):
            column = native(inner, scope)
            return None if column is None else ~column
        case Call("BOUND", (Var(name),)) if name in scope.names:
            return scope.column(name).isNotNull()
        case Call("SAMETERM", (left, right)):
            return _same(left, right, scope)
        case Call("=" | "!=" as name, (left, right)) if _node(left, scope) or _node(right, scope):
            same = _same(left, right, scope)
            return same if same is None or name == "=" else ~same
        case _:
            return None


def truth(expr: Expr, scope: SparkScope, base_iri: str | None) -> Any:
    """Return a boolean Spark column that is true for the rows that a FILTER passes.

    Raises:
        UnsupportedError: a function cannot be evaluated by the native engine.
    """
    column = native(expr, scope)
    if column is not None:
        return column
    names, columns = _arguments(expr, scope, base_iri)
    return _udf(lambda *arrays: worker.truths(expr, names, base_iri, arrays), "boolean", columns)


def value(expr: Expr, scope: SparkScope, base_iri: str | None) -> Any:
    """Return a Spark column of the texts of an expression's values, null for an error.

    Raises:
        UnsupportedError: a function cannot be evaluated by the native engine.
    """
    from pyspark.sql import functions as f

    if isinstance(expr, Var):
        return scope.column(expr.name) if expr.name in scope.names else f.lit(None).cast("string")
    if isinstance(expr, Constant):
        return f.lit(term_text(canonical(expr.term)))
    names, columns = _arguments(expr, scope, base_iri)
    return _udf(lambda *arrays: worker.value_texts(expr, names, base_iri, arrays), "string", columns)


def order_key(column: Any, *, total: bool) -> Any:
    """Return a column of strings that sort like the terms of ``column``; ``total`` also breaks ties."""
    return _udf(lambda array: worker.order_keys(total, array), "string", [column])


def set_value(name: str, separator: str | None, parameter: float | None, values: Any, failed: Any) -> Any:
    """Return a column with an aggregate of value lists; column ``failed`` is true where a value failed."""
    return _udf(
        lambda lists, errors: worker.set_values(name, separator, parameter, lists, errors),
        "string",
        [values, failed],
    )


def _udf(function: Any, kind: str, columns: list[Any]) -> Any:
    from pyspark.sql import functions as f

    return f.arrow_udf(function, kind)(*columns)


def _arguments(expr: Expr, scope: SparkScope, base_iri: str | None) -> tuple[tuple[str, ...], list[Any]]:
    """Return an expression's variables and their columns; a Python worker needs at least one column."""
    from pyspark.sql import functions as f

    names = tuple(sorted(expression_variables(expr) & scope.names))
    # The expression is compiled in the driver, too, so that an unsupported expression is refused before Spark
    # runs.
    compile_value(expr, names, ExpressionContext(ValueTable(TermDictionary()), base_iri))
    if not names:
        return ("",), [f.lit(None).cast("string")]
    return names, [scope.column(name) for name in names]


def _node(expr: Expr, scope: SparkScope) -> bool:
    """Return True if an expression is an IRI or a blank node whenever it has a value."""
    match expr:
        case Var(name):
            return name in scope.nodes
        case Constant(term):
            return isinstance(term, (NamedNode, BlankNode))
        case _:
            return False


def _same(left: Expr, right: Expr, scope: SparkScope) -> Any:
    """Return a column with the equality of two terms' texts; None unless both are variables or constants."""
    if not all(isinstance(each, (Var, Constant)) for each in (left, right)):
        return None
    return value(left, scope, None) == value(right, scope, None)


def refuse(construct: str) -> UnsupportedError:
    """Return the error for a construct that Spark does not support; the store then evaluates the part."""
    return UnsupportedError(f"{construct} on the mirror")
