"""``quadrill run --format debs``: the trips of the DEBS 2015 Grand Challenge in, its output lines out.

The feeder reads the challenge's own CSV file, one report a line, and pushes each as an element of its
own, the graph of Example 1 of the paper with the report's running number, stamped with the drop-off: many
reports have one second, and their order is part of the data. The listener writes a line whenever a report
changed the list that the query gives, also within a second:

    pickup_datetime,dropoff_datetime,<the list's rows, column after column>,delay

The two times are those of the report that caused it, rows that the list of ten has not are NULL, and the
delay is the time in milliseconds from after the report was read to before the line was written.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from quadrill.continuous.engine import Engine
from quadrill.store.errors import QuadrillError
from quadrill.store.feeds.subscription import Subscription

LENGTH = 10
NAMESPACE = "http://debs2015.org/taxi#"
# What the challenge's rules ask of a registration: windows are (now - width, now], a line is a whole list.
OPTIONS = {"output": "rstream", "bounds": "open-closed"}

_FIELDS = 17
_NUMBERS = {"pickLon": 6, "pickLat": 7, "dropLon": 8, "dropLat": 9, "fare": 11, "tip": 14}
_XSD = "http://www.w3.org/2001/XMLSchema#"
_ENDS_WITH_ZEROS = re.compile(r"-?[0-9]+\.[0-9]*0")


class TripError(QuadrillError):
    """A line that is no report of a trip."""

    code = "recording"


@dataclass(frozen=True, slots=True)
class ChallengeReport:
    """One report of a trip: its times as the file has them, its end in milliseconds, and its graph."""

    pickup: str
    dropoff: str
    at: int
    graph: bytes


def reports(lines: Iterator[str]) -> Iterator[ChallengeReport]:
    """The reports of a file of the challenge, in its order.

    Raises:
        TripError: a line without 17 fields, a time or a number that is none; with the line's number.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _report(line.strip().split(","), number)


def _report(fields: list[str], number: int) -> ChallengeReport:
    if len(fields) != _FIELDS:
        raise TripError(
            f"line {number} has {len(fields)} fields, a report of the challenge has {_FIELDS}",
            hint="See the fields in docs/language.md, section Output of the DEBS 2015 challenge.",
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
            raise TripError(f"line {number}: {fields[place]!r} is no number ({name})") from None
        values.append((name, f'"{_shortest(fields[place])}"^^<{_XSD}decimal>'))
    graph = "".join(f"{trip} <{NAMESPACE}{name}> {value} .\n" for name, value in values)
    return ChallengeReport(fields[2], fields[3], int(dropoff.timestamp()) * 1000, graph.encode())


def _shortest(text: str) -> str:
    """A decimal without zeros at its end, as the store has it; anything else as it is."""
    if not _ENDS_WITH_ZEROS.fullmatch(text):
        return text
    short = text.rstrip("0").rstrip(".")
    return text if short == "-0" else short


def _time(text: str, number: int) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise TripError(f"line {number}: {text!r} is no time as in 2013-01-01 00:02:00") from None


class Listener:
    """Writes the output lines of one query and adds up their delays."""

    def __init__(self, subscription: Subscription, output: TextIO) -> None:
        self.written = 0
        self.delay_ms = 0.0
        self._subscription = subscription
        self._output = output
        self._shown: list[dict[str, Any]] = []
        # The list of the answer looked at last, as it was told.
        self._told = ""

    def after(self, report: ChallengeReport, read_at: float) -> None:
        """A report was processed; ``read_at`` is the reading of `time.perf_counter` when it had been read."""
        answers = [event.data for event in self._subscription.take() if event.kind == "answer"]
        told = answers[-1].partition(',"head":')[2] if answers else self._told
        if told == self._told:
            return
        self._told = told
        document = json.loads(answers[-1])
        rows = document["results"]["bindings"][:LENGTH]
        if rows == self._shown:
            return
        self._shown = rows
        found = _cells(rows, document["head"]["vars"])
        delay = (time.perf_counter() - read_at) * 1000
        self.written += 1
        self.delay_ms += delay
        self._output.write(",".join([report.pickup, report.dropoff, *found, f"{delay:.3f}"]) + "\n")


def _cells(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """The columns of the rows of a list one after the other, NULL for rows not there."""
    found = [row[name]["value"] if name in row else "NULL" for row in rows for name in names]
    return found + ["NULL"] * (LENGTH * len(names) - len(found))


def follow(engine: Engine, stream: str, file: Path, listeners: list[Listener]) -> int:
    """Push every report of a file, one after the other; the number of reports."""
    number = 0
    with file.open(encoding="utf-8") as lines:
        for report in reports(lines):
            read_at = time.perf_counter()
            engine.push(stream, report.graph, "application/n-triples", at=report.at, wait=True)
            for listener in listeners:
                listener.after(report, read_at)
            number += 1
    return number
