"""Streams over HTTP: declare, push, heartbeat, drop."""

from __future__ import annotations

import json

import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.events import EventReader

NQUADS = {"Content-Type": "application/n-quads"}
NDJSON = {"Content-Type": "application/x-ndjson"}
QUERY = "SELECT ?s ?o WHERE { STREAM <http://localhost/Readings> [RANGE 10s] { ?s <urn:v> ?o } }"


@pytest.fixture
def fresh(start_server: Start) -> LiveServer:
    return start_server()


def line(at: int | str, value: int) -> str:
    return json.dumps({"at": at, "data": f"<urn:s{value}> <urn:v> <urn:o{value}> ."})


def test_a_push_declares_its_stream_and_is_acknowledged_with_seqs(fresh: LiveServer) -> None:
    answer = fresh.client.post(
        "/streams/Taxi", content="<urn:s> <urn:p> <urn:o> .", headers=NQUADS, params={"at": "1000"}
    )
    assert answer.status_code == 200
    receipt = answer.json()
    assert {"stream", "first_seq", "last_seq", "accepted", "late", "dropped", "durable"} <= set(receipt)
    assert (receipt["accepted"], receipt["late"], receipt["dropped"]) == (1, 0, 0)
    streams = fresh.client.get("/streams").json()["streams"]
    assert [(stream["name"], stream["iri"]) for stream in streams] == [("Taxi", "http://localhost/Taxi")]
    assert fresh.client.get("/streams", params={"iri": "http://localhost/Taxi"}).json()["name"] == "Taxi"
    by_iri = fresh.client.post(
        "/streams",
        params={"iri": "http://localhost/Taxi", "at": "2000"},
        content="<urn:s> <urn:p> <urn:q> .",
        headers=NQUADS,
    )
    assert by_iri.json()["first_seq"] == receipt["last_seq"] + 1


def test_a_stream_is_declared_with_201_and_again_with_200(fresh: LiveServer) -> None:
    declaration = {"iri": "http://example.org/s#Rides", "lateness": "2s", "late": "admit"}
    first = fresh.client.put("/streams/rides", json=declaration)
    assert first.status_code == 201
    assert first.headers["Location"] == f"{fresh.url}streams/rides"
    assert fresh.client.put("/streams/rides", json=declaration).status_code == 200
    assert (
        fresh.client.put("/streams", params={"iri": "http://example.org/other"}, json={}).status_code == 201
    )
    assert fresh.client.get("/streams/other").json()["iri"] == "http://example.org/other"


def test_a_declaration_may_name_its_stream_but_not_twice(fresh: LiveServer) -> None:
    named = fresh.client.put("/streams?iri=http://e/a", json={"name": "mine"})
    assert (named.status_code, named.json()["name"]) == (201, "mine")
    assert fresh.client.put("/streams/mine", json={"name": "mine", "iri": "http://e/a"}).status_code == 200
    problem_of(fresh.client.put("/streams/mine", json={"name": "yours"}), 400)
    problem_of(fresh.client.put("/streams/mine", json={"name": 1}), 400)


def test_heartbeats_move_the_watermark(fresh: LiveServer) -> None:
    fresh.client.put("/streams/s", json={"iri": "urn:s"})
    assert fresh.client.post("/streams/s:heartbeat", params={"at": "5000"}).status_code == 204
    answer = fresh.client.post("/streams:heartbeat", params={"iri": "urn:s", "at": "1970-01-01T00:00:07Z"})
    assert answer.status_code == 204
    assert fresh.client.get("/streams/s").json()["watermark"] == 7000


def test_a_stream_in_use_cannot_be_dropped(fresh: LiveServer) -> None:
    fresh.client.put("/streams/Readings", json={"iri": "http://localhost/Readings"})
    fresh.client.post("/queries?name=q", content=QUERY, headers={"Content-Type": "text/plain"})
    problem_of(fresh.client.delete("/streams/Readings"), 409)
    fresh.client.delete("/queries/q")
    assert fresh.client.delete("/streams", params={"iri": "http://localhost/Readings"}).status_code == 204
    problem_of(fresh.client.get("/streams/Readings"), 404)


def test_a_push_is_all_or_nothing_unless_partial(fresh: LiveServer) -> None:
    body = line(1000, 1) + "\n" + '{"at": 2000, "data": "<urn:s> <urn:v>"}' + "\n" + line(3000, 3) + "\n"
    problem = problem_of(fresh.client.post("/streams/r", content=body, headers=NDJSON), 400)
    assert problem["line"] == 2
    partial = fresh.client.post("/streams/r", content=body, headers=NDJSON, params={"partial": "true"})
    assert partial.status_code == 200
    assert partial.json()["accepted"] == 2
    assert len(partial.json()["bad"]) == 1


def test_whatever_is_wrong_with_a_line_its_number_is_told(fresh: LiveServer) -> None:
    for wrong in (
        '{"at": "soon", "data": ""}',
        '{"at": 2, "data": 5}',
        '{"at": 2}',
        "[]",
        '{"at": 2, "data": "", "dat": ""}',
        '{"data": "<urn:s> <http://www.w3.org/ns/prov#generatedAtTime> 1.5 ."}',
    ):
        answer = fresh.client.post("/streams/r", content=line(1, 1) + "\n\n" + wrong, headers=NDJSON)
        assert problem_of(answer, 400)["line"] == 3, wrong


def test_the_bad_elements_of_a_partial_push_are_listed_in_the_order_of_the_document(
    fresh: LiveServer,
) -> None:
    body = "\n".join((line(1000, 1), "no JSON", '{"data": "<urn:s> <urn:v> 1 ."}', "none either")) + "\n"
    answer = fresh.client.post("/streams/r", content=line(0, 1) + "\n", headers=NDJSON)
    assert answer.status_code == 200
    partial = fresh.client.post("/streams/r", content=body, headers=NDJSON, params={"partial": "true"})
    assert [bad["line"] for bad in partial.json()["bad"]] == [2, 3, 4]


def test_a_bad_graph_of_a_partial_push_has_no_line(fresh: LiveServer) -> None:
    time = "<http://www.w3.org/ns/prov#generatedAtTime>"
    body = f'<urn:g> {{ <urn:a> <urn:b> 1 }} <urn:g> {time} "nonsense" .'
    trig = {"Content-Type": "application/trig"}
    partial = fresh.client.post("/streams/r", content=body, headers=trig, params={"partial": "true"})
    (bad,) = partial.json()["bad"]
    assert bad["element"] == "graph <urn:g>"
    assert "line" not in bad


def test_members_of_a_problem_that_say_nothing_are_left_out(fresh: LiveServer) -> None:
    turtle = {"Content-Type": "text/turtle"}
    body = "<urn:a> <urn:b> 1 ."
    first = fresh.client.post("/streams/r", content=body, params={"at": "1"}, headers=turtle)
    assert first.status_code == 200
    problem = problem_of(fresh.client.post("/streams/r", content=body, headers=turtle), 400)
    assert problem["code"] == "no-time"
    assert None not in problem.values()


def test_an_idempotency_key_repeats_its_answer_and_refuses_another_body(fresh: LiveServer) -> None:
    headers = {**NDJSON, "Idempotency-Key": "k1"}
    first = fresh.client.post("/streams/r", content=line(1000, 1), headers=headers)
    again = fresh.client.post("/streams/r", content=line(1000, 1), headers=headers)
    assert again.json() == first.json()
    problem_of(fresh.client.post("/streams/r", content=line(1000, 2), headers=headers), 422)


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("POST", "/streams/r", {}, "x", 415),
        ("POST", "/streams/r", {"Content-Type": "text/nothing"}, "x", 415),
        ("POST", "/streams/r", NQUADS, "<urn:s> <urn:p", 400),
        ("POST", "/streams/r?each=quad", NQUADS, "", 400),
        ("POST", "/streams/r?when=1", NQUADS, "", 400),
        ("POST", "/streams/r?at=soon", NQUADS, "<urn:s> <urn:p> <urn:o> .", 400),
        ("POST", "/streams", NQUADS, "<urn:s> <urn:p> <urn:o> .", 400),
        ("POST", "/streams?iri=urn:a&iri=urn:b", NQUADS, "<urn:s> <urn:p> <urn:o> .", 400),
        ("POST", "/streams/r?at=1&at=2", NQUADS, "<urn:s> <urn:p> <urn:o> .", 400),
        ("POST", "/streams/r:heartbeat?at=1&at=2", {}, "", 400),
        ("DELETE", "/streams?iri=urn:a&iri=urn:b", {}, "", 400),
        ("DELETE", "/streams/r?force=true", {}, "", 400),
        ("GET", "/queries/q/results?from=1&from=2", {}, "", 400),
        ("POST", "/streams/-r", NQUADS, "<urn:s> <urn:p> <urn:o> .", 400),
        ("POST", "/streams/r:heartbeat", {}, "", 400),
        ("POST", "/streams/r:heartbeat?at=x", {}, "", 400),
        ("GET", "/streams/nobody", {}, "", 404),
        ("DELETE", "/streams/nobody", {}, "", 404),
        ("PUT", "/streams/r", {}, '{"iri": "urn:r", "latenes": "2s"}', 400),
        ("PUT", "/streams/r", {}, '{"iri": "urn:r", "late": "maybe"}', 400),
        ("PUT", "/streams/r", {}, '{"iri": "urn:r", "self": 1}', 400),
        ("PUT", "/streams/r", {}, '{"iri": ', 400),
        ("PUT", "/streams/r", {}, "[]", 400),
        ("PUT", "/streams", {}, "{}", 400),
        ("PATCH", "/streams/r", {}, "{}", 405),
    ],
)
def test_wrong_requests_are_problems(
    fresh: LiveServer, method: str, path: str, headers: dict[str, str], body: str, status: int
) -> None:
    problem_of(fresh.client.request(method, path, content=body, headers=headers), status)


def test_an_oversize_push_is_413_and_an_undeclared_stream_may_be_404(start_server: Start) -> None:
    server = start_server(max_push_bytes=100, auto_declare_streams=False)
    problem_of(server.client.post("/streams/r", content="x" * 200, headers=NQUADS), 413)
    body = "<urn:s> <urn:p> <urn:o> ."
    problem_of(server.client.post("/streams/r", content=body, headers=NQUADS), 404)


def test_dead_letters_are_listed_followed_and_tried_again(fresh: LiveServer) -> None:
    for at, value in ((5_000, 1), (4_000, 2), (3_000, 3)):
        fresh.client.post("/streams/Readings", content=line(at, value), headers=NDJSON)
    listed = fresh.client.get("/streams/Readings/dead-letters").json()["letters"]
    assert [(each["id"], each["reason"], each["at"]) for each in listed] == [
        ("2", "late", 4_000), ("3", "late", 3_000),
    ]  # fmt: skip
    assert listed[0]["quads"] == "<urn:s2> <urn:v> <urn:o2> .\n"
    with EventReader(fresh, "/streams/Readings/dead-letters") as events:
        assert [json.loads(event.data) for event in events.take(2)] == listed
        answer = fresh.client.post("/streams/Readings/dead-letters:retry?id=3")
        assert answer.json() == {"id": "3", "retried": "element", "seq": 3}
        (gone,) = events.take(1)
        assert (gone.kind, json.loads(gone.data)["id"]) == ("delete", "3")
    assert [each["at"] for each in fresh.client.get("/streams/Readings/late").json()["elements"]] == [4_000]
    problem = problem_of(fresh.client.post("/streams/Readings/dead-letters:retry?id=3"), 404)
    assert problem["code"] == "unknown-dead-letter"
    problem_of(fresh.client.post("/streams/Readings/dead-letters:retry"), 400)
    problem_of(fresh.client.get("/streams/Nothing/dead-letters"), 404)


def test_dead_letters_of_a_reason_are_tried_again_or_dropped_together(fresh: LiveServer) -> None:
    letters = "/streams/Readings/dead-letters"
    for at, value in ((5_000, 1), (4_000, 2), (3_000, 3), (2_000, 4)):
        fresh.client.post("/streams/Readings", content=line(at, value), headers=NDJSON)
    assert fresh.client.delete(letters, params={"id": "4"}).json() == {"dropped": 1}
    assert problem_of(fresh.client.delete(letters, params={"id": "4"}), 404)["code"] == "unknown-dead-letter"
    assert fresh.client.post(f"{letters}:retry", params={"reason": "failed"}).json()["retried"] == 0
    answer = fresh.client.post(f"{letters}:retry", params={"reason": "late"}).json()
    assert answer == {"retried": 2, "failed": 0, "errors": []}
    fresh.client.post("/streams/Readings", content=line(1_000, 5), headers=NDJSON)
    problem_of(fresh.client.delete(letters), 400)
    problem_of(fresh.client.delete(letters, params={"id": "5", "reason": "late"}), 400)
    assert fresh.client.delete(letters, params={"reason": "late"}).json() == {"dropped": 1}
    assert fresh.client.get(letters).json() == {"letters": []}


def test_what_cannot_be_tried_again_is_named(fresh: LiveServer) -> None:
    fresh.client.put("/streams/Readings", json={"iri": "http://localhost/Readings", "late": "admit"})
    for at in (5_000, 4_000):
        fresh.client.post("/streams/Readings", content=line(at, 1), headers=NDJSON)
    answer = fresh.client.post("/streams/Readings/dead-letters:retry?reason=late").json()
    assert (answer["retried"], answer["failed"], answer["errors"][0]["id"]) == (0, 1, "2")


def test_the_newest_elements_are_told_first_and_within_bounds(fresh: LiveServer) -> None:
    fresh.client.put("/streams/Readings", json={"iri": "http://localhost/Readings", "retention": "1h"})
    for at in (1_000, 2_000, 3_000):
        fresh.client.post("/streams/Readings", content=line(at, at), headers=NDJSON)
    told = fresh.client.get("/streams/Readings/elements?limit=2").json()["elements"]
    assert [(each["seq"], each["at"], each["size"]) for each in told] == [(3, 3_000, 1), (2, 2_000, 1)]
    assert told[0]["quads"] == "<urn:s3000> <urn:v> <urn:o3000> .\n"
    assert len(fresh.client.get("/streams/Readings/elements").json()["elements"]) == 3
    large = "".join(f"<urn:s{number}> <urn:v> <urn:o> .\n" for number in range(10_050))
    fresh.client.post("/streams/Readings", content=large, headers=NQUADS, params={"at": "4000"})
    newest, second, *_ = fresh.client.get("/streams/Readings/elements").json()["elements"]
    assert (newest["size"], newest["quads"].count("\n")) == (10_050, 10_000)
    assert (second["size"], second["quads"]) == (1, "")
    for limit in ("0", "1001", "x"):
        problem_of(fresh.client.get(f"/streams/Readings/elements?limit={limit}"), 400)
    problem_of(fresh.client.get("/streams/Nothing/elements"), 404)


def test_time_of_a_stream_is_reset_by_name_and_by_iri(start_server: Start) -> None:
    server = start_server()
    name = server.client.put("/streams/r", json={"iri": "urn:r"}).json()["name"]
    query = "SELECT ?s { STREAM <urn:r> [RANGE 10s] { ?s <urn:k> ?o } }"
    assert server.client.put("/queries/q", json={"query": query}).status_code == 201
    for path in (f"/streams/{name}:reset-time", "/streams:reset-time?iri=urn:r"):
        pushed = server.client.post(
            "/streams/r", content="<urn:a> <urn:k> 1 .", headers={"Content-Type": "text/turtle"}
        )
        assert pushed.status_code == 200
        answer = server.client.post(path)
        assert (answer.status_code, answer.json()) == (200, {"streams": ["urn:r"], "queries": ["q"]})
        assert server.client.get("/streams/r").json()["retained"] == 0
        assert 'quadrill_stream_ahead_seconds{stream="r"} 0.0' in server.client.get("/metrics").text
    problem_of(server.client.post("/streams/none:reset-time"), 404)
    problem_of(server.client.post(f"/streams/{name}:reset-time?x=1"), 400)
