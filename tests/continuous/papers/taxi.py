"""Hours of taxi trips in a few cells of the grid, and the answers of the challenge's queries in plain Python.

Degrees and money are exact fractions; nothing here knows how the engine computes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import floor
from statistics import median
from typing import Any

NS = "http://debs2015.org/taxi#"
MINUTE = 60_000
START = 0  # The days of the challenge are long past a test clock that stands at 0.
NORTH, EAST = Fraction("0.004491556"), Fraction("0.005986")
TOP, LEFT = Fraction("41.474937"), Fraction("74.913585")

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Trip:
    """Times in ms; (latitude, longitude) as decimal texts; money as decimal texts."""

    number: int
    taxi: str
    pickup: int
    dropoff: int
    pick: tuple[str, str]
    drop: tuple[str, str]
    fare: str
    tip: str


def _trips() -> list[Trip]:
    chance = random.Random(2015)
    spots = [
        (f"40.{chance.randrange(700, 760)}123", f"-73.{chance.randrange(950, 999)}457") for _ in range(5)
    ]
    found = []
    at = START + 60 * MINUTE
    for number in range(60):
        # Every drop-off has an instant of its own; some gaps are longer than a window.
        at += chance.choice([1, 2, 3, 3, 4, 5, 40]) * MINUTE + 1_000
        outside = number % 17 == 5
        found.append(
            Trip(
                number,
                f"T{chance.randrange(6)}",
                at - chance.randrange(2, 15) * MINUTE,
                at,
                ("0.0", "0.0") if outside else chance.choice(spots),
                chance.choice(spots),
                f"{chance.randrange(3, 30)}.{chance.choice(['0', '5'])}",
                f"{chance.randrange(0, 4)}.25",
            )
        )
    return found


TRIPS = _trips()


def elements() -> list[tuple[int, str]]:
    """One element a trip, with the predicates of Example 1 and those that its listings use."""
    xsd = "http://www.w3.org/2001/XMLSchema#"

    def text(trip: Trip) -> str:
        values = [("taxi", f'"{trip.taxi}"')]
        for names, at in (
            (("pickup_datetime", "pickupTime"), trip.pickup),
            (("dropoff_datetime", "dropoffTime"), trip.dropoff),
        ):
            stamp = datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            values += [(name, f'"{stamp}"^^<{xsd}dateTime>') for name in names]
        numbers = {
            "pickLat": trip.pick[0], "pickLon": trip.pick[1], "dropLat": trip.drop[0],
            "dropLon": trip.drop[1], "fare": trip.fare, "tip": trip.tip,
        }  # fmt: skip
        values += [(name, f'"{value}"^^<{xsd}decimal>') for name, value in numbers.items()]
        return "".join(f"<{NS}trip{trip.number}> <{NS}{name}> {value} .\n" for name, value in values)

    return [(trip.dropoff, text(trip)) for trip in TRIPS]


def last(t: int, minutes: int, *, open_start: bool = False) -> list[Trip]:
    """The trips reported from t − minutes to t; ``open_start`` leaves out those at the very start."""
    start = t - minutes * MINUTE
    return [trip for trip in TRIPS if start + open_start <= trip.dropoff <= t]


def _round(number: Fraction) -> int:
    return floor(number + Fraction(1, 2))


def _south(place: tuple[str, str]) -> Fraction:
    return TOP - Fraction(place[0])


def _east(place: tuple[str, str]) -> Fraction:
    return LEFT + Fraction(place[1])


def _in_grid(cells: tuple[int, ...], size: int) -> bool:
    return all(0 < cell <= size for cell in cells)


# --- Q1 -------------------------------------------------------------------------------------------------


def _routes(
    trips: list[Trip], cells: Callable[[Trip], tuple[int, ...]]
) -> list[tuple[tuple[int, ...], list[Trip]]]:
    groups: dict[tuple[int, ...], list[Trip]] = {}
    for trip in trips:
        groups.setdefault(cells(trip), []).append(trip)
    return [(key, group) for key, group in groups.items() if _in_grid(key, 300)]


def _swapped(trip: Trip) -> tuple[int, ...]:
    return tuple(
        cell
        for place in (trip.pick, trip.drop)
        for cell in (_round(_south(place) / EAST), _round(_east(place) / NORTH))
    )


def _official(trip: Trip) -> tuple[int, ...]:
    return tuple(
        cell + 1
        for place in (trip.pick, trip.drop)
        for cell in (_round(_south(place) / NORTH), _round(_east(place) / EAST))
    )


def _rows(ordered: list[tuple[tuple[int, ...], list[Trip]]]) -> Counter[Row]:
    return Counter((*key, len(group)) for key, group in ordered[:10])


def q1_as_printed(t: int) -> Counter[Row]:
    routes = _routes(last(t, 30), _swapped)
    return _rows(sorted(routes, key=lambda route: (len(route[1]), route[0])))


def q1_official(t: int) -> Counter[Row]:
    routes = _routes(last(t, 30), _official)
    return _rows(sorted(routes, key=lambda route: (-len(route[1]), route[0])))


def q1_ranked(t: int) -> Counter[Row]:
    routes = _routes(last(t, 30, open_start=True), _official)
    newest = {key: max(trip.dropoff for trip in group) for key, group in routes}
    return _rows(sorted(routes, key=lambda route: (-len(route[1]), -newest[route[0]], route[0])))


# --- Q2 -------------------------------------------------------------------------------------------------


def _areas(
    t: int,
    profit_cell: Callable[[Trip], tuple[int, int]],
    empty_cell: Callable[[Trip], tuple[int, int]],
    *,
    distinct: bool,
    open_start: bool = False,
) -> list[tuple[tuple[int, int], int, Fraction, int]]:
    """(cell, empty taxis, median profit, newest event) of each area with both."""
    gains: dict[tuple[int, int], list[Trip]] = {}
    for trip in last(t, 15, open_start=open_start):
        gains.setdefault(profit_cell(trip), []).append(trip)
    empty: dict[tuple[int, int], list[Trip]] = {}
    half_hour = last(t, 30, open_start=open_start)
    for trip in half_hour:
        if not any(other.taxi == trip.taxi and other.pickup > trip.dropoff for other in half_hour):
            empty.setdefault(empty_cell(trip), []).append(trip)
    found = []
    for cell in gains.keys() & empty.keys():
        if _in_grid(cell, 600):
            taxis = [trip.taxi for trip in empty[cell]]
            newest = max(trip.dropoff for trip in gains[cell] + empty[cell])
            profit = Fraction(median(Fraction(trip.fare) + Fraction(trip.tip) for trip in gains[cell]))
            found.append((cell, len(set(taxis)) if distinct else len(taxis), profit, newest))
    return found


def q2_as_printed(t: int) -> Counter[Row]:
    def cell(trip: Trip) -> tuple[int, int]:
        return _round(_south(trip.pick) * 2 / EAST), _round(_east(trip.pick) * 2 / NORTH)

    areas = _areas(t, cell, cell, distinct=False)
    areas.sort(key=lambda area: (area[2] / area[1], area[0], area[1], area[2]))
    return Counter((*cell, empty, float(profit)) for cell, empty, profit, _ in areas[:10])


def q2_official(t: int) -> Counter[Row]:
    def cell(place: tuple[str, str]) -> tuple[int, int]:
        return _round(_south(place) * 2 / NORTH) + 1, _round(_east(place) * 2 / EAST) + 1

    areas = _areas(
        t, lambda trip: cell(trip.pick), lambda trip: cell(trip.drop), distinct=True, open_start=True
    )
    areas.sort(key=lambda area: (-area[2] / area[1], -area[3], area[0], area[1], area[2]))
    return Counter((*cell, empty, float(profit)) for cell, empty, profit, _ in areas[:10])
