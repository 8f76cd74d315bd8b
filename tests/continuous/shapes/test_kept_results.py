"""Kept results against a plain dictionary: content, number, severities and order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode

from quadrill.continuous.shapes.kept_results import KeptResults, ResultChange, ResultKey
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.vocabulary import sh

SEVERITIES = [sh("Violation"), sh("Warning"), NamedNode("http://example.org/Severe")]
FOCUS = [NamedNode(f"http://example.org/x{number}") for number in range(6)]
Model = dict[ResultKey, tuple[Result, ...]]


@st.composite
def changes(draw: st.DrawFn) -> ResultChange:
    """New results of some focus nodes; some lose all results."""
    change: ResultChange = {}
    for focus in draw(st.lists(st.sampled_from(FOCUS), unique=True, max_size=4)):
        severities = draw(st.lists(st.sampled_from(SEVERITIES), max_size=3))
        key = draw(st.integers(0, 1)), focus
        change[key] = tuple(
            Result(focus, None, None, focus, sh("MinCountConstraintComponent"), None, each)
            for each in severities
        )
    return change


def changed(model: Model, change: ResultChange) -> Model:
    """The model after a change: a focus node keeps its place while it has results."""
    return {key: results for key, results in {**model, **change}.items() if results}


def check(kept: KeptResults, model: Model) -> None:
    """Compare what is kept with the model."""
    results = [result for each in model.values() for result in each]
    assert Counter(kept.results()) == Counter(results)
    assert kept.count == len(results)
    assert kept.severities == Counter(result.severity for result in results)
    assert all(kept.severities.values())
    assert kept.keys() == set(model)


@given(st.lists(st.tuples(changes(), st.lists(changes(), max_size=3), st.booleans()), max_size=5))
def test_layers_and_changes_give_the_results_of_the_model(
    commits: list[tuple[ResultChange, list[ResultChange], bool]],
) -> None:
    """A commit has layers of requests; it is taken into the kept version, or dropped."""
    kept, model = KeptResults(), Model()
    for first, further, is_taken in commits:
        layer, above = KeptResults(kept), changed(model, first)
        layer.apply(first)
        check(layer, above)
        for change in further:
            layer, above = KeptResults(layer), changed(above, change)
            layer.apply(change)
            check(layer, above)
        if is_taken:
            kept.take(layer)
            model = above
        check(kept, model)


@given(st.lists(changes(), max_size=6))
def test_results_stay_in_the_order_in_which_their_focus_nodes_got_them(applied: list[ResultChange]) -> None:
    kept, model = KeptResults(), Model()
    for change in applied:
        kept.apply(change)
        model = changed(model, change)
        assert list(kept.results()) == [result for each in model.values() for result in each]
