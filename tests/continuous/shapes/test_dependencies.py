"""A law: changed triples leave the results of focus nodes that no dependency reaches as they are."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode

from quadrill.continuous.rules.facts import Fact, MemoryFacts
from quadrill.continuous.rules.paths import FactReader, PathSteps
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.data_graph import DataGraph
from quadrill.continuous.shapes.dependencies import MOST_PATHS
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.continuous.shapes.shape import Shape
from quadrill.continuous.shapes.validation import facts_of, validate
from tests.continuous.shapes.random_graphs import Graphs, graphs, triples
from tests.continuous.shapes.running import turtle
from tests.continuous.shapes.sparql_texts import constraint_of, texts


def reached(shape: Shape, changed: set[Fact], states: list[MemoryFacts], terms: RuleTerms) -> set[int] | None:
    """Return the focus nodes whose results may change; None for all."""
    found = shape.dependencies()
    if any(found.anywhere is None or terms.term(fact[1]) in found.anywhere for fact in changed):
        return None
    return {
        start
        for path in found.paths
        for facts in states
        for start in PathSteps(path, terms).starts_through(FactReader(facts, None), changed)
    }


def check(shapes_text: str, before_text: str, after_text: str) -> None:
    terms = RuleTerms(in_store_form=False)
    shapes = read_shapes(turtle(shapes_text), terms)
    before, after = (facts_of(turtle(text), terms) for text in (before_text, after_text))
    changed = set(before) ^ set(after)
    states = [DataGraph(before, terms), DataGraph(after, terms)]
    nodes = {node for facts in (before, after) for s, _, o in facts for node in (s, o)}
    for shape in shapes:
        some = reached(shape, changed, [before, after], terms)
        if some is None:
            continue
        every = nodes | shape.focus_nodes(states[0]) | shape.focus_nodes(states[1])
        for node in every - some:
            was, now = (
                Counter(shape.results(node, data)) if shape.is_focus_node(node, data) else Counter()
                for data in states
            )
            assert was == now, f"{shape.node} at {terms.term(node)}"


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str]:
    """A data graph before and after a change of a few triples."""
    stays, lost, new = draw(triples()), draw(triples())[:3], draw(triples())[:3]
    return "\n".join(stays + lost), "\n".join(stays + new)


@settings(max_examples=400, deadline=None)
@given(graphs(), changes())
def test_core_results_change_only_where_dependencies_lead(drawn: Graphs, change: tuple[str, str]) -> None:
    try:
        read_shapes(turtle(drawn.shapes), RuleTerms())
    except Exception as error:
        assert "is recursive" in str(error)
        return
    check(drawn.shapes, *change)


@settings(max_examples=400, deadline=None)
@given(texts(), changes())
def test_sparql_results_change_only_where_dependencies_lead(text: str, change: tuple[str, str]) -> None:
    check(constraint_of(text), *change)


def test_row_without_its_optional_part_joins_with_other_rows() -> None:
    text = "SELECT $this ?value WHERE { $this :r ?v . { :n1 :p ?value OPTIONAL { :n1 :q ?v } } }"
    stays = ":n1 :p :x . :n0 :r :n3 ."
    check(constraint_of(text), f"{stays} :n1 :q :n2 .", stays)


def test_condition_on_an_unbound_variable_reads_all_nodes() -> None:
    text = (
        "SELECT $this ?value WHERE { $this :r ?v . "
        "{ ?value :p ?w OPTIONAL { ?w :s ?v } FILTER NOT EXISTS { ?v :q ?z } } }"
    )
    stays = ":n1 :p :x . :n0 :r :n3 ."
    check(constraint_of(text), f"{stays} :n1 :q :n2 .", stays)


def test_variable_of_a_sub_select_is_not_that_of_the_outer_query() -> None:
    text = "SELECT $this ?value WHERE { $this :p ?x . { SELECT $this ?value WHERE { ?x :q ?value } } }"
    stays = ":n0 :p :x ; :r :n3 . :x :q :y ."
    check(constraint_of(text), f"{stays} :n1 :q :n2 .", stays)


def test_shapes_that_use_one_another_in_many_ways_have_bounded_dependencies() -> None:
    text = ""
    for number in range(20):
        users = (
            f"sh:property [ sh:path :p ; sh:node :S{number + 1} ], [ sh:path :q ; sh:node :S{number + 1} ]"
        )
        text += f":S{number} a sh:NodeShape ; {users} . "
    terms = RuleTerms()
    (shape,) = read_shapes(turtle(text + ":S20 sh:nodeKind sh:IRI . :S0 sh:targetNode :n ."), terms)
    found = shape.dependencies()
    assert len(found.paths) <= MOST_PATHS
    assert found.anywhere == {NamedNode("http://example.org/p"), NamedNode("http://example.org/q")}
    assert validate([shape], DataGraph(facts_of(turtle(":n :p :n ; :q :n ."), terms), terms)) == []
