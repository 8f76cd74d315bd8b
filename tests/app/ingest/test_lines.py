"""A chunked body of lines: each is taken as it comes, and what was acknowledged is kept."""

from __future__ import annotations

import random
import socket
import time
from functools import partial
from pathlib import Path

import pytest

from quadrill.app.http.request import Request
from quadrill.app.server import wire
from tests.app.conftest import LiveServer, Start
from tests.app.ingest.talking import NDJSON, Body, eventually, line

TARGET = "/streams?iri=urn:s"


def last_seq(server: LiveServer) -> int | None:
    answer = server.client.get("/streams", params={"iri": "urn:s"})
    return answer.json()["last_seq"] if answer.status_code == 200 else None


def test_lines_enter_before_the_body_ends(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    body.send(line(1000))
    eventually(lambda: last_seq(server) == 1)
    whole = line(2000)
    body.send(whole[:10])
    body.send(whole[10:] + line(3000)[:5])
    eventually(lambda: last_seq(server) == 2)
    body.send(line(3000)[5:].rstrip(b"\n"))
    body.finish()
    status, answer = body.answer()
    assert status == 200
    assert answer == {
        "stream": "urn:s",
        "first_seq": 1,
        "last_seq": 3,
        "accepted": 3,
        "late": 0,
        "dropped": 0,
        "durable": False,
        "lines": 3,
        "bytes": len(line(1000) + line(2000) + line(3000)) - 1,
    }
    body.close()


@pytest.mark.parametrize(
    ("data", "more", "durable"), [("", "", False), ("d", "", True), ("d", "&durable=false", False)]
)
def test_what_has_no_lines_is_as_durable_as_any_push(
    start_server: Start, tmp_path: Path, data: str, more: str, durable: bool
) -> None:
    server = start_server(**({"data": str(tmp_path / data)} if data else {}))
    body = Body(server.url, TARGET + more)
    body.finish()
    status, answer = body.answer()
    assert (status, answer["accepted"], answer["durable"]) == (200, 0, durable)
    body.close()


def test_the_connection_has_further_requests(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    for task in range(3):
        body.send(line(task))
        body.finish()
        if task < 2:
            body.begin(TARGET)  # before the answer, even
        assert body.answer()[1]["last_seq"] == task + 1
    body.close()


@pytest.mark.parametrize("asked", [{"target": TARGET + "&ack=true"}, {"Accept": NDJSON}])
def test_acknowledgements_come_as_it_goes(tmp_path: Path, start_server: Start, asked: dict[str, str]) -> None:
    server = start_server(data=str(tmp_path))
    body = Body(server.url, **({"target": TARGET} | asked))
    status, headers = body.head()
    assert (status, headers["content-type"], headers["transfer-encoding"]) == (200, NDJSON, "chunked")
    for number in range(1, 4):
        body.send(line(number * 1000))
        told = body.chunk()
        assert told is not None
        assert (told["acknowledged"], told["accepted"], told["durable"]) == (number, 1, True)
    body.send(line(4000) + line(5000) + line(10))
    told = body.chunk()
    assert told is not None
    assert (told["acknowledged"], told["first_seq"], told["accepted"], told["late"]) == (6, 4, 3, 1)
    body.finish()
    totals = body.chunk()
    assert totals is not None
    assert (totals["first_seq"], totals["last_seq"], totals["accepted"], totals["late"]) == (1, 6, 6, 1)
    assert body.chunk() is None
    assert server.client.get("/health/live").status_code == 200
    body.close()


def test_a_wrong_line_ends_the_push_and_those_before_it_stay(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    body.send(line(1000))
    eventually(lambda: last_seq(server) == 1)
    body.send(line(2000) + b'{"at": 3000, "data": "nonsense"}\n' + line(4000))
    status, answer = body.answer()
    assert status == 400
    assert (answer["code"], answer["line"]) == ("rdf-syntax", 3)
    assert answer["detail"].startswith("line 3")
    assert (answer["accepted"], answer["first_seq"], answer["last_seq"]) == (2, 1, 2)
    assert last_seq(server) == 2
    body.close()


def test_a_wrong_line_is_told_among_acknowledgements(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET + "&ack")
    body.head()
    body.send(line(1000) + b"nonsense\n")
    assert (body.chunk() or {})["acknowledged"] == 1
    problem = body.chunk() or {}
    assert (problem["status"], problem["line"], problem["last_seq"]) == (400, 2, 1)
    assert body.chunk() is None
    body.close()


@pytest.mark.parametrize("seed", range(8))
def test_acknowledgements_tell_the_lines_and_bytes_of_the_body(shared_server: LiveServer, seed: int) -> None:
    chance = random.Random(seed)
    sent = [
        chance.choice([b"\n", b" \r\n", line(at), line(at).replace(b"\n", b"\r\n")])
        for at in range(1000, 1000 + chance.randint(1, 40))
    ]
    whole = b"".join(sent) + chance.choice([b"", line(9000).rstrip(b"\n")])
    body = Body(shared_server.url, f"/streams?iri=urn:{seed}&ack=true")
    body.head()
    at = 0
    while at < len(whole):
        size = chance.randint(1, 200)
        body.send(whole[at : at + size])
        at += size
        if chance.random() < 0.2:
            time.sleep(0.01)
    body.finish()
    told = list(iter(body.chunk, None))
    ends = [0]
    for each in whole.splitlines(keepends=True):
        ends.append(ends[-1] + len(each))
    counts = [each["lines"] for each in told]
    assert counts == sorted(counts)
    assert [each["bytes"] for each in told] == [ends[count] for count in counts]
    assert (told[-1]["lines"], told[-1]["bytes"]) == (len(ends) - 1, len(whole))
    body.close()


def test_error_of_a_line_tells_how_far_the_body_was_taken(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    body.send(line(1000) + b"\n" + line(2000) + b"nonsense\n" + line(3000))
    status, answer = body.answer()
    assert (status, answer["line"], answer["accepted"]) == (400, 4, 2)
    assert (answer["lines"], answer["bytes"]) == (3, len(line(1000) + line(2000)) + 1)
    body.close()


def test_of_a_partial_push_wrong_lines_are_listed(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET + "&partial=true")
    body.send(line(1000))
    eventually(lambda: last_seq(server) == 1)
    body.send(b"nonsense\n" + line(2000))
    body.finish()
    status, answer = body.answer()
    assert (status, answer["accepted"], answer["last_seq"]) == (200, 2, 2)
    assert [each["line"] for each in answer["bad"]] == [2]
    assert answer["bad"][0]["element"] == "line 2"
    body.close()


def test_what_was_told_as_wrong_is_not_told_again_at_the_end(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET + "&partial=true&ack=true")
    body.head()
    body.send(b"nonsense\n" + line(2000))
    assert len((body.chunk() or {})["bad"]) == 1
    body.finish()
    totals = body.chunk() or {}
    assert totals["accepted"] == 1 and "bad" not in totals
    body.close()


@pytest.mark.parametrize(("query", "in_lines"), [("iri=urn:await", True), ("iri=urn:s&w%61it=true", False)])
def test_the_parameter_wait_is_known_by_its_decoded_name(query: str, in_lines: bool) -> None:
    head = f"POST /streams?{query} HTTP/1.1".encode()
    fields = wire.Fields({"Content-Type": NDJSON}, 0, chunked=True)
    line_of_request = wire._target(head)
    assert line_of_request is not None
    assert wire.in_lines(Request(line_of_request, fields)) is in_lines


def test_what_a_client_sent_before_it_was_cut_off_stays(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    body.send(line(1000) + line(2000) + line(3000)[:20])
    eventually(lambda: last_seq(server) == 2)
    body.socket.shutdown(socket.SHUT_WR)
    status, answer = body.answer()
    assert (status, answer["code"]) == (400, "bad-body")
    assert (answer["accepted"], answer["last_seq"]) == (2, 2)
    body.close()


def test_with_an_idempotency_key_the_body_is_one_push(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET, Idempotency_Key="k")
    body.send(line(1000))
    body.send(b"nonsense\n")
    body.finish()
    assert body.answer()[0] == 400
    assert last_seq(server) is None
    body.close()


def test_a_push_that_waits_is_one_push(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET + "&wait=true")
    body.send(line(1000))
    body.send(line(2000))
    body.finish()
    assert body.answer()[1]["accepted"] == 2
    body.close()


def test_acknowledgements_need_a_chunked_body(start_server: Start) -> None:
    server = start_server()
    answer = server.client.post(TARGET + "&ack=true", content=line(1000), headers={"Content-Type": NDJSON})
    assert (answer.status_code, answer.json()["code"]) == (400, "parameter")


def test_a_push_needs_its_role_before_its_body(start_server: Start) -> None:
    server = start_server(token="the-first-admin-token")
    body = Body(server.url, TARGET)
    status, answer = body.answer()
    assert (status, answer["code"]) == (401, "unauthorised")
    body.close()


def test_a_page_of_another_site_may_not_push(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET, Origin="https://other.example")
    assert body.answer()[0] == 403
    body.close()


def test_a_line_has_a_limit(start_server: Start) -> None:
    server = start_server(max_message_bytes=1000)
    body = Body(server.url, TARGET)
    body.send(line(1000))
    body.send(b'{"at": 1000, "data": "' + b"x" * 2000)
    status, answer = body.answer()
    assert (status, answer["code"], answer["accepted"]) == (413, "body-too-large", 1)
    body.close()


def test_broken_chunks_end_the_push(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    body.send(line(1000))
    eventually(lambda: last_seq(server) == 1)
    body.socket.sendall(b'5\r\n{"at\r\nzz\r\n')
    status, answer = body.answer()
    assert (status, answer["code"], answer["accepted"]) == (400, "bad-body", 1)
    body.close()


def test_who_says_nothing_is_told_so(start_server: Start) -> None:
    server = start_server(push_idle_timeout=0.2)
    body = Body(server.url, TARGET)
    body.send(line(1000))
    status, answer = body.answer()
    assert (status, answer["code"], answer["accepted"]) == (408, "request-timeout", 1)
    body.close()


def test_a_full_queue_makes_the_client_wait(start_server: Start) -> None:
    server = start_server(max_queue_elements=5)
    engine = server.services.engine
    body = Body(server.url, TARGET)
    with engine.parts.sequencer.paused:
        for number in range(5):
            body.send(line(number * 1000))
            eventually(partial(lambda seq: last_seq(server) == seq, number + 1))
        body.send(b"".join([line(number * 1000) for number in range(5, 50)]))
        time.sleep(0.2)
        assert (last_seq(server) or 0) < 50
    body.finish()
    status, answer = body.answer()
    assert (status, answer["accepted"], answer["last_seq"]) == (200, 50, 50)
    body.close()


def test_a_server_that_stops_tells_it(start_server: Start) -> None:
    server = start_server()
    body = Body(server.url, TARGET)
    body.send(line(1000))
    eventually(lambda: last_seq(server) == 1)
    server.services.pushes.close()
    status, answer = body.answer()
    assert (status, answer["code"], answer["accepted"]) == (503, "closed", 1)
    body.close()


def test_many_pushes_last_beside_few_workers(start_server: Start) -> None:
    server = start_server(threads=2)
    bodies = [Body(server.url, f"/streams?iri=urn:s{number}") for number in range(40)]
    for task in range(3):
        for body in bodies:
            body.send(line(task))
        assert server.client.get("/streams").status_code == 200
    for body in bodies:
        body.finish()
        assert body.answer()[1]["accepted"] == 3
        body.close()


def test_lasting_pushes_count_as_connections_of_their_address(start_server: Start) -> None:
    server = start_server(max_connections_per_address=3)
    server.client.close()
    bodies = [Body(server.url, TARGET) for _ in range(3)]
    for body in bodies:
        body.send(line(1000))
    more = Body(server.url, TARGET)
    assert more.head()[0] == 503
    for body in (*bodies, more):
        body.close()
