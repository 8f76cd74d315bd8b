"""The rules of the DEBS 2015 Grand Challenge in plain Python: every list is computed anew from all reports.

Written from the challenge's text, for tests and to judge the engine's output; it shares no code with it
and is slow. Cells are computed with exact fractions. Where the challenge leaves an order open (equal
rank, equal time), the names of the cells decide, as text.

    Q1  ten most frequent routes of the last 30 minutes, the most frequent first, then the latest drop-off
    Q2  ten most profitable areas: median of fare and tip of the trips that began there and ended in the
        last 15 minutes, by the number of taxis that were emptied there in the last 30 minutes and have no
        later pick-up

A window is (now - width, now]; a trip that begins or ends outside the grid does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from math import floor
from statistics import median

from .taxi import Trip

Line = tuple[str, ...]
TOP, LEFT = Fraction("41.474937"), Fraction("-74.913585")
SOUTH, EAST = Fraction("0.004491556"), Fraction("0.005986")
LENGTH = 10


@cache
def cell(place: tuple[int, int], parts: int) -> str | None:
    """The name ``east.south`` of the cell of a place, None outside the grid.

    ``place`` is latitude and longitude in millionths of a degree; ``parts`` is 1 for the 300 x 300 cells of
    500 m, 2 for the 600 x 600 cells of 250 m, whose first begins where the first of 500 m does.
    """
    south = (TOP - Fraction(place[0], 10**6)) / SOUTH + Fraction(1, 2)
    east = (Fraction(place[1], 10**6) - LEFT) / EAST + Fraction(1, 2)
    down, right = floor(south * parts) + 1, floor(east * parts) + 1
    return f"{right}.{down}" if 1 <= down <= 300 * parts and 1 <= right <= 300 * parts else None


def q1(seen: list[Trip], now: int, minutes: int = 30) -> Line:
    """Start and end cell of up to ten routes, one after the other."""
    routes: dict[Line, list[int]] = {}
    for trip in seen:
        if trip.dropoff > now - 60 * minutes:
            start, end = cell(trip.pick, 1), cell(trip.drop, 1)
            if start is not None and end is not None:
                routes.setdefault((start, end), []).append(trip.dropoff)
    ranked = sorted(routes, key=lambda route: (-len(routes[route]), -max(routes[route]), route))
    return tuple(name for route in ranked[:LENGTH] for name in route)


def q2(seen: list[Trip], now: int, minutes: int = 30) -> Line:
    """Cell, empty taxis, median profit and profitability of up to ten areas, one after the other."""
    inside = [trip for trip in seen if cell(trip.pick, 2) is not None and cell(trip.drop, 2) is not None]
    recent = [trip for trip in inside if trip.dropoff > now - 60 * minutes]
    profits: dict[str, list[Trip]] = {}
    for trip in recent:
        if trip.dropoff > now - 30 * minutes:
            profits.setdefault(cell(trip.pick, 2) or "", []).append(trip)
    empty: dict[str, list[Trip]] = {}
    drives: dict[int, list[Trip]] = {}
    for trip in recent:
        drives.setdefault(trip.taxi, []).append(trip)
    for trip in recent:
        if not any(other.pickup >= trip.dropoff for other in drives[trip.taxi] if other is not trip):
            empty.setdefault(cell(trip.drop, 2) or "", []).append(trip)
    ranked = []
    for name in profits.keys() & empty.keys():
        taxis = len({trip.taxi for trip in empty[name]})
        middle = Fraction(median(Fraction(trip.fare + trip.tip, 100) for trip in profits[name]))
        latest = max(trip.dropoff for trip in profits[name] + empty[name])
        ranked.append((-middle / taxis, -latest, name, taxis, middle))
    ranked.sort()
    return tuple(
        text
        for quotient, _, name, taxis, middle in ranked[:LENGTH]
        for text in (name, str(taxis), decimal(middle), decimal(-quotient))
    )


def decimal(number: Fraction) -> str:
    """A decimal text, with 18 digits behind the point where it does not end before."""
    scaled = floor(number * 10**18)
    whole, rest = divmod(scaled, 10**18)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".")


def lines(
    trips: Iterable[Trip], rules: Callable[[list[Trip], int, int], Line], minutes: int = 30
) -> Iterator[tuple[Trip, Line]]:
    """For each report that changes the list: the report and the list."""
    shown: Line = ()
    seen: list[Trip] = []
    for trip in trips:
        seen.append(trip)
        seen = [each for each in seen if each.dropoff > trip.dropoff - 60 * minutes]
        found = rules(seen, trip.dropoff, minutes)
        if found != shown:
            shown = found
            yield trip, found
