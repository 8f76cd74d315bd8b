"""The pages of the cookbook on webhooks, feeds, polled addresses, files and standard input are right."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.connectors.envelopes import body_of, key_of
from quadrill.store.feeds.feed import reset_event
from tests.app.conftest import LiveServer, Start
from tests.app.connectors.processes import cookbook_blocks
from tests.app.connectors.test_sources import reply, web
from tests.app.test_feed_streams import until

COOKBOOK = Path(__file__).parents[3] / "docs" / "cookbook"
HOST = "127.0.0.1"
pytestmark = [
    pytest.mark.skipif(
        not all(map(shutil.which, ("bash", "curl", "openssl"))), reason="needs bash, curl, openssl"
    ),
    pytest.mark.process,
]


class Page:
    """A page of the cookbook, with other addresses and folders in the place of its own."""

    def __init__(self, name: str, replaced: Mapping[str, str]) -> None:
        self._name, self._replaced = name, replaced

    def blocks(self, language: str = "sh") -> list[str]:
        found = cookbook_blocks(self._name, language)
        for old, new in self._replaced.items():
            found = [each.replace(old, new) for each in found]
        return found


def run(commands: str) -> str:
    """What commands print; a request that is refused is an error."""
    commands = commands.replace("curl ", "curl -sS --fail-with-body ")
    ended = subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 or "--max-time" in commands, ended.stdout + ended.stderr
    return ended.stdout


@contextmanager
def started(program: str) -> Iterator[subprocess.Popen[str]]:
    """A program of a page in a process of its own, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def address(server: LiveServer) -> str:
    return server.url.removeprefix("http://").rstrip("/")


def free_port() -> int:
    with socket.create_server((HOST, 0)) as sock:
        return int(sock.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((HOST, port)) == 0


def described(server: LiveServer, path: str) -> dict[str, Any]:
    answer = server.client.get(path)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def rows(server: LiveServer, query: str) -> list[dict[str, Any]]:
    """The bindings of the events of a query so far."""
    headers = {"Accept": "application/x-ndjson"}
    with server.client.stream("GET", f"/queries/{query}/results?from=0", headers=headers) as answer:
        for line in filter(None, answer.iter_lines()):  # heartbeats are empty lines
            return list(json.loads(line)["data"]["results"]["bindings"])
    raise AssertionError


def test_webhooks(start_server: Start) -> None:
    server, port = start_server(remote_hosts=(HOST,)), free_port()
    page = Page("webhook", {"127.0.0.1:7878": address(server), "9000": str(port)})
    declare, post, sink, own = page.blocks()
    (receiver,) = page.blocks("python")
    with started(receiver) as process:
        until(lambda: listening(port))
        run(declare)
        run(sink)
        until(lambda: described(server, "/sinks/alarm")["state"] == "running")
        assert json.loads(run(post))["accepted"] == 1
        assert process.stdout is not None
        event = process.stdout.readline()
        # The page's receiver takes the record of a replaced query, and the rows after it.
        query = sink[: sink.index("curl -X PUT", 1)].replace("} }'", "} } LIMIT 9'")
        run(query.replace("/queries/opened", "/queries/opened?replace=true"))
        assert process.stdout.readline() == "reset {'earliest': 2}\n"
        assert json.loads(run(post))["accepted"] == 1
        assert process.stdout.readline() == event
        run(f"curl -X POST {server.url}queries/opened/replay")
        resets = [process.stdout.readline(), process.stdout.readline()]
        assert resets[0] == "reset {'earliest': 3}\n" and resets[1] == event
        sink_now = described(server, "/sinks/alarm")
        assert (sink_now["state"], sink_now["refused"]) == ("running", 0)
    assert event == "insert [{'door': {'type': 'uri', 'value': 'http://example.org/front'}}]\n"
    forged = post.replace("open-sesame", "guessed")
    with pytest.raises(AssertionError, match="401"):
        run(forged)
    run(own)
    assert described(server, "/sinks/hot")["body"] == {"text": "{{door}} is open"}


@pytest.mark.parametrize("name", ["webhook", "mqtt", "kafka", "files"])
def test_a_page_of_sinks_shows_the_record_of_a_reset(name: str) -> None:
    shown = cookbook_blocks(name, "json")[0]
    assert json.loads(shown) == json.loads(body_of(reset_event(2), "json", "opened"))
    text = " ".join((COOKBOOK / f"{name}.md").read_text("utf-8").split())
    assert "**Reset.** When the query is replaced or replayed" in text
    data = body_of(reset_event(2), "data", "opened").decode()
    assert name not in ("mqtt", "kafka") or f'With `"style": "data"` a reset is only `{data}`' in text


def test_two_resets_have_different_keys() -> None:
    assert key_of(reset_event(2)) == "reset-2" != key_of(reset_event(3))


def test_event_streams_and_websockets(start_server: Start) -> None:
    pytest.importorskip("websockets", reason="needs quadrill[websocket]")
    near, far = start_server(remote_hosts=(HOST,)), start_server()
    page = Page("feeds", {"127.0.0.1:7878": address(near), "127.0.0.1:7879": address(far)})
    from_feed, from_socket, read = page.blocks()
    run(from_feed)
    until(lambda: described(near, "/sources/warm")["taken"] == 1)
    (element,) = near.services.engine.parts.streams.newest("http://example.org/warm", 10)
    assert element.event_time == 1000
    run(from_socket)
    until(lambda: described(near, "/sources/messages")["taken"] == 1)
    by_events, by_lines = map(run, read.splitlines())
    assert "id: 1\n" in by_events and "event: insert\n" in by_events
    assert json.loads(by_lines)["event"] == "insert"
    (program,) = page.blocks("python")
    with started(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("1 insert <http://example.org/a>")


def test_a_polled_address(start_server: Start) -> None:
    (answer,) = cookbook_blocks("poll", "json")

    def get(handler: BaseHTTPRequestHandler) -> None:
        assert handler.path == "/bikes.json"
        reply(handler, 200, answer.encode(), Content_Type="application/json")

    with web(get) as url:
        server = start_server(remote_hosts=(HOST,))
        page = Page("poll", {"127.0.0.1:7878": address(server), "127.0.0.1:9000": url.split("/")[2]})
        streams, source, query = page.blocks()[0].split("curl -X PUT")[1:]
        for each in (streams, query, source):
            run(f"curl -X PUT{each}")
        until(lambda: described(server, "/sources/bikes")["taken"] == 2)
        assert [each["station"]["value"] for each in rows(server, "empty")] == ["http://example.org/market"]


def test_files(start_server: Start, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    incoming, out = tmp_path / "in", tmp_path / "out"
    (incoming / "days").mkdir(parents=True)
    log = incoming / "access.ndjson"
    log.write_text('{"path": "/before", "status": 404, "ts": 1777629000}\n')
    server = start_server(source_folders=(str(incoming),), sink_folder=str(out))
    page = Page("files", {"127.0.0.1:7878": address(server), "/srv/in": str(incoming)})
    tail, append, folder, write, sinks = page.blocks()
    for each in (tail, folder, sinks):
        run(each)
    until(lambda: described(server, "/sources/log")["position"] is not None)
    for name in ("missing", "table"):
        until(lambda name=name: described(server, f"/sinks/{name}")["state"] == "running")
    run(append)
    run(write)
    until(lambda: described(server, "/sources/log")["taken"] == 1)
    until(lambda: described(server, "/sources/days")["taken"] == 2)
    assert [each["path"]["value"] for each in rows(server, "missing")] == ["/index.html"]
    until(lambda: [each.suffix for each in out.glob("missing-*")] == [".part"])
    (part,) = out.glob("missing-*.part")
    until(lambda: part.read_text().endswith("\n"))
    assert json.loads(part.read_text())["data"]["results"]["bindings"][0]["path"]["value"] == "/index.html"
    for second in range(10):
        run(append.replace("1777629600", f"177762970{second}"))
    until(lambda: any(out.glob("table-*.parquet")))
    table = parquet.read_table(min(out.glob("table-*.parquet"))).to_pylist()
    assert table[0]["path"] == "/index.html" and table[0]["event"] == "insert"


def test_standard_input(start_server: Start, tmp_path: Path) -> None:
    server = start_server()
    lines = [{"at": at, "data": f"<urn:{at}> <urn:p> <urn:o> ."} for at in (1000, 2000)]
    (tmp_path / "readings.ndjson").write_text("".join(json.dumps(each) + "\n" for each in lines))
    (command, *_) = Page("stdin", {}).blocks()[0].splitlines()
    assert command.startswith("tail -F readings.ndjson | quadrill push readings - ")
    ours = f"{sys.executable} -m quadrill.app.cli push --server {server.url}"
    command = command.replace("quadrill push", ours).replace("tail -F", "timeout 5 tail -F -n +1")
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert described(server, "/streams/readings")["accepted"] == 2
