"""Which constants of a static pattern become columns, and what the pattern is then."""

from __future__ import annotations

import pytest
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.canonical import CanonicalPattern, canonical, lifted
from quadrill.continuous.algebra.nodes import Algebra, TermPattern, Var

P, Q, A, B = (NamedNode("http://e/" + name) for name in "pqab")
X, Y = Var("x"), Var("y")


def bgp(subject: TermPattern, predicate: NamedNode, object_: TermPattern) -> n.Bgp:
    return n.Bgp((n.TriplePattern(subject, predicate, object_),))


def lift(pattern: Algebra) -> CanonicalPattern | None:
    return lifted(canonical(pattern, [X]))


def equal(term: NamedNode | Literal, inner: Algebra) -> Algebra:
    return n.Filter(n.Call("=", (Y, n.Constant(term))), inner)


@pytest.mark.parametrize(
    "pattern",
    [
        n.Union(bgp(X, P, A), bgp(X, Q, Y)),
        n.LeftJoin(bgp(X, P, Y), bgp(X, Q, A)),
        n.Minus(bgp(X, P, Y), bgp(X, Q, A)),
        n.Slice(bgp(X, P, A), 0, 5),
        n.Group(bgp(X, P, A), (), ((Y, n.Aggregate("COUNT", None)),)),
        n.Path(X, n.ZeroOrMore(n.Link(P)), A),
        n.Path(X, n.OneOrMore(n.Link(P)), A),
        n.Filter(n.Exists(bgp(X, Q, A)), bgp(X, P, Y)),
        n.Filter(n.Call("!=", (Y, n.Constant(A))), bgp(X, P, Y)),
        equal(Literal(1), bgp(X, P, Y)),
        equal(A, n.LeftJoin(bgp(X, P, X), bgp(X, Q, Y))),
        bgp(X, P, Y),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
def test_nothing_is_lifted_where_its_values_are_not_treated_apart(pattern: Algebra) -> None:
    assert lift(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "general"),
    [
        (bgp(X, P, A), bgp(X, P, Var("k0"))),
        (bgp(A, P, X), bgp(Var("k0"), P, X)),
        (equal(A, bgp(X, P, Y)), n.Extend(bgp(X, P, Y), Var("k0"), Y)),
        (n.Graph(B, bgp(X, P, A)), n.Graph(B, bgp(X, P, Var("k0")))),
        (n.Minus(bgp(X, P, A), bgp(X, Q, B)), n.Minus(bgp(X, P, Var("k0")), bgp(X, Q, B))),
        (n.Project(bgp(X, P, A), (X,)), n.Project(bgp(X, P, Var("k0")), (X, Var("k0")))),
        (
            n.Group(bgp(X, P, A), (X,), ((Y, n.Aggregate("COUNT", None)),)),
            n.Group(bgp(X, P, Var("k0")), (X, Var("k0")), ((Y, n.Aggregate("COUNT", None)),)),
        ),
        (
            n.Path(X, n.Sequence(n.Link(P), n.Link(Q)), A),
            n.Path(X, n.Sequence(n.Link(P), n.Link(Q)), Var("k0")),
        ),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
def test_a_constant_becomes_a_column(pattern: Algebra, general: Algebra) -> None:
    form = canonical(pattern, [X])
    found = lifted(form)
    assert found is not None
    assert found.constants == (A,)
    expected = canonical(general, [X, Var("k0")])
    assert canonical(found.general([0])[0], [*form.columns, Var("k0")]).text == expected.text


def test_one_constant_at_two_places_is_one_column_and_others_stay_as_they_are() -> None:
    found = lift(n.Bgp((n.TriplePattern(X, P, A), n.TriplePattern(X, Q, B), n.TriplePattern(A, P, X))))
    assert found is not None
    assert set(found.constants) == {A, B}
    pattern, columns = found.general([found.constants.index(A)])
    assert len(columns) == 1
    assert repr(B) in repr(pattern)
    assert repr(A) not in repr(pattern)
