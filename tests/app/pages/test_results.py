"""The results of a query on its page: tables, charts and a map, a choice of rows, and taking them away."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register, update
from .looks import looks_well

pytestmark = NEEDS_BROWSER
FLIGHTS = (
    PREFIX
    + """PREFIX wgs: <http://www.w3.org/2003/01/geo/wgs84_pos#>
SELECT ?flight ?airline ?delay ?lat ?long WHERE {
  STREAM ex:readings [RANGE 10m] { ?flight ex:airline ?airline ; ex:delay ?delay ; ex:to ?airport }
  GRAPH ex:airports { ?airport wgs:lat ?lat ; wgs:long ?long }
}"""
)
PLACES = (
    "PREFIX wgs: <http://www.w3.org/2003/01/geo/wgs84_pos#>\n" + PREFIX + "INSERT DATA { GRAPH ex:airports {"
    " ex:LAX wgs:lat 33.94 ; wgs:long -118.4 . ex:MIA wgs:lat 25.79 ; wgs:long -80.29 } }"
)


@pytest.fixture
def flights(page: Page, client: httpx.Client) -> Page:
    """The page of a query of flights with three results."""
    update(client, PLACES)
    register(client, "flights", FLIGHTS)
    page.open("/ui/queries/flights")
    page.until_text("#feed-state", "live")
    for at, (flight, airline, delay, airport) in enumerate(
        (("f1", "UA", "12.3456789", "LAX"), ("f2", "DL", "40", "MIA"), ("f3", "UA", "7", "MIA"))
    ):
        push(
            client,
            PREFIX + f'ex:{flight} ex:airline "{airline}" ; ex:delay {delay} ; ex:to ex:{airport} .',
            60_000 * at,
        )
    page.until_text("#live tbody", "12.346")
    page.until_text("#live tbody", "f3")
    return page


def letters(page: Page, css: str) -> list[str]:
    """What is written in parts of a picture."""
    found: list[str] = page.driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", css
    )
    return found


def choose(page: Page, css: str, text: str) -> None:
    """Pick an option of a list."""
    page.click(css)
    page.until(lambda: any(text in option.text for option in page.all(f"{css} option")), f"an option {text}")
    page.driver.execute_script(
        "const [css, text] = arguments; const list = document.querySelector(css);"
        "list.value = [...list.options].find((option) => option.text.includes(text)).value;"
        "list.dispatchEvent(new Event('change'))",
        css,
        text,
    )


def test_numbers_are_rounded_for_the_eye_and_exact_in_the_tooltip(flights: Page) -> None:
    exact = flights.until(
        lambda: next(
            cell.get_attribute("title") for cell in flights.all("#live .number") if cell.text == "12.346"
        ),
        "the number",
    )
    assert exact == '"12.3456789"^^<http://www.w3.org/2001/XMLSchema#decimal>'


def test_the_columns_decide_which_pictures_there_are(flights: Page, client: httpx.Client) -> None:
    flights.click("#tab-chart")
    flights.until(lambda: letters(flights, "#lines path.line") != [], "lines")
    assert flights.text("#lines .legend .link").splitlines() == ["UA", "DL"]
    choose(flights, "#chart-kind", "Bars")
    flights.until_text("#bars", "ex:f2")
    assert flights.text("#bars .bar-figure").splitlines() == ["40", "12.35", "7"]
    flights.click("#tab-map")
    flights.until(lambda: len(flights.all("#map .point")) == 3, "three points")
    register(client, "names", PREFIX + "SELECT ?s ?n WHERE { STREAM ex:names [RANGE 1m] { ?s ex:name ?n } }")
    push(client, PREFIX + 'ex:a ex:name "only words" .', 1000, "http://example.org/names")
    flights.open("/ui/queries/names")
    flights.until_text("#live tbody", "only words")
    assert [tab.text for tab in flights.all("#result-tabs [role=tab]") if tab.is_displayed()] == [
        "Live events",
        "Current answer",
    ]


def test_rows_are_chosen_by_text_and_by_a_value_that_is_clicked(flights: Page) -> None:
    flights.write("#filter", "dl")
    flights.until(lambda: "f1" not in flights.text("#live tbody"), "only rows with DL")
    assert "f2" in flights.text("#live tbody")
    flights.write("#filter", "")
    flights.until_text("#live tbody", "f1")
    flights.press(lambda: next(term for term in flights.all("#live .literal") if term.text == "UA"), "UA")
    flights.until(lambda: "f2" not in flights.text("#live tbody"), "only rows of UA")
    assert "?airline = UA" in flights.text("#chosen")
    flights.click("#tab-answer")
    flights.until_text("#answer", "2 of 3 rows are chosen")
    flights.click("#chosen button")
    flights.until_text("#answer", "f2")
    choose(flights, "#follow", "ex:f2")
    flights.until(lambda: "f1" not in flights.text("#answer"), "only the followed flight")


def test_what_is_held_stays_and_what_came_is_shown_afterwards(flights: Page, client: httpx.Client) -> None:
    flights.click("#freeze")
    push(client, PREFIX + 'ex:f4 ex:airline "B6" ; ex:delay 1 ; ex:to ex:LAX .', 200_000)
    flights.until(lambda: client.get("/queries/flights").json()["feed"]["last_id"] >= 4, "the event is told")
    flights.write("#filter", "B6")
    flights.write("#filter", "")
    assert "f4" not in flights.text("#live tbody")
    flights.click("#freeze")
    flights.until_text("#live tbody", "f4")


def saved(page: Page, css: str) -> str:
    """The text of the file that a button of the menu makes."""
    page.driver.execute_script(
        "window.saved = null;"
        "URL.createObjectURL = (blob) => {"
        " blob.text().then((text) => { window.saved = text; }); return '#saved'; }"
    )
    page.click("#take summary")
    page.click(css)
    return str(page.until(lambda: page.driver.execute_script("return window.saved"), "a file"))


def test_rows_are_taken_away_as_they_are_shown_or_all(flights: Page, client: httpx.Client) -> None:
    flights.write("#filter", "UA")
    rows = list(csv.DictReader(io.StringIO(saved(flights, "[data-save='shown csv']"))))
    assert [(row["flight"], row["delay"], row["at"]) for row in rows] == [
        ("http://example.org/f1", "12.3456789", "0"),
        ("http://example.org/f3", "7", "120000"),
    ]
    assert (
        json.loads(saved(flights, "[data-save='shown json']"))["results"]["bindings"][0]["airline"]["value"]
        == "UA"
    )
    lines = saved(flights, "[data-save='answer ndjson']").splitlines()
    assert sorted(json.loads(line)["delay"]["value"] for line in lines) == ["12.3456789", "40", "7"]
    direct = client.get("/queries/flights/results", headers={"Accept": "text/csv"}).text
    assert saved(flights, "[data-save='answer csv']") == direct


def test_the_menu_closes_by_escape_and_copies_a_command(flights: Page) -> None:
    flights.click("#take summary")
    flights.one("#take summary").send_keys("\ue00c")
    assert not flights.one("#take").get_property("open")
    flights.click("#take summary")
    flights.driver.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    flights.click("[data-copy=feed]")
    flights.until_text("#announcements", "Copied")
    copied = str(flights.driver.execute_script("return window.copied"))
    assert copied == f"curl -N '{flights.base}/queries/flights/results' -H 'Accept: text/event-stream'"


def test_a_file_that_is_saved_reaches_the_disk(flights: Page, tmp_path: Path) -> None:
    flights.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    flights.click("#take summary")
    flights.click("[data-save='answer csv']")
    flights.until(lambda: (tmp_path / "flights.csv").exists(), "the file")
    assert "12.3456789" in (tmp_path / "flights.csv").read_text()


def test_row_shows_and_hides_why_it_is_there(flights: Page) -> None:
    flights.press(lambda: flights.all("#live .why")[1], "the row of f2")
    flights.until_text("#live .reason", "of http://example.org/readings")
    shown = flights.text("#live .reason")
    assert "ex:f2" in shown and "ex:MIA" in shown and "lat 25.79" in shown
    assert "ex:f3" not in shown and "ex:LAX" not in shown
    assert looks_well(flights, "results-why") == []
    flights.press(lambda: flights.all("#live .why")[1], "the row of f2")
    flights.until(lambda: not flights.all("#live .reason"), "the reason is hidden")


def test_a_constructed_graph_is_shown_with_prefixes(page: Page, client: httpx.Client) -> None:
    text = PREFIX + (
        "CONSTRUCT { ?s a ex:Hot ; ex:value ?v ; ex:says 'so \"hot\"'@en }"
        " WHERE { STREAM ex:readings [RANGE 1m] { ?s ex:value ?v } }"
    )
    register(client, "hot", text)
    page.open("/ui/queries/hot")
    page.until_text("#feed-state", "live")
    push(client, PREFIX + "ex:s1 ex:value 31 .", 1000)
    page.until_text("#live tbody", "ex:s1")
    shown = page.text("#live tbody .turtle")
    assert "a ex:Hot" in shown and "ex:value 31" in shown and '"so \\"hot\\""@en' in shown
    assert "<http" not in shown
    page.click("#tab-answer")
    page.until_text("#answer", "PREFIX ex: <http://example.org/>")
    assert "PREFIX rdf:" not in page.text("#answer")


def test_changes_are_shown_as_alerts_that_begin_and_end(page: Page, client: httpx.Client) -> None:
    text = PREFIX + "SELECT ?s ?v WHERE { STREAM ex:readings [RANGE 10s] { ?s ex:value ?v } FILTER(?v > 30) }"
    register(client, "too-hot", text, output="changes")
    page.open("/ui/queries/too-hot")
    page.until_text("#feed-state", "live")
    push(client, PREFIX + "ex:s1 ex:value 31 .", 1000)
    push(client, PREFIX + "ex:s2 ex:value 32 .", 5000)
    page.click("#tab-alerts")
    page.until_text("#alerts", "2 alerts now")
    assert [line.split()[0] for line in page.text("#alerts tbody tr").splitlines()] == ["now", "now"]
    push(client, PREFIX + "ex:s3 ex:value 1 .", 13_000)
    page.until_text("#alerts", "1 alert now, 1 was over")
    rows = page.text("#alerts tbody tr").splitlines()
    assert "ex:s2" in rows[0] and "now" in rows[0]
    assert "ex:s1" in rows[1] and "over" in rows[1] and "1970-01-01 00:00:01" in rows[1]


def test_a_key_that_is_told_once_is_an_alert(page: Page, client: httpx.Client) -> None:
    text = PREFIX + "SELECT ?s ?v WHERE { STREAM ex:readings [NOW] { ?s ex:value ?v } } ONCE PER ?s EVERY 1m"
    register(client, "once", text)
    for at in (1000, 5000, 61_000):
        push(client, f"{PREFIX} ex:s1 ex:value {at} .", at)
    page.open("/ui/queries/once")
    page.click("#tab-alerts")
    page.until_text("#alerts", "2 alerts.")
    assert [line.split()[-1] for line in page.text("#alerts tbody tr").splitlines()] == ["61000", "1000"]


def test_an_alert_that_is_resolved_is_over(page: Page, client: httpx.Client) -> None:
    text = PREFIX + (
        "SELECT ?s ?v WHERE { STREAM ex:readings [LATEST 1 BY ?s] { ?s ex:value ?v } FILTER(?v > 30) } "
        "ONCE PER ?s UNTIL GONE RESOLVED EVERY 10s"
    )
    register(client, "excursions", text)
    page.open("/ui/queries/excursions")
    page.until_text("#feed-state", "live")
    for at, sensor, value in ((1000, "s1", 31), (2000, "s2", 40), (12_000, "s1", 33), (13_000, "s1", 1)):
        push(client, f"{PREFIX} ex:{sensor} ex:value {value} .", at)
    page.until_text("#live", "resolved")
    page.click("#tab-alerts")
    page.until_text("#alerts", "2 alerts now, 2 were over")
    rows = page.text("#alerts tbody tr").splitlines()
    assert ["s1" in row for row in rows] == [False, False, True, True], "both alerts of the key are over"


@pytest.mark.always("events", "map")
@pytest.mark.parametrize("tab", ["events", "answer", "chart", "map"])
def test_the_results_have_no_findings_in_any_width_and_scheme(tab: str, flights: Page) -> None:
    flights.until(lambda: flights.one("#tab-map").is_displayed(), "all tabs")
    flights.click(f"#tab-{tab}")
    flights.until(lambda: flights.text(f"#{tab}-pane"), "the pane")
    found = looks_well(flights, f"results-{tab}")
    assert not found, "\n".join(found)


def imported(page: Page, module: str, *expression: object) -> Any:
    """What a function of a module of the page's scripts gives: its name, then its arguments."""
    return page.driver.execute_async_script(
        "const [module, text, done] = arguments;"
        "const base = document.querySelector('link[rel=stylesheet]').href.replace(/styles.*/, '');"
        "import(base + module).then((it) => done(it[text[0]](...text.slice(1))));",
        module,
        list(expression),
    )


def test_places_are_told_by_their_columns(page: Page) -> None:
    page.open("/ui/processes")
    decimal = "http://www.w3.org/2001/XMLSchema#decimal"
    number = {"type": "literal", "value": "10", "datatype": decimal}
    wkt = {"type": "literal", "value": "<http://www.opengis.net/def/crs/EPSG/0/4326> POINT(50 8)"}
    row = {
        "fromLat": number,
        "fromLong": number,
        "lat": {**number, "value": "200"},
        "lon": number,
        "where": wkt,
        "n": number,
    }
    kinds = imported(page, "charts/kinds.js", "kindsOf", list(row), [row])
    assert kinds["places"] == [{"lat": "fromLat", "lon": "fromLong"}, {"wkt": "where"}]
    assert kinds["numbers"] == ["lat", "lon", "n"]
