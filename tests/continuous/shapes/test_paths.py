"""Paths of shapes: distinct ends in polynomial time, and paths in RDF that are read as they were written."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from pyoxigraph import NamedNode, Triple

from quadrill.continuous.rules.paths import DistinctReader, FactReader, PathSteps
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.data_graph import DataGraph
from quadrill.continuous.shapes.paths_in_rdf import path_text, read_path, write_path
from quadrill.continuous.shapes.reading.graph import ShapesGraph
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.continuous.shapes.validation import facts_of, validate
from tests.continuous.shapes.random_graphs import paths, triples
from tests.continuous.shapes.running import turtle

SHAPE, PATH = NamedNode("urn:s"), NamedNode("urn:path")


@settings(max_examples=300, deadline=None)
@given(paths(depth=3), triples())
def test_distinct_ends_are_the_ends_each_once(text: str, data: list[str]) -> None:
    terms = RuleTerms()
    graph = ShapesGraph(turtle(f"<urn:s> <urn:path> {text} ."))
    steps = PathSteps(read_path(graph, SHAPE, graph.objects(SHAPE, PATH)[0]), terms)
    facts = facts_of(turtle("\n".join(data)), terms)
    plain, distinct = FactReader(facts, None), DistinctReader(facts, None)
    for node in plain.nodes():
        for one, other in (
            (steps.forward(plain, node), steps.forward(distinct, node)),
            (steps.backward(plain, node), steps.backward(distinct, node)),
        ):
            ends = list(dict.fromkeys(other))
            assert set(one) == set(ends)
    assert steps.starts_through(plain, facts) == steps.starts_through(distinct, facts)


@settings(max_examples=200, deadline=None)
@given(paths(depth=3))
def test_paths_are_written_as_they_are_read(text: str) -> None:
    graph = ShapesGraph(turtle(f"<urn:s> <urn:path> {text} ."))
    path = read_path(graph, SHAPE, graph.objects(SHAPE, PATH)[0])
    node, described = write_path(path)
    again = read_path(ShapesGraph(Triple(*each) for each in described), SHAPE, node)
    assert path_text(again) == path_text(path)


@pytest.mark.parametrize(
    "path",
    [
        f"( {':p ' * 90} )",
        "[ sh:zeroOrMorePath " * 90 + ":p" + " ]" * 90,
        "( :p " * 40 + "( :p :p )" + " )" * 40,
        "[ sh:oneOrMorePath ( :p " * 30 + ":p" + " ) ]" * 30,
    ],
)
def test_long_path_over_many_ways_takes_little_time(path: str) -> None:
    terms = RuleTerms()
    nodes = ", ".join(f":n{number}" for number in range(6))
    data = " ".join(f":n{number} :p {nodes} ." for number in range(6))
    shapes = read_shapes(turtle(f":S sh:targetNode :n0 ; sh:path {path} ; sh:maxCount 0 ."), terms)
    facts = facts_of(turtle(data), terms)
    graph = DataGraph(facts, terms)
    began = time.process_time()
    assert len(validate(shapes, graph)) == 1
    for each in shapes[0].dependencies().paths:
        assert PathSteps(each, terms).starts_through(graph.read, list(facts)[:1])
    assert time.process_time() - began < 5
