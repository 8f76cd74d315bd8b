"""Taxi trips like those of the DEBS 2015 Grand Challenge, with the statistics of its sample.

One RDF graph a trip, the nine triples of the CQELS paper's Example 1, stamped with the drop-off time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.element import Element

STREAM = "http://localhost/Taxi"
NS = "http://debs2015.org/taxi#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_DECIMAL, _DATE_TIME = NamedNode(_XSD + "decimal"), NamedNode(_XSD + "dateTime")
_SOUTH, _EAST = 0.004491556, 0.005986

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


def trips(number: int, *, per_minute: int = 170, taxis: int = 4630, seed: int = 2015) -> Iterator[Trip]:
    """Trips in the order of their drop-offs, ``per_minute`` of them a minute."""
    chance = random.Random(seed)
    start = 1_356_998_400
    weights = [1 / (rank + 3) ** 0.9 for rank in range(400)]
    cells = [(158 + round(chance.gauss(0, 8)), 162 + round(chance.gauss(0, 10))) for _ in weights]
    free = [start - chance.randrange(1800) for _ in range(taxis)]
    for place in range(number):
        dropoff = start + place * 60 // per_minute
        duration = max(60, min(3600, round(chance.lognormvariate(6.3, 0.6))))
        taxi = chance.randrange(taxis)
        for _ in range(20):
            if free[taxi] <= dropoff - duration:
                break
            taxi = chance.randrange(taxis)
        duration = max(60, min(duration, dropoff - free[taxi])) if dropoff > free[taxi] + 60 else 60
        miles = max(0.3, duration / 60 * 0.2 + chance.gauss(0, 0.3))
        (from_cell,) = chance.choices(cells, weights)
        to_cell = (round(from_cell[0] + chance.gauss(0, miles)), round(from_cell[1] + chance.gauss(0, miles)))
        fare = round(250 + miles * 220 + duration / 60 * 25, -1)
        tip = 0 if chance.random() < 0.62 else round(fare * 0.2)
        pick, drop = _degrees(from_cell, chance), _degrees(to_cell, chance)
        if chance.random() < 0.016:
            pick = (0, 0)
        free[taxi] = dropoff + round(chance.expovariate(1 / 120))
        yield Trip(place, taxi, dropoff - duration, dropoff, pick, drop, int(fare), tip)


def _degrees(cell: tuple[int, int], chance: random.Random) -> tuple[int, int]:
    """A point in a cell: latitude and longitude in millionths of a degree."""
    latitude = 41.474937 - (cell[0] - 1 + chance.uniform(-0.5, 0.5)) * _SOUTH
    longitude = -74.913585 + (cell[1] - 1 + chance.uniform(-0.5, 0.5)) * _EAST
    return round(latitude * 1e6), round(longitude * 1e6)


def element_of(trip: Trip) -> Element:
    """The trip as a stream element."""
    subject = NamedNode(f"{NS}trip{trip.number}")
    default = DefaultGraph()
    values = (
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
    quads = tuple(Quad(subject, NamedNode(NS + name), value, default) for name, value in values)
    return Element(quads, trip.dropoff * 1000, trip.number + 1)


def _time(seconds: int) -> Literal:
    days, rest = divmod(seconds - 1_356_998_400, 86_400)
    text = f"2013-01-{days + 1:02d}T{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}Z"
    return Literal(text, datatype=_DATE_TIME)


def _decimal(number: int, places: int) -> Literal:
    sign = "-" if number < 0 else ""
    whole, fraction = divmod(abs(number), 10**places)
    text = f"{sign}{whole}.{fraction:0{places}d}".rstrip("0").rstrip(".")
    return Literal("0" if text in ("-0", "-") else text, datatype=_DECIMAL)
