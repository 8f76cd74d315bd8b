"""Expressions over frames: Spark's own operators where texts decide, else the native engine's in Python.

What is exact on texts: BOUND, sameTerm, the connectives (SQL's three-valued logic is SPARQL's, an error is
null), and ``=`` and ``!=`` as soon as one side is an IRI or a blank node, for then only the same term is
equal (section 17.4.1.7). Everything else runs in Spark's Python workers, see `worker`.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """The variables that an expression sees.

    Attributes:
        names: those that may be bound.
        nodes: those of them that are never a literal or a triple term.
        column: the column of one.
    """

    names: Names
    nodes: Names
    column: Columns


def scope_of(frame: Frame) -> SparkScope:
    """The scope of a frame's own columns."""
    from pyspark.sql import functions as f

    return SparkScope(frozenset(frame.names), frame.nodes, lambda name: f.col(quoted(name)))


def conjuncts(expr: Expr) -> Iterator[Expr]:
    """The operands of ``&&`` at the top: a FILTER keeps what all of them keep."""
    if isinstance(expr, Call) and expr.name == "&&":
        for each in expr.args:
            yield from conjuncts(each)
    else:
        yield expr


def native(expr: Expr, scope: SparkScope) -> Any:
    """A boolean column, null for an error; None when Spark's operators cannot tell."""
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
    """A boolean column that is true where a FILTER keeps the row.

    Raises: UnsupportedError names a function that cannot be evaluated here.
    """
    column = native(expr, scope)
    if column is not None:
        return column
    names, columns = _arguments(expr, scope, base_iri)
    return _udf(lambda *arrays: worker.truths(expr, names, base_iri, arrays), "boolean", columns)


def value(expr: Expr, scope: SparkScope, base_iri: str | None) -> Any:
    """A column of the texts of an expression's values, null for an error.

    Raises: UnsupportedError names a function that cannot be evaluated here.
    """
    from pyspark.sql import functions as f

    if isinstance(expr, Var):
        return scope.column(expr.name) if expr.name in scope.names else f.lit(None).cast("string")
    if isinstance(expr, Constant):
        return f.lit(term_text(canonical(expr.term)))
    names, columns = _arguments(expr, scope, base_iri)
    return _udf(lambda *arrays: worker.value_texts(expr, names, base_iri, arrays), "string", columns)


def order_key(column: Any, *, total: bool) -> Any:
    """A column of strings that sort as the terms of a column do."""
    return _udf(lambda array: worker.order_keys(total, array), "string", [column])


def set_value(name: str, separator: str | None, parameter: float | None, values: Any, failed: Any) -> Any:
    """A column with a set function of lists; ``failed`` says whether an error was among the values."""
    return _udf(
        lambda lists, errors: worker.set_values(name, separator, parameter, lists, errors),
        "string",
        [values, failed],
    )


def _udf(function: Any, kind: str, columns: list[Any]) -> Any:
    from pyspark.sql import functions as f

    return f.arrow_udf(function, kind)(*columns)


def _arguments(expr: Expr, scope: SparkScope, base_iri: str | None) -> tuple[tuple[str, ...], list[Any]]:
    """The variables that a worker needs, and their columns; a worker needs at least one column."""
    from pyspark.sql import functions as f

    names = tuple(sorted(expression_variables(expr) & scope.names))
    # Compiled here too, so that what cannot be is refused before Spark starts on it.
    compile_value(expr, names, ExpressionContext(ValueTable(TermDictionary()), base_iri))
    if not names:
        return ("",), [f.lit(None).cast("string")]
    return names, [scope.column(name) for name in names]


def _node(expr: Expr, scope: SparkScope) -> bool:
    """True for what is an IRI or a blank node whenever it is bound."""
    match expr:
        case Var(name):
            return name in scope.nodes
        case Constant(term):
            return isinstance(term, (NamedNode, BlankNode))
        case _:
            return False


def _same(left: Expr, right: Expr, scope: SparkScope) -> Any:
    """Equality of texts; None when a side is neither a variable nor a constant."""
    if not all(isinstance(each, (Var, Constant)) for each in (left, right)):
        return None
    return value(left, scope, None) == value(right, scope, None)


def refuse(construct: str) -> UnsupportedError:
    """The error for what has no form here; the store evaluates the part then."""
    return UnsupportedError(f"{construct} on the mirror")
