"""The demo's data as RDF, and the order and pace of its replay; no server is needed."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence

import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.app.demo.data import departures, known, rdf, table, text_of, weather
from quadrill.app.demo.replay import (
    MAX_LINES_PER_PUSH,
    TICK_SECONDS,
    NothingToReplayError,
    ReplayPlan,
    replay,
)
from quadrill.app.demo.summary import FeedTally, TallyPrinter, events
from quadrill.app.http.errors import HttpError
from quadrill.app.page.pace import Pace

JAN_6_10H = 1_357_466_400_000
HOUR = 3_600_000


class Recorder:
    """Stands for a server: keeps what it is sent, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, list[int]]] = []

    def push(self, stream: str, lines: Sequence[str]) -> None:
        self.calls.append(("push", stream.rsplit("/", 1)[1], [json.loads(line)["at"] for line in lines]))

    def heartbeat(self, stream: str, at_ms: int) -> None:
        self.calls.append(("heartbeat", stream.rsplit("/", 1)[1], [at_ms]))

    def update(self, text: str) -> None:
        self.calls.append(("update", text, []))

    def times(self, stream: str) -> list[int]:
        return [at for kind, name, times in self.calls if kind == "push" and name == stream for at in times]


class Wall:
    """A wall clock that moves only when someone waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def run(plan: ReplayPlan, speed: float) -> Recorder:
    recorder, wall = Recorder(), Wall()
    replay(plan, recorder, pace=Pace(speed), clock=wall, pause=wall.wait)
    return recorder


def test_the_actual_departure_agrees_with_the_clock_time_in_the_file() -> None:
    by_flight = {(f.carrier, f.number, f.day): f for f in departures()}
    checked = 0
    for row in table("flights"):
        if row["dep_time"] == "NA":
            continue
        day = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
        flight = by_flight[row["carrier"], row["flight"], day]
        in_new_york = (flight.departed_ms // 60_000 - 5 * 60) % (24 * 60)
        hhmm = int(row["dep_time"]) % 2400
        assert in_new_york == hhmm // 100 * 60 + hhmm % 100
        checked += 1
    assert checked == len(by_flight) == 6064


def test_a_cancelled_flight_has_no_departure() -> None:
    cancelled = sum(row["dep_time"] == "NA" for row in table("flights"))
    assert cancelled == 35
    assert len(departures()) == len(table("flights")) - cancelled


def test_the_aircraft_of_every_departure_is_known() -> None:
    assert all(known(flight.tail) for flight in departures())


def test_rows_come_in_the_order_of_event_time() -> None:
    for times in ([f.departed_ms for f in departures()], [r.at_ms for r in weather()]):
        assert times == sorted(times)


def test_no_two_flights_share_an_iri() -> None:
    assert max(Counter(rdf.flight_iri(flight) for flight in departures()).values()) == 1


def test_a_departure_is_a_schema_flight_with_its_delay_and_times() -> None:
    flight = next(f for f in departures() if f.day == "2013-01-06" and f.delay_minutes == 44)
    line = json.loads(rdf.departure_line(flight))
    triples = {(t.subject.value, t.predicate.value): t.object for t in parse(line["data"], RdfFormat.N_QUADS)}
    subject = rdf.flight_iri(flight)
    assert line["at"] == flight.departed_ms
    assert triples[subject, rdf.SCHEMA + "flightNumber"].value == "B6725"
    assert triples[subject, rdf.SCHEMA + "departureTime"].value == "2013-01-06T11:29:00Z"
    assert triples[subject, rdf.BASE + "vocabulary#scheduledDeparture"].value == "2013-01-06T10:45:00Z"
    assert triples[subject, rdf.SCHEMA + "arrivalAirport"].value == rdf.BASE + "airport/BQN"
    assert triples[subject, rdf.BASE + "vocabulary#departureDelay"].value == "44"


def test_a_reading_that_is_not_known_has_no_observation() -> None:
    rows = sorted(table("weather"), key=lambda row: row["time_hour"])
    for report, row in zip(weather(), rows, strict=True):
        line = json.loads(rdf.weather_line(report))
        expected = sum(row[name] != "NA" for name in rdf.PROPERTIES)
        predicates = [quad.predicate.value for quad in parse(line["data"], RdfFormat.N_QUADS)]
        assert predicates.count(rdf.SOSA + "hasSimpleResult") == expected


def test_the_static_graphs_hold_every_row_and_parse() -> None:
    kinds = {"airports": "Airport", "airlines": "Airline", "aircraft": "Vehicle"}
    rows = {"airports": "airports", "airlines": "airlines", "aircraft": "planes"}
    for graph, (media_type, body) in rdf.static_graphs().items():
        name = graph.rsplit("/", 1)[1]
        quads = list(parse(body, RdfFormat.from_media_type(media_type)))
        if name in kinds:
            typed = [quad for quad in quads if quad.object.value == rdf.SCHEMA + kinds[name]]
            assert len(typed) == len(table(rows[name]))
        else:
            assert quads


def test_every_departure_of_the_plan_is_sent_once_and_in_order_at_any_speed() -> None:
    plan = ReplayPlan.between(JAN_6_10H, JAN_6_10H + 6 * HOUR)
    expected = [f.departed_ms for f in departures() if JAN_6_10H <= f.departed_ms < plan.end_ms]
    reports = [report.at_ms for report in weather() if JAN_6_10H <= report.at_ms < plan.end_ms]
    for speed in (600.0, 7_200.0, 1e12):
        recorder = run(plan, speed)
        assert recorder.times("departures") == expected
        assert recorder.times("weather") == reports


def test_nothing_is_sent_that_an_earlier_heartbeat_ruled_out() -> None:
    recorder = run(ReplayPlan.between(JAN_6_10H, JAN_6_10H + 12 * HOUR), 5_000.0)
    watermark = {"departures": 0, "weather": 0}
    for kind, name, times in recorder.calls:
        if kind == "update":
            continue
        assert min(times) >= watermark[name]
        watermark[name] = max(times)
    assert watermark == {"departures": JAN_6_10H + 12 * HOUR, "weather": JAN_6_10H + 12 * HOUR}


def test_rows_of_one_event_time_are_never_in_two_pushes() -> None:
    recorder = run(ReplayPlan.between(1_356_998_400_000), 1e12)
    pushes = [times for kind, name, times in recorder.calls if kind == "push" and name == "departures"]
    assert len(pushes) > 6000 // (MAX_LINES_PER_PUSH + 20)
    for earlier, later in zip(pushes, pushes[1:], strict=False):
        assert earlier[-1] < later[0]


def test_the_watch_list_changes_once_after_just_half_of_the_departures() -> None:
    plan = ReplayPlan.between(JAN_6_10H)
    for speed in (36_000.0, 1e12):
        recorder = run(plan, speed)
        updates = [index for index, call in enumerate(recorder.calls) if call[0] == "update"]
        assert len(updates) == 1
        before, after = Recorder(), Recorder()
        before.calls, after.calls = recorder.calls[: updates[0]], recorder.calls[updates[0] :]
        assert max(before.times("departures")) < plan.change_ms == min(after.times("departures"))
        assert abs(len(before.times("departures")) - len(plan.departures) / 2) <= 5
        assert before.calls[-1][0] == "heartbeat" and before.calls[-1][2] == [plan.change_ms]


def test_the_replay_keeps_to_its_speed() -> None:
    plan = ReplayPlan.between(JAN_6_10H, JAN_6_10H + HOUR)
    recorder, wall = Recorder(), Wall()
    reached: list[tuple[float, int]] = []
    replay(
        plan, recorder, pace=Pace(360.0), clock=wall, pause=wall.wait,
        progress=lambda at_ms: reached.append((wall.now - 100, at_ms)),
    )  # fmt: skip
    assert wall.now - 100 == pytest.approx(10, abs=0.5)
    behind = [wall_s * 360 - (at_ms - JAN_6_10H) / 1000 for wall_s, at_ms in reached]
    # The round before the change ends at the change; the next one makes up for it at once.
    assert min(behind) >= -0.01 and sorted(behind)[-2] < 0.01 and max(behind) <= 360 * TICK_SECONDS


def test_a_replay_is_paused_and_changes_its_speed_without_losing_an_element() -> None:
    plan = ReplayPlan.between(JAN_6_10H, JAN_6_10H + HOUR)
    whole, recorder, wall, pace = run(plan, 360.0), Recorder(), Wall(), Pace(360.0)
    reached: list[tuple[float, int]] = []

    def wait(seconds: float) -> None:
        wall.wait(seconds)
        passed = wall.now - 100
        pace.paused = 2 <= passed < 5
        pace.speed = 360.0 if passed < 7 else 720.0

    replay(
        plan, recorder, pace=pace, clock=wall, pause=wait,
        progress=lambda at_ms: reached.append((wall.now - 100, at_ms)),
    )  # fmt: skip
    assert not [at for at, _ in reached if 2.3 < at < 4.9], "nothing is pushed while it is paused"
    # 4 seconds at the first speed have 24 minutes, the other 36 minutes take 3 seconds at the second one.
    assert wall.now - 100 == pytest.approx(10, abs=0.7)
    for stream in ("departures", "weather"):
        assert recorder.times(stream) == whole.times(stream)


@pytest.mark.parametrize(
    "members", [{"speed": 0}, {"speed": True}, {"speed": 1e9}, {"paused": 1}, {"sped": 2}, {"speed": "2"}]
)
def test_a_pace_that_cannot_be_is_refused_and_changes_nothing(members: dict[str, object]) -> None:
    pace = Pace(600.0)
    with pytest.raises(HttpError):
        pace.change(members)
    assert pace == Pace(600.0)


def test_a_time_without_departures_is_refused_with_the_times_there_are() -> None:
    with pytest.raises(NothingToReplayError, match="2014-01-01") as caught:
        ReplayPlan.between(1_388_534_400_000)
    assert caught.value.hint is not None and "2013-01-01T" in caught.value.hint


def test_the_event_stream_is_taken_apart_into_kind_id_and_data() -> None:
    lines = [": heartbeat", "", "retry: 2000", "", "event: insert", "id: 7", "data: {}", "", "data: half"]
    assert list(events(lines)) == [("insert", 7, "{}")]


def test_a_tally_counts_rows_and_keeps_the_newest() -> None:
    def document(*flights: str) -> dict[str, object]:
        rows = [{"flight": {"type": "literal", "value": flight}} for flight in flights]
        return {"head": {"vars": ["flight", "gone"]}, "results": {"bindings": rows}}

    tally = FeedTally("q")
    tally.take("insert", 1, document("AA1", "AA2"))
    tally.take("progress", None, {})
    tally.take("delete", 2, document("AA1"))
    assert (tally.added, tally.removed, tally.last_id) == (2, 1, 2)
    assert "AA1  -" in tally.line()
    tally.take("error", 3, {"detail": "the engine tripped"})
    assert "the engine tripped" in tally.line()


class Terminal(io.StringIO):
    """Text that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_summary_is_written_over_itself_and_fits_its_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal, tally = Terminal(), FeedTally("late-departures", error="a long story " * 9)
    screen = TallyPrinter(terminal)
    screen.show(JAN_6_10H, [tally], 0.0)
    screen.show(JAN_6_10H, [tally], 0.1)
    first, second = terminal.getvalue().split("\x1b[2F\x1b[J")
    assert first == second
    assert [len(line) for line in first.splitlines()] == [20, 39]
    screen.say("message", "news")
    screen.show(JAN_6_10H, [tally], 0.2)
    assert terminal.getvalue().count("\x1b[2F") == 1


def test_elsewhere_the_summary_is_written_now_and_then_and_at_the_end() -> None:
    plain = io.StringIO()
    screen = TallyPrinter(plain, every_s=5.0)
    for now_s in (0.0, 1.0, 4.9, 5.0, 6.0):
        screen.show(JAN_6_10H, [FeedTally("q")], now_s)
    screen.show(JAN_6_10H, [FeedTally("q")], 6.1, final=True)
    assert plain.getvalue().count("2013-01-06T10:00:00Z") == 3
    assert "\x1b" not in plain.getvalue()


def test_as_json_each_output_is_one_object_on_one_line() -> None:
    plain = Terminal()
    screen = TallyPrinter(plain, as_json=True)
    screen.say("ready", "Quadrill is ready at http://x/", url="http://x/")
    for now_s in (0.0, 1.0, 6.0):
        screen.show(JAN_6_10H, [FeedTally("q", added=2, error="gone")], now_s)
    printed = [json.loads(line) for line in plain.getvalue().splitlines()]
    assert printed[0] == {"event": "ready", "url": "http://x/"}
    counts = {
        "event": "counts",
        "at": "2013-01-06T10:00:00Z",
        "queries": [{"name": "q", "added": 2, "removed": 0, "newest": {}, "error": "gone"}],
    }
    assert printed[1:] == [counts, counts]


def test_the_texts_of_the_package_are_there() -> None:
    assert "CC0" in text_of("NOTE.txt")
    assert "INSERT DATA" in text_of("change-watch.ru")
