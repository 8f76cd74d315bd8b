"""An index that queries share finds what one of mappings finds, with less memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quadrill.continuous.operators.arrangement import Index, add_to_index
from quadrill.continuous.rows import Delta, merge
from quadrill.continuous.static.shared_rows import Columns, SharedIndex

rows = st.tuples(st.integers(1, 3), st.integers(1, 3))
changes = st.lists(st.dictionaries(rows, st.integers(-2, 2), max_size=5), max_size=8)


@given(changes, st.sampled_from([(), (0,), (1,), (0, 1)]))
def test_it_finds_the_rows_of_a_key_behind_each_change(given: list[Delta], columns: Columns) -> None:
    index, expected, all_rows = SharedIndex(columns), Index(), Delta()
    for each in given:
        # No row is there less than not at all.
        change = {row: n for row, weight in each.items() if (n := max(weight, -all_rows.get(row, 0)))}
        merge(all_rows, change)
        index.enter(change)
        add_to_index(expected, columns, change)
        assert {key: index.get(key) for key in index.rows} == expected
        assert len(index) == len(expected)
    assert index.get(99) == {}


def test_a_row_that_is_alone_with_its_key_stands_for_itself() -> None:
    row, other = (7, 8), (7, 9)
    index = SharedIndex((0,))
    index.enter({row: 1})
    assert index.rows[7] is row and index.get(7) == {row: 1}
    index.enter({other: 1})
    assert index.rows[7] == {row: 1, other: 1}
    index.enter({row: -1})
    assert index.rows[7] is other
    index.enter({other: 1})
    assert index.rows[7] == {other: 2}
