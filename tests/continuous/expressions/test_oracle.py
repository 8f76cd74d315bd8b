"""Random expressions over random terms: ours is Oxigraph's answer, but for what is taken from it.

What Oxigraph's own answers are by the standards says `test_standards.py`.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store, Triple

from quadrill.continuous.algebra.corrected_expressions import Calls, corrected_call
from quadrill.continuous.algebra.nodes import Call, Constant, Expr, FunctionCall, Var
from quadrill.continuous.expressions.choices import Functions
from quadrill.continuous.expressions.compile import ExpressionContext, compile_condition, compile_value
from quadrill.continuous.expressions.functions import ASKED, BUILT_INS
from quadrill.continuous.expressions.oxigraph import canonical
from quadrill.continuous.expressions.values import ValueTable, term_of
from quadrill.store.dictionary import TermDictionary
from tests.examples import ALL, examples

XSD = "http://www.w3.org/2001/XMLSchema#"
INFIX = ["||", "&&", "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/"]
STORE = Store()
CHOICES = Functions("", {})


def typed(text: str, name: str) -> Literal:
    return Literal(text, datatype=NamedNode(XSD + name))


def literals(name: str, *texts: str) -> list[Any]:
    return [typed(text, name) for text in texts]


TERMS: list[Any] = [
    NamedNode("http://e/a"),
    NamedNode("http://e/b"),
    BlankNode("b0"),
    Literal(""),
    Literal("a"),
    Literal("abc"),
    Literal("1"),
    Literal("é😀"),
    Literal("abc", language="en"),
    Literal("b", language="en"),
    Literal("b", language="fr-be"),
    *literals(
        "integer", "0", "1", "-7", "2", "9223372036854775807", "-9223372036854775808", "99999999999999999999"
    ),
    *literals("integer", "x", "16777217", "9007199254740993"),
    *literals("int", "3", "x"),
    *literals(
        "decimal", "0", "0.1", "-1.5", "2.5", "41.474937", "0.005986", "0.1234567891", "0.000000000000000001"
    ),
    *literals("decimal", "99999999999999999999", "-2.55", "-0.4", "x"),
    *literals(
        "double", "0", "-0", "0.1", "2.5", "-2.5", "1e300", "1e-7", "NaN", "INF", "-INF", "9007199254740993"
    ),
    *literals("float", "0.1", "2.5", "16777217", "-0", "NaN", "INF", "1e-40", "3.4e38"),
    *literals("boolean", "true", "false", "maybe"),
    *literals("dateTime", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00", "2020-01-01T01:00:00+01:00", "x"),
    *literals("dateTime", "2020-01-01T10:00:00", "2019-12-31T20:00:00.5Z", "-0044-03-15T00:00:00Z"),
    *literals("date", "2020-01-01", "2020-01-01Z", "2020-02-29+14:00"),
    *literals("time", "10:00:00", "10:00:00Z", "23:59:59.999"),
    *literals("duration", "P1Y", "P1M3D"),
    *literals("dayTimeDuration", "PT1H", "-P1D"),
    *literals("yearMonthDuration", "P1Y", "P11M"),
    *literals("gYear", "2020", "2021"),
    Literal("x", datatype=NamedNode("http://e/type")),
    Literal("y", datatype=NamedNode("http://e/type")),
    Triple(NamedNode("http://e/s"), NamedNode("http://e/p"), typed("1", "integer")),
    Triple(NamedNode("http://e/s"), NamedNode("http://e/p"), typed("1.0", "decimal")),
]
NAMES = ["a", "b", "c"]


def text_of(expr: Expr) -> str:
    match expr:
        case Var(name):
            return f"?{name}"
        case Constant(term):
            return str(term)
        case FunctionCall(iri, args):
            iri = CHOICES.function(iri.value) or iri
            return f"{iri}({', '.join(map(text_of, args))})"
        case Call("UNARY-" | "UNARY+" | "!" as name, (arg,)):
            return f"({name[-1]} {text_of(arg)})"
        case Call("IN" | "NOT IN" as name, (first, *rest)):
            return f"({text_of(first)} {name} ({', '.join(map(text_of, rest))}))"
        case Call(name, args) if (taken := CHOICES.function(name)) is not None:
            return f"{taken}({', '.join(map(text_of, args))})"
        case Call(name, args) if name in INFIX:
            return "(" + f" {name} ".join(map(text_of, args)) + ")"
        case Call(name, args):
            return f"{name}({', '.join(map(text_of, args))})"
    raise AssertionError(expr)


def corrected(expr: Expr, *, native: bool) -> Expr:
    """An expression as an engine gets it."""
    calls = Calls(frozenset(), moments=not native, patterns=not native, replacements=False)
    if isinstance(expr, Call | FunctionCall):
        expr = replace(expr, args=tuple([corrected(each, native=native) for each in expr.args]))
    return corrected_call(expr, calls) or expr


def by_oxigraph(expr: Expr, row: dict[str, Any]) -> Any:
    # Not by substitutions: they let Oxigraph take `=` for sameTerm.
    store = Store()
    pattern = ""
    for name, term in row.items():
        store.add(Quad(NamedNode(f"http://row/{name}"), NamedNode("http://row/value"), term))
        pattern += f"<http://row/{name}> <http://row/value> ?{name} . "
    text = f"SELECT ({text_of(corrected(expr, native=False))} AS ?r) {{ {pattern} }}"
    (solution,) = store.query(text, base_iri="http://base/", custom_functions=CHOICES.functions)
    return solution["r"]


def by_us(expr: Expr, row: dict[str, Any]) -> Any:
    terms = TermDictionary()
    context = ExpressionContext(ValueTable(terms), base_iri="http://base/")
    names = tuple(NAMES)
    ids = tuple(terms.encode(canonical(row[name]) if name in row else None) for name in names)
    expr = corrected(expr, native=True)
    value = compile_value(expr, names, context)(ids)
    if isinstance(value, bool):
        assert compile_condition(expr, names, context)(ids) is value
    return None if value is None else term_of(value)


terms = st.sampled_from(TERMS)
constants = st.sampled_from([term for term in TERMS if not isinstance(term, BlankNode | Triple)]).map(
    Constant
)
leaves: st.SearchStrategy[Expr] = st.one_of(st.sampled_from(NAMES).map(Var), constants)


def calls(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def call(names: list[str], low: int, high: int) -> st.SearchStrategy[Expr]:
        return st.builds(
            Call, st.sampled_from(names), st.lists(children, min_size=low, max_size=high).map(tuple)
        )

    return st.one_of(
        call(INFIX, 2, 2),
        call(["UNARY-", "UNARY+", "!"], 1, 1),
        call(["IF"], 3, 3),
        call(["COALESCE"], 1, 3),
        call(["IN", "NOT IN"], 1, 4),
        st.builds(Call, st.just("BOUND"), st.sampled_from(NAMES).map(lambda name: (Var(name),))),
        *(
            call([name], arity.start, min(arity.stop - 1, 3))
            for name, (_, arity) in sorted(BUILT_INS.items())
        ),
        *(call([name], arity.start, arity.stop - 1) for name, arity in sorted(ASKED.items())),
        call(["IRI"], 1, 1),
        st.builds(
            FunctionCall,
            st.sampled_from(["integer", "decimal", "double", "float", "string", "boolean", "dateTime"]).map(
                lambda name: NamedNode(XSD + name)
            ),
            children.map(lambda child: (child,)),
        ),
    )


rows = st.dictionaries(st.sampled_from(NAMES), terms)


def agree(expr: Expr, row: dict[str, Any]) -> None:
    ours, theirs = by_us(expr, row), by_oxigraph(expr, row)
    assert ours == theirs, f"{text_of(expr)} over {row}"


OPERATORS = [*INFIX, "SAMETERM", "IN"]
FEW = 4
"""Of so many terms one is the first operand in the runs that try few; each operator begins elsewhere."""


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_agrees_on_every_pair_of_terms(operator: str) -> None:
    expr = Call(operator, (Var("a"), Var("b")))
    written = text_of(corrected(expr, native=False))
    number = OPERATORS.index(operator)
    for a in TERMS if ALL else TERMS[number % FEW :: FEW]:
        marks = f"SELECT ?a (({written}) AS ?r) {{ VALUES (?a ?b) {{ %s }} }}"
        plain = [b for b in TERMS if not isinstance(b, BlankNode | Triple)]
        if isinstance(a, BlankNode | Triple):
            for b in TERMS:
                agree(expr, {"a": a, "b": b})
            continue
        text = marks % " ".join(f"({a} {b})" for b in plain)
        theirs = [solution["r"] for solution in STORE.query(text, custom_functions=CHOICES.functions)]
        ours = [by_us(expr, {"a": a, "b": b}) for b in plain]
        assert ours == theirs, [
            (str(a), str(b), str(x), str(y)) for b, x, y in zip(plain, ours, theirs, strict=True) if x != y
        ]


@pytest.mark.parametrize(
    "name",
    [
        "UNARY-",
        "UNARY+",
        "!",
        *(n for n, (_, r) in BUILT_INS.items() if 1 in r),
        *(n for n, r in ASKED.items() if 1 in r),
        "IRI",
    ],
)
def test_every_function_of_one_argument_agrees_on_every_term(name: str) -> None:
    for term in TERMS:
        agree(Call(name, (Var("a"),)), {"a": term})


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(leaves, calls, max_leaves=8), rows)
def test_random_expressions_agree_with_oxigraph(expr: Expr, row: dict[str, Any]) -> None:
    agree(expr, row)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(["+", "-", "*", "/", "<", "="]),
    st.sampled_from(["integer", "decimal", "double", "float"]),
    st.sampled_from(["integer", "decimal", "double", "float"]),
    st.integers(-(10**12), 10**12),
    st.integers(0, 9),
    st.integers(-(10**12), 10**12),
    st.integers(0, 9),
)
def test_arithmetic_agrees_on_random_numbers(
    operator: str, left: str, right: str, a: int, scale: int, b: int, other: int
) -> None:
    def number(kind: str, value: int, digits: int) -> Literal:
        return typed(
            str(value)
            if kind == "integer"
            else f"{value // 10**digits}.{value % 10**digits:0{digits or 1}d}",
            kind,
        )

    agree(Call(operator, (Var("a"), Var("b"))), {"a": number(left, a, scale), "b": number(right, b, other)})
