"""Late elements that no window can take are counted; reports at fixed instants lose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_stream
from quadrill.continuous.clock import ManualClock
from quadrill.store.errors import InputError, QueryTextError
from tests.continuous.engines import Bench, E, S, bench
from tests.continuous.test_recovery import Life

SESSION = "SELECT ?x WHERE { STREAM :s [SESSION 10s PARTITION BY ?x] { ?x :seen ?v } }"
ON_CLOSE = SESSION + " EMIT ON CLOSE"
GRID = "SELECT ?x WHERE { STREAM :s [RANGE 10s SLIDE 10s] { ?x :seen ?v } } EMIT ON CLOSE"
RANGE = "SELECT ?x WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }"
PAST = "SELECT ?x WHERE { STREAM :s [RANGE 10s TO 5s] { ?x :seen ?v } }"
LATEST = "SELECT ?x WHERE { STREAM :s [LATEST BY ?x WITHIN 10s] { ?x :seen ?v } }"


def counts(b: Bench | Life) -> dict[str, int]:
    found: dict[str, int] = describe_stream(b.engine, S)["late_counts"]
    return found


def letters(b: Bench | Life) -> list[tuple[int, bool]]:
    return [(each["at"], each["entered"]) for each in b.engine.streams.dead_letters(S)]


def close_two_sessions(b: Bench | Life) -> None:
    """The session of a was reported, then that of b."""
    b.push(1_000, "a")
    b.push(12_000, "b")
    b.push(30_000, "c")


@pytest.mark.parametrize("query", [SESSION, ON_CLOSE, GRID, RANGE, PAST, LATEST])
def test_an_admitted_element_that_no_window_takes_is_dropped_and_counted(query: str) -> None:
    with bench() as b:
        b.engine.streams.declare(S, late="admit")
        b.register("q", query)
        close_two_sessions(b)
        told = b.told("q")
        assert b.push(2_000, "a")["late"] == 1
        assert b.told("q") == told
        assert counts(b) == {"late": 1, "dropped": 1, "refused": 0}
        assert letters(b) == [(2_000, False)]
        assert describe(b.engine, "q")["counters"]["late"] == 1


def test_an_element_that_goes_on_with_the_last_session_is_no_dead_letter() -> None:
    with bench() as b:
        b.engine.streams.declare(S, late="admit")
        b.register("q", ON_CLOSE)
        close_two_sessions(b)
        b.push(13_000, "b")
        b.push(29_000, "d")
        assert counts(b) == {"late": 2, "dropped": 0, "refused": 0}
        assert letters(b) == [(13_000, True), (29_000, True)]


def test_an_element_that_one_of_two_queries_takes_is_not_dropped() -> None:
    with bench() as b:
        b.engine.streams.declare(S, late="admit")
        b.register("q", ON_CLOSE)
        b.register("r", "SELECT ?x WHERE { STREAM :s [RANGE 1m] { ?x :seen ?v } }")
        close_two_sessions(b)
        b.push(2_000, "a")
        assert counts(b)["dropped"] == 0 and letters(b) == [(2_000, True)]


def test_elements_in_one_push_are_dropped_each_for_itself() -> None:
    with bench() as b:
        b.engine.streams.declare(S, late="admit")
        b.register("q", ON_CLOSE)
        close_two_sessions(b)
        b.lines((2_000, "a"), (13_000, "b"), (3_000, "a"))
        assert counts(b)["dropped"] == 2
        assert sorted(letters(b)) == [(2_000, False), (3_000, False), (13_000, True)]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_was_dropped_is_counted_once_after_a_crash(tmp_path: Path, checkpointed: bool) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.engine.streams.declare(S, late="admit")
    life.register("q", ON_CLOSE)
    close_two_sessions(life)
    life.push(2_000, "a")
    if checkpointed:
        life.checkpoint()
    life.push(31_000, "c")
    for _ in range(2):
        life = life.crash()
        assert counts(life) == {"late": 1, "dropped": 1, "refused": 0}
        assert letters(life) == [(2_000, False)]
    retried = life.engine.streams.retry_dead_letter(S, "4")
    assert retried["retried"] == "element"
    assert counts(life) == {"late": 1, "dropped": 1, "refused": 0} and letters(life) == [(2_000, False)]
    life.stop()


@pytest.mark.parametrize("window", ["[NOW]", "[RANGE 3s]", "[RANGE 5s SLIDE 5s]"])
def test_a_report_of_open_closed_waits_until_its_instant_has_passed(window: str) -> None:
    with bench() as b:
        text = f"SELECT ?x WHERE {{ STREAM :s {window} {{ ?x :seen ?v }} }} EMIT EVERY 5s"
        b.register("q", text, bounds="open-closed", output="rstream")
        b.push(4_000, "z")
        b.push(5_000, "a")
        b.push(5_000, "b")
        assert b.told("q") == []
        b.push(6_000, "c")
        ((_, at, names),) = b.told("q")
        assert (at, set(names) & {"a", "b"}) == (5_000, {"a", "b"})


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("SELECT ?x WHERE { ?x :seen ?v } EMIT EVERY 5s", {}),
        ("SELECT ?x WHERE { ?x :seen ?v }", {"report": {"periodic": "5s"}}),
        ("REGISTER RSTREAM <http://e/o> COMPUTED EVERY PT5S AS SELECT ?x WHERE { ?x <http://e/p> ?v }", {}),
    ],
)
def test_a_report_at_fixed_instants_needs_a_window(text: str, options: dict[str, Any]) -> None:
    with bench() as b, pytest.raises(InputError, match="without windows") as refused:
        b.register("q", text, **options)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("SELECT ?x WHERE { ?x :seen ?v } EMIT ON CLOSE", {}),
        ("SELECT ?x WHERE { ?x :seen ?v } EMIT ON CLOSE", {"report": "on-window-close"}),
        ("SELECT ?x WHERE { ?x :seen ?v }", {"report": "on-window-close"}),
        ("CONSTRUCT { ?x :told ?v } WHERE { ?x :seen ?v } EMIT ON CLOSE", {"profile": "rspql"}),
    ],
)
def test_a_report_at_the_close_of_windows_needs_a_window(text: str, options: dict[str, Any]) -> None:
    with bench() as b, pytest.raises(InputError, match="without windows") as refused:
        b.register("q", text, **options)
    assert refused.value.hint


@pytest.mark.parametrize("options", [{"profile": "rspql"}, {"profile": "csparql"}, {}])
def test_a_query_without_windows_is_evaluated_at_commits_by_every_profile(options: dict[str, Any]) -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { ?x :seen ?v }", output="changes", **options)
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}seen> 1 }}")
        assert [each[0] for each in b.told("q")][-1:] == ["insert"]


@pytest.mark.parametrize("window", ["[RANGE 5s TO 5s]", "[RANGE 5s TO 6s]", "[RANGE 5s TO 5s SLIDE 1s]"])
def test_a_window_of_the_past_says_which_time_is_the_greater(window: str) -> None:
    with bench() as b, pytest.raises(QueryTextError, match="a must be greater than b"):
        b.register("q", f"SELECT ?x WHERE {{ STREAM :s {window} {{ ?x :seen ?v }} }}")
