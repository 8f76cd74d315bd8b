"""Relation to stream, over multisets."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from quadrill.continuous.output.r2s import difference, emit

ROWS = st.lists(st.sampled_from("abc"), max_size=8)


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
    result.subtract(emission.delete or [])
    result.update(emission.insert or [])
    assert +result == Counter(after)
    assert all(count >= 0 for count in result.values())


@given(ROWS, ROWS)
def test_the_operators_are_parts_of_changes(before: list[str], after: list[str]) -> None:
    changes = emit("changes", before, after)
    assert emit("istream", before, after).insert == changes.insert
    assert emit("dstream", before, after).delete == changes.delete
    assert emit("rstream", before, after).answer == after


def test_nothing_is_said_when_nothing_changed() -> None:
    emission = emit("changes", ["a", "a"], ["a", "a"])
    assert (emission.insert, emission.delete, emission.answer) == (None, None, None)
