"""``GRAPH ?g`` over a block in which absence counts: each graph has its solutions, whatever others match."""

from collections import Counter

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of, recomputed

E = "http://e/"
A, B = NamedNode(E + "a"), NamedNode(E + "b")
G1, G2 = NamedNode(E + "g1"), NamedNode(E + "g2")
ONE, TWO, THREE, NONE = Literal(1), Literal(2), Literal(3), None
OTHER = Quad(A, NamedNode(E + "other"), ONE, G1)
MATCH = Quad(B, NamedNode(E + "value"), TWO, G2)
BLOCKS = [
    ("OPTIONAL { ?x :value ?v }", [(G1, NONE), (G2, TWO)]),
    ("VALUES ?v { 2 3 } OPTIONAL { ?x :value ?v }", [(G1, TWO), (G1, THREE), (G2, TWO), (G2, THREE)]),
    ("VALUES ?v { 2 } MINUS { ?x :value ?v }", [(G1, TWO)]),
    ("VALUES ?v { 2 } FILTER NOT EXISTS { ?x :value ?v }", [(G1, TWO)]),
    ("VALUES ?v { 2 } FILTER EXISTS { ?x :value ?v }", [(G2, TWO)]),
    ("BIND(EXISTS { ?x :value 2 } AS ?v)", [(G1, Literal(False)), (G2, Literal(True))]),
    ("{ SELECT ?v { ?g :value ?v } }", [(G2, TWO)]),
    ("{ SELECT (COUNT(?x) AS ?v) { ?x :value 2 } }", [(G1, Literal(0)), (G2, ONE)]),
    ("GRAPH :g2 { { SELECT (COUNT(?x) AS ?v) { ?x :value 2 } } }", [(G1, ONE), (G2, ONE)]),
    ("GRAPH ?h { { SELECT (COUNT(?x) AS ?v) { ?x :value 2 } } } FILTER(?v > 0)", [(G1, ONE), (G2, ONE)]),
]


@pytest.mark.parametrize(("block", "expected"), BLOCKS, ids=[block for block, _ in BLOCKS])
def test_a_graph_keeps_its_solutions_when_another_matches(
    block: str, expected: list[tuple[NamedNode, Literal | None]]
) -> None:
    text = f"PREFIX : <{E}> SELECT ?g ?v WHERE {{ STREAM :s [NOW] {{ GRAPH ?g {{ {block} }} }} }}"
    query, store, options = parse(text), QuadStore.open(None), EvaluationOptions(name="q")
    native = NativeEvaluator(query, store, options)
    reference = ReferenceEvaluator(query, store, options)
    (window,) = query.windows
    for at, quads in enumerate([[OTHER], [OTHER, MATCH], [MATCH], [OTHER, MATCH], [OTHER], []]):
        contents = {window.name: dict.fromkeys(quads, at)}
        rows = answer_of(native, at, contents).rows
        assert Counter(rows) == Counter(recomputed(reference, at, contents).rows)
        if len(quads) == 2:
            assert Counter(rows) == Counter(expected)
    native.close()
