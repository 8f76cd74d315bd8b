"""Replay of the demo's week of flights and weather reports as pushes, at a given speed.

Event time alone determines the order of the elements and the instant at which the watch list changes; the
wall clock only determines how many elements are in one push. So the feeds of the demo's queries get the same
rows at every speed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Protocol, TypeVar

from quadrill.store.errors import ReportedError

from ..page.pace import Pace
from .data import Departure, WeatherReport, departures, rdf, text_of, weather

TICK_SECONDS = 0.2
"""Seconds of wall-clock time between two batches of pushes."""
MAX_LINES_PER_PUSH = 500
"""Number of elements at which a push ends; elements with equal event times stay together."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_Timed = TypeVar("_Timed")


class NothingToReplayError(ReportedError):
    """Error that the demo's data have no departure in the requested interval of event time."""

    code = "nothing-to-replay"


class DemoApi(Protocol):
    """Operations of a server that the demo's replay uses."""

    def push(self, stream: str, lines: Sequence[str]) -> None:
        """Push elements, one NDJSON line each, to a stream in one request."""

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Declare that no element earlier than ``at_ms`` will follow on the stream."""

    def update(self, text: str) -> None:
        """Run a SPARQL update on the store."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Rows of one round of the replay, with start <= event time < end, and the time of the watch list change.

    ``change_ms`` is the event time of the middle departure; all earlier elements are sent before the change.
    """

    departures: tuple[Departure, ...]
    weather: tuple[WeatherReport, ...]
    start_ms: int
    change_ms: int
    end_ms: int

    @classmethod
    def between(cls, start_ms: int, end_ms: int | None = None) -> ReplayPlan:
        """Return the plan from ``start_ms`` to ``end_ms``, at most to the full hour after the last departure.

        Raises: NothingToReplayError when no flight departed between the two times.
        """
        flights, reports = departures(), weather()
        last = flights[-1].departed_ms
        data_end_ms = (last // HOUR_MS + 1) * HOUR_MS
        end_ms = data_end_ms if end_ms is None else min(end_ms, data_end_ms)
        chosen = [flight for flight in flights if start_ms <= flight.departed_ms < end_ms]
        if not chosen:
            raise NothingToReplayError(
                f"no flight left between {rdf.instant(start_ms)} and {rdf.instant(max(start_ms, end_ms))}",
                hint=f"the data go from {rdf.instant(flights[0].departed_ms)} to {rdf.instant(last)}",
            )
        return cls(
            departures=tuple(chosen),
            weather=tuple(report for report in reports if start_ms <= report.at_ms < end_ms),
            start_ms=start_ms,
            change_ms=chosen[len(chosen) // 2].departed_ms,
            end_ms=end_ms,
        )

    @property
    def round_ms(self) -> int:
        """Event time in ms between the starts of two rounds of the demo's replay.

        The time between two rounds is a whole number of days, so that the hours of the day stay equal. At
        least one hour, which is the width of the queries' longest window, lies between two rounds, so that
        all windows become empty.
        """
        return ((self.end_ms - self.start_ms + HOUR_MS) // DAY_MS + 1) * DAY_MS

    def moved(self, by_ms: int) -> ReplayPlan:
        """Return the plan of a replay round with all event times increased by ``by_ms``."""
        return ReplayPlan(
            departures=tuple(flight.moved(by_ms) for flight in self.departures),
            weather=tuple(report.moved(by_ms) for report in self.weather),
            start_ms=self.start_ms + by_ms,
            change_ms=self.change_ms + by_ms,
            end_ms=self.end_ms + by_ms,
        )

    def until(self, end_ms: int) -> ReplayPlan:
        """Return the plan of a replay round with only the rows before the event time ``end_ms``."""
        return replace(
            self,
            departures=tuple(flight for flight in self.departures if flight.departed_ms < end_ms),
            weather=tuple(report for report in self.weather if report.at_ms < end_ms),
            end_ms=min(self.end_ms, end_ms),
        )


def rounds(start_ms: int, span_ms: int | None = None, *, once: bool = False) -> Iterator[ReplayPlan]:
    """Yield the rounds of a replay: the data from ``start_ms`` on, then the same data with later event times.

    The rounds of a replay end after ``span_ms`` of event time, or after the first round if ``once`` is set.

    Raises: NothingToReplayError when no flight departed in the interval of the first round.
    """
    first = ReplayPlan.between(start_ms, None if span_ms is None else start_ms + span_ms)
    if once:
        yield first
        return
    whole = ReplayPlan.between(start_ms)
    left_ms = span_ms
    for number in count():
        plan = whole.moved(number * whole.round_ms) if number else first
        if left_ms is not None:
            plan = plan.until(plan.start_ms + left_ms)
            left_ms -= plan.end_ms - plan.start_ms
        yield plan
        if left_ms is not None and left_ms <= 0:
            return


def begin_again(plan: ReplayPlan, api: DemoApi) -> None:
    """Send heartbeats at the start of the next round, which close windows, and undo the watch list change."""
    _heartbeats(api, plan.start_ms)
    api.update(text_of("undo-watch.ru"))


def replay(
    plan: ReplayPlan,
    api: DemoApi,
    *,
    pace: Pace,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
    progress: Callable[[int], None] = lambda _at_ms: None,
    changed: Callable[[int], None] = lambda _at_ms: None,
) -> None:
    """Push a plan's flights and weather at a pace that may change; change the watch list meanwhile.

    Args:
        plan: the rows of flights and weather to push.
        api: the server that receives the rows.
        pace: the pace of the replay, read before each batch of pushes.
        clock: returns monotonic seconds.
        pause: called to wait for a number of seconds between pushes; an exception of it ends the replay.
        progress: called with the reached event time after each batch of pushes.
        changed: called with the event time at which the watch list was changed.
    """
    position = base_ms = plan.start_ms
    began, speed = clock(), pace.present
    _heartbeats(api, position)
    change_sent = False
    while position < plan.end_ms:
        now = clock()
        if speed != pace.present:
            base_ms += int((now - began) * speed * 1000)
            began, speed = now, pace.present
        target = min(plan.end_ms, base_ms + int((now - began) * speed * 1000))
        if not change_sent:
            target = min(target, plan.change_ms)
        if target > position:
            _push_between(plan, api, position, target)
            _heartbeats(api, target)
            position = target
            progress(position)
        if not change_sent and position >= plan.change_ms:
            api.update(text_of("change-watch.ru"))
            change_sent = True
            changed(position)
        elif position < plan.end_ms:
            pause(TICK_SECONDS)


def _push_between(plan: ReplayPlan, api: DemoApi, start_ms: int, end_ms: int) -> None:
    """Push the rows with ``start_ms`` <= event time < ``end_ms``, weather reports before departures."""
    reports = _slice(plan.weather, lambda report: report.at_ms, start_ms, end_ms)
    flights = _slice(plan.departures, lambda flight: flight.departed_ms, start_ms, end_ms)
    for part in _parts(reports, lambda report: report.at_ms):
        api.push(rdf.WEATHER, [rdf.weather_line(report) for report in part])
    for group in _parts(flights, lambda flight: flight.departed_ms):
        api.push(rdf.DEPARTURES, [rdf.departure_line(flight) for flight in group])


def _heartbeats(api: DemoApi, at_ms: int) -> None:
    for stream in (rdf.DEPARTURES, rdf.WEATHER):
        api.heartbeat(stream, at_ms)


def _slice(
    rows: Sequence[_Timed], time_of: Callable[[_Timed], int], start_ms: int, end_ms: int
) -> Sequence[_Timed]:
    return rows[bisect_left(rows, start_ms, key=time_of) : bisect_left(rows, end_ms, key=time_of)]


def _parts(rows: Sequence[_Timed], time_of: Callable[[_Timed], int]) -> Iterator[list[_Timed]]:
    """Split rows into pushes of about MAX_LINES_PER_PUSH rows; rows with one event time stay in one push."""
    part: list[_Timed] = []
    for _, same_time in groupby(rows, key=time_of):
        part.extend(same_time)
        if len(part) >= MAX_LINES_PER_PUSH:
            yield part
            part = []
    if part:
        yield part
