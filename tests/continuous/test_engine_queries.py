"""Registered queries through the engine: names, options, feeds, restarts, derived streams, failures."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from quadrill.app.describing.plan_text import explain_text, plan_document
from quadrill.app.describing.queries import describe, describe_all, explain, validate
from quadrill.app.describing.streams import describe_stream, describe_streams
from quadrill.app.describing.waiting import waiting_for
from quadrill.continuous.engine import Registration
from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import (
    ConflictError,
    InputError,
    LimitError,
    NotFoundError,
    QueryTextError,
    UnsupportedError,
)
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

from .engines import NOW, PREFIX, RANGE, Bench, E, S, bench, tick

W = f"FROM NAMED WINDOW <w> ON <{S}> [RANGE PT5S STEP PT5S]"


def test_the_same_registration_again_is_not_created() -> None:
    with bench() as b:
        registration = Registration.from_json({"query": PREFIX + NOW}, name="q")
        assert b.engine.queries.register(registration)[1]
        name, created = b.engine.queries.register(registration)
        assert not created and name == "q"
        with pytest.raises(ConflictError, match="another text"):
            b.register("q", RANGE)
        with pytest.raises(ConflictError, match="other options"):
            b.register("q", NOW, output="changes")


def test_names_are_given_by_result_iri_text_or_counting() -> None:
    with bench() as b:
        text = (
            PREFIX
            + f"REGISTER RSTREAM <http://e.o/hot> AS SELECT * {W} WHERE {{ WINDOW <w> {{ ?x :seen ?v }} }}"
        )
        assert b.engine.queries.register(Registration(text))[0] == "hot"
        csparql = (
            f"REGISTER QUERY cold AS SELECT ?x FROM STREAM <{S}> [RANGE 5s STEP 5s] WHERE {{ ?x ?p ?v }}"
        )
        assert b.engine.queries.register(Registration(csparql))[0] == "cold"
        assert b.engine.queries.register(Registration(PREFIX + NOW))[0] == "q-1"
        assert b.engine.queries.register(Registration(PREFIX + NOW))[0] == "q-2"


def test_a_replaced_query_goes_on_in_the_same_feed_with_a_reset() -> None:
    with bench() as b:
        b.register("q", NOW)
        b.push(1, "a")
        subscription = b.engine.queries.feed("q").subscribe()
        registration = Registration.from_json({"query": PREFIX + RANGE}, name="q")
        name, created = b.engine.queries.register(registration, replace=True)
        assert created and "RANGE" in describe(b.engine, name)["query"]
        b.push(2, "b")
        assert [(event.kind, event.id) for event in subscription.take()] == [("reset", None), ("insert", 2)]


def test_a_dropped_query_has_no_feed_until_its_name_is_taken_again() -> None:
    with bench() as b:
        with pytest.raises(NotFoundError):
            b.engine.queries.feed("q")
        b.register("q", NOW)
        subscription = b.engine.queries.feed("q").subscribe()
        b.engine.queries.drop("q")
        assert subscription.exhausted
        with pytest.raises(FeedGoneError):
            b.engine.queries.feed("q")
        with pytest.raises(FeedGoneError):
            b.engine.queries.current_answer("q")
        for call in (
            partial(describe, b.engine),
            b.engine.queries.drop,
            b.engine.queries.refresh,
            partial(explain, b.engine),
        ):
            with pytest.raises(NotFoundError):
                call("q")
        b.push(1, "a")
        b.register("q", NOW)
        assert b.told("q") == []


def test_a_new_query_sees_only_what_is_accepted_after_it() -> None:
    with bench() as b:
        b.push(1000, "a")
        b.register("q", RANGE)
        b.push(2000, "b")
        assert b.told("q") == [("insert", 2000, "b")]


def test_a_new_query_inherits_the_watermarks_of_its_streams() -> None:
    with bench() as b:
        b.push(1000, "a")
        b.register("q", RANGE)
        assert b.push(999, "b")["late"] == 1
        assert b.told("q") == []


def test_start_replays_retained_elements_first() -> None:
    with bench() as b:
        b.register("old", RANGE)
        b.lines((1000, "a"), (2000, "b"))
        b.push(3000, "c")
        b.register("q", RANGE, start={"from": 2000})
        b.push(4000, "d")
        assert b.told("q") == [("insert", 2000, "b"), ("insert", 3000, "c"), ("insert", 4000, "d")]
        assert b.told("q") == b.told("old")[1:]


def test_start_replays_several_streams_in_the_order_of_acceptance() -> None:
    text = "SELECT ?x WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } STREAM :t [RANGE 1h] { ?y :seen ?v } }"
    with bench() as b:
        b.register("old", text)
        for at in range(1, 6):
            b.push(at * 1000, f"a{at}")
            b.push(at * 1000 + 500, f"b{at}", stream=E + "t")
        b.engine.streams.heartbeat(S, 9000)
        b.register("q", text, start={"from": 0})
        assert b.told("q") == b.told("old")


def test_the_current_answer_is_there_without_a_feed() -> None:
    with bench() as b:
        b.register("q", RANGE)
        assert b.engine.queries.current_answer("q") == {
            "at": None, "version": 0, "head": {"vars": ["x"]}, "results": {"bindings": []},
        }  # fmt: skip
        b.push(1000, "a")
        b.push(2000, "b")
        answer = b.engine.queries.current_answer("q")
        assert answer["at"] == 2000
        assert sorted(row["x"]["value"] for row in answer["results"]["bindings"]) == [E + "a", E + "b"]


def test_events_carry_terms_of_every_kind() -> None:
    with bench() as b:
        b.register("q", "SELECT ?o WHERE { STREAM :s [NOW] { :a :p ?o } }")
        body = f"""@prefix : <{E}> . :a :p :iri, "plain", "hallo"@de, "abc"@en--rtl, 1.50, <<( :x :y "z" )>>,
                   "line\\nbreak\\"" ."""
        b.engine.streams.push(PushCall(S, "text/turtle", at=1), body.encode())
        event = b.engine.queries.feed("q").subscribe(0).take()[0]
        assert "\n" not in event.data and "\r" not in event.data
        terms = [row["o"] for row in json.loads(event.data)["results"]["bindings"]]
        assert {"type": "uri", "value": E + "iri"} in terms
        assert {"type": "literal", "value": "plain"} in terms
        assert {"type": "literal", "value": "hallo", "xml:lang": "de"} in terms
        assert {"type": "literal", "value": "abc", "xml:lang": "en", "its:dir": "rtl"} in terms
        assert {
            "type": "literal",
            "value": "1.5",
            "datatype": "http://www.w3.org/2001/XMLSchema#decimal",
        } in terms
        assert {
            "type": "triple",
            "value": {
                "subject": {"type": "uri", "value": E + "x"},
                "predicate": {"type": "uri", "value": E + "y"},
                "object": {"type": "literal", "value": "z"},
            },
        } in terms
        assert {"type": "literal", "value": 'line\nbreak"'} in terms


def test_a_window_report_says_its_window() -> None:
    with bench() as b:
        b.register(
            "q", PREFIX + f"REGISTER RSTREAM <q> AS SELECT ?x {W} WHERE {{ WINDOW <w> {{ ?x :seen ?v }} }}"
        )
        b.push(1000, "a")
        b.engine.streams.heartbeat(S, 5000)
        document = json.loads(b.engine.queries.feed("q").subscribe(0).take()[0].data)
        assert list(document) == ["at", "version", "window", "head", "results"]
        assert document["window"] == {"open": 0, "close": 5000}


def test_construct_output_is_a_stream_that_others_read() -> None:
    with bench() as b:
        b.register(
            "alarms",
            f"PREFIX : <{E}> REGISTER STREAM <{E}alarms> AS CONSTRUCT {{ ?x :alarm true }} {W} "
            "WHERE { WINDOW <w> { ?x :seen ?v } }",
        )
        b.register(
            "count",
            f"SELECT ?x WHERE {{ STREAM <{E}alarms> [RANGE 1h] {{ ?x :alarm true }} }}",
            output="changes",
        )
        b.push(1000, "a")
        b.push(6000, "b")
        b.engine.streams.heartbeat(S, 10_000)
        assert b.told("count") == [("insert", 5000, "a"), ("insert", 10_000, "b")]
        stream = describe_stream(b.engine, "alarms")
        assert (stream["derived_from"], stream["accepted"], stream["watermark"]) == ("alarms", 2, 10_000)
        assert describe(b.engine, "alarms")["result_stream"] == E + "alarms"
        with pytest.raises(ConflictError, match="made by the query"):
            b.push(11_000, "x", stream=E + "alarms")


def test_the_stream_of_a_dropped_construct_can_be_made_again_until_someone_pushes_to_it() -> None:
    made = f"PREFIX : <{E}> REGISTER STREAM <{E}made> AS CONSTRUCT {{ ?x :again ?v }} {W} "
    made += "WHERE { WINDOW <w> { ?x :seen ?v } }"
    with bench() as b:
        b.register("made", made)
        b.push(1000, "a")
        b.engine.streams.heartbeat(S, 5000)
        assert describe_stream(b.engine, E + "made")["accepted"] == 1
        b.engine.queries.drop("made")
        b.register("made", made)
        b.push(6000, "b")
        b.engine.streams.heartbeat(S, 10_000)
        b.engine.queries.drop("made")
        b.register("other", made, result_iri=E + "made")
        assert describe_stream(b.engine, E + "made")["derived_from"] == "other"
        b.engine.queries.drop("other")
        b.push(20_000, "x", stream=E + "made")
        with pytest.raises(ConflictError, match="elements were pushed"):
            b.register("made", made)


def test_a_registration_can_name_the_stream_of_a_construct() -> None:
    with bench() as b:
        b.register(
            "made",
            "CONSTRUCT { ?x :again ?v } WHERE { STREAM :s [NOW] { ?x :seen ?v } }",
            result_iri=E + "made",
        )
        b.register("q", "SELECT ?x WHERE { STREAM :made [NOW] { ?x :again ?v } }")
        b.push(1, "a")
        assert b.told("q") == [("insert", 1, "a")]


def test_cycles_are_refused() -> None:
    def copies(source: str, target: str) -> str:
        return (
            f"PREFIX : <{E}> REGISTER STREAM :{target} AS CONSTRUCT {{ ?x ?p ?v }} FROM NAMED WINDOW <w> "
            f"ON :{source} [RANGE PT5S STEP PT5S] WHERE {{ WINDOW <w> {{ ?x ?p ?v }} }}"
        )

    with bench() as b:
        with pytest.raises(InputError, match="own output"):
            b.register("self", copies("a", "a"))
        b.register("ab", copies("a", "b"))
        b.register("bc", copies("b", "c"))
        catalogue = b.engine.parts.catalogue
        gone = replace(catalogue.get("ab"), name="gone")
        for _ in range(1_001):
            catalogue.discard(gone)  # what others made and read is forgotten, what these do is not
        with pytest.raises(InputError, match="own output"):
            b.register("ca", copies("c", "a"))


def test_the_feed_of_a_select_is_no_stream() -> None:
    with bench() as b:
        b.register(
            "hot",
            PREFIX + f"REGISTER STREAM <{E}hot> AS SELECT ?x {W} WHERE {{ WINDOW <w> {{ ?x :seen ?v }} }}",
        )
        with pytest.raises(QueryTextError, match="CONSTRUCT|solutions") as caught:
            b.register("q", f"SELECT ?x WHERE {{ STREAM <{E}hot> [NOW] {{ ?x :seen ?v }} }}")
        assert "CONSTRUCT" in (caught.value.hint or "")


def test_blank_nodes_in_a_template_cannot_be_deleted() -> None:
    text = "CONSTRUCT { [] :saw ?x } WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } }"
    with bench() as b:
        for output in ("changes", "dstream"):
            with pytest.raises(UnsupportedError, match="blank nodes"):
                b.register("q", text, output=output)
        b.register("q", text)
        b.push(1, "a")
        b.push(2, "b")
        quads = [json.loads(event.data)["quads"] for event in b.engine.queries.feed("q").subscribe(0).take()]
        assert len(quads) == 2 and quads[0].split()[0] != quads[1].split()[0]


def test_describe_is_refused_by_name() -> None:
    with bench() as b, pytest.raises(UnsupportedError, match="DESCRIBE"):
        b.register("q", "DESCRIBE ?x WHERE { STREAM :s [NOW] { ?x :seen ?v } }")


def test_a_report_that_never_comes_is_refused() -> None:
    with bench() as b, pytest.raises(InputError, match="never closes|ever closes"):
        b.register("q", NOW, report="on-window-close")


def test_a_limit_of_memory_holds_inside_a_push_of_many_times() -> None:
    with bench() as b:
        b.register("small", RANGE, memory=2)
        b.register("now", NOW, memory=2)
        b.lines(*[(at, f"a{at}") for at in range(1, 9)])
        inserted = [at for kind, at, *_ in b.told("small") if kind == "insert"]
        assert inserted == [1, 2, 3]
        assert "hold 3 quads" in describe(b.engine, "small")["error"]
        # What waits inside a push is not in the windows.
        assert len(b.told("now")) == 8 and describe(b.engine, "now")["state"] == "running"


def test_a_failing_query_stops_alone() -> None:
    with bench() as b:
        b.register("small", RANGE, memory=2)
        b.register("q", RANGE)
        for at, name in ((1, "a"), (2, "b"), (3, "c"), (4, "d")):
            b.push(at, name)
        failed = describe(b.engine, "small")
        assert failed["state"] == "failed" and "its limit (memory) is 2" in failed["error"]
        kind, document = b.told("small")[-1]
        assert kind == "error" and document["code"] == "limit"
        assert [at for _, at, _ in b.told("q")] == [1, 2, 3, 4]
        with pytest.raises(ConflictError):
            b.engine.queries.refresh("small")
        b.engine.queries.patch("small", {"memory": None})
        b.engine.queries.patch("small", {"state": "running"})
        b.push(5, "e")
        assert b.told("small") == [("insert", 5, "e")]


def test_a_failure_inside_the_evaluator_is_told_without_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    with bench() as b:
        b.register("q", RANGE)
        running = b.engine.parts.catalogue.get("q").running
        assert running is not None
        running.evaluator.advance = lambda at, changes: 1 / 0  # type: ignore[attr-defined]
        b.push(1, "a")
        assert describe(b.engine, "q")["error"] == "ZeroDivisionError: division by zero"
        assert b.told("q")[-1][0] == "error"
    assert "failed" in caplog.text


def test_refresh_by_hand_and_by_timer() -> None:
    text = "SELECT ?x ?r WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :in ?r }"
    with bench() as b:
        b.register("hand", text, refresh="manual")
        b.register("timer", text, refresh={"every": "30s"})
        b.push(1, "a")
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}in> <{E}r> }}")
        assert b.told("hand") == b.told("timer") == []
        b.clock.advance(29_000)
        tick(b.engine)
        assert b.told("timer") == []
        b.clock.advance(1_000)
        tick(b.engine)
        assert b.told("timer") == [("insert", 1, "a")]
        assert describe(b.engine, "timer")["static_parts"][0]["cause"] == "timer"
        b.engine.queries.refresh("hand")
        assert describe(b.engine, "hand")["version"] == 1
        assert b.told("hand") == [("insert", 1, "a")]


def test_every_event_says_the_version_it_reflects() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x ?r WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :in ?r }")
        b.push(1, "a")
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}in> <{E}r> }}")
        b.store.writer.update(f"INSERT DATA {{ <{E}b> <{E}in> <{E}r> }}")
        b.push(2, "b")
        versions = [
            json.loads(event.data)["version"] for event in b.engine.queries.feed("q").subscribe(0).take()
        ]
        assert versions == [1, 2]


def test_windows_on_streams_that_static_data_names() -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ <{E}hall> <{E}has> <{S}> }}")
        b.register("q", "SELECT ?x WHERE { STREAM ?s [RANGE 1h] { ?x :seen ?v } :hall :has ?s }")
        b.push(1, "a")
        b.push(1, "b", stream=E + "t")
        assert b.told("q") == [("insert", 1, "a")]
        b.store.writer.update(f"INSERT DATA {{ <{E}hall> <{E}has> <{E}t> }}")
        b.push(2, "c", stream=E + "t")
        b.push(2, "d")
        # Both wait for the least watermark, then go in the order of the streams.
        assert [names for _, _, names in b.told("q")] == ["a", "d", "c"]


def test_the_description_says_what_is_waited_for() -> None:
    with bench() as b:
        description = b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } ?x :in :r }")
        assert [reason.text for reason in waiting_for(description)] == [
            f"no element of <{S}> has come since registration",
            "the static part 0 (?x) has no rows: ?x :in :r .",
        ]
        b.register(
            "w", PREFIX + f"REGISTER RSTREAM <w> AS SELECT ?x {W} WHERE {{ WINDOW <w> {{ ?x :seen ?v }} }}"
        )
        b.push(1000, "a")
        [reason] = waiting_for(describe(b.engine, "w"))
        assert "the next report is at 1970-01-01T00:00:05Z" in reason.text
        assert f"the watermark of <{S}> is 1970-01-01T00:00:01Z" in reason.text
        assert describe(b.engine, "w")["windows"][0]["next_close"] == 5000


def test_validation_registers_nothing() -> None:
    with bench() as b:
        document = validate(
            b.engine, Registration(PREFIX + "SELECT ?x WHERE { STREAM :s [ALL] { ?x :seen ?v } }")
        )
        assert document["dialect"] == "cqels"
        assert any("[ALL]" in warning for warning in document["warnings"])
        assert "[ALL]" in (text := explain_text(document)) and "algebra" in text
        assert describe_all(b.engine) == [] and describe_streams(b.engine) == []
        with pytest.raises(QueryTextError):
            validate(b.engine, Registration("SELECT"))


def test_explain_shows_windows_static_parts_and_algebra() -> None:
    with bench() as b:
        b.register("q", "SELECT ?x WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } ?x :in :r }")
        text = explain_text(explain(b.engine, "q"))
        for part in (
            "dialect  cqels",
            f"on <{S}> [RANGE 5s]",
            "static   0: 0 rows of (?x)",
            "engine   native",
            "plan\n",
        ):
            assert part in text
        plan = explain(b.engine, "q", analyze=True)
        assert plan["counters"]["evaluations"] == 0
        assert "operators" in plan_document(plan, analyze=True)
        assert "counters" not in plan_document(plan, analyze=False)


@pytest.mark.parametrize(
    "changes", [{"output": "changes"}, {"state": "stopped"}, {"refresh": "never"}, {"memory": 0}]
)
def test_a_wrong_patch_is_refused(changes: dict[str, Any]) -> None:
    with bench() as b:
        b.register("q", NOW)
        with pytest.raises(InputError):
            b.engine.queries.patch("q", changes)


def test_there_is_a_limit_of_queries() -> None:
    with bench(max_queries=1) as b:
        b.register("q", NOW)
        with pytest.raises(LimitError):
            b.register("r", NOW)
        b.engine.queries.register(Registration.from_json({"query": PREFIX + RANGE}, name="q"), replace=True)


def test_queries_and_streams_come_back_after_a_restart() -> None:
    registry = Registry.open("sqlite://")
    store = QuadStore.open(None)
    first = Bench(registry, store)
    first.engine.start()
    first.engine.streams.declare(S, name="sensors", lateness="2s", late="admit")
    first.register("q", RANGE, output="changes", start={"from": 5}, parameters={"p": 1})
    first.register("paused", NOW)
    first.engine.queries.patch("paused", {"state": "paused"})
    first.register("dropped", NOW)
    first.engine.queries.drop("dropped")
    first.push(1000, "a")
    first.engine.stop()
    second = Bench(registry, store)
    second.engine.start()
    try:
        assert describe_stream(second.engine, "sensors")["late"] == "admit"
        assert [(q["name"], q["state"]) for q in describe_all(second.engine)] == [
            ("q", "running"),
            ("paused", "paused"),
        ]
        assert describe(second.engine, "q")["options"] == {
            "output": "changes", "start": {"from": 5}, "parameters": {"p": 1},
        }  # fmt: skip
        with pytest.raises(FeedGoneError):
            second.engine.queries.feed("dropped")
        second.push(5000, "b")
        second.engine.streams.heartbeat(S, 5000)
        assert second.told("q") == [("insert", 5000, "b")]
        assert second.told("paused") == []
        registration = Registration.from_json(
            {"query": PREFIX + RANGE, "output": "changes", "start": {"from": 5}, "parameters": {"p": 1}},
            name="q",
        )
        assert not second.engine.queries.register(registration)[1]
    finally:
        second.engine.stop()
        store.close()
        registry.close()


def test_a_query_that_cannot_be_restored_is_shown_as_failed() -> None:
    registry = Registry.open("sqlite://")
    store = QuadStore.open(None)
    first = Bench(registry, store)
    first.engine.start()
    first.register("q", NOW)
    first.engine.stop()
    registry.queries.update("q", text="SELECT nothing")
    second = Bench(registry, store)
    second.engine.start()
    try:
        description = describe(second.engine, "q")
        assert description["state"] == "failed" and description["error"]
        assert describe_all(second.engine)[0]["name"] == "q"
        assert explain_text(explain(second.engine, "q"))
        with pytest.raises(ConflictError):
            second.engine.queries.current_answer("q")
        second.engine.queries.drop("q")
    finally:
        second.engine.stop()
        store.close()
        registry.close()


def test_an_answer_whose_order_alone_changed_is_told_in_its_new_order() -> None:
    """The ten are the same and one of them moves up: no row comes or goes, yet the list is another."""
    with bench() as b:
        b.register(
            "q",
            "SELECT ?x WHERE { STREAM :s [ALL] { ?x :seen ?v } } GROUP BY ?x ORDER BY DESC(MAX(?v)) LIMIT 2",
            output="rstream",
        )
        for at, (name, value) in enumerate([("a", 1), ("b", 2), ("a", 3), ("b", 4)]):
            body = f"<{E}{name}> <{E}seen> {value} ."
            b.engine.streams.push(PushCall(S, "text/turtle", at=at), body.encode())
        lists = [
            [row["x"]["value"].removeprefix(E) for row in json.loads(event.data)["results"]["bindings"]]
            for event in b.engine.queries.feed("q").subscribe(0).take()
        ]
        assert lists == [["a"], ["b", "a"], ["a", "b"], ["b", "a"]]
        assert describe(b.engine, "q")["engine"] == "native"
