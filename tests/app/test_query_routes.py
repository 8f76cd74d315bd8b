"""Continuous queries over HTTP: register, describe, change, drop; their feeds and answers."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.events import EventReader

NDJSON = {"Content-Type": "application/x-ndjson"}
TEXT = {"Content-Type": "text/plain"}
QUERY = "SELECT ?s ?o WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"
CONSTRUCT = "CONSTRUCT { ?s <urn:seen> ?o } WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"
JOINED = (
    "SELECT ?s ?n WHERE { STREAM <http://localhost/r> [RANGE 1h] { ?s <urn:v> ?o } "
    "GRAPH <urn:names> { ?s <urn:name> ?n } }"
)


WINDOW = "SELECT ?s ?o WHERE { STREAM <http://localhost/r> [RANGE 1h] { ?s <urn:v> ?o } }"


@pytest.fixture
def fresh(start_server: Start) -> LiveServer:
    return start_server(sse_heartbeat=0.3)


def push(server: LiveServer, *elements: tuple[int, str]) -> httpx.Response:
    body = "".join(json.dumps({"at": at, "data": data}) + "\n" for at, data in elements)
    answer = server.client.post("/streams/r", content=body, headers=NDJSON, params={"wait": "true"})
    assert answer.status_code == 200, answer.text
    return answer


def test_a_query_is_registered_described_and_dropped(fresh: LiveServer) -> None:
    created = fresh.client.post("/queries?name=now", content=QUERY, headers=TEXT)
    assert created.status_code == 201
    assert created.headers["Location"] == f"{fresh.url}queries/now"
    assert fresh.client.post("/queries?name=now", content=QUERY, headers=TEXT).status_code == 200
    problem_of(fresh.client.post("/queries?name=now", content=QUERY + " LIMIT 3", headers=TEXT), 409)
    described = fresh.client.get("/queries/now").json()
    assert described["name"] == "now"
    assert described["state"] == "running"
    assert [query["name"] for query in fresh.client.get("/queries").json()["queries"]] == ["now"]
    assert fresh.client.delete("/queries/now").status_code == 204
    problem_of(fresh.client.get("/queries/now"), 404)
    assert fresh.client.get("/queries/now/results").status_code == 204
    problem_of(fresh.client.get("/queries/never/results"), 404)


def test_a_put_replaces_only_when_it_says_so(fresh: LiveServer) -> None:
    assert fresh.client.put("/queries/q", content=QUERY, headers=TEXT).status_code == 201
    other = {"query": QUERY, "output": "rstream"}
    problem_of(fresh.client.put("/queries/q", json=other), 409)
    assert fresh.client.put("/queries/q?replace=true", json=other).status_code == 201
    problem_of(fresh.client.put("/queries/q", json={"query": QUERY, "name": "other"}), 400)
    problem_of(fresh.client.put("/queries/q?name=other", content=QUERY, headers=TEXT), 400)


def test_validation_describes_and_registers_nothing(fresh: LiveServer) -> None:
    answer = fresh.client.post("/queries:validate", content=QUERY, headers=TEXT)
    assert answer.status_code == 200
    assert answer.json()["dialect"] == "cqels"
    assert "plan" in answer.json()
    assert fresh.client.get("/queries").json() == {"queries": []}


def test_the_plan_is_text_or_json(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=QUERY, headers=TEXT)
    text = fresh.client.get("/queries/q/explain")
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    document = fresh.client.get("/queries/q/explain?analyze=true")
    assert document.headers["Content-Type"] == "application/json"
    assert isinstance(document.json(), dict)


def test_a_query_is_paused_resumed_and_refreshed(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=JOINED, headers=TEXT)
    assert fresh.client.patch("/queries/q", json={"state": "paused"}).json()["state"] == "paused"
    assert fresh.client.patch("/queries/q", json={"state": "running"}).json()["state"] == "running"
    assert fresh.client.post("/queries/q/refresh").status_code == 200
    problem_of(fresh.client.patch("/queries/q", json={}), 400)
    problem_of(fresh.client.patch("/queries/q", json={"colour": "red"}), 400)


def test_results_arrive_as_events_with_ids_from_1(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=QUERY, headers=TEXT)
    with EventReader(fresh, "/queries/q/results") as feed:
        assert feed.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        push(fresh, (1000, "<urn:a> <urn:v> <urn:x> ."), (2000, "<urn:b> <urn:v> <urn:y> ."))
        first, second = feed.take(2)
    assert feed.retry == "2000"
    assert (first.kind, first.id, second.id) == ("insert", "1", "2")
    document = json.loads(first.data)
    assert document["at"] == 1000
    assert document["version"] == 0
    assert document["head"] == {"vars": ["s", "o"]}
    assert document["results"]["bindings"] == [
        {"s": {"type": "uri", "value": "urn:a"}, "o": {"type": "uri", "value": "urn:x"}}
    ]


def test_a_feed_resumes_after_an_id(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=QUERY, headers=TEXT)
    push(fresh, *((1000 * n, f"<urn:a{n}> <urn:v> <urn:x> .") for n in range(1, 5)))
    with EventReader(fresh, "/queries/q/results?from=0") as feed:
        assert [event.id for event in feed.take(4)] == ["1", "2", "3", "4"]
    with EventReader(fresh, "/queries/q/results?from=0", {"Last-Event-ID": "2"}) as feed:
        assert [event.id for event in feed.take(2)] == ["3", "4"]
    problem_of(fresh.client.get("/queries/q/results?from=x", headers={"Accept": "text/event-stream"}), 400)


def test_a_silent_feed_gets_heartbeats(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=QUERY, headers=TEXT)
    with EventReader(fresh, "/queries/q/results") as feed:
        assert feed.comment().startswith(":")


def test_a_dropped_query_ends_its_feed(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=QUERY, headers=TEXT)
    with EventReader(fresh, "/queries/q/results") as feed:
        fresh.client.delete("/queries/q")
        assert feed.ended()
    stream = {"Accept": "text/event-stream"}
    assert fresh.client.get("/queries/q/results", headers=stream).status_code == 204


def test_the_current_answer_comes_in_every_format(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=JOINED, headers=TEXT)
    fresh.update('INSERT DATA { GRAPH <urn:names> { <urn:a> <urn:name> "Ada" } }')
    push(fresh, (1000, "<urn:a> <urn:v> <urn:x> ."))
    answer = fresh.client.get("/queries/q/results", headers={"Accept": "*/*"})
    assert answer.headers["Content-Type"] == "application/sparql-results+json"
    document = answer.json()
    assert document["results"]["bindings"][0]["n"]["value"] == "Ada"
    assert document["version"] == fresh.services.store.reader.version
    assert answer.headers["ETag"] == f'"{document["version"]}"'
    csv = fresh.client.get("/queries/q/results", headers={"Accept": "text/csv"})
    assert csv.text == "s,n\r\nurn:a,Ada\r\n"
    xml = fresh.client.get("/queries/q/results", headers={"Accept": "application/sparql-results+xml"})
    assert "<uri>urn:a</uri>" in xml.text
    problem_of(fresh.client.get("/queries/q/results", headers={"Accept": "image/png"}), 406)


def test_a_commit_changes_the_answer_and_the_feed_tells(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", content=JOINED, headers=TEXT)
    push(fresh, (1000, "<urn:a> <urn:v> <urn:x> ."))
    with EventReader(fresh, "/queries/q/results") as feed:
        version = fresh.update('INSERT DATA { GRAPH <urn:names> { <urn:a> <urn:name> "Ada" } }').headers[
            "ETag"
        ]
        (event,) = feed.take(1)
    document = json.loads(event.data)
    assert event.kind == "insert"
    assert document["at"] == 1000
    assert f'"{document["version"]}"' == version


def test_construct_gives_quads_and_graph_formats(fresh: LiveServer) -> None:
    fresh.client.put("/queries/c", json={"query": CONSTRUCT, "output": "rstream"})
    triples = fresh.client.get("/queries/c/results", headers={"Accept": "application/n-triples"})
    assert (triples.status_code, triples.content) == (200, b"")
    assert triples.headers["Content-Type"] == "application/n-triples"
    with EventReader(fresh, "/queries/c/results") as feed:
        push(fresh, (1000, "<urn:a> <urn:v> <urn:x> ."))
        (event,) = feed.take(1)
    assert json.loads(event.data)["quads"].strip() == "<urn:a> <urn:seen> <urn:x> ."
    answer = fresh.client.get("/queries/c/results")
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.json()) >= {"at", "version", "quads"}
    turtle = fresh.client.get("/queries/c/results", headers={"Accept": "text/turtle"})
    assert turtle.headers["Content-Type"] == "text/turtle; charset=utf-8"


def test_a_wrong_text_is_told_with_its_place_and_an_unknown_construct_is_named(fresh: LiveServer) -> None:
    problem = problem_of(
        fresh.client.post(
            "/queries", content="SELECT ?s WHERE {\n STREAM <s> [RANGE] { ?s ?p ?o } }", headers=TEXT
        ),
        400,
    )
    assert problem["line"] == 2
    assert "^" in problem["excerpt"]
    assert problem["column"] > 1


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", "/queries", {"content": QUERY}, 415),
        ("POST", "/queries", {"content": QUERY, "headers": {"Content-Type": "text/turtle"}}, 415),
        ("POST", "/queries", {"json": {"query": QUERY, "outputs": "rstream"}}, 400),
        ("POST", "/queries", {"json": {"name": "q"}}, 400),
        ("POST", "/queries", {"json": {"query": QUERY, "name": "a b"}}, 400),
        ("POST", "/queries", {"json": [1]}, 400),
        ("PUT", "/queries/-a", {"content": QUERY, "headers": TEXT}, 400),
        ("GET", "/queries/nobody", {}, 404),
        ("DELETE", "/queries/nobody", {}, 404),
        ("GET", "/queries/nobody/explain", {}, 404),
        ("POST", "/queries/nobody/refresh", {}, 404),
        ("PATCH", "/queries/nobody", {"json": {"state": "paused"}}, 404),
        ("POST", "/queries/nobody", {}, 405),
        ("GET", "/queries/nobody/results?whence=1", {}, 400),
    ],
)  # fmt: skip
def test_wrong_requests_are_problems(
    fresh: LiveServer, method: str, path: str, options: dict[str, object], status: int
) -> None:
    problem_of(fresh.client.request(method, path, **options), status)  # type: ignore[arg-type]


def test_a_replay_begins_a_new_epoch_of_the_feed(fresh: LiveServer) -> None:
    fresh.client.post("/queries?name=q", content=WINDOW, headers=TEXT)
    push(fresh, (1_000, '<urn:a> <urn:v> "1" .'), (2_000, '<urn:a> <urn:v> "2" .'))
    with EventReader(fresh, "/queries/q/results?from=2") as live:
        answer = fresh.client.post("/queries/q/replay", params={"from": "1970-01-01T00:00:02Z"})
        assert answer.status_code == 200
        assert answer.json() == {
            "name": "q", "from": 2_000, "retained_from": 1_000, "elements": 1, "first_id": 3,
            "state": "running",
        }  # fmt: skip
        assert [(event.kind, event.id) for event in live.take(2)] == [("reset", None), ("insert", "3")]
    problem_of(fresh.client.post("/queries/q/replay?from=yesterday"), 400)
    problem_of(fresh.client.post("/queries/nobody/replay"), 404)


@pytest.mark.parametrize("place", ["from=7", "snapshot=true"])
def test_a_query_without_an_element_has_an_empty_current_answer(fresh: LiveServer, place: str) -> None:
    fresh.client.post("/queries?name=q", content=WINDOW, headers=TEXT)
    with EventReader(fresh, f"/queries/q/results?{place}") as live:
        *reset, answer = live.take(2 if place == "from=7" else 1)
        assert [each.kind for each in reset] == ["reset"] * len(reset)
        assert answer.kind == "answer"
        assert json.loads(answer.data) == fresh.client.get("/queries/q/results").json()
        assert json.loads(answer.data)["results"] == {"bindings": []}


def test_after_a_reset_a_failed_query_tells_its_error(fresh: LiveServer) -> None:
    fresh.client.put("/queries/q", json={"query": WINDOW, "memory": 1})
    for start in (1_000, 3_000):
        fresh.client.patch("/queries/q", json={"state": "running"})
        push(fresh, (start, '<urn:a> <urn:v> "1" .'), (start + 1, '<urn:b> <urn:v> "2" .'))
        assert fresh.client.get("/queries/q").json()["state"] == "failed"
        last = fresh.client.get("/queries/q").json()["feed"]["last_id"]
        if start == 1_000:
            seen = last
    with EventReader(fresh, f"/queries/q/results?from={seen}") as live:
        assert live.take(1)[0].kind == "reset"
        while (event := live.take(1)[0]).kind == "answer":
            pass
        assert (event.kind, event.id) == ("error", str(last))


def test_a_part_of_the_list_is_found_by_name_and_state_and_counted(fresh: LiveServer) -> None:
    for number in range(7):
        fresh.client.put(f"/queries/Room-{number}", content=QUERY, headers=TEXT)
    fresh.client.put("/queries/other", content=QUERY, headers=TEXT)
    fresh.client.patch("/queries/Room-3", json={"state": "paused"})

    def part(**parameters: object) -> tuple[list[str], int]:
        document = fresh.client.get("/queries", params=parameters).json()
        assert document["total"] == 8
        assert document["states"] == {"running": 7, "paused": 1}
        return [each["name"] for each in document["queries"]], document["matching"]

    assert part(limit=3) == (["Room-0", "Room-1", "Room-2"], 8)
    assert part(limit=3, offset=6) == (["Room-6", "other"], 8)
    assert part(contains="room", offset=5, limit=10) == (["Room-5", "Room-6"], 7)
    assert part(state="paused") == (["Room-3"], 1)
    assert part(state="paused", contains="OTHER") == ([], 0)
    assert part(offset=100) == ([], 8)
    whole = fresh.client.get("/queries").json()["queries"]
    assert [each["name"] for each in whole] == part(contains="")[0]
    for wrong in ("state=asleep", "limit=-1", "offset=x", "size=3"):
        assert fresh.client.get(f"/queries?{wrong}").status_code == 400
