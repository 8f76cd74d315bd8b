"""Plans that differ in constants share the code of their functions, not the constants."""

from __future__ import annotations

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of

TEXT = """SELECT ?x ?w WHERE {
  STREAM <http://e/s> [RANGE 3s] { ?x <http://e/at> "$Place$" . ?x <http://e/v> ?v }
  BIND(?v * 2 AS ?w) FILTER(?w < "$Most$") }"""


def test_instances_have_one_code_and_their_own_constants() -> None:
    store, terms = QuadStore.open(None), EngineTerms()
    content = {
        Quad(NamedNode(f"http://e/{name}"), NamedNode(f"http://e/{what}"), value, DefaultGraph()): 0
        for name, place, number in (("a", "hall # 1", 1), ("b", "hall # 1", 4), ("c", "roof", 1))
        for what, value in (("at", Literal(place)), ("v", Literal(number)))
    }
    codes, answers = [], []
    for place, most in (("hall # 1", 5), ("hall # 1", 10), ("roof", 5)):
        query = parse(TEXT, parameters={"Place": place, "Most": most})
        evaluator = NativeEvaluator(query, store, EvaluationOptions(), terms)
        (window,) = query.windows
        rows = answer_of(evaluator, 0, {window.name: content}).rows
        answers.append(sorted(str(row[0]) for row in rows))
        state = evaluator.state
        assert state is not None
        # The function is made for the second step or for who asks for it; what is shown tells the constants.
        assert place in state.compiled.text
        codes.append(state.compiled._step.__code__)
    assert answers == [["<http://e/a>"], ["<http://e/a>", "<http://e/b>"], ["<http://e/c>"]]
    assert codes[0] is codes[1] is codes[2]
