"""Filters with uncertainty functions, before or behind the joins; their results are remembered."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode

from benchmarks.drive import Driver
from benchmarks.uncertainty import TEXT, events
from quadrill.app.describing.operators import tree
from quadrill.app.describing.plan_text import explain_text, plan_document
from quadrill.app.describing.queries import describe, explain
from quadrill.continuous.algebra.build import children as children_of
from quadrill.continuous.algebra.build import has_exists, with_children
from quadrill.continuous.algebra.nodes import Algebra, Call, Constant, Filter, FunctionCall, Var
from quadrill.continuous.algebra.query import ContinuousQuery
from quadrill.continuous.algebra.variables import expression_variables
from quadrill.continuous.evaluate.filter_place import FilterPlace
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.streams.push_call import PushCall
from quadrill.continuous.uncertainty import custom_functions
from quadrill.continuous.uncertainty.distributions import DISTRIBUTION, NAMESPACE
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.engines import Bench, E
from tests.continuous.plan.random_queries import histories, queries
from tests.continuous.plan.test_native_oracle import History, agree_throughout
from tests.continuous.whole_contents import answer_of, recomputed
from tests.examples import examples

STORE = QuadStore.open(None)
PLACES: tuple[Any, ...] = ("early", "late", "auto")
HEAD = "PREFIX : <http://x/> PREFIX rspu: <http://w3id.org/rsp/rspu#> SELECT * "
UNSURE = "FILTER(rspu:lessThan(?v, 3) > 0.5)"
OTHER = "STREAM :u [RANGE 10s] { ?y :w ?x }"


def plan_of(query: ContinuousQuery, place: Any = "late") -> str:
    made = NativeEvaluator(query, STORE, EvaluationOptions(uncertain_filters=place))
    assert made.state is not None
    return tree(made.state.plan)


def depths(plan: str) -> dict[str, int]:
    """By the operator how deep it is, the deepest of its kind."""
    return {line.split()[1]: len(line) - len(line.lstrip()) for line in plan.splitlines()}


def parsed(pattern: str) -> ContinuousQuery:
    return parse(f"{HEAD}{{ {pattern} }}", dialect="cqels")


def test_a_filter_with_an_uncertainty_function_comes_early_or_behind_the_join() -> None:
    query = Driver(TEXT.replace("THRESHOLD", "0.5"), STORE).query
    early, late = depths(plan_of(query, "early")), depths(plan_of(query))
    assert early["filter"] > early["join"]
    assert late["filter"] < late["join"]


@pytest.mark.parametrize(
    "pattern",
    [
        f"STREAM :s [NOW] {{ ?x :v ?v {UNSURE} }} {OTHER}",
        f"{OTHER} STREAM :s [NOW] {{ GRAPH ?g {{ ?x :v ?v {UNSURE} }} }}",
        f"STREAM :s [NOW] {{ ?x :v ?v OPTIONAL {{ ?x :n ?n }} {UNSURE} }} {OTHER}",
        f"STREAM :s [NOW] {{ ?x :m ?m BIND(rspu:add(?m, 1) AS ?v) {UNSURE} }} {OTHER}",
        f"STREAM :s [NOW] {{ ?x :v ?v }} {OTHER} {UNSURE}",
    ],
)
def test_a_late_filter_is_behind_the_joins_with_the_binds_that_it_alone_reads(pattern: str) -> None:
    plan = plan_of(parsed(pattern))
    lines = plan.splitlines()
    (place,) = (number for number, line in enumerate(lines) if "lessThan" in line)
    assert not any(" join " in line for line in lines[:place]), plan
    assert not any(" extend " in line for line in lines[place + 2 :]), plan


@pytest.mark.parametrize(
    "pattern",
    [
        # What it reads may be bound by the other side, or is asked by a sub-query, a branch, EXISTS.
        f"STREAM :s [NOW] {{ ?x :k ?k OPTIONAL {{ ?x :v ?v }} {UNSURE} }} STREAM :u [NOW] {{ ?x :v ?v }}",
        f"{{ STREAM :s [NOW] {{ ?x :v ?v {UNSURE} }} }} UNION {{ STREAM :u [NOW] {{ ?x :w ?v }} }} {OTHER}",
        f"{{ SELECT ?x {{ STREAM :s [NOW] {{ ?x :v ?v {UNSURE} }} }} }} {OTHER}",
    ],
)
def test_a_filter_stays_where_another_place_could_change_the_answer(pattern: str) -> None:
    lines = plan_of(parsed(pattern)).splitlines()
    (place,) = (number for number, line in enumerate(lines) if "lessThan" in line)
    assert any(" join " in line for line in lines[:place]), lines


def test_parts_of_a_condition_without_uncertainty_functions_stay_early() -> None:
    both = UNSURE.replace("FILTER(", "FILTER(?v != 7 && ")
    lines = plan_of(parsed(f"STREAM :s [NOW] {{ ?x :v ?v {both} }} {OTHER}")).splitlines()
    joined = next(number for number, line in enumerate(lines) if " join " in line)
    assert "lessThan" in "".join(lines[:joined])
    assert "!=" in "".join(lines[joined:])


def test_all_places_give_what_recomputing_gives() -> None:
    driver = Driver(TEXT.replace("THRESHOLD", "0.5").replace("RANGE 10s", "RANGE 300ms"), STORE)
    evaluators = [
        NativeEvaluator(driver.query, STORE, EvaluationOptions(uncertain_filters=place)) for place in PLACES
    ]
    reference = ReferenceEvaluator(driver.query, STORE, EvaluationOptions())
    answers = 0
    window: dict[int, object] = {}
    for element in events(160, partners=300):
        window = {at: each for at, each in window.items() if at >= element.event_time - 300}
        window[element.event_time] = element
        content = {quad: 1 for each in window.values() for quad in each.quads}  # type: ignore[attr-defined]
        contents = {each.name: content for each in driver.query.windows}
        expected = Counter(recomputed(reference, element.event_time, contents).rows)
        for evaluator in evaluators:
            assert Counter(answer_of(evaluator, element.event_time, contents).rows) == expected
        answers += len(expected)
    assert answers > 1000


def uncertain(node: Algebra) -> Algebra:
    """The query with an uncertainty function in each of its filters that has a variable."""
    node = with_children(node, [uncertain(each) for each in children_of(node)])
    if not isinstance(node, Filter) or has_exists(node.condition):
        return node
    names = sorted(expression_variables(node.condition))
    if not names:
        return node
    about_one = Constant(Literal("N(1.2, 1)", datatype=DISTRIBUTION))
    above = FunctionCall(NamedNode(NAMESPACE + "greaterThan"), (about_one, Var(names[0])))
    return Filter(Call("||", (Call(">", (above, Constant(Literal(0.4)))), node.condition)), node.input)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), histories, st.sampled_from(["late", "auto"]))
def test_the_answers_of_random_queries_are_those_of_the_reference(
    query: ContinuousQuery, history: History, place: str
) -> None:
    query = replace(query, root=uncertain(query.root))
    with pytest.MonkeyPatch.context() as patch:
        if place == "auto":
            # The place changes before every step.
            patch.setattr(FilterPlace, "is_due", True)
            patch.setattr(FilterPlace, "update_place", to_and_fro)
        agree_throughout(query, history, uncertain_filters=place)


def to_and_fro(place: FilterPlace) -> bool:
    place.place = "late" if place.place == "early" else "early"
    return True


@pytest.mark.parametrize(("partners", "place"), [(0.05, "late"), (8, "early")])
def test_auto_follows_the_measured_fan_out(partners: float, place: str) -> None:
    driver = Driver(TEXT.replace("THRESHOLD", "0.5").replace("RANGE 10s", "RANGE 2s"), STORE)
    evaluator = NativeEvaluator(driver.query, STORE, EvaluationOptions(uncertain_filters="auto"))
    driver.native(list(events(1200, partners)), evaluator=evaluator)
    assert evaluator.filter_place is not None
    assert evaluator.filter_place.place == place
    measured = evaluator.filter_place.fan_out
    assert measured is not None
    assert (measured < 0.5) == (place == "late")
    # Traffic that joins otherwise gives another plan.
    rows = driver.native(list(events(2400, 8.5 - partners)), evaluator=evaluator)
    assert rows.events > 0
    assert evaluator.filter_place.place != place


def test_results_of_the_functions_are_remembered_within_bounds() -> None:
    less = custom_functions()[NamedNode(NAMESPACE + "lessThan")]
    less.cache_clear()  # type: ignore[attr-defined]
    arguments = (Literal("N(1, 2)", datatype=DISTRIBUTION), Literal("3", datatype=NamedNode("urn:x")))
    assert less(*arguments) == less(*arguments)
    found = less.cache_info()  # type: ignore[attr-defined]
    assert (found.hits, found.misses) == (1, 1)
    assert found.maxsize is not None


@pytest.mark.parametrize("shared", [False, True])
def test_a_registration_says_where_uncertain_filters_are_evaluated(shared: bool) -> None:
    bench = Bench()
    bench.engine.start()
    for place in PLACES:
        bench.register(place, TEXT.replace("THRESHOLD", "0.5"), uncertain_filters=place)
        if shared:  # with queries of other shapes over the same windows
            bench.register(f"{place}2", TEXT.replace("THRESHOLD", "?v"), uncertain_filters=place)
    bench.register("plain", "SELECT ?x { STREAM :s [NOW] { ?x :seen ?v } }", uncertain_filters="auto")
    before = {name: describe(bench.engine, name) for name in (*PLACES, "plain")}
    assert [before[name]["uncertain_filters"] for name in PLACES] == list(PLACES)
    assert [before[name]["filter_place"] for name in (*PLACES, "plain")] == ["early", "late", "early", None]
    assert before["late"]["options"] == {"uncertain_filters": "late"}
    elements = list(events(1400, 0.2))
    for batch in [elements[k : k + 7] for k in range(0, len(elements), 7)]:
        lines = [{"at": each.event_time, "data": nquads(each.quads)} for each in batch]
        body = "\n".join(map(json.dumps, lines)).encode()
        bench.engine.streams.push(PushCall(f"{E}events", "application/x-ndjson"), body)
    told = {name: rows_of(bench, name) for name in PLACES}
    assert len(told["early"]) > 3
    assert told["early"] == told["late"] == told["auto"]
    after = describe(bench.engine, "auto")
    assert after["filter_place"] == "late"
    assert after["fan_out"] < 0.5
    shown = explain(bench.engine, "auto")
    assert "after the joins, by the measured fan-out" in explain_text(shown)
    assert plan_document(shown, analyze=False)["filter_place"] == "late"
    bench.engine.stop()


def nquads(quads: Any) -> str:
    return "\n".join(f"{each} ." for each in quads)


def rows_of(bench: Bench, name: str) -> list[tuple[int, list[str]]]:
    """What a query emitted, by instant."""
    events = [json.loads(each.data) for each in bench.engine.queries.feed(name).subscribe(0).take()]
    return [
        (each["at"], sorted(map(json.dumps, each["results"]["bindings"])))
        for each in events
        if "results" in each
    ]
