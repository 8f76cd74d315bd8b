# ruff: noqa: E501  # one strategy a line reads better
"""Random algebra, written in each dialect that can say it, is read back as the same algebra."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.nodes import Algebra, Expr, TermPattern, Var
from quadrill.continuous.algebra.query import WindowDeclaration, WindowSpec
from quadrill.continuous.language import parse
from quadrill.continuous.language.windows import MERGED
from quadrill.store.errors import QueryTextError

INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
VARIABLES = [Var(name) for name in "abcd"]
IRIS = [NamedNode(f"http://e/{name}") for name in "pqr"]
LITERALS = [
    Literal("x"),
    Literal('q"\\\n', language="en"),
    Literal("7", datatype=INTEGER),
    Literal("é\U0001f600"),
]
WINDOWS = {
    NamedNode("urn:quadrill:window:1"): ("[RANGE 3s]", "[RANGE 3s SLIDE 1s]"),
    NamedNode("urn:quadrill:window:2"): ("[NOW]", "[RANGE 2s SLIDE 2s]"),
}

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

# --- writing


class Writer:
    """Algebra to text with braces round every operand, so that nothing depends on precedence."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def group(self, node: Algebra) -> str:
        return f"{{ {self.pattern(node)} }}"

    def pattern(self, node: Algebra) -> str:
        match node:
            case n.Bgp(patterns):
                return " . ".join(f"{term(p.subject)} {term(p.predicate)} {term(p.object)}" for p in patterns)
            case n.Path(subject, path, obj):
                return f"{term(subject)} {path_text(path)} {term(obj)}"
            case n.Values(names, rows):
                cells = " ".join(
                    "(" + " ".join("UNDEF" if c is None else term(c) for c in row) + ")" for row in rows
                )
                return f"VALUES ({' '.join(map(term, names))}) {{ {cells} }}"
            case n.Join(left, right):
                return f"{self.group(left)} {self.group(right)}"
            case n.Union(left, right):
                return f"{self.group(left)} UNION {self.group(right)}"
            case n.Minus(left, right):
                return f"{self.group(left)} MINUS {self.group(right)}"
            case n.LeftJoin(left, right, condition):
                test = "" if condition is None else f"FILTER ({self.expression(condition)})"
                return f"{self.group(left)} OPTIONAL {{ {self.group(right)} {test} }}"
            case n.Filter(condition, inner):
                return f"{self.group(inner)} FILTER ({self.expression(condition)})"
            case n.Extend(inner, var, expr):
                return f"{self.group(inner)} BIND ({self.expression(expr)} AS {term(var)})"
            case n.Graph(name, inner):
                return f"GRAPH {term(name)} {self.group(inner)}"
            case n.Window(name, inner):
                assert isinstance(name, NamedNode)
                if self.dialect == "cqels":
                    return f"STREAM <http://e/s> {WINDOWS[name][0]} {self.group(inner)}"
                return f"WINDOW {name} {self.group(inner)}"
            case _:
                return self.select(node)

    def select(self, node: Algebra) -> str:
        tail = distinct = ""
        if isinstance(node, n.Slice):
            tail, node = f"LIMIT {node.limit} OFFSET {node.offset}", node.input
        if isinstance(node, n.Distinct):
            distinct, node = "DISTINCT", node.input
        assert isinstance(node, n.Project)
        below = node.input
        if isinstance(below, n.OrderBy):
            columns = " ".join(map(term, node.vars))
            return f"SELECT {distinct} {columns} {self.group(below.input)} ORDER BY DESC(?a) {tail}"
        assert isinstance(below, n.Extend) and isinstance(below.input, n.Group)
        return (
            f"SELECT ?a (COUNT(DISTINCT ?b) AS {term(below.var)}) {self.group(below.input.input)} GROUP BY ?a"
        )

    def expression(self, expr: Expr) -> str:
        match expr:
            case Var():
                return term(expr)
            case n.Constant(value):
                return term(value)
            case n.Exists(pattern, negated):
                return f"{'NOT ' if negated else ''}EXISTS {self.group(pattern)}"
            case n.FunctionCall(iri, args):
                return f"{iri}({', '.join(map(self.expression, args))})"
            case n.Call(name, args):
                texts = [f"({self.expression(arg)})" for arg in args]
                if name in ("!", "UNARY-"):
                    return f"{name[-1]} {texts[0]}"
                if name in ("IN", "NOT IN"):
                    return f"{texts[0]} {name} ({', '.join(texts[1:])})"
                if name.isalpha():
                    return f"{name}({', '.join(texts)})"
                return f"{texts[0]} {name} {texts[1]}"


def term(node: Any) -> str:
    if isinstance(node, Var):
        return f"?{node.name}"
    if isinstance(node, n.TripleTerm):
        return f"<<( {term(node.subject)} {term(node.predicate)} {term(node.object)} )>>"
    return str(node)


def path_text(path: n.PathExpr) -> str:
    match path:
        case n.Link(iri):
            return str(iri)
        case n.Inverse(inner):
            return f"^({path_text(inner)})"
        case n.Sequence(left, right):
            return f"({path_text(left)})/({path_text(right)})"
        case n.Alternative(left, right):
            return f"({path_text(left)})|({path_text(right)})"
        case n.ZeroOrMore(inner):
            return f"({path_text(inner)})*"
        case n.OneOrMore(inner):
            return f"({path_text(inner)})+"
        case n.ZeroOrOne(inner):
            return f"({path_text(inner)})?"
        case n.NegatedSet(forward, inverse):
            return "!(" + "|".join([*map(str, forward), *(f"^{iri}" for iri in inverse)]) + ")"


# --- the property


def same(text: str, dialect: Any, expected: Algebra) -> Any:
    try:
        query = parse(text, dialect=dialect)
    except QueryTextError as error:
        assume(not all("cannot set" in fault["message"] for fault in error.faults))  # a name was drawn twice
        raise
    assert isinstance(query.root, n.Project)
    assert canonical(query.root.input) == canonical(expected), text
    return query


def canonical(node: Algebra) -> str:
    """The algebra as text, the hidden variables of aggregates all alike: each is used beside its aggregate."""
    return re.sub(r"_:\w+", "_:", repr(node))


few = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@few
@given(plain)
def test_plain_patterns_in_sparql(node: Algebra) -> None:
    same(f"SELECT ?a {{ {{ {Writer('sparql').pattern(node)} }} }}", "sparql", node)


@few
@given(windowed)
def test_windowed_patterns_in_rspql(node: Algebra) -> None:
    clauses = " ".join(
        f"FROM NAMED WINDOW {name} ON <http://e/s> {texts[1].replace('SLIDE', 'STEP')}"
        for name, texts in WINDOWS.items()
    )
    query = same(f"SELECT ?a {clauses} {{ {{ {Writer('rspql').pattern(node)} }} }}", "rspql", node)
    assert [window.name for window in query.windows] == list(WINDOWS)


@few
@given(windowed)
def test_windowed_patterns_in_cqels(node: Algebra) -> None:
    # The windows are also declared as clauses of 2010, so that their numbers do not depend on the pattern.
    clauses = " ".join(
        f"FROM NAMED <http://e/s> {texts[0]} AS ?w{place}" for place, texts in enumerate(WINDOWS.values())
    )
    query = same(f"SELECT ?a {clauses} {{ {{ {Writer('cqels').pattern(node)} }} }}", "cqels", node)
    assert query.windows == (
        WindowDeclaration(
            NamedNode("urn:quadrill:window:1"), NamedNode("http://e/s"), WindowSpec("range", width_ms=3000)
        ),
        WindowDeclaration(NamedNode("urn:quadrill:window:2"), NamedNode("http://e/s"), WindowSpec("now")),
    )


@few
@given(plain)
def test_plain_patterns_in_csparql_read_the_merge(node: Algebra) -> None:
    expected = node if isinstance(node, n.Values) else n.Window(MERGED, node)
    clause = "FROM STREAM <http://e/s> [RANGE 3s STEP 1s]"
    same(f"SELECT ?a {clause} {{ {{ {Writer('csparql').pattern(node)} }} }}", "csparql", expected)
