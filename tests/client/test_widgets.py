"""The table and the chart of a live data frame, from the server to what a browser draws."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.client import Client
from tests.app.conftest import LiveServer, Start, start_server
from tests.app.pages.browser import NEEDS_BROWSER, Page, chromium
from tests.app.pages.looks import faults

pytest.importorskip("anywidget", reason="no anywidget: pip install 'quadrill[notebook]'")

__all__ = ["start_server"]

S = "http://e/s"
TEXT = "SELECT ?sensor ?v { STREAM <http://e/s> [RANGE 20s] { ?sensor <urn:v> ?v } }"
SCRIPT = Path(__file__).parents[2] / "app" / "client" / "widget.js"
PAGE = """<!doctype html><html lang="en"><title>Notebook</title>
<main><h1>Notebook</h1><div id="cell"></div></main>
<script type="module">
const listeners = {};
const model = {
  state: STATE,
  get(name) { return this.state[name]; },
  on(name, listener) { (listeners[name] ??= new Set()).add(listener); },
  off(name, listener) { listeners[name].delete(listener); },
};
window.change = (name, value) => {
  model.state[name] = value;
  for (const listener of listeners[`change:${name}`] ?? []) listener();
};
window.listening = () => Object.values(listeners).reduce((sum, each) => sum + each.size, 0);
WIDGET
window.stop = widget.render({ model, el: document.getElementById("cell") });
</script>"""


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server()


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with Client(server.url) as found:
        found.register(TEXT, name="q", output="changes")
        yield found


def push(client: Client, at: int, *values: Any) -> None:
    triples = " ".join(f"<urn:s{number}> <urn:v> {value} ." for number, value in enumerate(values))
    client.push(S, triples, media_type="text/turtle", at=at, wait=True)


def until(condition: Callable[..., bool], what: str) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def ends_at(chart: Any) -> float | None:
    """The time of the last point of a chart's first line."""
    lines = chart.content["lines"]
    return lines[0]["points"][-1][0] if lines else None


def test_a_table_follows_the_answer(client: Client) -> None:
    with client.live("q") as live:
        table = live.table(rows=2)
        assert table.content == {"columns": ["sensor", "v"], "rows": [], "total": 0}
        push(client, 1_000, 1, '"x"', "2.50")
        until(lambda: table.content["total"] == 3, "the table is refreshed")
        assert table.content["rows"] == [["urn:s0", 1], ["urn:s1", "x"]]
        until(lambda: "q, 3 rows, event 1" in table.caption, "the caption is refreshed")
        client.drop("q")
        until(lambda: table.caption.endswith("ended"), "the end is shown")


def test_cells_are_values_that_a_browser_can_show(client: Client) -> None:
    with client.live("q") as live:
        table = live.table()
        date_time = '"2024-05-01T12:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
        infinite = '"INF"^^<http://www.w3.org/2001/XMLSchema#double>'
        push(client, 1_000, 2**60, date_time, infinite, "true", "1e0", "2.5", "0." + 20 * "1")
        until(lambda: table.content["total"] == 7, "the table is refreshed")
        cells = [cell for _, cell in sorted(table.content["rows"])]
        assert cells == [str(2**60), "2024-05-01 12:00:00+00:00", "inf", True, 1.0, 2.5, "0." + 20 * "1"]
        json.dumps(table.content, allow_nan=False)


def test_a_chart_over_event_time_grows_with_the_answer(client: Client) -> None:
    with client.live("q") as live:
        chart = live.chart("v", by="sensor", points=3)
        for number in range(1, 6):
            push(client, number * 30_000, number, '"no number"')
            until(lambda at=number * 30_000: ends_at(chart) == at, "a point is added")
        assert chart.content == {
            "lines": [{"name": "urn:s0", "points": [[90_000, 3], [120_000, 4], [150_000, 5]]}],
            "time": True,
        }


def test_a_chart_over_a_column_shows_the_present_rows_in_order(client: Client) -> None:
    text = "SELECT ?v (2 * ?v AS ?w) { STREAM <http://e/s> [RANGE 20s] { ?sensor <urn:v> ?v } }"
    client.register(text, name="two", output="changes")
    with client.live("two") as live:
        chart = live.chart("w", x="v")
        push(client, 1_000, 3, 1, "2.5")
        until(lambda: bool(chart.content["lines"]), "the chart is refreshed")
        line = {"name": "w", "points": [[1, 2], [2.5, 5], [3, 6]]}
        assert chart.content == {"lines": [line], "time": False}


def test_a_chart_has_a_bounded_number_of_lines(client: Client) -> None:
    with client.live("q") as live:
        chart = live.chart("v", by="sensor")
        push(client, 1_000, *range(30))
        until(lambda: len(chart.content["lines"]) == 20, "the lines are drawn")
        push(client, 60_000, *range(30))
        until(lambda: ends_at(chart) == 60_000, "the lines grow")
        assert len(chart.content["lines"]) == 20


def test_charts_that_cannot_be_drawn_say_why(client: Client) -> None:
    with client.live("q") as live:
        with pytest.raises(ValueError, match="the answer of q has no column 'w'; it has sensor, v"):
            live.chart("w")
        chart = live.chart("v")
        push(client, 1_000, 1, 2)
        until(lambda: "has 2 rows: say by, or x" in chart.caption, "the reason is shown")


def opened(tmp_path: Path, driver: Any, state: dict[str, Any]) -> Page:
    """A page that shows a widget with a state, as a notebook does."""
    widget = SCRIPT.read_text("utf-8").replace("export default", "const widget =")
    page = tmp_path / "index.html"
    page.write_text(PAGE.replace("WIDGET", widget).replace("STATE", json.dumps(state)), "utf-8")
    driver.get(page.as_uri())
    return Page(driver, "")


@pytest.mark.browser
@NEEDS_BROWSER[1]
def test_a_browser_draws_both_widgets(tmp_path: Path) -> None:
    """Cells are texts, lines stay inside their picture, no text is over another, and changes are drawn."""
    with chromium(tmp_path / "profile") as driver:
        table = {
            "columns": ["<i>s</i>", "v"],
            "rows": [["<img src=x onerror=stop()>", 1], [None, True]],
            "total": 9,
        }
        page = opened(tmp_path, driver, {"kind": "table", "content": table, "caption": "q, <b>9</b> rows"})
        assert page.text("th") == "<i>s</i>\nv"
        assert page.text("td") == "<img src=x onerror=stop()>\n1\nunbound\ntrue"
        assert page.text("p") == "The first 2 of 9 rows.\nq, <b>9</b> rows"
        assert page.all("#cell img, #cell b, #cell i") == []
        assert faults(page) == []
        driver.execute_script("change('content', {columns: ['v'], rows: [[7]], total: 1})")
        assert page.text("td") == "7" and page.text("p") == "q, <b>9</b> rows"
        driver.execute_script("stop()")
        assert driver.execute_script("return listening()") == 0

        lines = [
            {
                "name": f"urn:s{number}",
                "points": [[1714564800000 + 60000 * x, number * x - 3] for x in range(9)],
            }
            for number in range(12)
        ]
        state = {"kind": "chart", "content": {"lines": lines, "time": True}, "caption": "q"}
        page = opened(tmp_path, driver, state)
        assert len(page.all("polyline")) == len(page.all("circle")) == 12
        labels = [each.get_attribute("textContent") for each in page.all("svg text")]
        assert labels == ["0", "20", "40", "60", "80", "12:00", "12:02", "12:04", "12:06", "12:08"]
        assert driver.execute_script(
            "const box = document.querySelector('svg').getBoundingClientRect();"
            "return [...document.querySelectorAll('polyline, svg text')].every((each) => {"
            "  const one = each.getBoundingClientRect();"
            "  return one.left >= box.left - 1 && one.right <= box.right + 1"
            "    && one.top >= box.top - 1 && one.bottom <= box.bottom + 1; })"
        )
        assert driver.execute_script(
            "const texts = [...document.querySelectorAll('svg text')];"
            "const boxes = texts.map((each) => each.getBoundingClientRect());"
            "return boxes.every((one, at) => boxes.slice(at + 1).every((two) => one.right <= two.left"
            "  || two.right <= one.left || one.bottom <= two.top || two.bottom <= one.top));"
        )
        assert faults(page) == []
        for content in ({"lines": [], "time": True}, {"lines": [{"name": "a", "points": [[5, 5]]}]}):
            driver.execute_script("change('content', arguments[0])", content)
        assert len(page.all("circle")) == 1
        assert driver.get_log("browser") == []
