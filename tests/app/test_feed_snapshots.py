"""Feeds that begin with the current answer: no event between it and the first one is missed or told twice."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

from tests.app.conftest import LiveServer, Start
from tests.app.test_feed_streams import until

TEXT = "SELECT ?s { STREAM <http://e/s> [RANGE 3s] { ?s <urn:p> ?o } }"
ELEMENTS, READERS = 600, 12


def rows(data: Any) -> list[str]:
    return [each["s"]["value"] for each in data["results"]["bindings"]]


def push(server: LiveServer, number: int) -> None:
    answer = server.client.post(
        "/streams",
        params={"iri": "http://e/s", "at": str(500 * number)},
        content=f"<urn:{number}> <urn:p> <urn:o> .",
        headers={"Content-Type": "application/n-triples"},
    )
    assert answer.status_code == 200


class Reader(threading.Thread):
    """Keeps the answer by the events of a feed, until the last element has entered it."""

    def __init__(self, server: LiveServer) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.answer: Counter[str] = Counter()
        self.ids: list[int] = []
        self.kinds: list[str] = []

    def run(self) -> None:
        headers = {"Accept": "application/x-ndjson"}
        with self.server.client.stream("GET", "/queries/q/results?snapshot=true", headers=headers) as feed:
            for line in filter(None, feed.iter_lines()):  # heartbeats are empty lines
                event = json.loads(line)
                self.kinds.append(event["event"])
                if event["event"] == "progress":
                    continue
                found, sign = rows(event["data"]), -1 if event["event"] == "delete" else 1
                if event["event"] == "answer":
                    self.answer.clear()
                for each in found:
                    self.answer[each] += sign
                if event["id"] is not None:
                    self.ids.append(event["id"])
                if f"urn:{ELEMENTS}" in found:
                    return


def test_who_begins_with_the_answer_while_events_come_has_what_everybody_has(start_server: Start) -> None:
    server = start_server()
    body = {"query": TEXT, "output": "changes", "name": "q"}
    assert server.client.post("/queries", json=body).status_code == 201
    readers = [Reader(server) for _ in range(READERS)]
    push(server, 0)
    for number in range(1, ELEMENTS):
        if number % (ELEMENTS // READERS) == 1:
            readers[number * READERS // ELEMENTS].start()
        push(server, number)
    until(lambda: all(each.ids for each in readers))
    push(server, ELEMENTS)
    for each in readers:
        each.join(20)
        assert not each.is_alive()
    answer = server.client.get("/queries/q/results", headers={"Accept": "application/sparql-results+json"})
    for each in readers:
        assert each.kinds[0] == "answer"
        assert each.ids == list(range(each.ids[0], each.ids[0] + len(each.ids))), (
            "each event once, none left out"
        )
        assert sorted(each.answer.elements()) == sorted(rows(answer.json()))
        assert min(each.answer.values()) >= 0
    assert len({each.ids[0] for each in readers}) > READERS // 2
