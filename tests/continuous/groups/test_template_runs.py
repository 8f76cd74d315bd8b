"""Queries that differ in constants take many instants of a push at once, and fail where they would alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall

from ..engines import E, bench
from .test_template_groups import joined, ungrouped

TEXT = "SELECT ?x WHERE { STREAM :s [RANGE 9ms] { ?x :in :%s } }"
PAIRS = "SELECT ?x ?y WHERE { STREAM :s [RANGE 9ms] { ?x :in :%s ; :near ?l } STREAM :s [NOW] { ?y :in ?l } }"
PLACES = ("hall", "kitchen", "yard", "attic")


def lines(first: int, number: int, crowded: int = -1) -> bytes:
    """One element a millisecond, each in one of the places; at one instant many are in the kitchen."""
    found = []
    for at in range(first, first + number):
        place = f"<{E}{PLACES[at % 4]}>"
        data = f"<{E}n{at}> <{E}in> {place} .\n<{E}n{at}> <{E}near> {place} .\n"
        if at == crowded:
            data += "".join(f"<{E}c{each}> <{E}in> <{E}kitchen> .\n" for each in range(20))
        found.append(json.dumps({"at": at, "data": data}))
    return "\n".join(found).encode()


def run(text: str, output: str, limits: QueryLimits, **settings: Any) -> tuple[Any, list[int]]:
    """What four queries were told, show and were refused, and how many were together after each push."""
    together = []
    with bench(limits=limits, **settings) as b:
        for place in PLACES:
            b.register(place, text % place, output=output)
        for first, number, crowded in ((0, 30, -1), (30, 60, 62), (90, 40, -1)):
            b.engine.streams.push(PushCall(E + "s", "application/x-ndjson"), lines(first, number, crowded))
            together.append(joined(b.engine))
        told = {}
        for place in PLACES:
            document = describe(b.engine, place)
            events = [tuple(each) for each in b.engine.queries.feed(place).subscribe(0).take()]
            counters = {each: document["counters"][each] for each in ("evaluations", "events")}
            kept = [document.get(each) for each in ("state", "error", "instant", "last_result")]
            told[place] = events, kept, counters, b.engine.queries.feed(place).current()
        letters = [(each["query"], each["at"], each["error"]) for each in b.engine.streams.dead_letters("s")]
        return (told, letters), together


@pytest.mark.parametrize("output", ["istream", "dstream", "changes"])
@pytest.mark.parametrize("text", [TEXT, PAIRS])
@pytest.mark.parametrize(
    "limits",
    [QueryLimits(), QueryLimits(bytes=1000), QueryLimits(kept=15), QueryLimits(rows=15)],
    ids=["", "bytes", "kept", "rows"],
)
def test_who_is_over_a_limit_fails_at_the_instant_at_which_it_would_alone(
    text: str, output: str, limits: QueryLimits
) -> None:
    found, together = run(text, output, limits, templates=True)
    with ungrouped():
        alone, none = run(text, output, limits, templates=False)
    assert found == alone
    assert none == [0, 0, 0] and together[0] == 4
    if limits.bytes and "NOW" not in text and output != "dstream":
        assert together == [4, 3, 3], "the others are told together still"
