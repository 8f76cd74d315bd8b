"""Steps: a query sees its tables at one version, the newest at which the rows of each are known."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quadrill.continuous.static.table import PendingSteps, TableChange, TableFrontier


class Told:
    """Some tables of numbers, which stand for their rows, as a query is told of them."""

    def __init__(self, tables: int) -> None:
        self.task = TableFrontier(0)
        self.steps = PendingSteps("q", self.task)
        self.steps.tables += [object() for _ in range(tables)]  # type: ignore[misc]
        self.steps.begin()
        # By version the number of each table, None where it is not known; and those that are behind.
        self.known: list[list[int | None]] = [[0] * tables]
        self.now = [0] * tables
        self.behind: set[int] = set()

    def change(self, place: int, version: int, number: int) -> None:
        """A table is at a version now."""
        grown = number - self.now[place]
        delta = {(1,): grown} if grown else {}
        self.now[place] = self.known[version][place] = number
        self.steps.took(self.steps.tables[place], version, version, TableChange(delta))

    def commit(self, numbers: dict[int, int], fall: set[int]) -> None:
        """A commit changes tables, of which some fall behind."""
        self.task.version += 1
        self.known.append(list(self.known[-1]))
        version = self.task.version
        for place in self.behind:
            self.known[version][place] = None
        for place in fall - self.behind:
            self.known[version][place] = None
            self.behind.add(place)
            self.steps.fell_behind(self.steps.tables[place], version)
        for place, number in numbers.items():
            if place not in self.behind:
                self.change(place, version, number)

    def read(self, place: int, number: int) -> None:
        """A table that is behind was read at the present version."""
        if place in self.behind:
            self.behind.remove(place)
            self.change(place, self.task.version, number)


NUMBERS = st.dictionaries(st.integers(0, 2), st.integers(1, 9))
EVENTS = st.one_of(
    st.tuples(st.just("commit"), NUMBERS, st.sets(st.integers(0, 2), max_size=1)),
    st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("take"), st.booleans()),
)


@given(st.lists(EVENTS, max_size=30))
def test_a_query_sees_what_its_tables_were_at_the_version_that_it_names(events: list[Any]) -> None:
    told = Told(3)
    seen = [0, 0, 0]
    for event in events:
        match event:
            case ("commit", numbers, fall):
                told.commit(numbers, fall)
            case ("read", place, number):
                told.read(place, number)
            case ("take", puts_back):
                for step in told.steps.ready():
                    assert told.known[step.before] == seen
                    if puts_back:
                        told.steps.put_back(step)
                        break
                    for place, change in step.changes.items():
                        seen[place] += change.delta.get((1,), 0)
                    assert told.known[step.version] == seen
                    assert told.steps.frontier.version == step.version
        assert told.known[told.steps.frontier.version] == seen
    for _ in told.steps.ready():
        pass
    known = [version for version, numbers in enumerate(told.known) if None not in numbers]
    assert told.steps.frontier.version == max(known)
    assert told.steps.is_quiet == (not told.behind)
