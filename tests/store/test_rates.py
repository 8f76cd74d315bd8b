"""Change rates of graphs: estimates that follow the present and are fair to young graphs."""

from __future__ import annotations

import pytest

from quadrill.store.changes.commit import Commit, GraphChange
from quadrill.store.quads.rates import ChangeRates

MINUTE, HOUR = 60_000, 3_600_000


def commit(at_ms: int, **graphs: int) -> Commit:
    changes = {name: GraphChange(quads, 0) for name, quads in graphs.items()}
    return Commit(1, at_ms, graphs=changes)


@pytest.mark.parametrize("minutes", [10, 60, 600])
def test_one_commit_a_minute_is_sixty_an_hour_whatever_the_age(minutes: int) -> None:
    rates = ChangeRates()
    rates.count_commits(commit(each * MINUTE, g=5) for each in range(minutes + 1))
    rate = rates.of("g", minutes * MINUTE)
    assert rate is not None
    # The commits at both ends count, so a young graph is taken for one commit livelier than it is.
    assert 60 <= rate.commits_per_hour <= 60 * (1 + 1.2 / minutes) + 0.5
    assert rate.quads_per_commit == pytest.approx(5)
    assert rate.last_ms == minutes * MINUTE


def test_the_present_counts_more_than_the_past() -> None:
    rates = ChangeRates()
    rates.count_commits(commit(each * MINUTE, g=100) for each in range(600))
    then = rates.of("g", 600 * MINUTE)
    later = rates.of("g", 600 * MINUTE + 3 * HOUR)
    assert then is not None and later is not None
    assert later.commits_per_hour == pytest.approx(then.commits_per_hour / 8, rel=0.01)
    rates.count_commits(commit(600 * MINUTE + 10 * HOUR + each * MINUTE, g=1) for each in range(60))
    now = rates.of("g", 611 * HOUR)
    assert now is not None and now.quads_per_commit < 2, "small commits have taken the place of large ones"


def test_graphs_are_told_apart_and_the_liveliest_come_first() -> None:
    rates = ChangeRates()
    rates.count_commits(commit(each * MINUTE, often=1) for each in range(60))
    rates.count_commits(commit(each * MINUTE, seldom=9) for each in range(0, 60, 10))
    assert list(rates.most_active(HOUR, 5)) == ["often", "seldom"]
    assert list(rates.most_active(HOUR, 1)) == ["often"]
    assert rates.of("never", HOUR) is None


def test_memory_is_bounded_and_the_lively_stay() -> None:
    rates = ChangeRates()
    rates.count_commits(commit(each, lively=1, **{f"g{each}": 1}) for each in range(20_001))
    assert rates.of("lively", 20_001) is not None
    assert len(rates.most_active(20_001, 100_000)) <= 10_000
