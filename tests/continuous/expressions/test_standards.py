"""Every operator, function and cast on boundary values: by the standards, by us, and by Oxigraph.

The second oracle is `standard.py`. Where both engines differ from it on purpose, `CHOICES` says why; where
Oxigraph alone differs, `TAKEN` does, and continuous queries take that away from it. docs/sparql.md lists
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Store

from quadrill.continuous.algebra.nodes import Call, Expr, FunctionCall, Var
from quadrill.continuous.expressions.compile import ExpressionContext, compile_value
from quadrill.continuous.expressions.oxigraph import canonical
from quadrill.continuous.expressions.values import ValueTable, term_of
from quadrill.store.dictionary import TermDictionary

from . import standard as by
from .standard import XSD, Number, Opaque, Text, Time, Value


def typed(each: str, datatype: str) -> Literal:
    return Literal(each, datatype=NamedNode(datatype))


STRINGS = ["", "a", "abc", "b", "1", "-1.5", "1e3", " 5 ", "true", " true", "NaN", "INF", "inf", "aß é😀 Σ"]
STRINGS += ["2020-02-29T00:00:00Z", "2021-02-29T00:00:00Z", "0.12345678901234567891"]
TAGGED = [("abc", "en"), ("b", "en"), ("b", "fr-be"), ("", "en")]
TYPED = {
    "integer": "0 1 -1 7 9007199254740993 9223372036854775807 -9223372036854775808 9223372036854775808 "
    "99999999999999999999 x",
    "decimal": "0.5 -0.5 2.5 -2.5 0.1 0.005986 0.000000000000000001 1.234567890123456789 "
    "170141183460469231731.687303715884105727 170141183460469231732 1000000000000000000.5 x",
    "double": "0 -0 0.1 -2.5 1000000 1e20 5e-324 1.7976931348623157e308 NaN INF -INF x",
    "float": "0 -0 0.1 16777217 3.4028235e38 1e-45 NaN INF -INF",
    "boolean": "true false maybe",
    "dateTime": "2020-01-01T00:00:00Z 2020-01-01T00:00:00 2020-01-01T05:30:00.25+05:30 2020-01-03T00:00:00 "
    "2020-01-01T14:00:00 0001-01-01T00:00:00Z 9999-12-31T23:59:59.999999Z 2020-13-01T00:00:00 "
    "2021-02-29T00:00:00 2020-01-01T25:00:00 2020-01-01T00:00:60 2020-01-01T00:00:00+15:00",
}
TERMS: list[Any] = [
    None,
    NamedNode("http://e/a"),
    NamedNode("http://e/b"),
    *map(Literal, STRINGS),
    *(Literal(each, language=tag) for each, tag in TAGGED),
    *(typed(each, XSD + name) for name, texts in TYPED.items() for each in texts.split()),
    typed("x", "http://e/t"),
    typed("y", "http://e/t"),
]
TERMS = [None if term is None else canonical(term) for term in TERMS]


@dataclass(frozen=True)
class Row:
    """One call: the name, the arguments, what the standard says and what was given."""

    name: str
    args: tuple[Value, ...]
    wanted: Value
    given: Value


@dataclass(frozen=True)
class Deviation:
    """A class of calls whose result is another one, and why."""

    reason: str
    holds: Callable[[Row], bool]


def _is_nan(value: Value) -> bool:
    return isinstance(value, Number) and isinstance(value.value, float) and math.isnan(value.value)


def _has_no_truth(value: Value) -> bool:
    return (isinstance(value, Opaque) and value.ill_typed) or (
        isinstance(value, Text) and bool(value.language)
    )


def _any(row: Row, kind: Any) -> bool:
    return any(isinstance(each, kind) for each in row.args)


CHOICES = [
    Deviation(
        "dateTimes and durations are subtracted, as XPath can and SPARQL 1.1 has no operator for",
        lambda row: (
            row.name == "-" and row.wanted is None and all(isinstance(each, Time) for each in row.args)
        ),
    ),
    Deviation(
        "a string with a language is never equal to a literal of another datatype, known or not",
        lambda row: (
            row.name in ("=", "!=", "IN", "NOT IN")
            and _any(row, Opaque)
            and any(isinstance(each, Text) and each.language for each in row.args)
        ),
    ),
    Deviation(
        "a term without an order is <= and >= itself, and not < itself",
        lambda row: row.name in _ORDER and row.args[0] == row.args[1] and _any(row, NamedNode | Opaque),
    ),
    Deviation(
        "booleans have no < (17.3 has one); ORDER BY, MIN and MAX put false first",
        lambda row: row.name in _ORDER and all(isinstance(each, bool) for each in row.args),
    ),
    Deviation(
        "a number is neither less than NaN nor not less: an error, which no FILTER passes either",
        lambda row: (
            row.name in _ORDER
            and any(map(_is_nan, row.args))
            and all(isinstance(each, Number) for each in row.args)
        ),
    ),
    Deviation(
        "a literal that is ill-typed or has a language is neither true nor false, but an error",
        lambda row: row.name in ("!", "&&", "||") and any(map(_has_no_truth, row.args)),
    ),
    Deviation(
        "casts of strings: white space around them is an error, the words INF and NaN take any case, "
        "decimals of more than 18 places are an error",
        lambda row: (
            row.name in by.CASTS
            and isinstance(row.args[0], Text)
            and (
                row.args[0].text != row.args[0].text.strip()
                or row.args[0].text.lower() == "inf"
                or len(row.args[0].text) > 20
            )
        ),
    ),
    Deviation(
        "xsd:string() takes the lexical form of every literal, with a language or ill-typed as well",
        lambda row: row.name == "string" and row.wanted is None and isinstance(row.given, Text),
    ),
    Deviation(
        "floats and doubles are written without exponents",
        lambda row: (
            row.name == "string"
            and isinstance(row.args[0], Number)
            and isinstance(row.wanted, Text)
            and isinstance(row.given, Text)
            and float(row.wanted.text) == float(row.given.text)
        ),
    ),
    Deviation(
        "strings of one language are ordered by their characters",
        lambda row: (
            row.name in _ORDER
            and all(isinstance(each, Text) for each in row.args)
            and len({each.language for each in row.args if isinstance(each, Text)}) == 1
        ),
    ),
]
_ORDER = ("<", "<=", ">", ">=")
TAKEN = [
    Deviation(
        "products and quotients of decimals are errors where an intermediate number has too many digits",
        lambda row: row.name in "*/" and row.given is None and isinstance(row.wanted, Number),
    ),
    Deviation(
        "SUBSTR from the least integer on is an error",
        lambda row: row.name == "SUBSTR" and row.given is None,
    ),
    Deviation(
        "xsd:integer() and xsd:decimal() of floats and doubles are off by what their computation rounds: "
        "xsd:integer(1e6) is 999999",
        lambda row: (
            row.name in ("integer", "decimal")
            and isinstance(row.args[0], Number)
            and row.args[0].kind in ("float", "double")
        ),
    ),
]
NAMES = ("a", "b", "c", "d")


def expression(name: str, arity: int) -> Expr:
    args = tuple(map(Var, NAMES[:arity]))
    return FunctionCall(NamedNode(XSD + name), args) if name in by.CASTS else Call(name, args)


def ours(name: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    terms = TermDictionary()
    call = compile_value(
        expression(name, len(rows[0])), NAMES[: len(rows[0])], ExpressionContext(ValueTable(terms))
    )
    values = [call(tuple(map(terms.encode, row))) for row in rows]
    return [None if value is None else term_of(value) for value in values]


def text(name: str, arity: int) -> str:
    args = [f"?{each}" for each in NAMES[:arity]]
    if name in by.CASTS:
        return f"<{XSD}{name}>(?a)"
    if name in by.OPERATORS:
        return f"?a {name} ({', '.join(args[1:])})" if name.endswith("IN") else f"?a {name} ?b"
    if name in ("!", "UNARY-", "UNARY+"):
        return name[-1] + "?a"
    return f"{name}({', '.join(args)})"


def oxigraphs(name: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    names = " ".join(f"?{each}" for each in NAMES[: len(rows[0])])
    values = " ".join(
        "(" + " ".join("UNDEF" if term is None else str(term) for term in row) + ")" for row in rows
    )
    found = Store().query(f"SELECT ({text(name, len(rows[0]))} AS ?r) {{ VALUES ({names}) {{ {values} }} }}")
    return [solution["r"] for solution in found]  # type: ignore[union-attr]


def calls() -> Iterator[tuple[str, int, Callable[..., Value]]]:
    for name, function in (by.OPERATORS | by.PAIRS).items():
        yield name, 2, function
    for name, one in (by.SINGLES | by.CASTS | by.ON_TERMS).items():
        yield name, 1, one


CALLS = {name: (arity, function) for name, arity, function in calls()}


@cache
def compared(name: str) -> tuple[list[str], frozenset[str]]:
    """The results of a call on all terms that nothing explains, and the reasons that explain others."""
    arity, function = CALLS[name]
    rows = list(product(TERMS, repeat=arity))
    wrong, used = [], set[str]()
    for row, mine, theirs in zip(rows, ours(name, rows), oxigraphs(name, rows), strict=True):
        args = tuple(map(by.value_of, row))
        wanted = by.value_of(function(*row)) if name in by.ON_TERMS else function(*args)
        for who, found, allowed in (("we", mine, CHOICES), ("Oxigraph", theirs, [*CHOICES, *TAKEN])):
            given = by.value_of(found)
            if by.same(wanted, given):
                continue
            reasons = [each.reason for each in allowed if each.holds(Row(name, args, wanted, given))]
            used.update(reasons)
            if not reasons:
                wrong.append(f"{who}: {name} {' '.join(map(str, row))} is {found}, not {wanted}")
    return wrong, frozenset(used)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_what_the_standard_says(name: str) -> None:
    wrong, _ = compared(name)
    assert not wrong, "\n".join(wrong[:40])


def test_every_deviation_is_there() -> None:
    used = frozenset[str]().union(*(compared(name)[1] for name in CALLS))
    assert {each.reason for each in [*CHOICES, *TAKEN]} == used
