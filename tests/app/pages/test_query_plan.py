"""A query's page: its plan as a graph, a table and a text, the last hour, and why it gives no result."""

from __future__ import annotations

import re

import httpx
import pytest
from selenium.webdriver.common.keys import Keys

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register, update
from .looks import escaped, looks_well, picture, show_as

pytestmark = NEEDS_BROWSER
READINGS = "http://example.org/readings"
JOINED = (
    PREFIX
    + """SELECT ?sensor ?value ?room WHERE {
  STREAM ex:readings [RANGE 1m] { ?sensor ex:value ?value FILTER(?value > 10) }
  GRAPH ex:rooms { ?sensor ex:in ?room }
}"""
)


def open_query(page: Page, name: str = "in-rooms") -> None:
    page.open(f"/ui/queries/{name}")
    page.until(lambda: page.all(".plan-node"), "no operator is drawn")


def drawn(page: Page, css: str) -> list[str]:
    """What texts of the drawing say."""
    script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
    return [str(each) for each in page.driver.execute_script(script, css)]


def reason(page: Page, word: str) -> str:
    """Wait for a reason; its text."""
    return page.until(lambda: page.text(f'#reasons [data-reason="{word}"]'), f"no reason {word}")


def test_the_plan_is_a_graph_whose_operators_tell_more_by_click_and_by_keys(
    page: Page, client: httpx.Client
) -> None:
    update(client, PREFIX + 'INSERT DATA { GRAPH ex:rooms { ex:s1 ex:in "kitchen" } }')
    register(client, "in-rooms", JOINED)
    for at in range(20):
        push(client, PREFIX + f"ex:s1 ex:value {at} .", 1000 * at)
    open_query(page)
    names = drawn(page, ".plan-name")
    assert {"Window", "Pattern", "Filter", "Stored rows", "Join"} <= set(names)
    assert len(page.all(".plan-edge")) >= len(names) - 1
    assert drawn(page, ".plan-filter .plan-detail") == ["?value > 10"]
    page.until(lambda: "rows/s" in "".join(drawn(page, ".plan-filter .plan-figure")), "no rate")
    assert drawn(page, ".plan-node.plan-table .plan-figure")[:2] == ["1 row", "version 1"]
    page.click(".plan-node.plan-table")
    page.until_text("#plan-details", "ex:in ?room")
    for word in ("Rows", "Version", "Age", "Last refresh by"):
        assert word in page.text("#plan-details dt")
    page.click("#plan-details button")
    page.until_text("#announcements", "fresh")
    page.one(".plan-filter").send_keys(Keys.ENTER)
    page.until_text("#plan-details h3", "Filter")
    page.until_text("#plan-details dl", "Out for each row in")
    page.one(".plan-filter").send_keys(Keys.ESCAPE)
    page.until(lambda: not page.one("#plan-details").is_displayed(), "Escape closes the details")
    page.click("#tab-plan-table")
    page.until_text("#plan-table", "?value > 10")
    assert len(page.all("#plan-table tbody tr")) == len(names)
    page.click("#tab-plan-text")
    page.until_text("#plan", "dialect  cqels")


WIDE_PLAN = (
    PREFIX
    + """SELECT ?room ?sensor (AVG(?value) AS ?mean) (COUNT(*) AS ?number_of_values) WHERE {
  STREAM ex:readings [RANGE 1m] { ?sensor ex:value ?value ; ex:a_predicate_with_a_long_name [] }
  GRAPH ex:rooms { ?sensor ex:in/ex:part_of ?room ; ex:made_by_a_manufacturer ?manufacturer }
  FILTER NOT EXISTS { GRAPH ex:rooms { ?sensor ex:is_switched_off_since ?instant } }
} GROUP BY ?room ?sensor HAVING (AVG(?value) > 1)"""
)


@pytest.mark.parametrize("width", [1400, 390])
def test_the_plan_uses_its_width_has_no_inner_names_and_no_text_beyond_a_box(
    width: int, page: Page, client: httpx.Client
) -> None:
    register(client, "wide", WIDE_PLAN)
    for at in range(20):
        push(client, PREFIX + f"ex:s{at} ex:value {at} ; ex:a_predicate_with_a_long_name 1 .", 1000 * at)
    show_as(page, width=width)
    try:
        open_query(page, "wide")
        page.until(lambda: "rows/s" in "".join(drawn(page, ".plan-figure")), "a rate")
        assert escaped(page) == []
        texts = drawn(page, ".plan-node text")
        assert [text for text in texts if re.search(r"\?_|_:|\(triples\)", text)] == []
        assert not {"scan", "star", "table", "extend", "project"} & set(drawn(page, ".plan-name"))
        across = page.driver.execute_script(
            "const [graph, place] = ['.plan-graph', '#plan-graph'].map((css) => document.querySelector(css));"
            "return graph.getBoundingClientRect().width / place.clientWidth;"
        )
        assert across > 0.85, "the graph uses its width"
        if width == 1400:
            assert across <= 1, "the graph is not scrolled"
            picture(page, "plan-wide")
        page.click("#tab-plan-table")
        page.until_text("#plan-table", "Stored rows")
        assert re.search(r"\?_|_:", page.text("#plan-table")) is None
    finally:
        show_as(page)


def test_a_query_whose_filter_drops_all_says_so_and_shows_where(page: Page, client: httpx.Client) -> None:
    register(
        client,
        "never",
        PREFIX + "SELECT ?s WHERE { STREAM ex:readings [RANGE 1m] { ?s ex:value ?v FILTER(?v > 99) } }",
    )
    for at in range(3):
        push(client, PREFIX + f"ex:s1 ex:value {at} .", 1000 * at)
    open_query(page, "never")
    found = reason(page, "filtered")
    assert "none of the 3 rows that reached operator #2 passed it (filter ?v > 99)" in found
    page.click('#reasons a[href="#plan-title"]')
    page.until_text("#plan-details h3", "Filter")
    found_faults = looks_well(page, "query-filtered")
    assert not found_faults, "\n".join(found_faults)


def test_a_stream_that_stands_gets_a_heartbeat_from_the_page(page: Page, client: httpx.Client) -> None:
    client.put(
        "/streams", params={"iri": READINGS}, json={"iri": READINGS, "idle_timeout": "0s"}
    ).raise_for_status()
    text = PREFIX + "SELECT ?s WHERE { STREAM ex:readings [RANGE 10s STEP 10s] { ?s ex:value ?v } }"
    register(client, "grid", text, report="on-window-close")
    push(client, PREFIX + "ex:s1 ex:value 1 .", 1000)
    open_query(page, "grid")
    assert "The next report is at 1970-01-01T00:00:10Z" in reason(page, "watermark")
    page.click('#reasons [data-reason="watermark"] form button')
    page.until(lambda: client.get("/queries/grid").json()["last_result"], "the window closes")
    page.until(lambda: not page.all('#reasons [data-reason="watermark"]'), "the reason goes")


def test_late_elements_are_let_in_by_a_lateness_from_the_page(page: Page, client: httpx.Client) -> None:
    declared = {"iri": READINGS, "retention": "2h"}
    client.put("/streams", params={"iri": READINGS}, json=declared).raise_for_status()
    client.post("/streams:heartbeat", params={"iri": READINGS, "at": 60_000}).raise_for_status()
    register(client, "late", PREFIX + "SELECT ?s WHERE { STREAM ex:readings [RANGE 1m] { ?s ex:never ?v } }")
    push(client, PREFIX + "ex:s1 ex:value 1 .", 61_000)
    push(client, PREFIX + "ex:s1 ex:value 1 .", 1_000)
    open_query(page, "late")
    assert "1 element was late and dropped" in reason(page, "late")
    assert page.one('#reasons [data-reason="late"] input').get_attribute("value") == "60s"
    page.click('#reasons [data-reason="late"] form button')
    page.until_text("#announcements", "waits 60s")
    stream = client.get("/streams", params={"iri": READINGS}).json()
    assert (stream["lateness_ms"], stream["retention_ms"]) == (60_000, 7_200_000)


def test_a_paused_query_resumes_and_an_empty_static_part_can_be_looked_into(
    page: Page, client: httpx.Client
) -> None:
    register(client, "in-rooms", JOINED)
    push(client, PREFIX + "ex:s1 ex:value 20 .", 1000)
    client.patch("/queries/in-rooms", json={"state": "paused"}).raise_for_status()
    open_query(page)
    reason(page, "paused")
    page.click('#reasons [data-reason="paused"] button')
    assert "has no rows" in reason(page, "static-empty")
    link = page.one('#reasons [data-reason="static-empty"] a')
    assert "/ui/sparql?query=PREFIX+ex" in str(link.get_attribute("href"))
    page.click('#reasons [data-reason="static-empty"] button')
    page.until_text("#announcements", "are fresh")


def test_a_failed_query_begins_anew_from_the_page(page: Page, client: httpx.Client) -> None:
    register(
        client,
        "small",
        PREFIX + "SELECT ?s WHERE { STREAM ex:readings [RANGE 1m] { ?s ex:value ?v } }",
        memory=1,
    )
    push(client, PREFIX + "ex:s1 ex:value 1, 2, 3 .", 1000)
    page.open("/ui/queries/small")
    assert "the query has failed" in reason(page, "failed").lower()
    page.click('#reasons [data-reason="failed"] button')
    page.until(lambda: client.get("/queries/small").json()["state"] == "running", "it runs again")
    page.until(lambda: not page.all('#reasons [data-reason="failed"]'), "the reason goes")


def test_charts_begin_with_what_the_server_kept(page: Page, client: httpx.Client) -> None:
    register(client, "in-rooms", JOINED)
    history = {"every_ms": 10_000, "from": 0, "elements": [0, 50, 100], "events": [0, 10, None]}
    open_query(page)
    latest = page.driver.execute_async_script(
        """const [history, done] = arguments;
        import("/ui/static/charts/lines.js").then(({ Rates }) => {
          const rates = new Rates(["in", "out"]);
          rates.begin(history, ["elements", "events"]);
          rates.add({ in: 0, out: 0 }, 31000);
          rates.add({ in: 40, out: 2 }, 35000);
          rates.add({ in: 80, out: 4 }, 39000);
          done(rates.samples.map(({ atMs, values }) => [atMs, ...values]));
        });""",
        history,
    )
    assert latest == [[10_000, 0, 0], [20_000, 5, 1], [30_000, 10, None], [39_000, 10, 0.5]]
