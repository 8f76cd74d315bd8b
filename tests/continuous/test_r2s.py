"""Relation to stream, over multisets."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal

from quadrill.continuous.algebra.query import Output
from quadrill.continuous.evaluate.recomputing import RecomputedAnswer
from quadrill.continuous.output.emission import EvaluationInfo, SelectEmission, difference
from quadrill.continuous.rows import Solution

ROWS = st.lists(st.sampled_from("abc"), max_size=8)


def emit(output: Output, before: list[str], after: list[str]) -> dict[str, list[str]]:
    """What an evaluation tells, by kind of event, where the answer was ``before`` and is ``after``."""
    rows: list[list[Solution]] = [[(Literal(each),) for each in side] for side in (before, after)]
    emission = SelectEmission(output, ("x",), ordered=True)
    answer = RecomputedAnswer(("x",), rows[1], before=rows[0])
    return {
        kind: [each["x"]["value"] for each in json.loads(line)["results"]["bindings"]]
        for kind, line in emission.events(EvaluationInfo(0, 0), answer)
    }


@given(ROWS, ROWS)
def test_the_difference_is_that_of_multisets_and_keeps_order(rows: list[str], minus: list[str]) -> None:
    left = difference(rows, minus)
    assert Counter(left) == Counter(rows) - Counter(minus)
    positions = iter(rows)
    assert all(row in positions for row in left)


@given(ROWS, ROWS)
def test_changes_applied_to_the_answer_before_give_the_answer_after(
    before: list[str], after: list[str]
) -> None:
    emission = emit("changes", before, after)
    result = Counter(before)
    result.subtract(emission.get("delete", []))
    result.update(emission.get("insert", []))
    assert +result == Counter(after)
    assert all(count >= 0 for count in result.values())


@given(ROWS, ROWS)
def test_the_operators_are_parts_of_changes(before: list[str], after: list[str]) -> None:
    changes = emit("changes", before, after)
    assert emit("istream", before, after).get("insert") == changes.get("insert")
    assert emit("dstream", before, after).get("delete") == changes.get("delete")
    assert emit("rstream", before, after)["answer"] == after


def test_nothing_is_said_when_nothing_changed() -> None:
    assert emit("changes", ["a", "a"], ["a", "a"]) == {}
