"""The command ``quadrill run --format debs``, which writes the output lines of the DEBS 2015 Grand Challenge.

`reports` parses the challenge's CSV file with one trip report per line, and `follow` pushes each report as a
separate element. The element is the graph of Example 1 of the paper, with the number of the report's line,
because many reports have the same second and their order is part of the data. The event time of a trip
report's element is the drop-off time. `DelayRecorder` writes one line whenever a report changed the query's
list, even twice within a second:

    pickup_datetime,dropoff_datetime,<the values of the list, row by row>,delay

The two times on an output line belong to the report that caused the change. The values of rows missing in a
list of fewer than ten rows are NULL. The delay is the time in milliseconds between the reading of the report
and the writing of its output line. Reports do not wait for the answers of earlier reports: up to `MAX_BATCH`
reports are queued for the engine, which processes them together, and a delay includes the time of the other
reports in the queue.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from quadrill.continuous.engine import Engine
from quadrill.store.errors import ReportedError
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.subscription import StoredEvent

LENGTH = 10
"""Number of rows in a result list of the DEBS challenge."""
MAX_BATCH = 64
"""Maximum number of trip reports that are pushed before a `DelayRecorder` reads their answers."""
NAMESPACE = "http://debs2015.org/taxi#"
# The challenge's rules require windows (now - width, now] and the whole list of rows on each output line.
OPTIONS = {"output": "rstream", "bounds": "open-closed"}

_SLIDING = {"all", "now", "range", "triples"}
"""Kinds of windows that change with each element, so that each report causes an answer."""
_FIELDS = 17
"""Number of fields of a trip report in the challenge's CSV file."""
_NUMBERS = {"pickLon": 6, "pickLat": 7, "dropLon": 8, "dropLat": 9, "fare": 11, "tip": 14}
_XSD = "http://www.w3.org/2001/XMLSchema#"
_ENDS_WITH_ZEROS = re.compile(r"-?[0-9]+\.[0-9]*0")


class TripError(ReportedError):
    """Error that a line of the challenge's CSV file is not a valid trip report."""

    code = "recording"


@dataclass(frozen=True, slots=True)
class ChallengeReport:
    """Trip report: the two times as in the file, the drop-off in ms since 1970, and the N-Triples graph."""

    pickup: str
    dropoff: str
    at: int
    graph: bytes


def reports(lines: Iterator[str]) -> Iterator[ChallengeReport]:
    """Parse the lines of a challenge CSV file and yield the trip reports in file order.

    Raises:
        TripError: a line has not 17 fields, or an invalid time or number; the message has the line number.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _report(line.strip().split(","), number)


def _report(fields: list[str], number: int) -> ChallengeReport:
    if len(fields) != _FIELDS:
        raise TripError(
            f"line {number} has {len(fields)} fields, a report of the challenge has {_FIELDS}",
            hint="A server lists them at /ui/docs/language.md, section Output of the DEBS 2015 challenge.",
        )
    pickup, dropoff = (_time(fields[place], number) for place in (2, 3))
    trip = f"<{NAMESPACE}trip{number}>"
    values = [
        ("number", f'"{number}"^^<{_XSD}integer>'),
        ("taxi", json.dumps(fields[0])),
        ("pickup_datetime", f'"{pickup:%Y-%m-%dT%H:%M:%SZ}"^^<{_XSD}dateTime>'),
        ("dropoff_datetime", f'"{dropoff:%Y-%m-%dT%H:%M:%SZ}"^^<{_XSD}dateTime>'),
    ]
    for name, place in _NUMBERS.items():
        try:
            float(fields[place])
        except ValueError:
            raise TripError(f"line {number}: {fields[place]!r} is not a number ({name})") from None
        values.append((name, f'"{_shortest(fields[place])}"^^<{_XSD}decimal>'))
    graph = "".join(f"{trip} <{NAMESPACE}{name}> {value} .\n" for name, value in values)
    return ChallengeReport(fields[2], fields[3], int(dropoff.timestamp()) * 1000, graph.encode())


def _shortest(text: str) -> str:
    """Return a decimal without trailing zeros, as the store does; return any other text unchanged."""
    if not _ENDS_WITH_ZEROS.fullmatch(text):
        return text
    short = text.rstrip("0").rstrip(".")
    return text if short == "-0" else short


def _time(text: str, number: int) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise TripError(f"line {number}: {text!r} is not a time such as 2013-01-01 00:02:00") from None


def batch_limit(described: dict[str, Any]) -> int:
    """Return how many reports may be queued: `MAX_BATCH` if each report causes an answer of a query, else 1.

    ``described`` is the JSON description of the query that gets the reports.
    """
    every = described["form"] == "select" and not described["non_empty"] and described["once_per"] is None
    slide = {window["kind"] for window in described["windows"]} <= _SLIDING
    return MAX_BATCH if every and slide and described["report"] == "on-content-change" else 1


class DelayRecorder:
    """Writer of the output lines of one query, which records the delay of each line in milliseconds.

    The recorder accepts all events of its feed and is never disconnected as a slow subscriber.
    """

    members = 1

    def __init__(self, feed: Feed, output: TextIO) -> None:
        self.delays: list[float] = []
        self._output = output
        self._events: deque[StoredEvent] = deque()
        # Reports without an output line so far, each with the time at which the report was read.
        self._waiting: deque[tuple[ChallengeReport, float]] = deque()
        self._shown: list[dict[str, Any]] = []
        # JSON text of the query's last answer without its time. No answer's JSON text ends with the initial
        # value ``"\n"``, so the first answer counts as changed.
        self._last_text = "\n"
        feed.join(self, None, 0)

    def expect(self, report: ChallengeReport, read_at: float) -> None:
        """Enqueue a trip report before its push; ``read_at`` is when it was read, by `time.perf_counter`."""
        self._waiting.append((report, read_at))

    def write_lines(self) -> None:
        """Write the output lines of the queued reports, after the engine has processed all of them.

        A query's answer belongs to the report at the head of the queue if it has this report's event time.
        Another answer is caused by an expiry and gets no output line, except the last answer of a batch: it
        belongs to the batch's last report.
        """
        events, waiting, answer = self._events, self._waiting, ""
        while events:
            _, kind, data = events.popleft()
            if kind != "answer":
                continue
            answer = data
            if len(waiting) > 1 and data.startswith(f'{{"at":{waiting[0][0].at},'):
                self._write_if_changed(answer, *waiting.popleft())
                answer = ""
        if answer and waiting:
            self._write_if_changed(answer, *waiting[-1])
        waiting.clear()

    def _write_if_changed(self, answer: str, report: ChallengeReport, read_at: float) -> None:
        """Write the output line of a report, if its answer has another list than the previous answer."""
        if answer.endswith(self._last_text):
            return
        self._last_text = answer[answer.index(',"head":') :]
        document = json.loads(answer)
        rows = document["results"]["bindings"][:LENGTH]
        if rows == self._shown:
            return
        self._shown = rows
        found = _cells(rows, document["head"]["vars"])
        delay = (time.perf_counter() - read_at) * 1000
        self.delays.append(delay)
        self._output.write(",".join([report.pickup, report.dropoff, *found, f"{delay:.3f}"]) + "\n")

    # --- methods that the query's feed calls ----------------------------------------------------

    def welcome(self, member: None, first: Sequence[StoredEvent], ended: bool) -> bool:
        """Accept the events that the feed has stored, as a new subscriber."""
        self._events.extend(first)
        return True

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Accept new events of the feed, on the engine's thread."""
        self._events.extend(events)
        return True

    def end(self) -> None:
        """Do nothing at the end of the query's feed."""


def _cells(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return the values of all rows, row by row, with NULL for missing rows and values."""
    found = [row[name]["value"] if name in row else "NULL" for row in rows for name in names]
    return found + ["NULL"] * (LENGTH * len(names) - len(found))


def follow(
    engine: Engine,
    stream: str,
    found: Iterable[ChallengeReport],
    listeners: Sequence[DelayRecorder],
    batch: int,
) -> int:
    """Push all trip reports in batches of at most ``batch`` reports, and return the number of reports.

    A late report is pushed separately, because its answer has the event time of earlier reports.
    """
    number = newest = 0
    waiting: list[tuple[bytes, int]] = []
    try:
        for report in found:
            read_at = time.perf_counter()
            number += 1
            late = report.at < newest
            if late:
                _push(engine, stream, waiting, listeners)
            for listener in listeners:
                listener.expect(report, read_at)
            waiting.append((report.graph, report.at))
            if late or len(waiting) == batch:
                _push(engine, stream, waiting, listeners)
            newest = max(newest, report.at)
    finally:
        _push(engine, stream, waiting, listeners)
    return number


def _push(
    engine: Engine, stream: str, waiting: list[tuple[bytes, int]], listeners: Iterable[DelayRecorder]
) -> None:
    """Push the queued trip reports to the stream, and let each recorder write its output lines."""
    given = waiting.copy()
    waiting.clear()
    engine.streams.push_each(stream, given, "application/n-triples")
    for listener in listeners:
        listener.write_lines()
