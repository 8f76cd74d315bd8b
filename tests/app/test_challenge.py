"""The output lines of the DEBS 2015 challenge against its rules in plain Python."""

from __future__ import annotations

import io
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import challenge
from benchmarks.taxi import Trip, csv_of, trips, with_windows
from quadrill.app.cli import main
from quadrill.app.commands import challenge as feeder
from quadrill.app.commands import replay
from quadrill.app.describing.queries import describe

QUERIES = Path(__file__).parents[2] / "benchmarks"
COLUMNS = {"q1": 2, "q2": 4}
RULES = {"q1": challenge.q1, "q2": challenge.q2}


def _squeezed(trip: Trip) -> Trip:
    """The same trip in one of 16 cells: lists are full, change often, and ties are common."""
    pick, drop = [
        (40_750_000 + p[0] % 4 * 4000, -73_980_000 + p[1] % 4 * 5000) for p in (trip.pick, trip.drop)
    ]
    return replace(trip, pick=trip.pick if trip.pick == (0, 0) else pick, drop=drop)


# Fifty minutes of few taxis, so that windows fill and empty.
REPORTS = [_squeezed(trip) for trip in trips(300, per_minute=6, taxis=40)]
# Window in minutes, reports a minute, reports: the longest window begins to empty as well.
SCENES = [(10, 6, 300), (30, 6, 300), (60, 4, 400), (120, 3, 540), (240, 2, 720)]


@pytest.mark.always("30-*", "60-*", "10-*")
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("minutes", "rate", "number"), SCENES)
def test_the_output_lines_are_those_of_the_rules(
    name: str, minutes: int, rate: int, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [_squeezed(trip) for trip in trips(number, per_minute=rate, taxis=20 + 4 * rate)]
    assert reports[-1].dropoff - reports[0].dropoff > 1.4 * minutes * 60
    assert _check(name, minutes, reports, tmp_path, capsys) > 150


def _rough(seed: int, number: int = 260) -> list[Trip]:
    """Reports that smooth traffic does not have.

    Many in one second, equal ranks all the time, trips of one taxi that overlap, last no time or began long
    before, places outside the grid and on the edges of cells, few fares.
    """
    chance = random.Random(seed)
    edges = [41_474_937 - 4_491_556 * step // 1000 for step in range(3)]
    found = []
    now = 1_357_000_000
    for place in range(number):
        now += chance.choice((0, 0, 0, 1, 1, 7, 60))
        places = [
            (chance.choice((*edges, 41_471_000, 41_468_300)), -74_913_585 + 2_993 * chance.randrange(5))
            for _ in range(2)
        ]
        if chance.random() < 0.05:
            places[chance.randrange(2)] = chance.choice(((0, 0), (41_600_000, -74_900_000)))
        pickup = now - chance.choice((0, 1, 30, 90, 200))
        fare, tip = chance.choice((250, 400, 400, 1000)), chance.choice((0, 0, 50))
        found.append(Trip(place, chance.randrange(6), pickup, now, places[0], places[1], fare, tip))
    return found


@pytest.mark.always("2-*", "4-*")
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_the_output_lines_of_rough_traffic_are_those_of_the_rules(
    name: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of what makes reports rough decides some lines."""
    reports = _rough(seed)
    assert _check(name, 4, reports, tmp_path, capsys) > 100
    told = [trip for trip, _ in challenge.lines(reports, RULES[name], 4)]
    assert len({trip.dropoff for trip in told}) < 0.8 * len(told), "several lines within a second"

    lists = [found for _, found in challenge.lines(reports, RULES[name], 4)]
    oldest_first = [replace(trip, number=-trip.number) for trip in reports]
    assert [found for _, found in challenge.lines(oldest_first, RULES[name], 4)] != lists, "freshness decides"
    if name == "q2":
        assert any("0" in found[2::4] for found in lists), "areas without profit are listed"
        assert any(
            first.taxi == second.taxi and first.dropoff > second.pickup and first.drop != second.drop
            for first, second in pairwise_of_taxis(reports)
        ), "trips of one taxi overlap"


@pytest.mark.parametrize("name", RULES)
def test_a_list_that_empties_is_a_line_of_nulls(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind each silence longer than the windows comes a report outside of the grid."""
    reports = _rough(1, 60)
    for place in (20, 40):
        pause = 3600 * place
        outside = replace(reports[place], pick=(0, 0))
        reports[place:] = [
            replace(trip, pickup=trip.pickup + pause, dropoff=trip.dropoff + pause)
            for trip in (outside, *reports[place + 1 :])
        ]
    _check(name, 4, reports, tmp_path, capsys)
    lists = [found for _, found in challenge.lines(reports, RULES[name], 4)]
    assert lists[0] and sum(not found for found in lists) == 2


def pairwise_of_taxis(reports: list[Trip]) -> list[tuple[Trip, Trip]]:
    """Each report with the next one of the same taxi."""
    newest: dict[int, Trip] = {}
    pairs = []
    for trip in reports:
        if trip.taxi in newest:
            pairs.append((newest[trip.taxi], trip))
        newest[trip.taxi] = trip
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("squeezed", [True, False], ids=["few cells", "the cells of the city"])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("minutes", [30, 60, 120, 240])
def test_the_output_lines_of_busy_hours_are_those_of_the_rules(
    name: str, minutes: int, squeezed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = list(trips(12 * minutes + 300, per_minute=10))
    if squeezed:
        reports = [_squeezed(trip) for trip in reports]
    assert _check(name, minutes, reports, tmp_path, capsys) > 100


def _check(
    name: str, minutes: int, reports: list[Trip], folder: Path, capsys: pytest.CaptureFixture[str]
) -> int:
    """Run a query over the challenge's file of these reports; the number of lines, all of them as ruled."""
    file = folder / "trips.csv"
    file.write_text("".join(csv_of(trip) + "\n" for trip in reports))
    query = folder / "query.cqels"
    query.write_text(with_windows((QUERIES / f"debs2015-{name}.cqels").read_text("utf-8"), minutes))
    assert main(["run", str(query), "--stream", f"Taxi={file}", "--format", "debs"]) == 0
    printed = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    expected = []
    for trip, found in challenge.lines(reports, RULES[name], minutes):
        missing = ["NULL"] * (COLUMNS[name] * challenge.LENGTH - len(found))
        expected.append([*csv_of(trip).split(",")[2:4], *found, *missing])
    assert [line[:-1] for line in printed] == expected
    assert all(float(line[-1]) > 0 for line in printed), "the last column is the delay in milliseconds"
    return len(expected)


def _lines(text: str, reports: list[Trip], line: int | None) -> list[list[str]]:
    """The output lines without delays; ``line``: reports in line, None for as many as the query lets."""
    with replay._registered({"query": text, "name": replay.NAME} | feeder.OPTIONS, []) as services:
        engine, output = services.engine, io.StringIO()
        listener = feeder.DelayRecorder(engine.queries.feed(replay.NAME), output)
        line = line or feeder.batch_limit(describe(engine, replay.NAME))
        feeder.follow(engine, "Taxi", feeder.reports(map(csv_of, reports)), [listener], line)
    return [each.split(",")[:-1] for each in output.getvalue().splitlines()]


@pytest.mark.always("0-*")
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_reports_in_line_have_the_lines_of_reports_that_are_waited_for(name: str, seed: int) -> None:
    """Also reports that come too late, and expiries of a silence with more of them than a line has."""
    reports, chance = _rough(seed, 200), random.Random(seed)
    for place in range(0, 190, 5):
        if chance.random() < 0.5:
            reports[place], reports[place + 3] = reports[place + 3], reports[place]
    reports[100:] = [replace(trip, dropoff=trip.dropoff + 3600) for trip in reports[100:]]
    text = with_windows((QUERIES / f"debs2015-{name}.cqels").read_text("utf-8"), 4)
    one_by_one = _lines(text, reports, 1)
    assert len(one_by_one) > 80
    for line in (2, 7, None):
        assert _lines(text, reports, line) == one_by_one


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, feeder.MAX_BATCH),
        ({"non_empty": True}, 1),
        ({"report": "on-window-close"}, 1),
        ({"form": "ask"}, 1),
    ],
)
def test_reports_are_in_line_where_each_has_an_answer(changed: dict[str, Any], line: int) -> None:
    text = (QUERIES / "debs2015-q1.cqels").read_text("utf-8")
    members = {"query": text, "name": replay.NAME} | feeder.OPTIONS
    with replay._registered(members, []) as services:
        described = describe(services.engine, replay.NAME)
    assert feeder.batch_limit(described | changed) == line
    grid = [each | {"kind": "grid"} for each in described["windows"]]
    assert feeder.batch_limit(described | {"windows": grid}) == 1


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("a,b", "line 2 has 2 fields"),
        (csv_of(REPORTS[1]).replace(",-73.", ",x73.", 1), "is not a number"),
        (csv_of(REPORTS[1]).replace("2013-", "13-"), "is not a time"),
    ],
)
def test_a_line_that_is_no_report_is_named(
    bad: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trips.csv"
    file.write_text(f"{csv_of(REPORTS[0])}\n{bad}\n")
    query = str(QUERIES / "debs2015-q1.cqels")
    assert main(["run", query, "--stream", f"Taxi={file}", "--format", "debs"]) == 1
    assert told in capsys.readouterr().err


def test_the_challenge_has_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trips.csv"
    file.write_text(csv_of(REPORTS[0]) + "\n")
    both = ["--stream", f"Taxi={file}", "--stream", f"Other={file}"]
    assert main(["run", str(QUERIES / "debs2015-q1.cqels"), *both, "--format", "debs"]) == 1
    assert "reads one file" in capsys.readouterr().err


def test_generated_trips_have_the_statistics_of_real_ones() -> None:
    """Figures of 10,004 real trips of a busy hour, each within a fifth."""
    rides = list(trips(10_004, per_minute=185))
    assert rides == list(trips(10_004, per_minute=185)), "the same trips in every run"
    assert rides == sorted(rides, key=lambda trip: trip.dropoff)

    def near(found: float, real: float) -> None:
        assert found == pytest.approx(real, rel=0.2)

    half = len(rides) // 2
    near(sorted(trip.dropoff - trip.pickup for trip in rides)[half], 540)
    near(sorted(trip.fare for trip in rides)[half], 900)
    near(sum(trip.fare + trip.tip for trip in rides) / len(rides), 1205)
    near(sum(not trip.tip for trip in rides) / len(rides), 0.62)
    near(len({trip.taxi for trip in rides}), 4630)
    routes = [(challenge.cell(trip.pick, 1), challenge.cell(trip.drop, 1)) for trip in rides]
    inside = [route for route in routes if None not in route]
    near(1 - len(inside) / len(rides), 0.0165)
    near(len(set(inside)), 6843)
    starts = Counter(start for start, _ in inside).most_common()
    for places, share in ((10, 0.16), (50, 0.58), (100, 0.83), (200, 0.96)):
        near(sum(count for _, count in starts[:places]) / len(inside), share)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_given_point_is_the_centre_of_the_first_cell_of_both_grids(parts: int) -> None:
    south, east = 4_491.556 / parts, 5_986 / parts
    for name, down, right in (("1.1", 0, 0), ("1.1", 0.49, 0.49), ("1.1", -0.49, -0.49), ("2.1", 0, 0.51)):
        place = round(41_474_937 - down * south), round(-74_913_585 + right * east)
        assert challenge.cell(place, parts) == name
    assert challenge.cell((41_474_937, round(-74_913_585 - 0.51 * east)), parts) is None
    last = 300 * parts - 1
    assert challenge.cell((round(41_474_937 - last * south), -74_913_585), parts) == f"1.{last + 1}"
    assert challenge.cell((round(41_474_937 - (last + 0.51) * south), -74_913_585), parts) is None
