"""Complete validations, which check most constraints for all focus nodes at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Store

from quadrill.continuous.rules.store_facts import InputGraphs
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.copied_facts import CopiedFacts
from quadrill.continuous.shapes.data_graph import NO_LIMITS, DataGraph, ShapesBudget
from quadrill.continuous.shapes.errors import ShapesBudgetError, ShapesInvalidError
from quadrill.continuous.shapes.incremental import IncrementalValidation
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.snapshot import snapshot
from quadrill.continuous.shapes.validation import facts_of, validate
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.terms import in_store_form

from ...examples import examples
from .naive_model import with_messages
from .random_graphs import Graphs, graphs, triples
from .running import turtle

P, Q = NamedNode("http://example.org/p"), NamedNode("http://example.org/q")
GRAPHS = [DefaultGraph(), *(NamedNode(f"http://example.org/g{number}") for number in range(3))]


def complete(shapes: list[Quad], data: list[Quad], budget: ShapesBudget = NO_LIMITS) -> list[Result]:
    """Validate all focus nodes of shapes at once."""
    terms = RuleTerms()
    validation = IncrementalValidation(read_shapes(shapes, terms), terms)
    facts = CopiedFacts(terms)
    facts.add_quads(data, validation.predicates)
    return [each for results in validation.complete(facts, budget).values() for each in results]


def one_by_one(shapes: list[Quad], data: list[Quad]) -> list[Result]:
    """Validate the focus nodes of shapes one by one, with an index of ids."""
    terms = RuleTerms()
    return validate(read_shapes(shapes, terms), DataGraph(facts_of(data, terms), terms))


@settings(max_examples=examples(600), deadline=None)
@given(graphs())
def test_results_are_those_of_each_focus_node(drawn: Graphs) -> None:
    shapes, data = turtle(drawn.shapes), list(in_store_form(turtle(drawn.data)))
    try:
        expected = one_by_one(shapes, data)
    except ShapesInvalidError:
        return
    assert with_messages(complete(shapes, data)) == with_messages(expected)


def test_shapes_that_use_one_another_in_many_ways_are_checked_in_little_time() -> None:
    levels = 40
    shapes = ":S0 sh:nodeKind sh:IRI ; sh:targetNode :n .\n"
    for level in range(1, levels):
        shapes += (
            f":S{level} sh:and ( :S{level - 1} :S{level - 1} ) ; sh:or ( :S{level - 1} :S{level - 1} ) .\n"
        )
    shapes += f":Top sh:targetSubjectsOf :p ; sh:node :S{levels - 1} .\n"
    read, data = turtle(shapes), turtle(":a :p :b . [] :p :c .")
    found = complete(read, data)
    assert len(found) == 1
    assert found == one_by_one(read, data)


def test_a_complete_validation_has_the_limits_of_its_budget() -> None:
    shapes = turtle(":S sh:targetSubjectsOf :p ; sh:property [ sh:path :name ; sh:minCount 1 ] .")
    data = turtle(":a :p :b . :c :p :d .")
    assert len(complete(shapes, data, ShapesBudget(max_results=2))) == 2
    with pytest.raises(ShapesBudgetError, match="more than 1 results"):
        complete(shapes, data, ShapesBudget(max_results=1))
    with pytest.raises(ShapesBudgetError, match="longer than 10 ms"):
        complete(shapes, data, ShapesBudget(until=0.0, max_time_ms=10))


@st.composite
def quads(draw: st.DrawFn) -> list[Quad]:
    """Quads of several graphs; a triple may be in several of them."""
    found = []
    for quad in in_store_form(turtle("\n".join(draw(triples())))):
        found += [
            Quad(quad.subject, quad.predicate, quad.object, graph)
            for graph in draw(st.lists(st.sampled_from(GRAPHS), min_size=1, max_size=2, unique=True))
        ]
    return found


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_a_snapshot_has_the_triples_of_the_input_graphs(data: st.DataObject) -> None:
    draw = data.draw
    store = Store()
    store.extend(content := set(draw(quads())))
    view: StoreView | PendingChanges = StoreView(store)
    for _ in range(draw(st.integers(0, 2))):
        view = PendingChanges(view)
        present = sorted(content, key=str)
        for quad in draw(st.lists(st.sampled_from(present), max_size=4)) if present else []:
            view.remove(quad)
            content.discard(quad)
        for quad in draw(quads()):
            view.add(quad)
            content.add(quad)
    chosen = draw(st.lists(st.sampled_from(GRAPHS), min_size=1, unique=True))
    inputs = draw(
        st.sampled_from(
            [InputGraphs(tuple(chosen)), InputGraphs(None, frozenset(chosen[1:])), InputGraphs(None)]
        )
    )
    predicates = draw(st.sampled_from([None, frozenset((P,)), frozenset((P, Q))]))
    expected = {
        (quad.subject, quad.predicate, quad.object)
        for quad in content
        if quad.graph_name in inputs and (predicates is None or quad.predicate in predicates)
    }
    copied = CopiedFacts(RuleTerms())
    read = snapshot(view, inputs, predicates)
    if isinstance(view, StoreView):
        store.clear()  # the snapshot keeps the triples
    for predicate, pairs in read.by_predicate:
        copied.extend(predicate, pairs)
    for every in read.quads:
        copied.add_quads(every, predicates)
    listed = [(s, p, o) for p, column in copied.columns.items() for s, o in column.pairs()]
    assert set(listed) == expected
    assert len(listed) == len(expected)


def test_many_graphs_without_an_owner_are_read_as_one() -> None:
    store = Store()
    names = [NamedNode(f"http://example.org/g{number}") for number in range(40)]
    store.extend(Quad(P, P, name, name) for name in names)
    for excluded in ((), names[:1], names[:30]):
        copied = CopiedFacts(RuleTerms())
        read = snapshot(StoreView(store), InputGraphs(None, frozenset(excluded)), frozenset((P,)))
        for predicate, pairs in read.by_predicate:
            copied.extend(predicate, pairs)
        for every in read.quads:
            copied.add_quads(every)
        assert set(copied.column(P).objects(P)) == set(names) - set(excluded)


def test_copied_facts_match_patterns_as_an_index_of_ids_does() -> None:
    terms = RuleTerms()
    data = turtle(":a :p :b , :c ; :q :b . :b :p :b ; a :A . :A rdfs:subClassOf :B . [] :p 1 .")
    copied, facts = CopiedFacts(terms), facts_of(data, terms)
    copied.add_quads(data)
    ids = {terms.id_of(each) for quad in data for each in quad.triple} | {terms.id_of(BlankNode())}
    for s in (*ids, None):
        for p in (*ids, None):
            for o in (*ids, None):
                assert set(copied.match(s, p, o)) == set(facts.match(s, p, o)), (s, p, o)
    for p in (*ids, None):
        assert copied.count(p) == facts.count(p)
    assert copied.instances(NamedNode("http://example.org/B")) == {NamedNode("http://example.org/b")}
