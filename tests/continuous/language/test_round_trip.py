# ruff: noqa: E501  # one strategy a line reads better
"""Random algebra, written in each dialect that can say it, is read back as the same algebra."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import MERGED, Algebra, Expr, TermPattern, Var
from quadrill.continuous.algebra.query import ContinuousQuery, Dialect, WindowDeclaration, WindowSpec
from quadrill.continuous.language import parse
from quadrill.continuous.language.windows import WINDOW_NAMESPACE
from quadrill.continuous.language.write import write
from quadrill.store.errors import QueryTextError
from tests.examples import examples

INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
VARIABLES = [Var(name) for name in "abcd"]
IRIS = [NamedNode(f"http://e/{name}") for name in "pqr"]
LITERALS = [
    Literal("x"),
    Literal('q"\\\n', language="en"),
    Literal("7", datatype=INTEGER),
    Literal("é\U0001f600"),
]
STREAM = NamedNode("http://e/s")
WINDOWS = {
    NamedNode(WINDOW_NAMESPACE + "1"): (
        WindowSpec("range", width_ms=3_000),
        WindowSpec("grid", 3_000, 1_000),
    ),
    NamedNode(WINDOW_NAMESPACE + "2"): (WindowSpec("now"), WindowSpec("grid", 90_500, 90_500, t0_ms=5)),
}
"""By name: a window of CQELS-QL and one of RSP-QL*."""

# --- drawing


def one_of(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


variables = one_of(VARIABLES)
subjects: st.SearchStrategy[TermPattern] = one_of([*VARIABLES, *IRIS])
objects: st.SearchStrategy[TermPattern] = st.recursive(
    one_of([*VARIABLES, *IRIS, *LITERALS]),
    lambda inner: st.builds(n.TripleTerm, variables, one_of(IRIS), inner),
    max_leaves=3,
)
paths: st.SearchStrategy[n.PathExpr] = st.recursive(
    st.builds(n.Link, one_of(IRIS)),
    lambda inner: st.one_of(
        st.builds(n.Alternative, inner, inner), st.builds(n.Sequence, inner, inner), st.builds(n.Inverse, inner),
        st.builds(n.ZeroOrMore, inner), st.builds(n.OneOrMore, inner), st.builds(n.ZeroOrOne, inner),
        st.builds(n.NegatedSet, st.tuples(one_of(IRIS)), st.tuples(one_of(IRIS))),
    ),
    max_leaves=4,
)  # fmt: skip
expressions: st.SearchStrategy[Expr] = st.recursive(
    st.one_of(variables, st.builds(n.Constant, one_of([*IRIS, *LITERALS]))),
    lambda inner: st.one_of(
        st.builds(lambda op, x, y: n.Call(op, (x, y)), one_of(["+", "-", "*", "/", "=", "!=", "<", ">=", "&&", "||"]), inner, inner),
        st.builds(lambda op, x: n.Call(op, (x,)), one_of(["!", "STR", "ISIRI", "UNARY-"]), inner),
        st.builds(lambda x, y, z: n.Call("IF", (x, y, z)), inner, inner, inner),
        st.builds(lambda op, x, y: n.Call(op, (x, y)), one_of(["IN", "NOT IN"]), inner, inner),
        st.builds(lambda iri, x: n.FunctionCall(iri, (x,)), one_of(IRIS), inner),
    ),
    max_leaves=5,
)  # fmt: skip
triples = st.builds(n.TriplePattern, subjects, one_of([*VARIABLES, *IRIS]), objects)
leaves: st.SearchStrategy[Algebra] = st.one_of(
    st.builds(lambda items: n.Bgp(tuple(items)), st.lists(triples, min_size=1, max_size=3)),
    st.builds(n.Path, subjects, paths.map(n.ZeroOrMore), subjects),
    st.builds(lambda rows: n.Values((VARIABLES[0], VARIABLES[1]), tuple(rows)), st.lists(
        st.tuples(one_of([None, *IRIS]), one_of([None, *LITERALS])), max_size=2)),
)  # fmt: skip


def composed(inner: st.SearchStrategy[Algebra]) -> st.SearchStrategy[Algebra]:
    fresh = st.integers(0, 10**6).map(lambda number: Var(f"v{number}"))
    return st.one_of(
        st.builds(n.Join, inner, inner), st.builds(n.Union, inner, inner), st.builds(n.Minus, inner, inner),
        st.builds(n.LeftJoin, inner, inner, st.none() | expressions), st.builds(n.Filter, expressions, inner),
        st.builds(lambda pattern, negated, below: n.Filter(n.Exists(pattern, negated), below), inner, st.booleans(), inner),
        st.builds(n.Extend, inner, fresh, expressions), st.builds(selected, inner, st.booleans(), st.integers(0, 3)),
        st.builds(grouped, inner, fresh),
    )  # fmt: skip


def selected(inner: Algebra, distinct: bool, offset: int) -> Algebra:
    node: Algebra = n.Project(n.OrderBy(inner, (n.OrderCondition(Var("a"), True),)), (Var("a"), Var("b")))
    node = n.Distinct(node) if distinct else node
    return n.Slice(node, offset, 5) if offset else node


def grouped(inner: Algebra, fresh: Var) -> Algebra:
    counted = Var("_:agg")
    group = n.Group(inner, (Var("a"),), ((counted, n.Aggregate("COUNT", Var("b"), True)),))
    return n.Project(n.Extend(group, fresh, counted), (Var("a"), fresh))


plain = st.recursive(leaves, composed, max_leaves=5)
windowed = st.recursive(
    st.one_of(leaves, st.builds(n.Window, one_of(list(WINDOWS)), plain)),
    lambda inner: st.one_of(composed(inner), st.builds(n.Graph, one_of([*IRIS, Var("g")]), plain)),
    max_leaves=5,
)

# --- the property


def read_back(query: ContinuousQuery) -> None:
    text = write(query)
    try:
        again = parse(text, dialect=query.dialect)
    except QueryTextError as error:
        assume(not all("cannot set" in fault["message"] for fault in error.faults))  # a name was drawn twice
        raise
    assert canonical(again.root) == canonical(query.root), text
    assert again.windows == query.windows
    assert write(again) == text


def canonical(node: Algebra) -> str:
    """The algebra as text, the hidden variables of aggregates all alike: each is used beside its aggregate."""
    return re.sub(r"_:\w+", "_:", repr(node))


def query(node: Algebra, dialect: Dialect, kind: int | None = None) -> ContinuousQuery:
    windows = () if kind is None else tuple(
        WindowDeclaration(name, STREAM, specs[kind]) for name, specs in WINDOWS.items()
    )  # fmt: skip
    columns = (Var("a"),)
    return ContinuousQuery(
        "", dialect, "select", n.Project(node, columns), columns, windows=windows,
        prefixes={"": "http://e/"}, base_iri="http://localhost/",
    )  # fmt: skip


few = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@few
@given(plain)
def test_plain_patterns_in_sparql(node: Algebra) -> None:
    read_back(query(node, "sparql"))


@few
@given(windowed)
def test_windowed_patterns_in_rspql(node: Algebra) -> None:
    read_back(query(node, "rspql", 1))


@few
@given(windowed)
def test_windowed_patterns_in_cqels(node: Algebra) -> None:
    read_back(query(node, "cqels", 0))


@few
@given(plain)
def test_plain_patterns_in_csparql_read_the_merge(node: Algebra) -> None:
    merged = node if isinstance(node, n.Values) else n.Window(MERGED, node)
    declared = (WindowDeclaration(NamedNode(WINDOW_NAMESPACE + "1"), STREAM, WindowSpec("batch", count=3)),)
    read_back(replace(query(merged, "csparql"), windows=declared))
