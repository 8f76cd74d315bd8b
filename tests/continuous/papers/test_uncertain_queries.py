"""The listings of the RSP-QL* paper, end to end, against plain Python with the error function."""

from __future__ import annotations

import json
import random
from collections import Counter
from math import erf, sqrt
from pathlib import Path

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.engine import Registration
from quadrill.continuous.streams.push_call import PushCall

from ..engines import Bench

LISTINGS = Path(__file__).parents[2] / "data" / "rspql-queries"
OXYGEN, TEMPERATURE = "http://stream/oxygen", "http://stream/temperature"
HEAD = (
    "@prefix : <http://example.org/> . @prefix sosa: <http://www.w3.org/ns/sosa/> .\n"
    "@prefix rspu: <http://w3id.org/rsp/rspu#> .\n"
)
_chance = random.Random(2021)
# (event time, stream, location, value, variance), in time order; no value is repeated within a stream.
SEEN = sorted(
    [(_chance.randrange(90) * 500, OXYGEN, f"l{n // 14 % 4}", f"0.{1550 + n}{n:03d}", f"0.{n % 9 + 1:05d}")
     for n in range(0, 700, 14)]
    + [(_chance.randrange(90) * 500, TEMPERATURE, f"l{n % 4}", f"{28 + n % 11}.{n:02d}", "")
       for n in range(40)]
)  # fmt: skip
END = 60_000


def element(number: int) -> str:
    """One observation in a graph of its own, in TriG; oxygen with its uncertainty as an annotation."""
    _, _, location, value, variance = SEEN[number]
    triple = f":o{number} sosa:hasSimpleResult {value}"
    note = f'<< {triple} >> rspu:uncertainty "N(0, {variance})"^^rspu:distribution .' if variance else ""
    return f"{HEAD} :g{number} {{ {triple} ; sosa:hasFeatureOfInterest :{location} . {note} }}"


def answers(name: str) -> tuple[dict[int, Counter[tuple[str, ...]]], str]:
    """The reports of a listing by instant, and the engine that computed them."""
    bench = Bench()
    bench.engine.start()
    try:
        text = (LISTINGS / f"{name}.rspql").read_text("utf-8")
        bench.engine.queries.register(Registration.from_json({"query": text}, name="q"))
        for number, (at, stream, *_) in enumerate(SEEN):
            bench.engine.streams.push(PushCall(stream, "application/trig", at=at), element(number).encode())
        for stream in (OXYGEN, TEMPERATURE):
            bench.engine.streams.heartbeat(stream, END)
        description = describe(bench.engine, "q")
        assert description["error"] is None, description["error"]
        found = {}
        for event in bench.engine.queries.feed("q").subscribe(0).take():
            document = json.loads(event.data)
            assert event.kind == "answer"
            rows = document["results"]["bindings"]
            found[document["at"]] = Counter(
                tuple(row[column]["value"] for column in document["head"]["vars"]) for row in rows
            )
        return found, description["engine"]
    finally:
        bench.engine.stop()
        bench.store.close()


def below(value: str, variance: str, bound: float) -> float:
    """P(N(value, variance) < bound)."""
    return (1 + erf((bound - float(value)) / sqrt(2 * float(variance)))) / 2


def window(stream: str, end: int) -> list[tuple[str, str, str]]:
    """[RANGE PT10S] closed at ``end``: location, value and variance of what came in the 10 s before."""
    return [each[2:] for each in SEEN if each[1] == stream and end - 10_000 <= each[0] < end]


def oxygen_above(end: int) -> Counter[tuple[str, ...]]:
    return Counter(
        (value,) for _, value, variance in window(OXYGEN, end) if 1 - below(value, variance, 0.195) > 0.9
    )


def oxygen_low_and_warm(end: int) -> Counter[tuple[str, ...]]:
    return Counter(
        (f"http://example.org/{location}", oxygen, temperature)
        for location, oxygen, variance in window(OXYGEN, end)
        if below(oxygen, variance, 0.18) >= 0.8
        for place, temperature, _ in window(TEMPERATURE, end)
        if place == location and float(temperature) > 30
    )


@pytest.mark.parametrize(
    ("name", "answer", "every"),
    [("listing1", oxygen_above, 10_000), ("listing2", oxygen_low_and_warm, 4_000)],
)
def test_a_listing_gives_what_plain_python_gives(name: str, answer: object, every: int) -> None:
    assert callable(answer)
    found, by = answers(name)
    expected = {at: answer(at) for at in range(every, END + 1, every)}
    assert found == {at: _canonical(rows) for at, rows in expected.items()}
    assert sum(map(len, expected.values())) >= 8
    assert by == "native"


def _canonical(rows: Counter[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """Decimals as the store writes them: without zeros at the end."""
    return Counter(
        {
            tuple(cell.rstrip("0").rstrip(".") if cell[0].isdigit() else cell for cell in row): n
            for row, n in rows.items()
        }
    )
