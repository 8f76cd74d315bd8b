"""The benchmark of ratios fails for a case that costs too much twice, and for no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks import ratios
from benchmarks.request_cost import Case

OLD, NEW = "old", "new"
CASE = Case("push", "POST", "/streams/s")


@pytest.mark.parametrize(
    ("costs", "slower"),
    [
        ((100, 100, 100), []),
        ((124, 124, 124), []),
        ((130, 130, 130, 130, 130, 130, 130, 130, 130), ["push"]),
        # One disturbed round does not count, and neither does a disturbed first measurement.
        ((100, 400, 100), []),
        ((130, 130, 130, 110, 110, 110, 110, 110, 110), []),
    ],
)
def test_a_case_fails_if_it_is_over_the_limit_twice(
    monkeypatch: pytest.MonkeyPatch, costs: Sequence[int], slower: list[str]
) -> None:
    warm = costs[:1]
    new_costs = iter([*warm, *costs[:3], *(warm if costs[3:] else ()), *costs[3:]])
    monkeypatch.setattr(
        ratios, "measure", lambda server, *_: 100.0 if server == OLD else float(next(new_costs))
    )
    servers: Any = [OLD, NEW]
    assert list(ratios.slower_cases(servers, [CASE], 3, clients=1, seconds=0)) == slower
    assert list(new_costs) == []


def test_rounds_alternate_the_order_of_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def measure(server: str, *_: Any) -> float:
        order.append(server)
        return 100.0

    monkeypatch.setattr(ratios, "measure", measure)
    servers: Any = [OLD, NEW]
    assert ratios.compare(servers, CASE, 2, clients=1, seconds=0).ratio == 1.0
    assert order == [OLD, NEW, OLD, NEW, NEW, OLD]
