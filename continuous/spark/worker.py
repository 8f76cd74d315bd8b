"""Functions that run in Spark's Python workers: expressions, sort keys and aggregates over texts of terms.

The functions in Spark's Python workers take and return Arrow arrays. Spark's Python workers use the native
engine's expressions (`quadrill.continuous.expressions`) and the reference evaluator's aggregates, so Spark
returns the same terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.dictionary import TermDictionary
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.terms import term_text

from ..algebra.nodes import Expr, Term
from ..algebra.order import total_text, value_text
from ..algebra.set_functions import set_function
from ..expressions.compile import ExpressionContext, compile_condition, compile_value
from ..expressions.values import ValueTable, term_of, value_of

_SUBJECT = "urn:quadrill:"
_PREDICATE = NamedNode("urn:quadrill:text")


def terms_of(texts: Iterable[str]) -> dict[str, Term]:
    """Parse terms in N-Triples syntax; return a map from text to term."""
    listed = list(texts)
    lines = "".join(f"<{_SUBJECT}{n}> {_PREDICATE} {text} .\n" for n, text in enumerate(listed))
    return dict(zip(listed, (quad.object for quad in parse_stored_quads(lines.encode())), strict=True))


def value_texts(expr: Expr, names: tuple[str, ...], base_iri: str | None, columns: Sequence[Any]) -> Any:
    """Return the texts of an expression's values, null for an error, over columns of variables ``names``."""
    import pyarrow as pa

    function, values = _value(expr, names, base_iri)
    return pa.array(
        [
            None if (value := function(row)) is None else term_text(term_of(value))
            for row in _rows(values, columns)
        ],
        pa.string(),
    )


def truths(expr: Expr, names: tuple[str, ...], base_iri: str | None, columns: Sequence[Any]) -> Any:
    """Return an array that is true for rows in which the expression's effective boolean value is true."""
    import pyarrow as pa

    function, values = _condition(expr, names, base_iri)
    return pa.array([function(row) for row in _rows(values, columns)], pa.bool_())


def order_keys(total: bool, column: Any) -> Any:
    """Return strings that sort like terms, by value or, if ``total``, without ties; null for unbound."""
    import pyarrow as pa

    texts = column.to_pylist()
    key: Callable[[Term], str] = total_text if total else value_text
    keys: dict[str | None, str | None] = {
        text: key(term) for text, term in terms_of({text for text in texts if text is not None}).items()
    }
    return pa.array([keys.get(text) for text in texts], pa.string())


def set_values(name: str, separator: str | None, parameter: float | None, lists: Any, errors: Any) -> Any:
    """Return an aggregate of each list of texts, null for an error.

    An error among the values makes the aggregate an error, except for SAMPLE.
    """
    import pyarrow as pa

    groups = lists.to_pylist()
    terms = terms_of({text for group in groups for text in group})
    results: list[str | None] = []
    for group, failed in zip(groups, errors.to_pylist(), strict=True):
        if failed and name != "SAMPLE":
            results.append(None)
            continue
        term = set_function(name, [terms[text] for text in group], separator=separator, parameter=parameter)
        results.append(None if term is None else term_text(term))
    return pa.array(results, pa.string())


@lru_cache(maxsize=256)
def _value(expr: Expr, names: tuple[str, ...], base_iri: str | None) -> tuple[Any, ValueTable]:
    values = ValueTable(TermDictionary())
    return compile_value(expr, names, ExpressionContext(values, base_iri)), values


@lru_cache(maxsize=256)
def _condition(expr: Expr, names: tuple[str, ...], base_iri: str | None) -> tuple[Any, ValueTable]:
    values = ValueTable(TermDictionary())
    return compile_condition(expr, names, ExpressionContext(values, base_iri)), values


def _rows(values: ValueTable, columns: Sequence[Any]) -> Iterable[tuple[int, ...]]:
    """Encode rows as ids that are valid for one batch, and store each id's value in ``values``."""
    lists = [column.to_pylist() for column in columns]
    texts = {text for column in lists for text in column if text is not None}
    ids: dict[str | None, int] = {None: 0}
    values.clear()
    for number, (text, term) in enumerate(terms_of(texts).items(), 1):
        ids[text] = number
        values[number] = value_of(term)
    return zip(*([ids[text] for text in column] for column in lists), strict=True)
