"""A server that is killed again and again while sources bring elements and a sink takes events."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.test_feed_streams import until

from .processes import Served, served
from .test_sinks import receiving
from .test_sources import line, reply, web

HOST = "127.0.0.1"
LIVES = 3
NUMBERS_A_LIFE = 100
PACE_SECONDS = 0.004
TRIPLES = "application/n-triples"
QUERY = "SELECT ?s { STREAM <http://e/sse> [NOW] { ?s <urn:p> ?o } }"


class World:
    """What is outside of the server: numbers that come as files, as events, as answers and as posts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.moved = threading.Condition()
        self.server: Served | None = None
        self.posted: list[int] = []
        self.doubtful: set[int] = set()
        self.ended = False

    def come(self, last: int) -> None:
        """Bring numbers up to ``last``, a few milliseconds apart."""
        while self.number < last:
            number = self.number + 1
            with (self.folder / f"{number // 25:04}.nt").open("a") as file:
                file.write(line(number))
            with self.moved:
                self.number = number
                self.moved.notify_all()
            time.sleep(PACE_SECONDS)

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        """``/now`` is the newest number, ``/events`` all of them, from the one behind Last-Event-ID on."""
        if handler.path == "/now":
            number = self.number
            reply(handler, 200, line(number).encode(), ETag=f'"{number}"', Content_Type=TRIPLES)
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        sent = int(handler.headers["Last-Event-ID"] or 0)
        try:
            while not self.ended:
                with self.moved:
                    if self.number == sent:
                        self.moved.wait(1)
                    upto = self.number
                for number in range(sent + 1, upto + 1):
                    data = json.dumps({"at": number, "quads": line(number)})
                    handler.wfile.write(f"event: insert\nid: {number}\ndata: {data}\n\n".encode())
                    sent = number
        except OSError:
            handler.close_connection = True

    def post(self) -> None:
        """Post number after number to the source of kind webhook, each until the server has it."""
        number = 0
        while not self.ended:
            number += 1
            while not self.ended:
                try:
                    assert self.server is not None
                    url = f"{self.server.url}sources/webhook"
                    headers = {"Content-Type": TRIPLES}
                    answer = httpx.post(url, content=line(number), headers=headers, trust_env=False)
                except httpx.HTTPError:
                    # The server may have it all the same.
                    self.doubtful.add(number)
                    time.sleep(0.02)
                    continue
                if answer.status_code == 200:
                    self.posted.append(number)
                    break
            time.sleep(PACE_SECONDS)


def numbers(server: Served, kind: str) -> list[int]:
    """What has entered the stream of a source, in its order."""
    answer = server.client.get(f"/streams/{kind}/elements?limit=1000").raise_for_status().json()
    return [int(each["quads"].split(">")[0].removeprefix("<urn:")) for each in reversed(answer["elements"])]


def declare(server: Served, folder: Path, outside: str, receiver: str) -> None:
    sources: dict[str, dict[str, Any]] = {
        "file": {"path": f"{folder}/*.nt", "every": "10ms", "batch": 7},
        "sse": {"url": f"{outside}events", "format": "application/n-quads", "events": ["insert"]},
        "poll": {"url": f"{outside}now", "every": "20ms"},
        "webhook": {"format": TRIPLES},
    }
    for kind, members in sources.items():
        stream = f"http://e/{kind}"
        server.client.put("/streams", params={"iri": stream}, json={"retention": "1h"}).raise_for_status()
        given = {"kind": kind, "stream": stream, **members}
        assert server.client.put(f"/sources/{kind}", json=given).status_code == 201
    headers = {"Content-Type": "text/plain"}
    server.client.put("/queries/q", content=QUERY, headers=headers).raise_for_status()
    given = {"kind": "webhook", "query": "q", "url": receiver, "from": 0}
    assert server.client.put("/sinks/out", json=given).status_code == 201


@pytest.mark.process
def test_what_each_source_and_sink_promises_holds_over_kills(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    world = World(folder)
    settings = {"source_folders": str(folder), "remote_hosts": HOST}
    last = LIVES * NUMBERS_A_LIFE
    posting = threading.Thread(target=world.post)
    with web(world.get) as outside, receiving() as receiver:
        try:
            for life in range(1, LIVES):
                with served(tmp_path / "data", **settings) as killed:
                    world.server = killed
                    if life == 1:
                        declare(killed, folder, outside, receiver.url)
                        posting.start()
                    world.come(life * NUMBERS_A_LIFE)
            with served(tmp_path / "data", **settings) as server:
                world.server = server
                world.come(last)
                for kind in ("file", "sse", "poll"):
                    until(lambda kind=kind: last in numbers(server, kind))
                world.ended = True
                posting.join()
                got = {kind: numbers(server, kind) for kind in ("file", "sse", "poll", "webhook")}
                events = int(server.client.get("/queries/q").json()["feed"]["last_id"])
                until(lambda: len({each["id"] for each in receiver.documents()}) == events)
        finally:
            world.ended = True
    assert got["file"] == list(range(1, last + 1)), "each line exactly once"
    assert got["sse"] == list(range(1, last + 1)), "each event with an id once"
    assert got["poll"] == sorted(set(got["poll"])), "each answer at most once"
    entered = Counter(got["webhook"])
    assert not set(world.posted) - set(entered), "what was answered with 200 is there"
    assert {number for number, times in entered.items() if times > 1} <= world.doubtful
    ids = [each["id"] for each in receiver.documents()]
    assert list(dict.fromkeys(ids)) == sorted(set(ids)), "each event at least once, first in order"
    rows = {each["id"]: each["data"]["results"]["bindings"] for each in receiver.documents()}
    told = [row["s"]["value"] for event in sorted(rows) for row in rows[event]]
    assert sorted(told, key=lambda iri: int(iri[4:])) == [f"urn:{number}" for number in range(1, last + 1)]
