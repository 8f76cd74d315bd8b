"""A real browser reads a feed by EventSource and by WebSocket: each event, once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("selenium", reason="needs the test extra")

from tests.app.conftest import LiveServer, Start
from tests.app.pages.browser import CHROMEDRIVER, CHROMIUM, Page
from tests.app.test_feed_clients import push

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None or CHROMEDRIVER is None, reason="no chromium or no chromedriver on the PATH"
    ),
    pytest.mark.process,
]

READ = """
window.found = {events: [], messages: [], empty: 0, closed: null};
const source = window.source = new EventSource("/queries/q/results?from=0");
source.addEventListener("insert", (event) => found.events.push([event.lastEventId, JSON.parse(event.data)]));
source.onmessage = () => found.empty += 1;  // what has no kind: there is no such event
const socket = new WebSocket(`ws://${location.host}/queries/q/results?from=0`);
socket.onmessage = (message) => found.messages.push(JSON.parse(message.data));
socket.onclose = (event) => found.closed = event.code;
"""


@pytest.fixture
def page(start_server: Start, driver: object) -> Iterator[tuple[LiveServer, Page]]:
    server = start_server()
    shown = Page(driver, server.url)  # type: ignore[arg-type]
    yield server, shown
    shown.driver.get("about:blank")


def test_a_browser_gets_each_event_once_by_both_ways(page: tuple[LiveServer, Page]) -> None:
    server, shown = page
    text = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
    server.client.put("/queries/q", content=text, headers={"Content-Type": "text/plain"})
    push(server, 1, "urn:")
    push(server, 2, "urn:")
    shown.open("/openapi.json")  # a page of the server without scripts of its own
    shown.driver.execute_script(READ)

    def count() -> tuple[int, int]:
        counts = shown.driver.execute_script("return [found.events.length, found.messages.length]")
        return counts[0], counts[1]

    shown.until(lambda: count() == (2, 2), "the events that were there")
    push(server, 3, "urn:")
    shown.until(lambda: count() == (3, 3), "an event that comes")
    found = json.loads(shown.driver.execute_script("return JSON.stringify(found)"))
    subjects = [[number, data["results"]["bindings"][0]["s"]["value"]] for number, data in found["events"]]
    assert subjects == [["1", "urn:1"], ["2", "urn:2"], ["3", "urn:3"]]
    assert [(each["id"], each["event"]) for each in found["messages"]] == [
        (1, "insert"), (2, "insert"), (3, "insert"),
    ]  # fmt: skip
    assert found["empty"] == 0
    assert server.client.delete("/queries/q").status_code == 204
    shown.until(lambda: shown.driver.execute_script("return found.closed") == 1000, "the end of the feed")
