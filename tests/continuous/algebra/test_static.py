"""Static parts: what is taken out, how it is split, which columns stay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from pyoxigraph import NamedNode, Quad

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import all_nodes, conjuncts
from quadrill.continuous.algebra.graphs import may_change
from quadrill.continuous.algebra.nodes import Algebra, Var
from quadrill.continuous.algebra.show import show
from quadrill.continuous.algebra.static import StaticPattern, is_static, split_static
from quadrill.continuous.algebra.variables import in_scope
from quadrill.continuous.language import parse
from quadrill.store.changes.commit import Commit
from quadrill.store.errors import UnsupportedError
from tests.continuous.evaluate.test_random_queries import patterns
from tests.examples import examples

STREAM = "STREAM :s [NOW] { ?p :at ?l }"


def split(pattern: str, select: str = "*") -> tuple[Algebra, tuple[StaticPattern, ...]]:
    query = parse(f"PREFIX : <http://x/> SELECT {select} {{ {STREAM} {pattern} }}", dialect="cqels")
    return split_static(query.root, frozenset(var.name for var in query.columns))


def columns(parts: tuple[StaticPattern, ...]) -> list[list[str]]:
    return [[var.name for var in part.vars] for part in parts]


def test_patterns_that_share_a_variable_are_one_part() -> None:
    _, parts = split("?paper :creator ?p . ?paper :creator ?q . ?q :name ?n")
    assert columns(parts) == [["n", "p", "paper", "q"]]


def test_patterns_that_share_none_are_parts_of_their_own() -> None:
    _, parts = split('GRAPH :g { ?l :name ?n ; :desc ?d } ?p :name "Ann"', "?n ?d")
    assert columns(parts) == [["d", "l", "n"], ["p"]]


@pytest.mark.parametrize(
    ("pattern", "changes"),
    [
        ("GRAPH ?g { SELECT (COUNT(*) AS ?n) { :x :q ?y } }", True),
        ("GRAPH ?g { SELECT ?y (COUNT(*) AS ?n) { :x :q ?y } GROUP BY ?y }", False),
        ("GRAPH ?g { BIND(1 AS ?n) }", True),
        ("GRAPH ?g { :x :q ?n }", False),
    ],
)
def test_a_new_graph_is_a_row_of_what_has_rows_over_nothing(pattern: str, changes: bool) -> None:
    _, (part,) = split(pattern, "?g ?n")
    graph, other = NamedNode("http://x/g"), NamedNode("http://x/p")
    assert may_change(part.pattern, [Commit(1, 0, (Quad(other, other, other, graph),))]) is changes


def test_only_columns_that_the_rest_mentions_are_kept() -> None:
    _, parts = split("?paper :creator ?p . ?paper :creator ?q . ?q :name ?n", "?n")
    assert columns(parts) == [["n", "p"]]


def test_a_part_that_shares_nothing_keeps_no_column() -> None:
    _, parts = split(":switch :is :on", "?p")
    assert columns(parts) == [[]]


def test_triple_patterns_of_one_group_are_split_too() -> None:
    _, parts = split("?l :name ?n . ?p :age ?a")
    assert sorted(columns(parts)) == [["a", "p"], ["l", "n"]]


def test_a_filter_over_one_part_alone_goes_into_it() -> None:
    rest, (part,) = split("?p :age ?a FILTER(?a > 30)")
    assert isinstance(part.pattern, n.Filter)
    assert not any(isinstance(each, n.Filter) for each in all_nodes(rest))


def test_a_filter_over_part_and_window_stays_above() -> None:
    rest, (part,) = split("?p :age ?a FILTER(?a != ?l)")
    assert isinstance(part.pattern, n.Bgp)
    assert any(isinstance(each, n.Filter) for each in all_nodes(rest))


def test_a_filter_over_a_variable_that_may_be_unbound_stays_above() -> None:
    rest, _ = split("OPTIONAL { ?p :age ?a } FILTER(BOUND(?a))")
    assert any(isinstance(each, n.Filter) for each in all_nodes(rest))


def test_now_is_never_static_but_the_patterns_beside_it_are() -> None:
    rest, (part,) = split("?p :since ?t FILTER(?t < NOW())")
    assert part.pattern == n.Bgp(part.pattern.patterns)  # type: ignore[union-attr]
    assert "now" in show(rest)


def test_now_inside_graph_leaves_the_graph_with_the_patterns() -> None:
    rest, (part,) = split("GRAPH ?g { ?p :since ?t FILTER(?t < NOW()) }")
    assert isinstance(part.pattern, n.Graph)
    assert columns((part,)) == [["g", "p", "t"]]
    assert not any(isinstance(each, n.Graph) for each in all_nodes(rest))


def test_now_in_a_sub_query_of_a_variable_graph_is_named_as_missing() -> None:
    with pytest.raises(UnsupportedError, match="GRAPH"):
        split("GRAPH ?g { SELECT ?p (NOW() AS ?t) { ?p :since ?x } }")


def test_random_functions_are_not_static_either() -> None:
    rest, (part,) = split("?p :age ?a BIND(RAND() AS ?r)")
    assert "rand" in show(rest)
    assert isinstance(part.pattern, n.Bgp)


def test_inline_data_alone_is_no_part() -> None:
    _, parts = split("VALUES ?l { :l1 }")
    assert parts == ()


def test_inline_data_that_shares_a_variable_restricts_its_part() -> None:
    _, parts = split("VALUES ?l { :l1 } ?l :name ?n")
    assert [show(part.pattern).split()[0] for part in parts] == ["(join"]


def test_optional_union_and_sub_queries_without_windows_are_whole_parts() -> None:
    _, parts = split("{ SELECT ?p (COUNT(*) AS ?n) { ?x :of ?p } GROUP BY ?p }")
    assert isinstance(parts[0].pattern, n.Project)
    _, parts = split("{ ?p :a ?x } UNION { ?p :b ?x }")
    assert isinstance(parts[0].pattern, n.Union)


def test_in_exists_a_filter_over_the_outer_row_is_not_taken_out() -> None:
    rest, (part,) = split("FILTER NOT EXISTS { ?p :office ?o FILTER(?o = ?l) }")
    assert part.pattern == n.Bgp(part.pattern.patterns)  # type: ignore[union-attr]
    assert "=" in show(rest)


def test_in_exists_an_optional_over_the_outer_row_is_taken_apart() -> None:
    _, parts = split("FILTER EXISTS { ?x :of ?y OPTIONAL { ?x :in ?l } FILTER(BOUND(?l)) }")
    assert all(isinstance(part.pattern, n.Bgp) for part in parts)
    assert len(parts) == 2


def test_the_parts_of_a_left_join_stay_on_their_side() -> None:
    rest, parts = split("OPTIONAL { ?p :name ?n } OPTIONAL { ?p :mail ?m }")
    assert len(parts) == 2
    assert sum(isinstance(each, n.LeftJoin) for each in all_nodes(rest)) == 2


@given(patterns)
@settings(max_examples=examples(300), deadline=None)
def test_no_part_is_a_cross_product_and_no_static_pattern_is_left(node: Algebra) -> None:
    rest, parts = split_static(node, in_scope(node))
    for part in parts:
        pieces: list[Algebra] = []
        for operand in conjuncts(part.pattern):
            pieces += (
                [n.Bgp((each,)) for each in operand.patterns] if isinstance(operand, n.Bgp) else [operand]
            )
        assert connected(pieces), show(part.pattern)
    left = [each for each in all_nodes(rest) if isinstance(each, (n.Bgp, n.Path)) and each != n.Bgp()]
    inside = [
        each for window in all_nodes(rest) if isinstance(window, n.Window) for each in all_nodes(window.input)
    ]
    assert len(left) == sum(isinstance(each, (n.Bgp, n.Path)) for each in inside)
    assert all(is_static(part.pattern) for part in parts)


def connected(pieces: list[Algebra]) -> bool:
    reached, waiting = set(in_scope(pieces[0])), pieces[1:]
    while waiting:
        touching = [each for each in waiting if in_scope(each) & reached]
        if not touching:
            return False
        reached = reached.union(*map(in_scope, touching))
        waiting = [each for each in waiting if each not in touching]
    return True


def test_table_columns_are_sorted_and_certain_ones_marked() -> None:
    rest, _ = split("{ ?p :a ?x } UNION { ?p :b ?y }")
    (table,) = [each for each in all_nodes(rest) if isinstance(each, n.TableNode)]
    assert table.vars == (Var("p"), Var("x"), Var("y"))
    assert table.certain == {"p"}
