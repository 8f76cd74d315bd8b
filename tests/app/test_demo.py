"""The demo from end to end, every row of its five feeds compared with what plain Python makes of the CSV."""

from __future__ import annotations

import csv
import gzip
import io
import json
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from importlib.resources import files
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import load_settings
from quadrill.app.demo.client import DemoClient
from quadrill.app.demo.replay import ReplayPlan, rounds
from quadrill.app.demo.run import last_ids, play
from quadrill.app.demo.summary import FeedTally, TallyPrinter, events
from quadrill.app.page.pace import Pace
from tests.program import run

START = datetime(2013, 1, 6, 10, tzinfo=UTC)
END = datetime(2013, 1, 6, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
WATCHED_FIRST = {"MIA": "thunderstorms", "FLL": "thunderstorms"}
WATCHED_LATER = {"ATL": "fog", "ORD": "snow"}
Event = tuple[str, dict[str, Any]]
Cells = tuple[str | None, ...]


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def rows(name: str) -> list[dict[str, str]]:
    packed = files("quadrill.app.demo.data").joinpath(f"{name}.csv.gz").read_bytes()
    return list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))


@dataclass(frozen=True)
class Expected:
    """The rows that each feed must give, made from the CSV files without any code of the product."""

    flights: list[dict[str, str]]
    left: dict[str, datetime]
    change: datetime

    @classmethod
    def read(cls) -> Expected:
        left = {}
        flights = []
        for row in rows("flights"):
            if row["dep_delay"] == "NA":
                continue
            minutes = int(row["minute"]) + int(row["dep_delay"])
            moment = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=minutes)
            if START <= moment < END:
                flights.append(row)
                left[cls.number(row)] = moment
        flights.sort(key=lambda row: left[cls.number(row)])
        return cls(flights, left, left[cls.number(flights[len(flights) // 2])])

    @staticmethod
    def number(row: dict[str, str]) -> str:
        return row["carrier"] + row["flight"]

    def moment(self, row: dict[str, str]) -> datetime:
        return self.left[self.number(row)]

    def late_departures(self) -> Counter[Cells]:
        airlines = {row["carrier"]: row["name"] for row in rows("airlines")}
        planes = {row["tailnum"]: f"{row['manufacturer']} {row['model']}" for row in rows("planes")}
        airports = {row["faa"]: row["name"] for row in rows("airports")}
        return Counter(
            (
                self.number(row), airlines[row["carrier"]], planes.get(row["tailnum"]),
                airports.get(row["dest"]), row["dep_delay"],
            )
            for row in self.flights if int(row["dep_delay"]) >= 15
        )  # fmt: skip

    def poor_visibility(self) -> Counter[Cells]:
        airports = {row["faa"]: row["name"] for row in rows("airports")}
        miles = {
            (row["origin"], datetime.fromisoformat(row["time_hour"])): row["visib"]
            for row in rows("weather")
            if row["visib"] != "NA" and float(row["visib"]) <= 6
        }
        found = Counter[Cells]()
        for row in self.flights:
            key = row["origin"], self.moment(row).replace(minute=0)
            if key in miles and key[1] >= START:
                found[self.number(row), airports[row["origin"]], miles[key], row["dep_delay"]] += 1
        return found

    def mean_delays(self) -> dict[str, list[tuple[str, Fraction, int]]]:
        """By hour: airline, mean delay and departures, worst first."""
        airlines = {row["carrier"]: row["name"] for row in rows("airlines")}
        delays: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row in self.flights:
            hour = self.moment(row).strftime("%Y-%m-%dT%Hh")
            delays[hour][airlines[row["carrier"]]].append(int(row["dep_delay"]))
        return {
            hour: sorted(
                ((name, Fraction(sum(each), len(each)), len(each)) for name, each in of_hour.items()),
                key=lambda row: (-row[1], row[0]),
            )
            for hour, of_hour in delays.items()
        }

    def watched(self) -> tuple[Counter[tuple[int, str]], Counter[tuple[int, str]]]:
        """(instant, flight) of each row that comes, and of each that goes."""
        come, gone = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
        for row in self.flights:
            moment = self.moment(row)
            if row["dest"] in WATCHED_LATER and moment + HOUR >= self.change:
                seen = max(moment, self.change)
            elif row["dest"] in WATCHED_FIRST:
                seen = moment
            else:
                continue
            come[ms(seen), self.number(row)] += 1
            if moment + HOUR < END:
                gone[ms(moment + HOUR) + 1, self.number(row)] += 1
        return come, gone


@dataclass(frozen=True)
class Outcome:
    feeds: dict[str, list[Event]]
    tallies: dict[str, FeedTally]
    printed: str
    plan: ReplayPlan


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """The demo's replay at the highest speed, and all events of its feeds as a client gets them."""
    return outcome_of(ReplayPlan.between(ms(START), ms(END)))


@pytest.fixture(scope="module")
def two_rounds() -> Outcome:
    """The same rows, and once more a day later."""
    plan = ReplayPlan.between(ms(START), ms(END))
    return outcome_of(plan, plan.moved(plan.round_ms))


def outcome_of(*plans: ReplayPlan) -> Outcome:
    printed = io.StringIO()
    with running.serve(load_settings(overrides={"data": ":memory:", "port": 0}, environment={})) as server:
        with DemoClient(server.url, None) as client:
            client.set_up()
            stop = threading.Event()
            tallies = play(
                plans, client, server.url, {}, pace=Pace(1e9), screen=TallyPrinter(printed), stop=stop,
                last_ids=lambda: last_ids(server.services.engine, stop),
            )  # fmt: skip
        ends = last_ids(server.services.engine, stop)
        assert ends is not None
        feeds = {name: read_feed(server.url, name, last_id) for name, last_id in ends.items()}
    return Outcome(feeds, tallies, printed.getvalue(), plans[0])


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected.read()


def all_rows(outcome: Outcome, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each row of a feed as text, with the document that it came in."""
    for _, document in outcome.feeds[name]:
        for row in document.get("results", {}).get("bindings", []):
            yield document, json.dumps(row, sort_keys=True)


def read_feed(url: str, name: str, last_id: int) -> list[Event]:
    found: list[Event] = []
    headers = {"Accept": "text/event-stream"}
    with (
        httpx.Client(trust_env=False, timeout=20) as http,
        http.stream("GET", f"{url}queries/{name}/results?from=0", headers=headers) as response,
    ):
        for kind, event_id, data in events(response.iter_lines()):
            found.append((kind, json.loads(data)))
            if event_id is not None and event_id >= last_id:
                break
    return found


def bindings(event: Event, *names: str) -> list[Cells]:
    found: list[dict[str, Any]] = event[1]["results"]["bindings"]
    return [tuple(row.get(name, {}).get("value") for name in names) for row in found]


def test_each_late_departure_is_told_once_with_the_names_that_are_known(
    outcome: Outcome, expected: Expected
) -> None:
    feed = outcome.feeds["late-departures"]
    assert {kind for kind, _ in feed} == {"insert"}
    names = ("flight", "airline", "aircraft", "destination", "delay")
    got = Counter(row for event in feed for row in bindings(event, *names))
    assert got == expected.late_departures()
    assert sum(got.values()) > 50
    assert any(aircraft is None for _, _, aircraft, _, _ in got)


def test_a_late_departure_is_told_at_the_instant_at_which_it_left(
    outcome: Outcome, expected: Expected
) -> None:
    for event in outcome.feeds["late-departures"]:
        for (flight,) in bindings(event, "flight"):
            assert flight is not None
            assert event[1]["at"] == ms(expected.left[flight])


def test_departures_in_poor_visibility_are_those_of_the_hour_of_such_a_report(
    outcome: Outcome, expected: Expected
) -> None:
    feed = outcome.feeds["poor-visibility"]
    got = Counter(row for event in feed for row in bindings(event, "flight", "from", "miles", "delay"))
    assert got == expected.poor_visibility()
    assert sum(got.values()) > 50


def test_the_mean_delays_of_each_hour_come_when_it_closes_worst_first(
    outcome: Outcome, expected: Expected
) -> None:
    got: dict[str, list[tuple[str, Fraction, int]]] = {}
    for kind, document in outcome.feeds["mean-delay"]:
        if not document.get("results", {}).get("bindings"):
            continue
        event_rows = bindings((kind, document), "hour", "airline", "meanDelay", "departures")
        (hour,) = {row[0] for row in event_rows}
        assert kind == "insert"
        assert hour is not None and hour not in got
        opened = datetime.strptime(hour, "%Y-%m-%dT%Hh").replace(tzinfo=UTC)
        assert document["at"] == ms(opened + HOUR)
        got[hour] = [
            (str(airline), Fraction(str(mean)), int(str(count))) for _, airline, mean, count in event_rows
        ]
    wanted = expected.mean_delays()
    assert got.keys() == wanted.keys()
    for hour, wanted_rows in wanted.items():
        assert [(row[0], row[2]) for row in got[hour]] == [(row[0], row[2]) for row in wanted_rows]
        for (_, mean, _), (_, wanted_mean, _) in zip(got[hour], wanted_rows, strict=True):
            assert abs(mean - wanted_mean) < Fraction(1, 10**9)


def test_rows_of_watched_destinations_come_and_go_at_the_right_instants(
    outcome: Outcome, expected: Expected
) -> None:
    come, gone = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for event in outcome.feeds["watched-destinations"]:
        for (flight,) in bindings(event, "flight"):
            assert event[0] in ("insert", "delete")
            (come if event[0] == "insert" else gone)[event[1]["at"], str(flight)] += 1
    wanted_come, wanted_gone = expected.watched()
    assert come == wanted_come
    assert gone == wanted_gone


def test_the_insert_half_way_changes_the_answer_by_itself(outcome: Outcome, expected: Expected) -> None:
    at_change = [
        event for event in outcome.feeds["watched-destinations"]
        if event[0] == "insert" and set(bindings(event, "reason")) & {("fog",), ("snow",)}
    ]  # fmt: skip
    first = at_change[0]
    assert first[1]["at"] == outcome.plan.change_ms == ms(expected.change)
    flights = [str(flight) for (flight,) in bindings(first, "flight")]
    assert flights and all(ms(expected.left[flight]) < outcome.plan.change_ms for flight in flights)
    before = [document["version"] for _, document in outcome.feeds["watched-destinations"]
              if document["at"] < outcome.plan.change_ms]  # fmt: skip
    assert first[1]["version"] > max(before)


def test_the_next_round_gives_the_same_events_later_and_nothing_is_late(
    outcome: Outcome, two_rounds: Outcome, expected: Expected
) -> None:
    later = outcome.plan.round_ms
    assert later == 24 * 3_600_000
    for name in ("late-departures", "poor-visibility", "departures"):
        first = Counter((document["at"], row) for document, row in all_rows(outcome, name))
        both = Counter((document["at"], row) for document, row in all_rows(two_rounds, name))
        assert both == first + Counter({(at + later, row): many for (at, row), many in first.items()})
    seen = [document["at"] for document, _ in all_rows(two_rounds, "mean-delay")]
    hours = sorted(
        ms(datetime.strptime(hour, "%Y-%m-%dT%Hh").replace(tzinfo=UTC) + HOUR)
        for hour in expected.mean_delays()
    )
    assert sorted(set(seen)) == hours + [hour + later for hour in hours]
    come, gone = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for event in two_rounds.feeds["watched-destinations"]:
        for (flight,) in bindings(event, "flight"):
            (come if event[0] == "insert" else gone)[event[1]["at"], str(flight)] += 1
    wanted, _ = expected.watched()
    assert come == wanted + Counter({(at + later, flight): many for (at, flight), many in wanted.items()})
    # All of the first round has gone before the second begins; the last hour of the second has not.
    left = {flight: many for (at, flight), many in gone.items() if at < ms(START) + later}
    assert sum(left.values()) == sum(wanted.values())


def test_every_departure_is_told_with_its_places_for_the_map(outcome: Outcome, expected: Expected) -> None:
    places = {row["faa"]: (row["faa"], row["lat"], row["lon"], row["name"]) for row in rows("airports")}
    wanted = Counter[Cells](
        (
            expected.number(row), row["origin"],
            *places.get(row["dest"], (None, None, None, None)), row["dep_delay"],
        )
        for row in expected.flights
    )  # fmt: skip
    names = ("flight", "from", "to", "toLat", "toLong", "destination", "delay")
    assert Counter(row for event in outcome.feeds["departures"] for row in bindings(event, *names)) == wanted
    assert {row["dest"] for row in expected.flights} - places.keys() <= {"SJU", "BQN", "PSE", "STT"}


def test_the_live_summary_ends_with_the_counts_of_the_feeds(outcome: Outcome, expected: Expected) -> None:
    assert "Half-way: Atlanta and Chicago are put on the watch list." in outcome.printed
    come, gone = expected.watched()
    late = sum(expected.late_departures().values())
    last = outcome.printed.rsplit("2013-01-06T20:00:00Z", 1)[1]
    assert f"late-departures       {late:5} rows" in last
    assert f"watched-destinations  {sum(come.values()):5} in, {sum(gone.values())} out" in last
    assert outcome.tallies["mean-delay"].added == sum(len(rows) for rows in expected.mean_delays().values())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--speed", "0"], 2, "not a positive number"),
        (["--speed", "fast"], 2, "not a positive number"),
        (["--seconds", "-1"], 2, "not a positive number"),
        (["--from", "yesterday"], 2, "is not a time"),
        (["--from", "99999999999999999999"], 2, "is not a time"),
        (["--from", "2020-01-01"], 1, "no flight left between 2020-01-01"),
    ],
)
def test_a_wrong_option_is_one_clear_sentence(arguments: list[str], code: int, words: str) -> None:
    ended = run("demo", "--port", "0", *arguments)
    assert ended.returncode == code
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_the_command_goes_on_with_the_next_round_until_a_signal_ends_it() -> None:
    command = [sys.executable, "-m", "quadrill.app.cli", "demo", "--port", "0", "--speed", "1e6"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running_demo:
        assert running_demo.stdout is not None and running_demo.stderr is not None
        said = []
        for line in running_demo.stdout:
            said.append(line)
            if line.startswith("Round 3"):
                break
        running_demo.send_signal(signal.SIGINT)
        assert running_demo.wait(60) == 0
        assert running_demo.stderr.read() == ""
    assert "Round 2: the same departures, now from 2013-01-08T10:00:00Z on.\n" in said
    assert any("/ui/demo " in line for line in said)


@pytest.mark.slow
def test_the_command_with_once_ends_after_one_round() -> None:
    ended = run("demo", "--port", "0", "--speed", "1e6", "--once", timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "Round" not in ended.stdout


def test_rounds_end_with_the_time_that_was_asked_for() -> None:
    whole = ReplayPlan.between(ms(START))
    span = whole.end_ms - whole.start_ms
    first, second, third = rounds(ms(START), 2 * span + 3_600_000)
    assert first == whole and second == whole.moved(whole.round_ms)
    assert third.end_ms - third.start_ms == 3_600_000
    assert third.departures == tuple(f for f in third.departures if f.departed_ms < third.end_ms) != ()
    assert [plan.end_ms for plan in rounds(ms(START), once=True)] == [whole.end_ms]


def test_the_command_shows_all_feeds_within_its_seconds() -> None:
    ended = run("demo", "--port", "0", "--seconds", "5", timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("Quadrill is ready at http://127.0.0.1:")
    last = ended.stdout.rsplit("2013-01-06T13:20:00Z", 1)[1]
    names = ("departures", "late-departures", "poor-visibility", "mean-delay", "watched-destinations")
    for name in names:
        (line,) = (line for line in last.splitlines() if line.strip().startswith(name))
        assert "nothing yet" not in line
    assert "Traceback" not in ended.stderr
