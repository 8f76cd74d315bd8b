"""The law of operators as a test: step = differentiate ∘ whole ∘ integrate, in small and in merged steps."""

from collections.abc import Callable, Sequence
from itertools import product

from hypothesis import strategies as st

from quadrill.continuous.operators.linear import Operator
from quadrill.continuous.rows import Delta, IdRow, difference, merge

Whole = Callable[..., Delta]


def possible(columns: Sequence[bool], most: int = 3) -> list[IdRow]:
    """All rows over few ids; a column that is not certain may be 0."""
    return list(product(*(range(1 if certain else 0, most + 1) for certain in columns)))


def rows(columns: Sequence[bool]) -> st.SearchStrategy[IdRow]:
    return st.sampled_from(possible(columns))


def bags(columns: Sequence[bool]) -> st.SearchStrategy[Delta]:
    return weighted(possible(columns), (1, 2))


def sets(columns: Sequence[bool]) -> st.SearchStrategy[Delta]:
    return weighted(possible(columns), (1,))


def z_sets(columns: Sequence[bool]) -> st.SearchStrategy[Delta]:
    return weighted(possible(columns), (1, 2, -1, -2))


def weighted(among: Sequence[IdRow], weights: Sequence[int], most_rows: int = 6) -> st.SearchStrategy[Delta]:
    """Some rows; a row with its weight is one choice, which is drawn much faster than one for each cell."""
    pairs = st.sampled_from(list(product(among, weights)))
    return st.lists(pairs, unique_by=lambda pair: pair[0], max_size=most_rows).map(dict)


def histories(*relations: st.SearchStrategy[Delta]) -> st.SearchStrategy[list[tuple[Delta, ...]]]:
    """States of all inputs, one after the other."""
    return st.lists(st.tuples(*relations), min_size=1, max_size=6)


def obeys_its_law(make: Callable[[], Operator], whole: Whole, states: list[tuple[Delta, ...]]) -> None:
    """Drive one operator through all states and another one straight to each state."""
    operator = make()
    given: Delta = {}
    previous: tuple[Delta, ...] = tuple({} for _ in states[0])
    for state in states:
        change = operator.step(*(difference(new, old) for new, old in zip(state, previous, strict=True)))
        assert all(change.values()), "a delta holds no zero weights"
        merge(given, change)
        expected = whole(*state)
        assert given == expected
        assert make().step(*state) == expected
        previous = state
