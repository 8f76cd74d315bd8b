"""A query that costs more than it may fails alone, at the same row whenever it is repeated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.describing.figures import engine_figures
from quadrill.app.describing.queries import describe, describe_all, explain
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.plan.plan_state import PlanState
from quadrill.continuous.plan.run_loop import RunLoop
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import ConflictError, LimitError

from .engines import PREFIX, Bench, S, bench, reference_evaluator
from .test_recovery import Life

N = "http://example.org/"
BAD = "SELECT ?a ?b ?c WHERE { STREAM :s [RANGE 1m] { ?a :k ?x . ?b :k ?x . ?c :k ?x } }"
GOOD = "SELECT ?a WHERE { STREAM :s [RANGE 1m] { ?a :k ?x } }"
EXPLOSIONS = {
    "join": BAD,
    "group": "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [RANGE 1m] { ?a :k ?x . ?b :k ?x . ?c :k ?x } }",
    "product": "SELECT ?a ?b WHERE { STREAM :s [RANGE 1m] { ?a :k ?x } STREAM :s [RANGE 2m] { ?b :k ?y } }",
    "filter": "SELECT ?a ?b WHERE { STREAM :s [RANGE 1m] { ?a :k ?x . ?b :k ?x FILTER(?a = ?b) } }",
    "optional": "SELECT ?a ?b WHERE { STREAM :s [RANGE 1m] { ?a :k ?x OPTIONAL { ?b :k ?x } } }",
    "condition": "SELECT ?a ?b WHERE { STREAM :s [RANGE 1m] "
    "{ ?a :k ?x OPTIONAL { ?b :k ?x FILTER(?a < ?b) } } }",
    "star": "SELECT ?a ?x ?y ?z WHERE { STREAM :s [RANGE 1m] { ?a :o ?x ; :p ?y ; :q ?z } }",
    "path": "SELECT ?a ?b WHERE { STREAM :s [RANGE 1m] { ?a :next+ ?b } }",
}


def body(count: int) -> bytes:
    """Triples that have one object, one subject with many objects, and a chain."""
    lines = [f'<{N}a{each}> <{N}k> "x" .' for each in range(count)]
    lines += [f'<{N}a> <{N}{name}> "{each}" .' for each in range(count // 4) for name in "opq"]
    lines += [f"<{N}n{each}> <{N}next> <{N}n{each + 1}> ." for each in range(count)]
    return "\n".join(lines).encode()


def push(one: Bench, count: int, at: int = 1) -> dict[str, Any]:
    return one.engine.streams.push(PushCall(S, "application/n-triples", at=at), body(count))


def state(one: Bench, name: str) -> tuple[str, str]:
    document = describe(one.engine, name)
    return document["state"], document["error"] or ""


@pytest.mark.parametrize("kind", EXPLOSIONS)
def test_each_operator_that_makes_rows_keeps_to_the_limit(kind: str) -> None:
    with bench(limits=QueryLimits(rows=1_000)) as b:
        assert b.register("bad", EXPLOSIONS[kind])["engine"] == "native"
        b.register("good", GOOD)
        push(b, 60)
        assert state(b, "good") == ("running", "") and len(b.told("good")) == 1
        found, error = state(b, "bad")
        assert found == "failed"
        assert "its limit (max_rows) is 1000" in error and ", in #" in error, error


def test_the_reason_names_the_pattern_and_the_figures() -> None:
    with bench(limits=QueryLimits(rows=1_000)) as b:
        b.register("bad", BAD)
        push(b, 60)
        kind, document = b.told("bad")[-1]
        assert (kind, document["code"]) == ("error", "limit")
        assert "one evaluation makes 1020 rows or more, its limit (max_rows) is 1000" in document["error"]
        assert "?a <http://example.org/k> ?x" in document["error"]
        plan = describe(b.engine, "bad")
        assert plan["error"] == document["error"]


def test_its_input_is_dead_letters() -> None:
    with bench(limits=QueryLimits(rows=1_000)) as b:
        b.register("bad", BAD)
        push(b, 5)
        push(b, 60, at=2)
        letters = b.engine.streams.dead_letters(S)
        assert [(each["reason"], each["query"], each["at"]) for each in letters] == [("budget", "bad", 2)]


def test_a_registration_has_its_own_limits_which_can_change() -> None:
    with bench(limits=QueryLimits(rows=10)) as b:
        document = b.register("more", BAD, max_rows=1_000_000, max_time="1m")
        assert document["options"] == {"max_rows": 1_000_000, "max_time": 60_000}
        push(b, 12)
        assert state(b, "more")[0] == "running"
        b.engine.queries.patch("more", {"max_rows": 20})
        push(b, 14, at=2)
        assert "its limit (max_rows) is 20" in state(b, "more")[1]


@pytest.mark.parametrize("output", ["istream", "rstream", "changes"])
def test_max_rows_of_a_registration_limits_its_answer_too(output: str) -> None:
    with bench() as b:
        for name, most in (("few", 5), ("more", 50)):
            b.register(name, GOOD, max_rows=most, output=output)
        push(b, 5)
        assert [state(b, name)[0] for name in ("few", "more")] == ["running", "running"]
        push(b, 6, at=2)
        assert "the answer has 6 rows, the limit is 5 (max_rows)" in state(b, "few")[1]
        assert [each["reason"] for each in b.engine.streams.dead_letters(S)] == ["budget"]
        b.engine.queries.patch("more", {"max_rows": 7})
        push(b, 8, at=3)
        assert "the limit is 7 (max_rows)" in state(b, "more")[1]


def test_of_queries_with_one_plan_who_is_over_its_limit_fails_alone() -> None:
    text = 'SELECT ?b ?c WHERE { STREAM :s [RANGE 1m] { ?b :k "%s" . ?c :k "%s" } }'
    with bench(limits=QueryLimits(rows=1_000)) as b:
        for number in range(3):
            b.register(f"q{number}", text % (number, number))

        def entered(at: int, count: int, value: int) -> None:
            lines = [f'<{N}b{at}-{each}> <{N}k> "{value}" .' for each in range(count)]
            b.engine.streams.push(PushCall(S, "application/n-triples", at=at), "\n".join(lines).encode())

        entered(1, 2, 0)
        entered(2, 2, 2)
        assert describe(b.engine, "q0")["template"], "they have one plan"
        entered(3, 200, 1)
        assert [state(b, f"q{number}")[0] for number in range(3)] == ["running", "failed", "running"]
        assert "its limit (max_rows) is 1000" in state(b, "q1")[1]
        entered(4, 1, 0)
        assert len(b.told("q0")) == 2


def test_an_answer_and_what_is_told_of_it_are_limited() -> None:
    pairs = "SELECT ?a ?b WHERE { STREAM :s [RANGE 1m] { ?a :k ?x . ?b :k ?x } }"
    with bench(limits=QueryLimits(kept=100)) as b:
        b.register("pairs", pairs)
        push(b, 9)
        assert state(b, "pairs")[0] == "running"
        push(b, 11, at=2)
        assert "the answer has 121 rows, the limit is 100 (max_answer_rows)" in state(b, "pairs")[1]
    with bench(limits=QueryLimits(bytes=2_000)) as b:
        b.register("pairs", pairs)
        push(b, 2)
        push(b, 50, at=2)
        assert "bytes, the limit is 2000 (max_evaluation_bytes)" in state(b, "pairs")[1]


def test_a_long_path_looks_at_its_limits_while_it_searches() -> None:
    for limits, setting in ((QueryLimits(rows=1_000), "max_rows"), (QueryLimits(ms=100), "max_time")):
        with bench(limits=limits) as b:
            b.register("path", EXPLOSIONS["path"])
            lines = [f"<{N}n{each}> <{N}next> <{N}n{each + 1}> ." for each in range(4_000)]
            began = time.monotonic()
            b.engine.streams.push(PushCall(S, "application/n-triples", at=1), "\n".join(lines).encode())
            assert time.monotonic() - began < 2.0
            assert f"its limit ({setting}) is" in state(b, "path")[1]


def test_a_commit_is_limited_for_queries_with_one_plan() -> None:
    text = """SELECT ?a ?c WHERE { STREAM :s [RANGE 1m] { ?a :k ?x FILTER(?x = "%s") }
        GRAPH <urn:g> { ?c :q ?x } }"""
    with bench(limits=QueryLimits(rows=1_000)) as b:
        for number in range(3):
            b.register(f"q{number}", text % "xyz"[number])
        push(b, 2)
        push(b, 60, at=2)
        assert describe(b.engine, "q0")["template"], "they have one plan"
        rows = " ".join(f'<{N}c{each}> <{N}q> "x" .' for each in range(200))
        b.store.writer.update(f"INSERT DATA {{ GRAPH <urn:g> {{ {rows} }} }}")
        assert [state(b, f"q{number}")[0] for number in range(3)] == ["failed", "running", "running"]
        assert "its limit (max_rows) is 1000" in state(b, "q0")[1]


def test_an_evaluation_that_tells_too_much_leaves_the_graph_of_the_query_as_it_was() -> None:
    text = "CONSTRUCT { ?a :got ?x } INTO GRAPH <urn:v> WHERE { STREAM :s [RANGE 1m] { ?a :k ?x } }"
    with bench(limits=QueryLimits(bytes=2_000)) as b:
        b.register("view", text)
        push(b, 2)
        push(b, 80, at=2)
        assert "(max_evaluation_bytes)" in state(b, "view")[1]
        assert len(list(b.store.reader.query("SELECT * { GRAPH <urn:v> { ?s ?p ?o } }").rows())) == 2


@pytest.mark.parametrize("ending", ["crash", "stop"])
def test_it_has_failed_with_the_same_reason_after_a_restart(tmp_path: Path, ending: str) -> None:
    limits = QueryLimits(rows=10_000)
    life = Life(tmp_path / "data", ManualClock(0), limits=limits)
    life.engine.queries.register(Registration(name="bad", query=PREFIX + BAD))
    life.engine.queries.register(Registration(name="good", query=PREFIX + GOOD))
    for at, count in ((1, 5), (2, 90)):
        life.engine.streams.push(PushCall(S, "application/n-triples", at=at), body(count))
    before = describe(life.engine, "bad")
    letters = life.engine.streams.dead_letters(S)
    assert before["state"] == "failed" and letters
    if ending == "stop":
        life.stop()
        life = Life(life.folder, ManualClock(0), limits=limits)
    else:
        life = life.crash()
    after = describe(life.engine, "bad")
    assert (after["state"], after["error"]) == ("failed", before["error"])
    assert life.engine.streams.dead_letters(S) == letters
    assert describe(life.engine, "good")["state"] == "running"
    life.engine.streams.push(PushCall(S, "application/n-triples", at=120_000), body(3))
    life.engine.queries.patch("bad", {"state": "running"})
    life.engine.streams.push(PushCall(S, "application/n-triples", at=120_001), body(3))
    assert describe(life.engine, "bad")["last_result"]["at"] == 120_001
    life.stop()


def test_what_failed_by_time_fails_there_again_without_being_evaluated(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(0), limits=QueryLimits(ms=30))
    life.engine.queries.register(Registration(name="bad", query=PREFIX + BAD))
    life.engine.queries.register(Registration(name="good", query=PREFIX + GOOD))
    for at, count in ((1, 2), (2, 3), (3, 90)):
        life.engine.streams.push(PushCall(S, "application/n-triples", at=at), body(count))
    before, letters = describe(life.engine, "bad"), life.engine.streams.dead_letters(S)
    assert "its limit (max_time) is 30 ms, in #" in before["error"]
    told = life.told()
    life.settings["limits"] = QueryLimits()
    life = life.crash()
    after = describe(life.engine, "bad")
    assert (after["state"], after["error"]) == ("failed", before["error"])
    assert life.engine.streams.dead_letters(S) == letters and life.told() == told
    life.stop()


def test_one_of_several_with_one_plan_that_failed_by_time_fails_alone_again(tmp_path: Path) -> None:
    text = 'SELECT ?b ?c ?d WHERE { STREAM :s [RANGE 1m] { ?b :k "%s" . ?c :k "%s" . ?d :k "%s" } }'
    life = Life(tmp_path / "data", ManualClock(0), limits=QueryLimits(ms=30))
    for number in range(3):
        life.engine.queries.register(
            Registration(name=f"q{number}", query=PREFIX + text % (number, number, number))
        )

    def entered(at: int, count: int, value: int) -> None:
        lines = [f'<{N}b{at}-{each}> <{N}k> "{value}" .' for each in range(count)]
        life.engine.streams.push(PushCall(S, "application/n-triples", at=at), "\n".join(lines).encode())

    entered(1, 2, 0)
    entered(2, 2, 2)
    assert describe(life.engine, "q0")["template"], "they have one plan"
    entered(3, 90, 1)
    entered(4, 1, 0)
    states = [describe(life.engine, f"q{number}")["state"] for number in range(3)]
    assert states == ["running", "failed", "running"]
    told = life.told()
    life.settings["limits"] = QueryLimits()
    life = life.crash()
    assert [describe(life.engine, f"q{number}")["state"] for number in range(3)] == states
    assert life.told() == told
    life.stop()


@contextmanager
def at_work(folder: Path) -> Iterator[Life]:
    """An engine with a thread of its own that evaluates something endless."""
    life = Life(folder, ManualClock(0), limits=QueryLimits(), threaded=True)
    life.engine.queries.register(Registration(name="bad", query=PREFIX + BAD))
    life.engine.queries.register(Registration(name="good", query=PREFIX + GOOD))
    life.engine.streams.push(PushCall(S, "application/n-triples", at=1), body(400))
    time.sleep(0.7)
    try:
        yield life
    finally:
        if life.engine.running:
            if any(query["name"] == "bad" for query in describe_all(life.engine)):
                life.engine.queries.drop("bad")
            life.engine.sync()
            life.stop()


def test_who_manages_queries_does_not_wait_for_an_evaluation(tmp_path: Path) -> None:
    with at_work(tmp_path / "data") as life:
        began = time.monotonic()
        assert [query["state"] for query in describe_all(life.engine)] == ["running", "running"]
        assert describe(life.engine, "bad")["name"] == "bad" and explain(life.engine, "bad")["plan"]
        assert engine_figures(life.engine).queue_inputs >= 0
        assert time.monotonic() - began < 1.0
        life.engine.queries.register(Registration(name="third", query=PREFIX + GOOD))
        life.engine.queries.patch("good", {"state": "paused"})
        life.engine.queries.drop("third")
        assert time.monotonic() - began < 6.0
        life.engine.queries.drop("bad")
        assert time.monotonic() - began < 8.0
        life.engine.sync(5.0)
        assert [query["state"] for query in describe_all(life.engine)] == ["paused"]


def test_a_pause_ends_a_long_evaluation_and_the_query_begins_anew_later(tmp_path: Path) -> None:
    with at_work(tmp_path / "data") as life:
        life.engine.queries.patch("bad", {"state": "paused"})
        paused = describe(life.engine, "bad")
        assert paused["state"] == "paused" and "was cancelled" in paused["error"]
        life.engine.sync(5.0)
        assert describe(life.engine, "good")["last_result"]
        life.settings["threaded"] = False
        life = life.crash()
        assert describe(life.engine, "bad")["state"] == "paused"
        life.engine.streams.push(PushCall(S, "application/n-triples", at=120_000), body(2))
        life.engine.queries.patch("bad", {"state": "running"})
        assert describe(life.engine, "bad")["state"] == "running"
        life.engine.streams.push(PushCall(S, "application/n-triples", at=120_001), body(2))
        assert describe(life.engine, "bad")["last_result"]["at"] == 120_001
        life.stop()


@pytest.mark.parametrize("ending", ["crash", "stop"])
@pytest.mark.parametrize("asked", ["all", "good"])
def test_a_start_pauses_queries_without_evaluating_them(tmp_path: Path, ending: str, asked: str) -> None:
    life = Life(tmp_path / "data", ManualClock(0))
    life.engine.queries.register(Registration(name="good", query=PREFIX + GOOD))
    life.engine.queries.register(Registration(name="other", query=PREFIX + GOOD))
    life.engine.streams.push(PushCall(S, "application/n-triples", at=1), body(3))
    life.settings["paused"] = (asked,)
    if ending == "stop":
        life.stop()
        life = Life(life.folder, ManualClock(0), paused=(asked,))
    else:
        life = life.crash()
    paused = describe(life.engine, "good")
    assert paused["state"] == "paused" and "paused at the start" in paused["error"]
    assert describe(life.engine, "other")["state"] == ("paused" if asked == "all" else "running")
    life.engine.queries.patch("good", {"state": "running"})
    assert describe(life.engine, "good")["state"] == "running"
    life.engine.streams.push(PushCall(S, "application/n-triples", at=2), body(2))
    assert describe(life.engine, "good")["last_result"]["at"] == 2
    life.stop()


def test_a_query_that_has_failed_is_told_in_the_log_and_has_no_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with bench(limits=QueryLimits(rows=1_000)) as b:
        b.register("bad", BAD)
        push(b, 3)
        assert b.engine.queries.current_answer("bad")["results"]["bindings"]
        push(b, 60, at=2)
        (line,) = [each.getMessage() for each in caplog.records if "bad" in each.getMessage()]
        assert line == f"The query bad has failed: {state(b, 'bad')[1]}"
        assert "a59" not in line, "no data"
        with pytest.raises(ConflictError, match="the query bad has failed: one evaluation makes") as caught:
            b.engine.queries.current_answer("bad")
        assert caught.value.code == "query-failed"
        kinds = [event.kind for event in b.engine.queries.feed("bad").subscribe(snapshot=True).take()]
        assert kinds == ["answer", "error"], "the feed has the last answer, and that it was the last"


def test_the_stream_of_a_query_that_has_failed_stays(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(1_000_000), limits=QueryLimits(rows=1_000))
    life.engine.queries.register(Registration.from_json({"query": PREFIX + BAD}, name="bad"))
    life.engine.streams.push(PushCall(S, "application/n-triples", at=1), body(60))
    assert describe(life.engine, "bad")["state"] == "failed"
    for _ in range(2):
        with pytest.raises(ConflictError, match="is read by bad"):
            life.engine.streams.drop(S)
        life.stop()
        life = Life(tmp_path / "data", ManualClock(1_000_000), limits=QueryLimits(rows=1_000))
        assert describe(life.engine, "bad")["state"] == "failed"
    life.engine.queries.drop("bad")
    life.engine.streams.drop(S)
    life.stop()


def test_a_step_that_ends_before_it_is_called_off_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = 'SELECT ?b WHERE { STREAM :s [RANGE 1m] { ?b :k "%s" } }'
    with bench() as b:
        for number in range(3):
            b.register(f"q{number}", text % number)

        def entered(at: int) -> None:
            lines = [f'<{N}b{at}> <{N}k> "{value}" .' for value in range(3)]
            b.engine.streams.push(PushCall(S, "application/n-triples", at=at), "\n".join(lines).encode())

        entered(1)
        entered(2)
        running = b.engine.parts.catalogue.get("q1").running
        assert running is not None and running.group.plan_slot is not None
        step = PlanState.step
        called_off = []

        def late(*given: Any) -> Any:
            found = step(*given)
            called_off.append(running.cancel_evaluation(0.0))
            return found

        run = RunLoop.run

        def run_late(loop: RunLoop, *given: Any) -> Any:
            found = run(loop, *given)
            running.group.plan_slot.budget.since = 1.0
            called_off.append(running.cancel_evaluation(0.0))
            return found

        with monkeypatch.context() as patched:
            patched.setattr(PlanState, "step", late)
            patched.setattr(RunLoop, "run", run_late)
            entered(3)
        assert any(called_off) and running.group.plan_slot.budget.stop == ""
        entered(4)
        assert describe(b.engine, "q0")["template"], "they have one plan still"
        assert [len(b.told(f"q{number}")) for number in (0, 2)] == [4, 4]


DOUBLINGS = " ".join(f"BIND(CONCAT(?v{each}, ?v{each}) AS ?v{each + 1})" for each in range(25))
WINDOW = "STREAM :s [RANGE 1m] { ?a :k ?v0 }"
LONG_TEXTS = {
    "concat": f"SELECT ?a (STRLEN(?v25) AS ?n) WHERE {{ {WINDOW} {DOUBLINGS} }}",
    "tagged": f"SELECT ?a (STRLEN(?v25) AS ?n) WHERE {{ {WINDOW.replace('?v0', '?w')} "
    f'BIND(STRLANG(?w, "en") AS ?v0) {DOUBLINGS} }}',
    "many": f"SELECT ?a (CONCAT({', '.join(['?v15'] * 100)}) AS ?long) "
    f"WHERE {{ {WINDOW} {' '.join(DOUBLINGS.split('BIND')[:16]).replace('(CONCAT', 'BIND(CONCAT')} }}",
    "replace": f"SELECT ?a (REPLACE(REPLACE(?v0, '.', '{'y' * 2000}'), 'y', '$0{'z' * 999}') AS ?long) "
    f"WHERE {{ {WINDOW} }}",
    "uri": f"SELECT ?a (ENCODE_FOR_URI(CONCAT(?v18, 'é')) AS ?long) WHERE {{ {WINDOW} "
    + " ".join(f"BIND(ENCODE_FOR_URI(CONCAT(?v{each}, ?v{each}, '/')) AS ?v{each + 1})" for each in range(18))
    + " }",
    "group": f'SELECT (GROUP_CONCAT(CONCAT(STR(?a), "{"x" * 30_000}"); separator=" - ") AS ?long) '
    f"WHERE {{ {WINDOW} }}",
}


ENGINES = {"native": None, "reference": reference_evaluator}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", LONG_TEXTS)
def test_a_value_that_is_put_together_has_a_longest_length(kind: str, engine: str) -> None:
    with bench(make_evaluator=ENGINES[engine]) as b:
        assert b.register("long", LONG_TEXTS[kind])["engine"] == engine
        b.register("good", GOOD)
        b.engine.streams.push(PushCall(S, "application/n-triples", at=1), f'<{N}a> <{N}k> "x" .'.encode())
        push(b, 60, at=2)
        found, error = state(b, "long")
        assert found == "failed" and "the limit is 1048576 (max_text_length)" in error, error
        assert state(b, "good") == ("running", "")
        assert {letter["reason"] for letter in b.engine.streams.dead_letters(S)} == {"budget"}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_expressions_of_one_evaluation_make_is_limited_together(engine: str) -> None:
    text = f"SELECT ?a (CONCAT(STR(?a), '{'x' * 10_000}') AS ?long) (1 AS ?one) WHERE {{ {WINDOW} }}"
    with bench(limits=QueryLimits(bytes=150_000), make_evaluator=ENGINES[engine]) as b:
        b.register("long", f"SELECT ?a (STRLEN(?long) AS ?n) WHERE {{ {{ {text} }} }}")
        push(b, 10)
        assert state(b, "long") == ("running", "")
        push(b, 40, at=2)
        found, error = state(b, "long")
        assert found == "failed" and "characters together, the limit is 150000" in error, error


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT ?a (STRLEN(?v25) AS ?n) WHERE {{ STREAM :s [RANGE 1m] {{ ?a :k ?x }} "
        f"{{ GRAPH :g {{ ?b :k ?v0 }} {DOUBLINGS} }} }}",
        "SELECT ?a ?long WHERE { STREAM :s [RANGE 1m] { ?a :k ?x } "
        "{ SELECT (GROUP_CONCAT(CONCAT(STR(?b), STR(?c), STR(?d))) AS ?long) "
        "{ GRAPH :g { ?b :k ?x . ?c :k ?x . ?d :k ?x } } } }",
    ],
)
def test_a_static_part_has_a_longest_value(text: str) -> None:
    with bench() as b:
        data = " ".join(f'<{N}a{each}> <{N}k> "x" .' for each in range(40))
        b.store.writer.update(f"INSERT DATA {{ GRAPH <{N}g> {{ {data} }} }}")
        with pytest.raises(LimitError, match="the limit is 1048576 .max_text_length."):
            b.register("long", text)
        assert b.register("good", GOOD)["state"] == "running"
