"""Queries of one beginning are together from their first input on, and join older ones together."""

from __future__ import annotations

from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.feeds.feed import Feed

from ..engines import Bench, bench
from .test_template_groups import joined

KINDS: dict[str, dict[str, Any]] = {
    "SELECT ?v WHERE { STREAM :s [NOW] { :n%d :seen ?v } }": {},
    "SELECT ?v WHERE { STREAM :s [RANGE 20ms] { :n%d :seen ?v } }": {},
    "SELECT ?v WHERE { STREAM :s [RANGE 20ms SLIDE 10ms] { :n%d :seen ?v } }": {},
    "SELECT ?v WHERE { STREAM :s [RANGE 20ms STEP 20ms] { :n%d :seen ?v } }": {
        "report": "on-window-close",
        "output": "rstream",
        "non_empty": True,
    },
    "SELECT ?x WHERE { STREAM :s [NOW] { ?x :heat ?v FILTER(?v > %d) } }": {},
}
HEAT = '<http://example.org/a> <http://example.org/heat> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .'


def plans(b: Bench) -> list[int]:
    """How many members the common plans have."""
    entries = b.engine.parts.catalogue.entries()
    found: list[Any] = [entry.running.group.plan_slot for entry in entries if entry.running is not None]
    return sorted({id(slot.plan): len(slot.plan.slots) for slot in found if slot is not None}.values())


@pytest.mark.parametrize("text", KINDS)
def test_nobody_is_evaluated_alone_and_who_has_no_rows_is_not_told(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[str] = []
    told: list[str] = []
    publish = Feed.publish

    def noted(self: Feed, *given: Any) -> Any:
        told.append(self.name)
        return publish(self, *given)

    monkeypatch.setattr(NativeEvaluator, "advance", lambda self, *_: alone.append("advance"))
    with bench() as b:
        for number in range(20):
            b.register(f"q{number}", text % number, **KINDS[text])
        assert plans(b) == [20]
        monkeypatch.setattr(Feed, "publish", noted)
        b.lines(*((at, "nobody") for at in range(0, 200, 5)))
        assert told == []
        b.push(300, "n7")
        b.engine.streams.push(PushCall("s", "application/n-triples", at=310), HEAT.encode())
        b.engine.streams.heartbeat("s", 400)
        assert not alone
        assert set(told) == ({"q0", "q1", "q2"} if "FILTER" in text else {"q7"})
        assert plans(b) == [20]


@pytest.mark.parametrize("text", KINDS)
def test_later_ones_join_with_all_of_their_beginning(text: str) -> None:
    with bench() as b:
        for number in range(3):
            b.register(f"q{number}", text % number, **KINDS[text])
        b.push(0, "a")
        for number in range(3, 7):
            b.register(f"q{number}", text % number, **KINDS[text])
        assert plans(b) == [3, 4]
        for at in range(1, 200, 10):
            b.push(at, "n5")
        assert plans(b) == [7] and joined(b.engine) == 7
        assert describe(b.engine, "q0")["sharing_group"] == [f"q{number}" for number in range(7)]
        if "FILTER" not in text:
            assert (
                b.engine.queries.feed("q5").history.last_id > 0
                and b.engine.queries.feed("q4").history.last_id == 0
            )
