"""Flights and weather of one real week in New York as data classes, and the demo's query texts.

NOTE.txt names the origin of the demo's data and the changes to the data. All times in the demo's data classes
are milliseconds since 1970, in UTC.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from importlib.resources import files

READINGS = ("temp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib")
QUERY_FILES = {
    "departures": "departures.cqels",
    "late-departures": "late-departures.cqels",
    "poor-visibility": "poor-visibility.cqels",
    "mean-delay": "mean-delay.rspql",
    "watched-destinations": "watched-destinations.cqels",
}


@dataclass(frozen=True, slots=True)
class Departure:
    """Departure of a flight that was not cancelled.

    ``departed_ms`` is the scheduled time plus the delay. ``tail`` is the tail number of the aircraft, which
    the data have for every departed flight.
    """

    day: str
    carrier: str
    number: str
    tail: str
    origin: str
    destination: str
    scheduled_ms: int
    departed_ms: int
    delay_minutes: int
    distance_miles: int

    def moved(self, by_ms: int) -> Departure:
        """Return the departure with day and times increased by ``by_ms``."""
        return replace(
            self,
            day=str(date.fromisoformat(self.day) + timedelta(milliseconds=by_ms)),
            scheduled_ms=self.scheduled_ms + by_ms,
            departed_ms=self.departed_ms + by_ms,
        )


@dataclass(frozen=True, slots=True)
class WeatherReport:
    """Weather readings of one airport for the hour that begins at ``at_ms``, by names in READINGS."""

    airport: str
    at_ms: int
    readings: dict[str, Decimal]

    def moved(self, by_ms: int) -> WeatherReport:
        """Return the weather report with its time increased by ``by_ms``."""
        return replace(self, at_ms=self.at_ms + by_ms)


def departures() -> list[Departure]:
    """Return all departures of the demo's week by their actual time, without cancelled flights."""
    left = [_departure(row) for row in table("flights") if row["dep_time"] != "NA"]
    return sorted(left, key=lambda flight: flight.departed_ms)


def weather() -> list[WeatherReport]:
    """Return all weather reports of the demo's week in the order of their times."""
    return sorted((_report(row) for row in table("weather")), key=lambda report: report.at_ms)


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a data file: flights, weather, airports, planes or airlines."""
    text = gzip.decompress(files(__name__).joinpath(f"{name}.csv.gz").read_bytes()).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def text_of(file_name: str) -> str:
    """Return the content of a text file in the package of the demo's data."""
    return files(__name__).joinpath(file_name).read_text("utf-8")


def known(value: str) -> str | None:
    """Return a cell of a data file, or None for an unknown value, which the files write as NA."""
    return None if value == "NA" else value


def _departure(row: dict[str, str]) -> Departure:
    scheduled = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"]))
    departed = scheduled + timedelta(minutes=int(row["dep_delay"]))
    return Departure(
        day=f"{int(row['year']):04}-{int(row['month']):02}-{int(row['day']):02}",
        carrier=row["carrier"],
        number=row["flight"],
        tail=row["tailnum"],
        origin=row["origin"],
        destination=row["dest"],
        scheduled_ms=_milliseconds(scheduled),
        departed_ms=_milliseconds(departed),
        delay_minutes=int(row["dep_delay"]),
        distance_miles=int(row["distance"]),
    )


def _report(row: dict[str, str]) -> WeatherReport:
    readings = {name: Decimal(row[name]) for name in READINGS if known(row[name]) is not None}
    return WeatherReport(row["origin"], _milliseconds(datetime.fromisoformat(row["time_hour"])), readings)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000
