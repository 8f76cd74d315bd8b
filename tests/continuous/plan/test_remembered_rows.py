"""Rows that leave are not evaluated again: what was made of them when they came is remembered until then."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from benchmarks.policies import by_operators
from quadrill.app.describing.operators import measured
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.plan import chains, plan_state
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.terms import Term
from tests.continuous.whole_contents import answer_of, recomputed
from tests.examples import examples

E = "http://e/"
WINDOW = "STREAM <http://e/s> [RANGE 3s]"
TEXTS = {
    "group": f"""SELECT ?k (COUNT(*) AS ?n) (MAX(?v + 1) AS ?most) (SUM(DISTINCT ?w) AS ?sum) WHERE {{
  {WINDOW} {{ ?x <http://e/p> ?v . ?x <http://e/q> ?w }}
  BIND(FLOOR((?v * 2 - 1) / 3) AS ?k) BIND(?w + ?v AS ?both) FILTER(?k >= 0 && ?both < 12) }} GROUP BY ?k""",
    "rows": f"""SELECT ?x ?k ?t WHERE {{
  {WINDOW} {{ ?x <http://e/p> ?v . ?x <http://e/q> ?w }}
  BIND((?v + ?w) * 2 - 1 AS ?k) BIND(CONCAT("value ", STR(?k)) AS ?t) FILTER(?k != 5) }}""",
    "not exists": f"""SELECT ?x ?v WHERE {{ {WINDOW} {{ ?x <http://e/p> ?v }}
  FILTER NOT EXISTS {{ {WINDOW} {{ ?y <http://e/q> ?w BIND(?w * 3 - 2 + ?w AS ?z) FILTER(?z > 2) }}
    FILTER(?w >= ?v && ?x != ?y) }} }}""",
}

quads = st.builds(
    lambda subject, predicate, number: Quad(
        NamedNode(E + subject), NamedNode(E + predicate), number, DefaultGraph()
    ),
    st.sampled_from("abc"),
    st.sampled_from("pq"),
    st.one_of(st.integers(0, 5).map(Literal), st.just(Literal("none"))),
)


@pytest.mark.parametrize("name", TEXTS)
@settings(deadline=None, max_examples=examples(40))
@given(states=st.lists(st.sets(quads, max_size=8), min_size=2, max_size=6))
def test_answers_and_counts_are_those_of_operators_and_of_a_recomputation(
    name: str, states: list[set[Quad]]
) -> None:
    query, store = parse(TEXTS[name]), QuadStore.open(None)
    fast = NativeEvaluator(query, store, EvaluationOptions())
    plain = by_operators(NativeEvaluator(query, store, EvaluationOptions()))
    reference = ReferenceEvaluator(query, store, EvaluationOptions())
    for at, state in enumerate([*states, set()]):
        contents = {window.name: dict.fromkeys(state, at) for window in query.windows}
        expected = sorted(map(str, recomputed(reference, at, contents).rows))
        assert sorted(map(str, answer_of(fast, at, contents).rows)) == expected
        assert sorted(map(str, answer_of(plain, at, contents).rows)) == expected
        told = [[each["rows_out"] for each in measured(one.state.plan)["operators"]] for one in (fast, plain)]
        assert told[0] == told[1]
    assert "memo" in fast.state.compiled.text
    assert not list(fast.state.compiled.referenced_rows())  # what left is forgotten


def test_terms_in_remembered_rows_outlive_a_sweep() -> None:
    query, store = parse(TEXTS["rows"]), QuadStore.open(None)
    evaluator = NativeEvaluator(query, store, EvaluationOptions())
    (window,) = query.windows
    name = NamedNode(E + "a")
    content = {
        Quad(name, NamedNode(E + "p"), Literal(1), DefaultGraph()): 0,
        Quad(name, NamedNode(E + "q"), Literal(9), DefaultGraph()): 0,
    }
    answer_of(evaluator, 0, {window.name: content})
    gc.collect()
    evaluator.terms.dictionary.sweep()
    assert answer_of(evaluator, 1, {window.name: {}}).rows == []


JOINED = f"""SELECT ?x ?y ?d ?e WHERE {{
  {WINDOW} {{ ?x <http://e/p> ?v BIND(STRLEN(CONCAT(STR(?x), STR(?v))) * 2 AS ?d) BIND(?d + ?v AS ?e) }}
  {WINDOW} {{ ?y <http://e/q> ?v }} }}"""


@settings(deadline=None, max_examples=examples(40))
@given(states=st.lists(st.sets(quads, max_size=8), min_size=2, max_size=6))
def test_columns_behind_a_join_are_those_of_operators_and_of_a_recomputation(states: list[set[Quad]]) -> None:
    query, store = parse(JOINED), QuadStore.open(None)
    fast = NativeEvaluator(query, store, EvaluationOptions())
    plain = by_operators(NativeEvaluator(query, store, EvaluationOptions()))
    reference = ReferenceEvaluator(query, store, EvaluationOptions())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "_LEAST_VALUES", 2)
        for at, state in enumerate([*states, set(), *states]):
            contents = {window.name: dict.fromkeys(state, at) for window in query.windows}
            expected = sorted(map(str, recomputed(reference, at, contents).rows))
            assert sorted(map(str, answer_of(fast, at, contents).rows)) == expected
            assert sorted(map(str, answer_of(plain, at, contents).rows)) == expected
            fast.terms.dictionary.sweep()
            plain.terms.dictionary.sweep()


def test_a_row_with_many_partners_is_evaluated_once() -> None:
    store = QuadStore.open(None)
    windows = {window.name for window in parse(JOINED).windows}

    def quad(subject: str, predicate: str) -> Quad:
        return Quad(NamedNode(E + subject), NamedNode(E + predicate), Literal(1), DefaultGraph())

    asked = 0

    def counted(*args: Term) -> Term | None:
        nonlocal asked
        asked += 1
        return args[0]

    with pytest.MonkeyPatch.context() as patch:
        add = NamedNode("http://w3id.org/rsp/rspu#add")
        patch.setattr(plan_state, "custom_functions", lambda: {add: counted})
        text = JOINED.replace("?d + ?v", "<http://w3id.org/rsp/rspu#add>(?d, ?v)")
        evaluator = NativeEvaluator(parse(text), store, EvaluationOptions())
    content: dict[Quad, int] = {}
    for at in range(40):
        # Twenty rows of each side come in turn: each of the one joins with each of the other.
        content[quad(f"{'xy'[at % 2]}{at}", "pq"[at % 2])] = at
        rows = answer_of(evaluator, at, dict.fromkeys(windows, dict(content))).rows
    assert len(rows) == 400
    assert asked <= 20
