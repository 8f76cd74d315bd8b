"""Shapes that are built by hand: results, focus nodes, conformance, dependencies, budgets."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from quadrill.continuous.algebra.nodes import Link, Sequence
from quadrill.continuous.rules.facts import MemoryFacts
from quadrill.continuous.rules.paths import FactReader, PathSteps
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.constraints.cardinality import MinCount
from quadrill.continuous.shapes.constraints.shape_based import Node, PropertyConstraint
from quadrill.continuous.shapes.constraints.value_type import Class, NodeKind
from quadrill.continuous.shapes.data_graph import DataGraph, ShapesBudget
from quadrill.continuous.shapes.errors import ShapesBudgetError
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.shape import Shape
from quadrill.continuous.shapes.targets import TargetClass
from quadrill.continuous.shapes.validation import validate
from quadrill.continuous.shapes.vocabulary import component, sh

EX = "http://example.org/"
DATA = """
PREFIX : <http://example.org/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
:Student rdfs:subClassOf :Person .
:ann a :Student ; :knows :bob , "Carl" .
:bob a :Person .
"""


def node(name: str) -> NamedNode:
    return NamedNode(EX + name)


class People:
    """Persons know at least one person, and only persons."""

    def __init__(self) -> None:
        self.terms = RuleTerms()
        self.facts = MemoryFacts()
        for quad in parse(DATA, RdfFormat.TURTLE):
            s, p, o = (self.terms.id_of(each) for each in (quad.subject, quad.predicate, quad.object))
            self.facts.add((s, p, o))
        person = self.terms.id_of(node("Person"))
        knows = Link(node("knows"))
        iri = Shape(node("Iri"), constraints=(NodeKind("IRI"),))
        self.known = Shape(
            node("Known"),
            path=knows,
            steps=PathSteps(knows, self.terms),
            constraints=(MinCount(1), Class(person), Node(iri)),
        )
        self.person = Shape(
            node("PersonShape"), targets=(TargetClass(person),), constraints=(PropertyConstraint(self.known),)
        )

    def data(self, budget: ShapesBudget | None = None) -> DataGraph:
        return DataGraph(self.facts, self.terms, budget or ShapesBudget())


def test_results_name_focus_node_path_value_and_component() -> None:
    people = People()
    found = validate([people.person], people.data())
    ann, bob, carl = node("ann"), node("bob"), Literal("Carl")
    knows, shape, severity = Link(node("knows")), node("Known"), sh("Violation")
    assert sorted(found, key=str) == sorted(
        (
            Result(ann, knows, carl, shape, component("Class"), None, severity),
            Result(ann, knows, carl, shape, component("Node"), None, severity),
            Result(bob, knows, None, shape, component("MinCount"), None, severity),
        ),
        key=str,
    )
    assert {result.messages[0].value for result in found} == {
        f'"Carl" is not an instance of the class <{EX}Person>',
        f'"Carl" does not conform to the shape <{EX}Iri>',
        f"<{EX}bob> has 0 values of <{EX}knows>, but needs at least 1",
    }


def test_is_focus_node_agrees_with_focus_nodes() -> None:
    people = People()
    data = people.data()
    nodes = {each for fact in people.facts for each in fact}
    assert {each for each in nodes if people.person.is_focus_node(each, data)} == people.person.focus_nodes(
        data
    )
    off = replace(people.person, deactivated=True)
    assert not off.focus_nodes(data)
    assert not any(off.is_focus_node(each, data) for each in nodes)


def test_dependencies_lead_from_a_changed_triple_to_focus_nodes() -> None:
    people = People()
    found = people.person.dependencies()
    assert found.anywhere == frozenset()
    knows = Link(node("knows"))
    assert knows in found.paths
    assert any(isinstance(path, Sequence) and path.left == knows for path in found.paths)
    id_of = people.terms.id_of
    changed = (
        id_of(node("bob")),
        id_of(NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")),
        id_of(node("Person")),
    )
    read = FactReader(people.facts, None)
    starts = {
        start
        for path in found.paths
        for start in PathSteps(path, people.terms).starts_through(read, [changed])
    }
    assert {id_of(node("ann")), id_of(node("bob"))} <= starts


def test_budgets_end_a_validation() -> None:
    people = People()
    with pytest.raises(ShapesBudgetError, match="more than 2 results"):
        validate([people.person], people.data(ShapesBudget(max_results=2)))
    assert len(validate([people.person], people.data(ShapesBudget(max_results=3)))) == 3
    over = ShapesBudget(until=time.monotonic() - 1, max_time_ms=10)
    data = people.data(over)
    with pytest.raises(ShapesBudgetError, match="longer than 10 ms"):
        for _ in range(1_000):
            validate([people.person], data)
