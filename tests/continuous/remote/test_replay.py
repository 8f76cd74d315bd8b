"""What was fetched cannot be fetched again as it was: a replay takes it from the journal."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.remote.settings import RemoteSettings

from ..engines import tick
from ..test_inputs_in_line import in_line
from ..test_recovery import Life, comparable
from .endpoint import Endpoint

SEEN = "STREAM :s [RANGE 10s] { ?x :seen ?v }"
SETTINGS = RemoteSettings(timeout_ms=60_000, every_ms=60_000)


class FarLife(Life):
    """A life that may reach an endpoint; its clock begins late enough that an age is no negative number."""

    def wait(self, ms: int) -> None:
        self.clock.advance(ms)
        tick(self.engine)


def life(folder: Path, far: Endpoint) -> FarLife:
    FarLife.hosts = (far.host,)
    folder.mkdir(exist_ok=True)
    return FarLife(folder / "data", ManualClock(0), remote=SETTINGS)


def queries(far: Endpoint) -> dict[str, tuple[str, dict[str, Any]]]:
    call = f"SERVICE <{far.url}sparql> {{ ?x :label ?l }}"
    windows = "REGISTER ISTREAM <http://example.org/out/closes> AS PREFIX : <http://example.org/> "
    return {
        "joined": (f"SELECT ?x ?l {{ {SEEN} {call} }}", {"output": "changes"}),
        "static": (f"SELECT ?x ?l {{ {call} }}", {}),
        "optional": (f"SELECT ?x ?l {{ {SEEN} OPTIONAL {{ {call} }} }}", {"output": "changes"}),
        "hand": (f"SELECT ?x ?l {{ {SEEN} {call} }}", {"refresh": "manual", "output": "changes"}),
        # Reads what was fetched at its next report only.
        "closes": (
            windows + "SELECT ?x ?l FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE PT4S STEP PT2S] "
            f"WHERE {{ WINDOW <w> {{ ?x :seen ?v }} {call} }}",
            {},
        ),
        "graph": (f"SELECT ?x ?n FROM <{far.url}g> {{ {SEEN} ?x :name ?n }}", {"output": "changes"}),
    }


def serve(far: Endpoint, names: dict[str, int]) -> None:
    """A graph at /g beside the endpoint."""
    turtle = far.turtle(" ".join(f":{name} :name {number} ." for name, number in names.items()))
    far.handle = lambda asked: turtle(asked) if asked.path == "/g" else far.sparql(asked)


def test_after_a_crash_the_same_is_told_although_the_endpoint_tells_something_else(
    tmp_path: Path, far: Endpoint
) -> None:
    one = life(tmp_path, far)
    serve(far, {"a": 1})
    for name, (text, options) in queries(far).items():
        one.register(name, text, **options)
    one.checkpoint()
    one.push(1_000, "a", "b")
    far.update("DELETE { ?x :label ?l } INSERT { ?x :label 9 } WHERE { ?x :label ?l }")
    serve(far, {"b": 2})
    one.wait(70_000)
    one.push(3_000, "a")
    told, answers = comparable(one.told()), one.answers()
    far.update("CLEAR ALL")
    serve(far, {})
    asked = len(far.asked)
    two = one.crash()
    assert len(far.asked) == asked, "nothing is fetched for a replay"
    assert comparable(two.told()) == told
    assert two.answers() == answers
    source = describe(two.engine, "joined")["sources"][0]
    assert source["refresh_version"] == 2 and source["stale"] is False
    two.wait(70_000)
    assert two.answers()["static"]["results"]["bindings"] == []
    two.stop()


def test_a_query_that_reports_later_sees_the_change_once_also_over_a_checkpoint(
    tmp_path: Path, far: Endpoint
) -> None:
    one = life(tmp_path, far)
    text, options = queries(far)["closes"]
    one.register("closes", text, **options)
    one.push(1_000, "a")
    one.push(2_000, "other")
    far.update("INSERT DATA { :a :label 7 }")
    one.wait(70_000)
    one.checkpoint()
    two = one.crash()
    assert describe(two.engine, "closes")["sources"][0]["refresh_version"] == 1, "as at its last report"
    two.push(4_500, "b")
    events = comparable(two.told())["closes"]
    rows = [row["l"]["value"] for _, _, data in events for row in data["results"]["bindings"]]
    assert rows == ["1", "7"], "1 at the first close, 7 at the second, nothing twice"
    two.stop()


def test_stale_marks_and_periods_survive_a_restart(tmp_path: Path, far: Endpoint) -> None:
    one = life(tmp_path, far)
    one.clock.advance(1_000_000)
    text, options = queries(far)["joined"]
    one.register("joined", text, **options)
    due = describe(one.engine, "joined")["sources"][0]["next_refresh"]
    far.handle = far.always(500)
    one.wait(70_000)
    two = one.crash()
    source = describe(two.engine, "joined")["sources"][0]
    assert source["stale"] is True and "500" in source["stale_reason"]
    assert source["stale_since"] == two.clock.now_ms()
    assert two.clock.now_ms() <= source["next_refresh"] <= two.clock.now_ms() + 6_000, "it was due already"
    far.handle = far.sparql
    two.wait(10_000)
    assert describe(two.engine, "joined")["sources"][0]["stale"] is False
    asked = len(far.asked)
    three = two.crash()
    due = describe(three.engine, "joined")["sources"][0]["next_refresh"] - three.clock.now_ms()
    assert 54_000 <= due <= 66_000, "fetched just before, it is not fetched again because of the restart"
    assert len(far.asked) == asked
    three.stop()


def test_contents_that_nothing_names_any_more_are_forgotten(tmp_path: Path, far: Endpoint) -> None:
    one = life(tmp_path, far)
    text, options = queries(far)["joined"]
    one.register("joined", text, **options)
    folder = one.folder / "engine" / "sources"
    for number in range(5):
        far.update(f"INSERT DATA {{ :c :label {100 + number} }}")
        one.wait(70_000)
    assert len(list(folder.iterdir())) == 6
    one.checkpoint()
    one.wait(1)
    one.push(1_000, "a")
    one.checkpoint()
    one.push(1_001, "a")
    one.checkpoint()
    assert len(list(folder.iterdir())) == 1
    one.engine.queries.drop("joined")
    for at in (1_002, 1_003):
        one.push(at, "a")
        one.checkpoint()
    assert list(folder.iterdir()) == []
    one.stop()


def test_a_content_that_is_lost_is_told_and_fetched_again(tmp_path: Path, far: Endpoint) -> None:
    one = life(tmp_path, far)
    text, options = queries(far)["joined"]
    one.register("joined", text, **options)
    one.push(1_000, "a")
    one.checkpoint()
    one.stop()
    shutil.rmtree(one.folder / "engine" / "sources")
    two = FarLife(one.folder, one.clock, remote=SETTINGS)
    assert describe(two.engine, "joined")["sources"][0]["stale_reason"] == "what was fetched is lost"
    two.wait(70_000)
    assert describe(two.engine, "joined")["sources"][0]["stale"] is False
    assert len(two.answers()["joined"]["results"]["bindings"]) == 1
    two.stop()


SEEDS = [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 25))]


@pytest.mark.parametrize("seed", SEEDS)
def test_crashes_anywhere_change_nothing_that_is_told(tmp_path: Path, far: Endpoint, seed: int) -> None:
    """The same inputs with and without crashes and checkpoints between them."""
    lives = {name: life(tmp_path / name, far) for name in ("calm", "shaken")}
    feeds: dict[str, Any] = {}
    for name in lives:
        chance, crashes = random.Random(seed), random.Random(seed + 100)
        one = lives[name]
        far.update("CLEAR ALL ; INSERT DATA { :a :label 1 . :b :label 2 }")
        serve(far, {"a": 1})
        for query, (text, options) in queries(far).items():
            one.register(query, text, **options)
        for step in range(1, 25):
            match chance.randrange(6):
                case 0 | 1:
                    one.push(step * 700, chance.choice("abc"))
                case 2:
                    thing, label = chance.choice("abc"), chance.randrange(4)
                    word = chance.choice(["INSERT", "DELETE"])
                    far.update(f"{word} DATA {{ :{thing} :label {label} }}")
                    serve(far, {thing: label})
                case 3:
                    one.wait(70_000)
                case 4:
                    one.engine.queries.refresh(chance.choice(["hand", "graph", "joined"]))
                case _:
                    thing = chance.choice("abc")
                    one.store.writer.update(f"INSERT DATA {{ <http://e/{thing}> <http://e/p> {step} }}")
            if name == "shaken":
                match crashes.randrange(5):
                    case 0:
                        one.checkpoint()
                    case 1:
                        far_life = one.crash()
                        assert isinstance(far_life, FarLife)
                        one = far_life
        feeds[name] = without_times(comparable(one.told()))
        one.stop()
    assert feeds["calm"] == feeds["shaken"]


def without_times(told: dict[str, Any]) -> dict[str, Any]:
    """Feeds without the wall clock time of fetches, which jitter moves; the rest must be the same."""
    for events in told.values():
        for _, _, data in events:
            for mark in data.get("sources", ()):
                mark.pop("refreshed")
    return told


def test_what_was_read_at_a_later_input_of_a_line_is_read_there_again(tmp_path: Path, far: Endpoint) -> None:
    one = life(tmp_path, far)
    serve(far, {"z": 1})
    text = (
        "REGISTER ISTREAM <http://example.org/out/closes> AS PREFIX : <http://example.org/> "
        f"SELECT ?x ?n FROM <{far.url}g> FROM :here FROM NAMED WINDOW <w> ON :s [RANGE PT4S STEP PT2S] "
        "WHERE { WINDOW <w> { ?x :seen ?v } ?x :name ?n }"
    )
    named = "PREFIX : <http://example.org/> INSERT DATA { GRAPH :here { :a :name %d } }"
    one.store.writer.update(named % 0)
    one.register("closes", text)
    one.push(500, "z")
    one.store.writer.update(named % 1)
    with in_line(one.engine):
        one.push(1_000, "a")
        one.push(2_500, "a")
        # It has its turn behind them, and is seen by the first of them that a window closes at.
        one.store.writer.update(named % 2)
    told, answers = one.told(), one.answers()
    assert answers["closes"]["version"] == one.store.reader.version
    two = one.crash()
    assert (two.told(), two.answers()) == (told, answers)
    two.stop()
