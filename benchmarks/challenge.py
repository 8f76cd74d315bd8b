"""The rules of the DEBS 2015 Grand Challenge in plain Python: every list is computed anew from all reports.

Written from the challenge's text (http://www.debs2015.org/call-grand-challenge.html), for tests and to judge
the engine's output; it shares no code with it and is slow. Cells are computed with exact fractions.

    Q1  ten most frequent routes of the last 30 minutes, the most frequent first
    Q2  ten most profitable areas: median of fare and tip of the trips that began there and ended in the
        last 15 minutes, 0 without such trips, by the number of taxis whose newest report is a drop-off there
        in the last 30 minutes; an area without empty taxis is not listed

Of equal ranks the one with the newest report is first. Reports are in the order of their arrival, many in the
same second, and after each of them the list is looked at. A taxi is where its newest report left it, whatever
trips of it overlap. A window is (now - width, now]; a trip that begins or ends outside the grid does not
exist. One report can be the newest of two areas of equal rank: names decide, as text.
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
    500 m, 2 for the 600 x 600 cells of 250 m. The given point is the centre of cell 1.1 in both grids.
    """
    south = (TOP - Fraction(place[0], 10**6)) * parts / SOUTH
    east = (Fraction(place[1], 10**6) - LEFT) * parts / EAST
    down, right = (floor(each + Fraction(1, 2)) + 1 for each in (south, east))
    return f"{right}.{down}" if 1 <= down <= 300 * parts and 1 <= right <= 300 * parts else None


def q1(seen: list[Trip], now: int, minutes: int = 30) -> Line:
    """Start and end cell of up to ten routes, one after the other."""
    routes: dict[Line, list[int]] = {}
    for trip in seen:
        if trip.dropoff > now - 60 * minutes:
            start, end = cell(trip.pick, 1), cell(trip.drop, 1)
            if start is not None and end is not None:
                routes.setdefault((start, end), []).append(trip.number)
    ranked = sorted(routes, key=lambda route: (-len(routes[route]), -max(routes[route]), route))
    return tuple(name for route in ranked[:LENGTH] for name in route)


def q2(seen: list[Trip], now: int, minutes: int = 30) -> Line:
    """Cell, empty taxis, median profit and profitability of up to ten areas, one after the other."""
    recent = [
        trip
        for trip in seen
        if trip.dropoff > now - 60 * minutes and None not in (cell(trip.pick, 2), cell(trip.drop, 2))
    ]
    last = {trip.taxi: trip for trip in recent}
    empty: dict[str, list[Trip]] = {}
    for trip in last.values():
        empty.setdefault(cell(trip.drop, 2) or "", []).append(trip)
    profits: dict[str, list[Trip]] = {}
    for trip in recent:
        if trip.dropoff > now - 30 * minutes:
            profits.setdefault(cell(trip.pick, 2) or "", []).append(trip)
    ranked = []
    for name, taxis in empty.items():
        trips = profits.get(name, [])
        amounts = [Fraction(trip.fare + trip.tip, 100) for trip in trips]
        middle = Fraction(median(amounts)) if amounts else Fraction(0)
        newest = max(trip.number for trip in (*trips, *taxis))
        ranked.append((-middle / len(taxis), -newest, name, len(taxis), middle))
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
