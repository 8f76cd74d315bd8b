"""The demo's replay: the week's rows as timed pushes, and the pace at which they are sent.

What is sent depends on event time alone; the wall clock only decides how much of it goes into one push. So
the feeds get the same rows at every speed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import Protocol, TypeVar

from quadrill.store.errors import ReportedError

from .data import Departure, WeatherReport, departures, rdf, text_of, weather

TICK_SECONDS = 0.2
MAX_LINES_PER_PUSH = 500
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_Timed = TypeVar("_Timed")


class NothingToReplayError(ReportedError):
    """The data have no departure in the time that was asked for."""

    code = "nothing-to-replay"


class DemoApi(Protocol):
    """The server as the replay uses it."""

    def push(self, stream: str, lines: Sequence[str]) -> None:
        """Send elements, one line of NDJSON each, as one push."""

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Tell that nothing earlier than ``at_ms`` will follow on the stream."""

    def update(self, text: str) -> None:
        """Run a SPARQL update on the store."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of a replay: the rows with start <= event time < end, and when the watch list changes.

    ``change_ms`` is the event time of the middle departure: all before it are sent before the change.
    """

    departures: tuple[Departure, ...]
    weather: tuple[WeatherReport, ...]
    start_ms: int
    change_ms: int
    end_ms: int

    @classmethod
    def between(cls, start_ms: int, end_ms: int | None = None) -> ReplayPlan:
        """The rows from ``start_ms`` on, before ``end_ms`` or to the full hour after the last departure.

        Raises: NothingToReplayError when no flight left in that time.
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
        """How much later the next round takes place.

        Whole days, so that hours stay what they are, and enough for the longest window of the queries, an
        hour, to be empty between two rounds.
        """
        return ((self.end_ms - self.start_ms + HOUR_MS) // DAY_MS + 1) * DAY_MS

    def moved(self, by_ms: int) -> ReplayPlan:
        """The same rows so much later."""
        return ReplayPlan(
            departures=tuple(flight.moved(by_ms) for flight in self.departures),
            weather=tuple(report.moved(by_ms) for report in self.weather),
            start_ms=self.start_ms + by_ms,
            change_ms=self.change_ms + by_ms,
            end_ms=self.end_ms + by_ms,
        )

    def until(self, end_ms: int) -> ReplayPlan:
        """The same rows before an event time."""
        return replace(
            self,
            departures=tuple(flight for flight in self.departures if flight.departed_ms < end_ms),
            weather=tuple(report for report in self.weather if report.at_ms < end_ms),
            end_ms=min(self.end_ms, end_ms),
        )


def rounds(start_ms: int, span_ms: int | None = None, *, once: bool = False) -> Iterator[ReplayPlan]:
    """The rounds of a replay: the data from ``start_ms`` on, then the same again, each time later.

    It ends after ``span_ms`` of event time that is replayed, or with the first round when ``once`` is set.
    Raises: NothingToReplayError when no flight left in the time of the first.
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
    """Close the windows of the last round by the next one's first instant, and undo the change."""
    _heartbeats(api, plan.start_ms)
    api.update(text_of("undo-watch.ru"))


def replay(
    plan: ReplayPlan,
    api: DemoApi,
    *,
    speed: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
    progress: Callable[[int], None] = lambda _at_ms: None,
    changed: Callable[[int], None] = lambda _at_ms: None,
) -> None:
    """Send the plan's rows at ``speed`` seconds of event time a second, and change the watch list half-way.

    Args:
        plan: what to send.
        api: the server.
        speed: event seconds per wall second, positive.
        clock: seconds, monotonic.
        pause: waits for that many seconds between two pushes. Raising from it ends the replay.
        progress: called with the event time reached, after each round.
        changed: called with the event time at which the watch list was changed.
    """
    began = clock()
    position = plan.start_ms
    _heartbeats(api, position)
    change_sent = False
    while position < plan.end_ms:
        target = min(plan.end_ms, plan.start_ms + int((clock() - began) * speed * 1000))
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
    """Push what happened from ``start_ms`` on and before ``end_ms``, the weather first."""
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
    """Pushes of about MAX_LINES_PER_PUSH rows. Rows of one event time, a transaction, stay together."""
    part: list[_Timed] = []
    for _, same_time in groupby(rows, key=time_of):
        part.extend(same_time)
        if len(part) >= MAX_LINES_PER_PUSH:
            yield part
            part = []
    if part:
        yield part
