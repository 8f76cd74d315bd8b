"""A preview tells what a query would have told over what its streams retain, and leaves nothing behind."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from quadrill.app.describing.preview import PreviewLimits
from quadrill.app.describing.preview import preview as trial_of
from quadrill.continuous.language.registration import Registration
from tests.app.conftest import LiveServer, Start, problem_of

PREFIX = "PREFIX ex: <http://example.org/>\n"
HOT = PREFIX + (
    "SELECT ?s ?v ?room WHERE { STREAM ex:readings [RANGE 10s] { ?s ex:value ?v } "
    "GRAPH ex:rooms { ?s ex:in ?room } FILTER(?v > 21) }"
)
HOURLY = PREFIX + (
    "REGISTER RSTREAM ex:out AS SELECT (COUNT(*) AS ?n) "
    "FROM NAMED WINDOW ex:w ON ex:readings [RANGE PT10S STEP PT10S] "
    "WHERE { WINDOW ex:w { ?s ex:value ?v } }"
)


@pytest.fixture
def live(start_server: Start) -> LiveServer:
    """A server with a graph of rooms and a stream of readings, one a second for 40 seconds."""
    fresh = start_server()
    fresh.update(PREFIX + 'INSERT DATA { GRAPH ex:rooms { ex:s1 ex:in "kitchen" . ex:s2 ex:in "cellar" } }')
    for at in range(40):
        body = PREFIX + f"ex:s{1 + at % 2} ex:value {at} ."
        answer = fresh.client.post(
            "/streams",
            params={"iri": "http://example.org/readings", "at": 1000 * at, "wait": "true"},
            content=body,
            headers={"Content-Type": "text/turtle"},
        )
        assert answer.status_code in (200, 202), answer.text
    return fresh


def preview(live: LiveServer, text: str, options: dict[str, Any] | None = None, **asked: Any) -> Any:
    answer = live.client.post("/queries:preview", params=asked, json={"query": text, **(options or {})})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_preview_tells_what_the_query_tells_when_it_begins_with_the_retained_elements(
    live: LiveServer,
) -> None:
    """The events and the answer are those of the registered query."""
    for text in (HOT, HOURLY):
        told = preview(live, text, last="1h")
        assert live.client.get("/queries").json()["queries"] == []
        registration = {"name": "q", "query": text, "start": {"from": 0}}
        live.client.post("/queries", json=registration).raise_for_status()
        feed = live.services.engine.queries.feed("q").subscribe(after_id=0)
        wanted = [(each.kind, json.loads(each.data)) for each in feed.take() if each.id is not None]
        assert wanted and [(each["event"], each["data"]) for each in told["events"]] == wanted
        assert told["answer"] == live.services.engine.queries.current_answer("q")
        assert (told["elements"], told["told"], told["stopped"]) == (40, len(wanted), None)
        live.client.delete("/queries/q").raise_for_status()


def test_a_preview_begins_so_long_before_the_newest_element_and_shows_the_newest_events(
    live: LiveServer,
) -> None:
    """`last` is event time behind the newest element; `limit` leaves out older events, `told` counts them."""
    told = preview(live, HOT, last="5s", limit=2)
    assert (told["from"], told["elements"], told["told"]) == (34_000, 6, 6)
    assert [each["data"]["at"] for each in told["events"]] == [38_000, 39_000]


def test_a_query_over_the_store_and_one_without_elements_have_a_preview(live: LiveServer) -> None:
    """Without windows the answer is told; without elements nothing is."""
    rooms = preview(live, PREFIX + "SELECT ?s { GRAPH ex:rooms { ?s ex:in ?room } }")
    assert len(rooms["answer"]["results"]["bindings"]) == 2 and rooms["from"] is None
    silent = preview(live, PREFIX + "SELECT * { STREAM ex:nothing [NOW] { ?s ?p ?o } }")
    assert (silent["elements"], silent["events"], silent["answer"]) == (0, [], None)
    assert {each["name"] for each in live.client.get("/streams").json()["streams"]} == {"readings"}


def test_a_preview_that_costs_too_much_stops_and_says_why(live: LiveServer) -> None:
    """What was told before is shown."""
    told = preview(live, HOT, {"memory": 5}, last="1h")
    assert "its limit (memory) is 5" in told["stopped"]
    assert 0 < told["elements"] < 40 and told["events"] == []


def test_a_preview_of_a_wrong_text_is_a_problem_with_its_place(live: LiveServer) -> None:
    """As registering it would be; a query that reads other servers has none."""
    answer = live.client.post(
        "/queries:preview", json={"query": "SELECT ?a WHERE {\n  STREAM <s> [RANGE x] {} }"}
    )
    assert problem_of(answer, 400)["line"] == 2
    far = "SELECT * { STREAM <http://e/s> [NOW] { ?s ?p ?o } SERVICE <http://127.0.0.1:1/q> { ?o ?q ?r } }"
    problem_of(live.client.post("/queries:preview", json={"query": far}), 501)
    problem_of(live.client.post("/queries:preview?last=soon", json={"query": HOT}), 400)


def _push_many(live: LiveServer, stream: str, names: list[tuple[str, int]]) -> None:
    lines = [json.dumps({"at": at, "data": f'<urn:{name}> <urn:v> "1" .'}) for name, at in names]
    answer = live.client.post(
        "/streams",
        params={"iri": stream, "wait": "true"},
        content="\n".join(lines),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert answer.status_code == 200, answer.text


def test_a_preview_changes_nothing_of_the_queries_that_run(live: LiveServer) -> None:
    """Elements remember the ids of the engine's terms; those of a preview are others."""
    text = "SELECT ?s ?v { STREAM <urn:g> [RANGE 10s] { ?s <urn:v> ?v } }"
    live.client.post("/queries", json={"name": "q", "query": text}).raise_for_status()
    _push_many(live, "urn:g", [("x0", 0), ("x1", 5000)])
    preview(
        live,
        "SELECT ?s ?q { STREAM <urn:g> [RANGE 10s] { ?s <urn:v> ?v . <urn:x1> <urn:v> ?q } }",
        last="1h",
    )
    _push_many(live, "urn:g", [("x2", 11000), ("x3", 11001), ("x2", 11002), ("x3", 11003)])
    answer = live.services.engine.queries.current_answer("q")
    assert answer is not None
    found = sorted(row["s"]["value"] for row in answer["results"]["bindings"])
    assert found == ["urn:x1", "urn:x2", "urn:x3"]


def test_a_preview_is_bounded_in_rows_and_in_bytes(live: LiveServer) -> None:
    _push_many(live, "urn:big", [(f"x{number}", 1000) for number in range(400)])
    pair = "SELECT * { STREAM <urn:big> [RANGE 10s] { ?a <urn:v> ?v . ?b <urn:v> ?v } }"
    told = preview(live, pair, last="1h")
    assert "max_rows" in told["stopped"] and told["events"] == []
    _push_many(live, "urn:wide", [(f"x{number}", 1000 + number) for number in range(400)])
    narrow = pair.replace("urn:big", "urn:wide").replace(
        "?b <urn:v> ?v", "?b <urn:v> ?v FILTER(STRLEN(STR(?b)) < 8)"
    )
    told = preview(live, narrow, last="1h", limit=10)
    assert (told["stopped"], told["cut"], told["answer"]) == (None, True, None)
    assert told["events"]
    told = preview(live, "SELECT * { STREAM <urn:big> [RANGE 10s] { ?a <urn:v> ?v } }", last="1h")
    assert not told["cut"] and len(told["answer"]["results"]["bindings"]) == 400


def test_a_preview_ends_in_time_in_the_middle_of_one_push(live: LiveServer) -> None:
    _push_many(live, "urn:deep", [(f"x{number}", 1000 + number) for number in range(3000)])
    engine, store = live.services.engine, live.services.store
    text = "SELECT (COUNT(*) AS ?n) { STREAM <urn:deep> [RANGE 1h] { ?a <urn:v> ?v . ?b <urn:v> ?w } }"
    registration = Registration.from_json({"query": text})
    began = time.monotonic()
    told = trial_of(engine, store, registration, span_ms=3_600_000, events=10, limits=PreviewLimits(ms=300))
    assert told["stopped"] is not None
    assert time.monotonic() - began < 20
