"""Limits on the search for a reason: the deadline, the time of each check, the rows of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.app.describing import why as describing
from quadrill.app.describing.why import why
from quadrill.app.http.errors import HttpError
from quadrill.continuous.evaluate.recomputing import Contents, RecomputedAnswer, ReferenceEvaluator
from quadrill.continuous.inputs import StreamInput
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.why.limits import Deadline, WhyLimits
from quadrill.continuous.why.past import PastDataset
from quadrill.store.errors import GoneError, LimitError
from quadrill.store.quads.quad_store import QuadStore

from ..engines import Bench, bench
from .test_kinds_of_queries import push, quad

_PARTS = "{ SELECT ?z { ?z :part ?w } ORDER BY ?z LIMIT 1 }"
"""A sub-select for which no solutions are searched, so all that the query reads is checked."""


def give_elements(b: Bench, number: int) -> None:
    for at in range(1, number + 1):
        push(b, at, quad(f"e{at}", "v", at))


def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one millisecond of the search pass at each look at the clock, and no other time."""
    ticks = count(1)
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 1000)
    monkeypatch.setattr("quadrill.continuous.why.limits.time", clock)


def limits_of_evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that receives the time limit of each check's evaluation, in milliseconds."""
    found: list[int] = []
    answer = ReferenceEvaluator.answer

    def spy(self: ReferenceEvaluator, at: int, contents: Contents) -> RecomputedAnswer:
        if self.budget.since:
            found.append(self.budget.limits.ms)
        return answer(self, at, contents)

    monkeypatch.setattr(ReferenceEvaluator, "answer", spy)
    return found


def test_deadline_ends_the_search_for_solutions_over_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench() as b:
        body = "STREAM :s [RANGE 10s] { ?a :v ?x . ?b :v ?y . ?c :v ?z }"
        b.register("cubes", f"SELECT (COUNT(*) AS ?n) WHERE {{ {body} }}")
        give_elements(b, 14)
        last = b.engine.queries.feed("cubes").history.last_id
        assert len(why(b.engine, b.store, "cubes", last, 0)["elements"]) == 14
        checked = limits_of_evaluations(monkeypatch)
        slow_clock(monkeypatch)
        with pytest.raises(LimitError, match="took longer than 200 ms") as raised:
            why(b.engine, b.store, "cubes", last, 0, WhyLimits(ms=200))
        assert raised.value.code == "query-timeout"
        assert checked == []


def test_each_evaluation_may_take_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ {quad('p', 'part', 'q')} }}")
        b.register("parts", f"SELECT ?z WHERE {{ STREAM :s [RANGE 10s] {{ ?a :v ?x }} {_PARTS} }}")
        give_elements(b, 8)
        last = b.engine.queries.feed("parts").history.last_id
        found = limits_of_evaluations(monkeypatch)
        slow_clock(monkeypatch)
        assert len(why(b.engine, b.store, "parts", last, 0, WhyLimits(shrink_ms=400))["elements"]) == 1
        first, *shrinking = found
        assert 400 < first < 10_000
        assert len(shrinking) > 3
        assert max(shrinking) <= 400
        assert sorted(set(shrinking), reverse=True) == shrinking


def test_evaluation_stopped_by_the_deadline_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ {quad('p', 'part', 'q')} }}")
        b.register("parts", f"SELECT ?z WHERE {{ STREAM :s [RANGE 10s] {{ ?a :v ?x }} {_PARTS} }}")
        give_elements(b, 3)

        def slow(self: ReferenceEvaluator, at: int, contents: Contents) -> RecomputedAnswer:
            while self.budget.since:
                self.budget.check(1, self)
            return RecomputedAnswer(())

        monkeypatch.setattr(ReferenceEvaluator, "answer", slow)
        with pytest.raises(LimitError) as raised:
            why(b.engine, b.store, "parts", 1, 0, WhyLimits(ms=300))
        assert raised.value.code == "query-timeout"


def test_limit_that_stops_all_evaluations_is_named() -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ {quad('p', 'part', 'q')} }}")
        b.register(
            "pairs", f"SELECT ?a ?b WHERE {{ STREAM :s [RANGE 10s] {{ ?a :v ?x . ?b :v ?y }} {_PARTS} }}"
        )
        give_elements(b, 3)
        last = b.engine.queries.feed("pairs").history.last_id
        with pytest.raises(LimitError, match=r"limit \(max_rows\) is 5"):
            why(b.engine, b.store, "pairs", last, 0, WhyLimits(rows=5))
        assert why(b.engine, b.store, "pairs", last, 0, WhyLimits(rows=9))["elements"]


def test_inputs_are_copied_only_by_the_running_search(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    retained = StreamService.retained

    def spy(self: StreamService, iris: Sequence[str], from_ms: int, after: int = 0) -> list[StreamInput]:
        places.append(after)
        return retained(self, iris, from_ms, after)

    monkeypatch.setattr(StreamService, "retained", spy)
    monkeypatch.setattr(describing, "_WAIT_S", 0.0)
    with bench() as b:
        give_elements(b, 2)
        b.register("late", "SELECT ?a WHERE { STREAM :s [RANGE 10s] { ?a :v ?x } }")
        push(b, 3, quad("e3", "v", 3))
        assert why(b.engine, b.store, "late", 1, 0)["elements"]
        assert len(places) == 1
        assert places[0] > 0
        with describing._RUNNING, pytest.raises(HttpError, match="another row"):
            why(b.engine, b.store, "late", 1, 0)
        assert len(places) == 1


def test_change_log_without_the_newest_commits_is_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    store = QuadStore.open(None)
    try:
        past = PastDataset(store, store.reader.version, WhyLimits(), Deadline(10_000))
        one = Quad(NamedNode("urn:a"), NamedNode("urn:b"), NamedNode("urn:c"))
        assert past.holds([one])

        def gone(*_: Any) -> None:
            raise GoneError("gone", earliest=5)

        monkeypatch.setattr(store, "commits_after", gone)
        with pytest.raises(GoneError) as raised:
            past.holds([one])
        assert raised.value.code == "why-expired"
    finally:
        store.close()
