"""Taxi trips like those of the DEBS 2015 Grand Challenge, with the statistics of its sample.

One RDF graph a trip, the nine triples of the CQELS paper's Example 1, stamped with the drop-off time.
``python -m benchmarks.taxi N`` prints N trips as the challenge's own CSV.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from itertools import accumulate

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.inputs import Element

STREAM = "http://localhost/Taxi"
NS = "http://debs2015.org/taxi#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_DECIMAL, _DATE_TIME = NamedNode(_XSD + "decimal"), NamedNode(_XSD + "dateTime")
_SOUTH, _EAST = 0.004491556, 0.005986
_START = 1_356_998_400  # 2013-01-01T00:00:00Z

Q1 = """PREFIX : <http://debs2015.org/taxi#>
SELECT (ROUND((41.474937-?pLat)/0.004491556)+1 AS ?pS) (ROUND((74.913585+?pLon)/0.005986)+1 AS ?pE)
       (ROUND((41.474937-?dLat)/0.004491556)+1 AS ?dS) (ROUND((74.913585+?dLon)/0.005986)+1 AS ?dE)
       (COUNT(?trip) AS ?freq)
WHERE {
  STREAM <Taxi> [RANGE 30m] {
    ?trip :pickLon ?pLon. ?trip :pickLat ?pLat. ?trip :dropLon ?dLon. ?trip :dropLat ?dLat. }
}
GROUP BY ?pE ?pS ?dE ?dS
HAVING (?pE>0 && ?pE<301 && ?pS>0 && ?pS<301 && ?dE>0 && ?dE<301 && ?dS>0 && ?dS<301)
ORDER BY DESC(?freq)
LIMIT 10"""

Q2 = """PREFIX : <http://debs2015.org/taxi#>
SELECT ?E ?S ?empty ?prof (?prof/?empty AS ?profitability)
WHERE {
  { SELECT (ROUND((41.474937-?pLat)*2/0.004491556) AS ?S) (ROUND((74.913585+?pLon)*2/0.005986) AS ?E)
           (MEDIAN(?fare+?tip) AS ?prof)
    WHERE { STREAM <Taxi> [RANGE 15m] {
      ?trip :fare ?fare. ?trip :tip ?tip. ?trip :pickLat ?pLat. ?trip :pickLon ?pLon. } }
    GROUP BY ?E ?S
    HAVING (?E>0 && ?E<601 && ?S>0 && ?S<601) }
  { SELECT (ROUND((41.474937-?dLat)*2/0.004491556) AS ?S) (ROUND((74.913585+?dLon)*2/0.005986) AS ?E)
           (COUNT(DISTINCT ?taxi) AS ?empty)
    WHERE {
      STREAM <Taxi> [RANGE 30m] {
        ?trip2 :dropLat ?dLat. ?trip2 :dropLon ?dLon. ?trip2 :taxi ?taxi. ?trip2 :dropoff_datetime ?dropoff. }
      FILTER NOT EXISTS {
        STREAM <Taxi> [RANGE 30m] { ?trip3 :taxi ?taxi. ?trip3 :pickup_datetime ?pickup. }
        FILTER (?pickup >= ?dropoff) } }
    GROUP BY ?E ?S
    HAVING (?E>0 && ?E<601 && ?S>0 && ?S<601 && ?empty>0) }
}
ORDER BY DESC(?profitability)
LIMIT 10"""


def with_windows(text: str, minutes: int) -> str:
    """The query over windows of ``minutes`` instead of 30, and half of that instead of 15."""
    return text.replace("RANGE 30m", f"RANGE {minutes}m").replace("RANGE 15m", f"RANGE {minutes // 2}m")


@dataclass(frozen=True, slots=True)
class Trip:
    """One trip; times in seconds since the epoch, money in cents, degrees times 10^6."""

    number: int
    taxi: int
    pickup: int
    dropoff: int
    pick: tuple[int, int]
    drop: tuple[int, int]
    fare: int
    tip: int


def trips(number: int, *, per_minute: int = 170, taxis: int = 0, seed: int = 2015) -> Iterator[Trip]:
    """Trips in the order of their drop-offs, about ``per_minute`` of them a minute.

    Each taxi drives, waits a few minutes, drives again, and rests after one trip of four, for as long as the
    rate asks. Pick-ups are spread over 400 cells so that the most used 10, 50, 100 and 200 hold 16, 58,
    83 and 97 of a hundred; drop-offs lie in cells as busy, at about the distance driven. Half of the
    trips end on a whole minute. Without ``taxis`` there are 25 for each trip a minute.
    """
    chance = random.Random(seed)
    taxis = taxis or 25 * per_minute
    # A trip and a wait take about 14 minutes; what is left of the time between two trips of a taxi is rest.
    rest = max(0.0, taxis / per_minute - 14) * 60 / 0.25
    cells = _cells(chance)
    weights = list(accumulate(math.exp(-rank / 57) for rank in range(len(cells))))
    waiting: list[tuple[int, int, int, int]] = []
    for taxi in range(taxis):
        begin = _START + round(chance.uniform(-600, 60 * taxis / per_minute - 600))
        waiting.append(_next(chance, begin, taxi))
    heapify(waiting)
    place = 0
    while place < number:
        dropoff, taxi, pickup, seconds = heappop(waiting)
        pause = chance.lognormvariate(math.log(120), 1.0)
        if chance.random() < 0.25:
            pause += chance.expovariate(1 / rest) if rest else 0
        heappush(waiting, _next(chance, dropoff + max(1, round(pause)), taxi))
        if dropoff < _START:
            continue
        miles = max(0.1, 0.45 * (seconds / 180) ** 1.31 * chance.lognormvariate(0, 0.15))
        (from_cell,) = chance.choices(cells, cum_weights=weights)
        to_cell = _target(chance, from_cell, miles, cells, weights)
        fare = 50 * round((250 + miles * chance.uniform(200, 250) + seconds / 60 * 25) / 50)
        tip = 0 if chance.random() < 0.62 else round(fare * 0.2)
        pick, drop = _degrees(from_cell, chance), _degrees(to_cell, chance)
        if chance.random() < 0.016:
            pick = (0, 0)
        yield Trip(place, taxi, pickup, dropoff, pick, drop, fare, tip)
        place += 1


def _next(chance: random.Random, pickup: int, taxi: int) -> tuple[int, int, int, int]:
    """Drop-off, taxi, pick-up and duration of a trip that begins at ``pickup``."""
    seconds = max(60, min(5400, round(chance.lognormvariate(math.log(585), 0.63))))
    dropoff = pickup + seconds
    if chance.random() < 0.5:
        dropoff = max(pickup + 60, dropoff // 60 * 60)
    return dropoff, taxi, pickup, dropoff - pickup


def _cells(chance: random.Random) -> list[tuple[int, int]]:
    """400 different cells (south, east) round the middle of Manhattan, the busiest first."""
    found: dict[tuple[int, int], None] = {}
    while len(found) < 400:
        found[round(chance.gauss(162, 11)), round(151.5 + chance.expovariate(1 / 8))] = None
    return list(found)


def _target(
    chance: random.Random,
    start: tuple[int, int],
    miles: float,
    cells: list[tuple[int, int]],
    weights: list[float],
) -> tuple[int, int]:
    """A drop-off cell: of some busy ones the one about as far as was driven, or any place that far."""
    if chance.random() < 0.12:
        spread = miles * 3.2 / 1.4
        return round(start[0] + chance.gauss(0, spread)), round(start[1] + chance.gauss(0, spread))
    asked = chance.choices(cells, cum_weights=weights, k=4)
    return min(asked, key=lambda cell: abs(math.dist(cell, start) - miles * 2.6))


def _degrees(cell: tuple[int, int], chance: random.Random) -> tuple[int, int]:
    """A point in a cell: latitude and longitude in millionths of a degree."""
    latitude = 41.474937 - (cell[0] - 1 + chance.uniform(-0.5, 0.5)) * _SOUTH
    longitude = -74.913585 + (cell[1] - 1 + chance.uniform(-0.5, 0.5)) * _EAST
    return round(latitude * 1e6), round(longitude * 1e6)


def element_of(trip: Trip, *, numbered: bool = False) -> Element:
    """The trip as a stream element; ``numbered`` as `quadrill run --format debs` feeds it."""
    subject = NamedNode(f"{NS}trip{trip.number}")
    default = DefaultGraph()
    values: tuple[tuple[str, Literal], ...] = (
        ("taxi", Literal(f"{trip.taxi:032X}")),
        ("pickup_datetime", _time(trip.pickup)),
        ("dropoff_datetime", _time(trip.dropoff)),
        ("pickLon", _decimal(trip.pick[1], 6)),
        ("pickLat", _decimal(trip.pick[0], 6)),
        ("dropLon", _decimal(trip.drop[1], 6)),
        ("dropLat", _decimal(trip.drop[0], 6)),
        ("fare", _decimal(trip.fare, 2)),
        ("tip", _decimal(trip.tip, 2)),
    )
    if numbered:
        values = (("number", Literal(trip.number + 1)), *values)
    quads = tuple(Quad(subject, NamedNode(NS + name), value, default) for name, value in values)
    return Element.of(quads, trip.dropoff * 1000, trip.number + 1)


def csv_of(trip: Trip) -> str:
    """The trip as a line of the challenge's file."""
    times = [
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (trip.pickup, trip.dropoff)
    ]
    taxi = f"{trip.taxi:032X}"
    places = [f"{number / 1e6:.6f}" for number in (*trip.pick[::-1], *trip.drop[::-1])]
    miles = f"{math.dist(trip.pick, trip.drop) / 1e6 * 60:.2f}"
    kind = "CRD" if trip.tip else "CSH"
    money = [f"{cents / 100:.2f}" for cents in (trip.fare, 0, 50, trip.tip, 0, trip.fare + trip.tip + 50)]
    return ",".join([taxi, taxi, *times, str(trip.dropoff - trip.pickup), miles, *places, kind, *money])


def _time(seconds: int) -> Literal:
    days, rest = divmod(seconds - _START, 86_400)
    text = f"2013-01-{days + 1:02d}T{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}Z"
    return Literal(text, datatype=_DATE_TIME)


def _decimal(number: int, places: int) -> Literal:
    sign = "-" if number < 0 else ""
    whole, fraction = divmod(abs(number), 10**places)
    text = f"{sign}{whole}.{fraction:0{places}d}".rstrip("0").rstrip(".")
    return Literal("0" if text in ("-0", "-") else text, datatype=_DECIMAL)


if __name__ == "__main__":
    for ride in trips(int(sys.argv[1])):
        print(csv_of(ride))
