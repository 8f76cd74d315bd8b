"""Sinks over HTTP and into files: each event arrives, with its id, over faults."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.connectors.kinds.file_sink import _write_parquet
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_feed_streams import until

TEXT = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"


class Receiver:
    """Takes what is posted; ``statuses`` are given first, then 204."""

    def __init__(self) -> None:
        self.statuses: list[int | tuple[int, dict[str, str]]] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.asked = 0
        self.url = ""
        self.open = threading.Event()
        self.open.set()

    def documents(self) -> list[Any]:
        return [json.loads(body) for _, body in self.taken]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # who posts was killed within
            receiver.asked += 1
            receiver.open.wait(30)
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            status, headers = status if isinstance(status, tuple) else (status, {})
            if status < 300:
                receiver.taken.append((dict(self.headers.items()), body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def begin(server: LiveServer) -> None:
    headers = {"Content-Type": "text/plain"}
    assert server.client.put("/queries/q", content=TEXT, headers=headers).status_code == 201


def created(server: LiveServer) -> int:
    return int(server.services.engine.queries.feed("q").created_ms)


def push(server: LiveServer, *numbers: int) -> None:
    for number in numbers:
        answer = server.client.post(
            "/streams",
            params={"iri": "http://e/s", "at": str(1_000 * number), "wait": "true"},
            content=f"<urn:{number}> <urn:p> <urn:o> .",
            headers={"Content-Type": "application/n-triples"},
        )
        assert answer.status_code == 200


def put(server: LiveServer, **members: Any) -> None:
    answer = server.client.put("/sinks/it", json={"query": "q", **members})
    assert answer.status_code in (200, 201), answer.text


def state(server: LiveServer) -> dict[str, Any]:
    return dict(server.client.get("/sinks/it").json())


def test_a_webhook_gets_each_event_signed(start_server: Start) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",))
        begin(server)
        push(server, 1)
        put(server, kind="webhook", url=receiver.url, secret="s3cret", headers={"X-From": "us"})
        assert state(server)["secret"] == "***" and state(server)["headers"] == "***"
        until(lambda: state(server)["state"] == "running")
        push(server, 2, 3)
        until(lambda: len(receiver.taken) == 2)
        assert [each["id"] for each in receiver.documents()] == [2, 3], "with the next event, not the past"
        headers, body = receiver.taken[0]
        assert (
            headers["X-Hub-Signature-256"]
            == f"sha256={hmac.new(b's3cret', body, hashlib.sha256).hexdigest()}"
        )
        assert headers["Idempotency-Key"] == f"it-{created(server)}-2" and headers["X-From"] == "us"
        document = json.loads(body)
        assert document["event"] == "insert"
        assert document["data"]["results"]["bindings"][0]["s"]["value"] == "urn:2"
        until(lambda: state(server)["position"] == 3)


def test_cloud_events_in_arrays(start_server: Start) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",))
        begin(server)
        push(server, 1, 2, 3)
        put(server, kind="webhook", url=receiver.url, style="cloudevents", array=True, **{"from": 0})
        until(lambda: sum(map(len, receiver.documents())) == 3)
        headers, _ = receiver.taken[0]
        assert headers["Content-Type"] == "application/cloudevents-batch+json"
        first = receiver.documents()[0][0]
        assert {first["specversion"], first["id"], first["type"]} == {"1.0", "1", "quadrill.insert"}
        assert first["source"] == "/queries/q" and first["time"] == "1970-01-01T00:00:01.000Z"


def test_what_is_refused_is_tried_again_or_a_dead_letter(start_server: Start) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",))
        begin(server)
        receiver.statuses = [503, (429, {"Retry-After": "1"}), 422]
        put(server, kind="webhook", url=receiver.url)
        push(server, 1, 2)
        until(lambda: len(receiver.taken) == 1, 15)
        assert receiver.documents()[0]["id"] == 2
        letters = server.client.get("/sinks/it/dead-letters").json()["letters"]
        assert [(each["id"], "422" in each["error"]) for each in letters] == [(1, True)]
        receiver.statuses = [401]
        push(server, 3)
        until(lambda: state(server)["state"] == "failed")
        assert "401" in state(server)["error"]
        server.client.post("/sinks/it:start")
        until(lambda: len(receiver.taken) == 2)
        assert receiver.documents()[1]["id"] == 3, "nothing is lost by a failure"


def test_a_receiver_that_comes_late_gets_everything(start_server: Start, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path / "data"), "remote_hosts": ("127.0.0.1",)}
    server = start_server(**settings)
    begin(server)
    put(server, kind="webhook", url="http://127.0.0.1:1/")
    push(server, 1, 2)
    until(lambda: state(server)["state"] == "waiting")
    server.services.close()
    with receiving() as receiver:
        again = start_server(**settings)
        push(again, 3)
        put(again, kind="webhook", url=receiver.url)
        until(lambda: len(receiver.taken) >= 3)
        assert [each["id"] for each in receiver.documents()] == [1, 2, 3]


def test_a_slow_receiver_is_not_cut_off(start_server: Start) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",))
        begin(server)
        put(server, kind="webhook", url=receiver.url, array=True, timeout="30s", **{"from": 0})
        until(lambda: state(server)["state"] == "running")
        receiver.open.clear()
        push(server, 1)
        until(lambda: receiver.asked == 1)
        for first in range(2, 4_002, 500):
            lines = "".join(
                json.dumps({"at": 1_000 * each, "data": f"<urn:{each}> <urn:p> <urn:o> ."}) + "\n"
                for each in range(first, first + 500)
            )
            answer = server.client.post(
                "/streams",
                params={"iri": "http://e/s", "wait": "true"},
                content=lines,
                headers={"Content-Type": "application/x-ndjson"},
            )
            assert answer.status_code == 200
        receiver.open.set()
        told = set()

        def all_came() -> bool:
            described = state(server)
            told.add((described["state"], described["error"]))
            return sum(map(len, receiver.documents())) >= 4_001

        until(all_came, 20)
        assert [each["id"] for part in receiver.documents() for each in part] == list(range(1, 4_002))
        assert told == {("running", None)}


def test_files_of_lines_hold_each_event_once(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    settings = {"data": str(tmp_path / "data"), "sink_folder": str(folder)}
    server = start_server(**settings)
    begin(server)
    put(server, kind="file", path="q/answers", max_bytes=1_000, **{"from": 0})
    push(server, *range(1, 21))
    until(lambda: state(server)["position"] == 20)
    server.services.close()
    [part] = (folder / "q").glob("answers-*.part")
    with part.open("ab") as file:
        file.write(b'{"id": 21, "event"')
    # As after a kill: the place that was saved is behind what stands in the files.
    again = start_server(**settings)
    again.services.registry.connectors.update("sink", "it", place="17")
    push(again, 21, 22)
    until(lambda: state(again)["position"] == 22)
    again.client.post("/sinks/it:stop")
    lines = [
        json.loads(line)
        for file in (*sorted((folder / "q").glob("answers-*.ndjson")), part)
        for line in file.read_text().splitlines()
    ]
    assert [each["id"] for each in lines] == list(range(1, 23))


def test_files_of_parquet(start_server: Start, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    server = start_server(sink_folder=str(tmp_path))
    begin(server)
    put(server, kind="file", path="answers", format="parquet", max_bytes=1_000, **{"from": 0})
    push(server, *range(1, 21))
    until(lambda: len(list(tmp_path.glob("answers-*.parquet"))) >= 1)
    rows = parquet.read_table(min(tmp_path.glob("answers-*.parquet"))).to_pylist()
    assert rows[0]["id"] == 1 and rows[0]["event"] == "insert" and rows[0]["s"] == "urn:1"
    assert rows[0]["at"].timestamp() == 1.0


def test_a_query_registered_anew_is_delivered_from_its_start(start_server: Start, tmp_path: Path) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",), sink_folder=str(tmp_path))
        begin(server)
        put(server, kind="webhook", url=receiver.url, **{"from": 0})
        file = {"kind": "file", "query": "q", "path": "x", "events": ["insert", "answer"], "from": 0}
        assert server.client.put("/sinks/f", json=file).status_code == 201
        push(server, *range(1, 6))
        until(lambda: len(receiver.taken) == 5)
        until(lambda: server.client.get("/sinks/f").json()["position"] == 5)
        for sink in ("it", "f"):
            server.client.post(f"/sinks/{sink}:stop")
        assert server.client.delete("/queries/q").status_code == 204
        begin(server)
        push(server, *range(11, 18))
        for sink in ("it", "f"):
            server.client.post(f"/sinks/{sink}:start")
        until(lambda: state(server)["position"] == 7 and len(receiver.taken) >= 7)
        push(server, 18)
        until(lambda: receiver.documents()[-1]["id"] == 8)
        assert receiver.documents()[5]["event"] == "reset", "ids are of another query"
        keys = [headers["Idempotency-Key"] for headers, _ in receiver.taken]
        assert len(set(keys)) == len(keys)
        until(lambda: server.client.get("/sinks/f").json()["position"] == 8)
        server.client.post("/sinks/f:stop")
        new = json.loads((tmp_path / f"x-{created(server)}.part").read_text().splitlines()[-1])
        assert new["id"] == 8 and len(list(tmp_path.glob("x-*.part"))) == 2


def test_finished_files_tell_the_place(start_server: Start, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path / "data"), "sink_folder": str(tmp_path / "out")}
    server = start_server(**settings)
    begin(server)
    put(server, kind="file", path="x", max_bytes=1_000, **{"from": 0})
    push(server, *range(1, 21))
    until(lambda: state(server)["position"] == 20)
    server.services.close()
    for part in (tmp_path / "out").glob("*.part"):
        part.unlink()
    last = max(int(each.stem.split("-")[-1]) for each in (tmp_path / "out").glob("x-*.ndjson"))
    again = start_server(**settings)
    again.client.post("/sinks/it:stop")
    again.services.registry.connectors.update("sink", "it", place="0")
    again.services.close()
    third = start_server(**settings)
    third.client.post("/sinks/it:start")
    push(third, 21)
    until(lambda: state(third)["position"] == 21)
    files = (*(tmp_path / "out").glob("x-*.ndjson"), *(tmp_path / "out").glob("x-*.part"))
    ids = sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())
    assert ids == list(range(1, 22)) and last <= 20


def test_two_sinks_do_not_write_the_same_files(start_server: Start, tmp_path: Path) -> None:
    server = start_server(sink_folder=str(tmp_path))
    begin(server)
    put(server, kind="file", path="x")
    problem_of(server.client.put("/sinks/two", json={"kind": "file", "query": "q", "path": "./x"}), 409)
    put(server, kind="file", path="x", max_bytes=2_000)


def test_a_triple_term_is_text_in_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    part, made = tmp_path / "x.part", tmp_path / "x.parquet"
    term = {"type": "triple", "value": {"subject": {"type": "uri", "value": "urn:s"}}}
    data = {"head": {"vars": ["t"]}, "results": {"bindings": [{"t": term}]}}
    part.write_text(json.dumps({"id": 1, "event": "insert", "data": data}) + "\n")
    _write_parquet(part, made)
    assert json.loads(parquet.read_table(made).to_pylist()[0]["t"])["subject"]["value"] == "urn:s"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "", "link/x"])
def test_no_other_file_is_written(start_server: Start, tmp_path: Path, path: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    server = start_server(sink_folder=str(tmp_path / "out"))
    begin(server)
    answer = server.client.put("/sinks/it", json={"kind": "file", "query": "q", "path": path})
    assert answer.status_code in (400, 403), answer.text
    nowhere = start_server()
    problem_of(nowhere.client.put("/sinks/it", json={"kind": "file", "query": "q", "path": "x"}), 403)


def test_a_sink_that_has_missed_its_first_events_is_told(start_server: Start) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",), feed_history=5)
        begin(server)
        put(server, kind="webhook", url="http://127.0.0.1:1/")
        push(server, 1)
        until(lambda: state(server)["state"] == "waiting")
        push(server, *range(2, 21))
        put(server, kind="webhook", url=receiver.url)
        until(lambda: len(receiver.taken) >= 2)
        first, second = receiver.documents()[:2]
        assert first["event"] == "reset" and first["data"]["earliest"] == 16
        assert (second["event"], second["id"]) == ("answer", 20)
        push(server, 21)
        until(lambda: len(receiver.taken) >= 3)
        assert receiver.documents()[2]["id"] == 21
