"""Sources over files and HTTP: what comes enters, once, over stops, faults and kills."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_feed_streams import until
from tests.program import Program

S = "http://e/s"
Answer = Callable[[BaseHTTPRequestHandler], None]


def line(number: int) -> str:
    return f"<urn:{number}> <urn:p> <urn:o> .\n"


def put(server: LiveServer, **members: Any) -> dict[str, Any]:
    answer = server.client.put("/sources/it", json={"stream": S, **members})
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def state(server: LiveServer) -> dict[str, Any]:
    return dict(server.client.get("/sources/it").json())


def accepted(server: LiveServer) -> int:
    answer = server.client.get("/streams", params={"iri": S})
    return int(answer.json()["accepted"]) if answer.status_code == 200 else 0


def subjects(server: LiveServer) -> list[int]:
    elements = reversed(server.services.engine.parts.streams.newest(S, 1_000_000))
    return [int(str(quad.subject.value).removeprefix("urn:")) for each in elements for quad in each.quads]


@contextmanager
def web(get: Answer) -> Iterator[str]:
    """A web server on loopback whose GET is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            get(self)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


# --- file -----------------------------------------------------------------------------------------


def test_a_growing_file_enters_line_by_line_also_when_it_is_rotated_and_cut(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(source_folders=(str(tmp_path),))
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
    path = tmp_path / "log.nt"
    path.write_text(line(1) + line(2) + line(3).rstrip())
    put(server, kind="file", path=str(path), every="20ms")
    until(lambda: accepted(server) == 2)
    with path.open("a") as file:
        file.write("\n" + line(4) + "nonsense\n" + line(5))
    until(lambda: accepted(server) == 5)
    assert server.client.get("/sources/it/dead-letters").json()["letters"][0]["record"] == "nonsense"
    server.client.post("/sources/it:stop")
    with path.open("a") as file:
        file.write(line(6))
    path.rename(tmp_path / "log.nt.1")
    path.write_text(line(7))
    server.client.post("/sources/it:start")
    until(lambda: accepted(server) == 7)
    path.write_text("")
    until(lambda: json.loads(state(server)["position"])["files"][0][2] == 0)
    path.write_text(line(8))
    until(lambda: accepted(server) == 8)
    assert subjects(server) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_files_of_a_folder_enter_once_in_their_order(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    settings = {"source_folders": (str(folder),), "data": str(tmp_path / "data")}
    server = start_server(**settings)
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
    (folder / "1.nt").write_text(line(1) + line(2).rstrip())
    (folder / "2.nt.gz").write_bytes(gzip.compress((line(3) + line(4)).encode()))
    (folder / "3.nt").write_text("")
    (folder / "other.txt").write_text("not ours")
    put(server, kind="file", path=f"{folder}/*.nt*", format="application/n-triples", every="20ms")
    until(lambda: accepted(server) == 4)
    (folder / "4.nt").write_text(line(5))
    until(lambda: accepted(server) == 5)
    server.services.close()
    (folder / "5.nt").write_text(line(6))
    again = start_server(**settings)
    until(lambda: accepted(again) == 6)
    assert subjects(again)[-1] == 6


def test_what_is_written_behind_the_place_is_told(start_server: Start, tmp_path: Path) -> None:
    server = start_server(source_folders=(str(tmp_path),))
    (tmp_path / "1.nt").write_text(line(1))
    (tmp_path / "3.nt").write_text(line(2))
    put(server, kind="file", path=f"{tmp_path}/*.nt", every="20ms")
    until(lambda: accepted(server) == 2)
    time.sleep(0.1)  # it has looked once more
    (tmp_path / "2.nt").write_text(line(3))
    until(lambda: state(server)["refused"] == 1)
    with (tmp_path / "1.nt").open("a") as file:
        file.write(line(4))
    until(lambda: state(server)["refused"] == 2)
    (tmp_path / "4.nt").write_text(line(5))
    until(lambda: accepted(server) == 3)
    letters = server.client.get("/sources/it/dead-letters").json()["letters"]
    assert sorted(Path(each["record"]).name for each in letters) == ["1.nt", "2.nt"]


def test_a_source_that_was_deleted_or_is_of_another_kind_begins_anew(
    start_server: Start, tmp_path: Path
) -> None:
    (tmp_path / "a.nt").write_text(line(1) + line(2))
    server = start_server(source_folders=(str(tmp_path),), remote_hosts=("127.0.0.1",))
    file = {"kind": "file", "path": str(tmp_path / "a.nt")}
    put(server, **file)
    until(lambda: accepted(server) == 2)
    put(server, **file, batch=7)
    server.client.delete("/sources/it")
    put(server, **file)
    until(lambda: accepted(server) == 4)
    with web(lambda handler: reply(handler, 200, line(3).encode(), Content_Type="text/turtle")) as url:
        put(server, kind="poll", url=url, every="1h")
        until(lambda: accepted(server) == 5)
    put(server, **file)
    until(lambda: accepted(server) == 7)
    assert subjects(server) == [1, 2, 1, 2, 3, 1, 2]


def test_a_source_may_begin_at_the_end(start_server: Start, tmp_path: Path) -> None:
    server = start_server(source_folders=(str(tmp_path),))
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
    path = tmp_path / "log.nt"
    path.write_text(line(1))
    put(server, kind="file", path=str(path), every="20ms", **{"from": "end"})
    until(lambda: state(server)["position"] is not None)
    with path.open("a") as file:
        file.write(line(2))
    until(lambda: accepted(server) == 1)
    assert subjects(server) == [2]


@pytest.mark.parametrize(
    "path", ["/etc/passwd.nt", "{0}/../x.nt", "relative.nt", "{0}/link/x.nt", "{0}/x.what"]
)
def test_no_other_file_is_read(start_server: Start, tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/etc")
    server = start_server(source_folders=(str(tmp_path / "in"),))
    given = {"kind": "file", "stream": S, "path": path.format(tmp_path / "in")}
    answer = server.client.put("/sources/it", json=given)
    assert answer.status_code in (400, 403), answer.text


@pytest.mark.slow
@pytest.mark.process
def test_a_file_enters_exactly_once_over_kills(tmp_path: Path) -> None:
    path, data = tmp_path / "log.nt", tmp_path / "data"
    path.write_text("")
    arguments = ["serve", "--data", str(data), "--port", "0"]
    environment = {**os.environ, "QUADRILL_SOURCE_FOLDERS": str(tmp_path)}
    written = 0
    for life in range(4):
        with Program(*arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            if life == 0:
                members = {"kind": "file", "stream": S, "path": str(path), "every": "10ms", "batch": 7}
                assert httpx.put(f"{url}sources/it", json=members).status_code == 201
            with path.open("a") as file:
                for _ in range(300):
                    written += 1
                    file.write(line(written))
                    file.flush()
            if life < 3:
                process.send_signal(signal.SIGKILL)
                continue

            def count(url: str = url) -> int:
                answer = httpx.get(f"{url}streams", params={"iri": S})
                return int(answer.json()["accepted"])

            deadline = time.monotonic() + 30
            while count() < written and time.monotonic() < deadline:
                time.sleep(0.05)
            assert count() == written
            process.terminate()


# --- poll -----------------------------------------------------------------------------------------


def test_a_polled_address_enters_when_it_changes(start_server: Start) -> None:
    now = {"body": line(1), "asked": 0, "conditional": 0}

    def get(handler: BaseHTTPRequestHandler) -> None:
        now["asked"] += 1
        tag = f'"{hash(now["body"])}"'
        assert handler.headers["Authorization"] == "Bearer secret-token"
        if handler.headers["If-None-Match"] == tag:
            now["conditional"] += 1
            reply(handler, 304)
        else:
            body = str(now["body"]).encode()
            reply(handler, 200, body, ETag=tag, Content_Type="application/n-triples")

    with web(get) as url:
        server = start_server(remote_hosts=("127.0.0.1",))
        server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
        shown = put(server, kind="poll", url=url, every="100ms", token="secret-token")
        assert shown["token"] == "***"
        until(lambda: now["conditional"] >= 2)
        assert accepted(server) == 1
        now["body"] = line(2)
        until(lambda: accepted(server) == 2)
        assert subjects(server) == [1, 2]
        server.client.post("/sources/it:stop")
    assert state(server)["state"] == "stopped"
    server.client.post("/sources/it:start")
    until(lambda: state(server)["state"] == "waiting")
    assert "could not be fetched" in state(server)["error"]


def test_other_hosts_are_not_reached(start_server: Start) -> None:
    def get(handler: BaseHTTPRequestHandler) -> None:
        reply(handler, 302, Location="http://localhost:1/")

    with web(get) as url:
        server = start_server(remote_hosts=("127.0.0.1",))
        for kind, address in (
            ("poll", "http://e.org/"),
            ("sse", "http://e.org/"),
            ("websocket", "ws://e.org/"),
        ):
            given = {"kind": kind, "stream": S, "url": address}
            assert problem_of(server.client.put("/sources/it", json=given), 403)["code"] == "host-not-allowed"
        for address in ("ftp://127.0.0.1/", "no", "http://u:p@127.0.0.1/", "http://"):
            problem_of(
                server.client.put("/sources/it", json={"kind": "poll", "stream": S, "url": address}), 400
            )
        put(server, kind="poll", url=url)
        until(lambda: state(server)["state"] == "failed")
        assert "not on the list" in state(server)["error"]


# --- event streams --------------------------------------------------------------------------------


def test_the_feed_of_another_server_goes_on_behind_the_last_event(
    start_server: Start, tmp_path: Path
) -> None:
    near = start_server()
    text = "CONSTRUCT { ?s <urn:p> ?o } { STREAM <http://e/far> [NOW] { ?s <urn:p> ?o } }"
    headers = {"Content-Type": "text/plain"}
    assert near.client.put("/queries/q", content=text, headers=headers).status_code == 201

    def push(number: int) -> None:
        answer = near.client.post(
            "/streams",
            params={"iri": "http://e/far", "at": str(1_000 * number)},
            content=line(number),
            headers={"Content-Type": "application/n-triples"},
        )
        assert answer.status_code == 200

    push(1)
    settings = {"data": str(tmp_path / "data"), "remote_hosts": ("127.0.0.1",)}
    server = start_server(**settings)
    server.client.put("/streams", params={"iri": S}, json={"retention": "1h"})
    url = f"{near.url}queries/q/results?from=0"
    put(server, kind="sse", url=url, format="application/n-quads", events=["insert"])
    until(lambda: accepted(server) == 1)
    push(2)
    until(lambda: accepted(server) == 2)
    server.services.close()
    push(3)
    push(4)
    again = start_server(**settings)
    until(lambda: accepted(again) == 4)
    elements = again.services.engine.parts.streams.newest(S, 10)
    assert [each.event_time for each in elements][:2] == [4_000, 3_000]
    assert state(again)["position"] == "4"
    again.client.post("/sources/it:stop")
    assert state(again)["state"] == "stopped"
    again.services.close()
    stopped = state(start_server(**settings))
    assert (stopped["state"], stopped["position"]) == ("stopped", "4")


def test_an_answer_that_is_no_event_stream_is_told(start_server: Start) -> None:
    with web(lambda handler: reply(handler, 404)) as url:
        server = start_server(remote_hosts=("127.0.0.1",))
        put(server, kind="sse", url=url)
        until(lambda: state(server)["state"] == "failed")
        assert "404" in state(server)["error"]


def test_messages_of_a_websocket_enter(start_server: Start) -> None:
    serving = pytest.importorskip("websockets.sync.server", reason="needs the library websockets")
    greeted: list[str] = []

    def talk(connection: Any) -> None:
        greeted.append(connection.recv())
        for number in range(1, 4):
            connection.send(line(number))
        connection.send(b"nonsense")
        connection.close(1001)

    with serving.serve(talk, "127.0.0.1", 0) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        port = there.socket.getsockname()[1]
        server = start_server(remote_hosts=("127.0.0.1",))
        put(
            server,
            kind="websocket",
            url=f"ws://127.0.0.1:{port}/",
            format="application/n-triples",
            send=json.dumps({"subscribe": "all"}),
        )
        until(lambda: accepted(server) >= 6)
        assert greeted[:1] == ['{"subscribe": "all"}'] and len(greeted) >= 2, "it connects again"
        assert state(server)["refused"] >= 1
        server.client.post("/sources/it:stop")
        there.shutdown()
