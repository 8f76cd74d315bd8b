"""Every queue has an end: what does not fit is refused with a time to come again; nothing grows unseen."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import httpx

from quadrill.app.describing.figures import engine_figures
from tests.app.conftest import LiveServer, Start, problem_of

TURTLE = {"Content-Type": "text/turtle"}
QUERY = "SELECT ?s ?o WHERE { STREAM <http://localhost/r> [RANGE 1s] { ?s <urn:v> ?o } }"


def push(server: LiveServer, number: int, **parameters: str) -> httpx.Response:
    body = "".join(f'<urn:s{each}> <urn:v> "{each}" .\n' for each in range(number))
    parameters = {"each": "triple", "at": "1000", **parameters}
    return server.client.post("/streams/r", content=body, headers=TURTLE, params=parameters)


def figure(server: LiveServer, name: str) -> float:
    """One figure of `/metrics`."""
    for line in server.client.get("/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no figure {name}")


def test_whatever_would_stand_in_line_is_refused_while_the_line_is_full(start_server: Start) -> None:
    server = start_server(max_queue_elements=10)
    server.client.post("/queries?name=q", content=QUERY, headers={"Content-Type": "text/plain"})
    # The engine stands still; of those that come at most what is worked off together leaves the line.
    with server.services.engine.parts.sequencer.paused:
        statuses = [push(server, 4).status_code]
        while statuses[-1] == 200 and 4 * len(statuses) < 64 + 4 + 10:
            statuses.append(push(server, 4).status_code)
        assert statuses[:2] == [200, 200] and statuses[-1] == 429
        assert 4 <= engine_figures(server.services.engine).queue_elements <= 10
        for _ in range(12):
            last = server.client.post("/streams/r:heartbeat?at=2000")
        assert last.status_code == 429
        for refused in (push(server, 4), last, server.update("INSERT DATA { <urn:a> <urn:b> <urn:c> }")):
            problem = problem_of(refused, 429)
            assert problem["code"] == "back-pressure" and "limit is 10" in problem["detail"]
            assert int(refused.headers["Retry-After"]) >= 1
        held = server.client.put("/store?default", content="<urn:a> <urn:b> <urn:c> .", headers=TURTLE)
        problem_of(held, 429)
    server.services.engine.sync()
    assert push(server, 4).status_code == 200
    assert server.update("INSERT DATA { <urn:a> <urn:b> <urn:c> }").status_code == 204


def test_a_flood_from_many_clients_loses_nothing_that_was_answered(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(data=str(tmp_path / "d"), max_queue_elements=50)
    text = "SELECT (COUNT(*) AS ?n) WHERE { STREAM <http://localhost/r> [ALL] { ?s ?p ?o } }"
    server.client.post("/queries?name=all", content=text, headers={"Content-Type": "text/plain"})
    answers: Counter[int] = Counter()
    most = [0]

    def client(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=20) as connection:
            for each in range(20):
                body = f'<urn:{number}-{each}> <urn:v> "1" .\n'
                parameters = {"at": "1000", "durable": "false" if each % 2 else "true"}
                sent = connection.post("/streams/r", content=body, headers=TURTLE, params=parameters)
                answers[sent.status_code] += 1
                if not each % 4:
                    most[0] = max(most[0], engine_figures(server.services.engine).queue_elements)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.services.engine.sync()
    assert sum(answers.values()) == 80 and set(answers) <= {200, 429}
    assert most[0] <= 50 + 4, "the line is as long as the setting, and the clients that looked at once"
    current = server.client.get("/queries/all/results").json()["results"]["bindings"][0]["n"]["value"]
    assert int(current) == answers[200]
    assert figure(server, "quadrill_queue_elements") == 0


def test_a_push_that_does_not_wait_for_the_log_says_so_and_is_written_soon(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(data=str(tmp_path / "d"))
    assert push(server, 1).json()["durable"] is True
    answer = push(server, 3, durable="false")
    assert answer.json() == {
        "stream": "http://localhost/r", "first_seq": 2, "last_seq": 4, "accepted": 3, "late": 0,
        "dropped": 0, "durable": False,
    }  # fmt: skip
    journal = server.services.engine.parts.tasks.journal
    assert journal is not None
    while journal.log.durable < journal.log.last:  # the engine's thread writes it by itself
        pass
    assert figure(server, "quadrill_input_log_waiting") == 0
    assert figure(server, "quadrill_input_log_waiting_bytes") == 0
    problem_of(push(server, 1, durable="perhaps"), 400)


def test_the_way_of_an_input_is_told_stage_by_stage(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "d"))
    server.client.post("/queries?name=q", content=QUERY, headers={"Content-Type": "text/plain"})
    stages = ("decode", "log", "queue", "process", "results")
    before = {stage: figure(server, _count(stage)) for stage in stages}
    for _ in range(5):
        push(server, 10, wait="true")
    server.services.engine.sync()
    for stage in ("decode", "log"):
        assert figure(server, _count(stage)) == before[stage] + 5, "once a push, not once an element"
    for stage in ("queue", "process", "results"):
        assert before[stage] < figure(server, _count(stage)) <= before[stage] + 12
    text = server.client.get("/metrics").text
    assert 'quadrill_stage_seconds_bucket{le="+Inf",stage="deliver"} 0.0' in text, "nobody listens"
    for expected in (
        'quadrill_stream_retained{stream="r"} 50.0',
        'quadrill_stream_dead_letters{stream="r"} 0.0',
        'quadrill_query_state_quads{query="q"} 10.0',
        'quadrill_query_subscribers{query="q"} 0.0',
        'quadrill_query_kept_events{query="q"} 1.0',
        'quadrill_queries{state="running"} 1.0',
        "quadrill_idempotency_keys 0.0",
        "quadrill_feed_buffered_bytes 0.0",
        "quadrill_feed_frames_sent_total 0.0",
        "quadrill_queue_inputs 0.0",
    ):
        assert expected in text, expected
    assert 0 < figure(server, 'quadrill_query_kept_bytes{query="q"}') < 1_000
    for name in ("quadrill_input_log_bytes", "quadrill_result_log_bytes", "quadrill_checkpoint_bytes"):
        assert figure(server, name) > 0
    assert figure(server, "quadrill_checkpoint_age_seconds") >= 0


def _count(stage: str) -> str:
    return f'quadrill_stage_seconds_count{{stage="{stage}"}}'
