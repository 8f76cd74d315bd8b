"""The law of operators as a test: step = differentiate ∘ whole ∘ integrate, in small and in merged steps."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from quadrill.continuous.operators.linear import Operator
from quadrill.continuous.rows import Delta, IdRow, difference, merge

Whole = Callable[..., Delta]


def rows(columns: Sequence[bool], most: int = 3) -> st.SearchStrategy[IdRow]:
    """Rows over few ids; a column that is not certain may be 0."""
    return st.tuples(*(st.integers(1 if certain else 0, most) for certain in columns))


def bags(columns: Sequence[bool]) -> st.SearchStrategy[Delta]:
    return st.dictionaries(rows(columns), st.integers(1, 2), max_size=6)


def sets(columns: Sequence[bool]) -> st.SearchStrategy[Delta]:
    return st.dictionaries(rows(columns), st.just(1), max_size=6)


def z_sets(columns: Sequence[bool]) -> st.SearchStrategy[Delta]:
    return st.dictionaries(rows(columns), st.integers(-2, 2).filter(bool), max_size=6)


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
