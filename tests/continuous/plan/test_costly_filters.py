"""Filters with uncertainty functions, before or behind a join: the same answer; results are remembered."""

from __future__ import annotations

from collections import Counter

from pyoxigraph import Literal, NamedNode

from benchmarks.drive import Driver
from benchmarks.policies import with_late_filters
from benchmarks.uncertainty import TEXT, events
from quadrill.app.describing.operators import tree
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.uncertainty import custom_functions
from quadrill.continuous.uncertainty.distributions import DISTRIBUTION, NAMESPACE
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.whole_contents import answer_of, recomputed

STORE = QuadStore.open(None)


def _plan(late: bool) -> str:
    query = Driver(TEXT.replace("THRESHOLD", "0.5"), STORE).query
    made = NativeEvaluator(with_late_filters(query) if late else query, STORE, EvaluationOptions())
    assert made.state is not None
    return tree(made.state.plan)


def test_a_filter_with_an_uncertainty_function_comes_early_or_behind_the_join() -> None:
    depth = {
        late: {line.split()[1]: len(line) - len(line.lstrip()) for line in _plan(late).splitlines()}
        for late in (False, True)
    }
    assert depth[False]["filter"] > depth[False]["join"]
    assert depth[True]["filter"] < depth[True]["join"]


def test_both_places_give_what_recomputing_gives() -> None:
    driver = Driver(TEXT.replace("THRESHOLD", "0.5").replace("RANGE 10s", "RANGE 300ms"), STORE)
    evaluators = [
        NativeEvaluator(query, STORE, EvaluationOptions())
        for query in (driver.query, with_late_filters(driver.query))
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


def test_results_of_the_functions_are_remembered_within_bounds() -> None:
    less = custom_functions()[NamedNode(NAMESPACE + "lessThan")]
    less.cache_clear()  # type: ignore[attr-defined]
    arguments = (Literal("N(1, 2)", datatype=DISTRIBUTION), Literal("3", datatype=NamedNode("urn:x")))
    assert less(*arguments) == less(*arguments)
    found = less.cache_info()  # type: ignore[attr-defined]
    assert (found.hits, found.misses) == (1, 1)
    assert found.maxsize is not None
