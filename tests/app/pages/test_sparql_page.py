"""The view SPARQL beside its results: saved texts, what runs, completion, and what is known of an IRI."""

from __future__ import annotations

import threading

import httpx
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, update
from .looks import looks_well

pytestmark = NEEDS_BROWSER
SLOW = "SELECT (COUNT(*) AS ?n) WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n1 ?o }"


def test_a_text_is_saved_under_a_name_taken_again_and_deleted(page: Page, client: httpx.Client) -> None:
    """It is there after the page is opened anew, with its kind."""
    page.open("/ui/sparql")
    page.click("#mode-update")
    page.write("#text", PREFIX + "INSERT DATA { ex:a ex:b 1 }")
    page.write("#save-name", "one more")
    page.one("#save-name").send_keys(Keys.ENTER)
    page.until_text("#saved", "update: one more")
    page.open("/ui/sparql")
    page.until_text("#run", "Run query")
    page.press(
        lambda: page.one("#saved").find_element(By.XPATH, "option[contains(., 'one more')]"), "the name"
    )
    page.until_text("#run", "Run update")
    page.until(lambda: "INSERT DATA" in page.one("#text").get_property("value"), "the text is there")
    page.click("#forget")
    page.until(lambda: "one more" not in page.text("#saved"), "it is gone")


def test_a_click_on_an_iri_shows_what_leads_from_it_and_to_it(page: Page, client: httpx.Client) -> None:
    """Page by page, each triple with its graph; every IRI there leads on."""
    update(client, PREFIX + "INSERT DATA { GRAPH ex:g { ex:hub ex:name 'hub' } ex:a ex:to ex:hub }")
    update(client, PREFIX + "INSERT DATA {" + "".join(f"ex:hub ex:n {n} ." for n in range(60)) + "}")
    page.open("/ui/sparql")
    page.write("#text", PREFIX + "SELECT ?x { GRAPH ex:g { ?x ex:name 'hub' } }")
    page.click("#run")
    page.until_text("#result", "ex:hub")
    page.click("#result a.term.iri")
    page.until_text("#from [data-shown]", "1 to 50")
    assert page.text("h1") == "http://example.org/hub"
    page.click("#from [data-on]")
    page.until_text("#from [data-shown]", "51 to 61")
    assert page.text("#to tbody").split() == [
        "<http://example.org/a>",
        "<http://example.org/to>",
        "default",
        "graph",
    ]
    page.click("#to tbody a.term.iri")
    page.until_text("h1", "http://example.org/a")
    page.until_text("#from tbody", "http://example.org/hub")
    page.until_text("#to", "No triple leads here.")


def test_an_answer_has_the_pictures_that_fit_its_columns(page: Page, client: httpx.Client) -> None:
    """Bars and lines by names, numbers and times, a map of places; else a table."""
    rows = "".join(
        f"ex:r{n} ex:in ex:room{n % 2}; ex:celsius {20 + n}; ex:at '2026-01-01T0{n}:00:00Z'^^xsd:dateTime;"
        f" ex:lat {40 + n}; ex:long {n} ."
        for n in range(6)
    )
    update(client, PREFIX + f"PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\nINSERT DATA {{ {rows} }}")
    page.open("/ui/sparql")
    page.write(
        "#text", PREFIX + "SELECT ?room ?c ?at { ?x ex:in ?room; ex:celsius ?c; ex:at ?at } ORDER BY ?at"
    )
    page.click("#run")
    page.until_text("#result", "ex:room1")
    page.click("#tab-chart")
    page.until_text("#chart-note", "?c over ?at, a line for each ?room. Times are UTC.")
    assert len(page.all("#lines path.line")) == 2
    assert looks_well(page, "sparql-chart") == []
    page.press(lambda: page.one("#chart-kind").find_element(By.XPATH, "option[contains(., 'Bars')]"), "Bars")
    page.until_text("#bars", "ex:room0")
    page.write("#text", PREFIX + "SELECT ?x ?lat ?long { ?x ex:lat ?lat; ex:long ?long }")
    page.click("#run")
    page.until(lambda: page.one("#tab-map").is_displayed(), "the map is offered")
    assert page.one("#answer-pane").is_displayed()
    page.click("#tab-map")
    page.until_text("#map-note", "The places of the rows, of the answer.")
    assert len(page.all("#map .points > *")) == 6
    page.write("#text", "ASK {}")
    page.click("#run")
    page.until_text("#result", "true")
    assert not page.one("#result-tabs").is_displayed()
    assert page.one("#answer-pane").is_displayed()


def test_a_text_is_checked_while_it_is_written(page: Page, client: httpx.Client) -> None:
    """Queries and updates, without running them."""
    page.open("/ui/sparql")
    page.until_text("#live-check", "No fault found.")
    page.write("#text", "SELECT * {\n ?s ?p }")
    page.until_text("#live-check", "Line 2: ")
    page.until(lambda: page.marked("#text", ".cm-lintRange-error"), "it is marked at its place")
    page.click("#mode-update")
    page.until_text("#live-check", "No fault found.")
    page.write("#text", "CLEAR ALL ; DROP")
    page.until_text("#live-check", "Line 1: ")
    assert not page.one("#result-panel").is_displayed()


def test_a_running_query_is_shown_and_stopped(page: Page, base: str, client: httpx.Client) -> None:
    """One that somebody else has begun."""
    update(client, PREFIX + "INSERT DATA {" + "".join(f"ex:s{n} ex:p {n} ." for n in range(300)) + "}")
    answers: list[int] = []

    def ask() -> None:
        with httpx.Client(base_url=base, timeout=120) as other:
            headers = {"Content-Type": "application/sparql-query"}
            answers.append(other.post("/query?timeout=100", content=SLOW, headers=headers).status_code)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        page.open("/ui/sparql")
        page.until_text("#running tbody", "COUNT(*)")
        page.click("#running tbody button.danger")
        page.until(lambda: answers != [], "it is stopped")
        page.until(lambda: not page.one("#running").is_displayed(), "nothing runs any more")
    finally:
        asker.join(110)
    assert answers[0] >= 400


def test_words_of_sparql_are_completed(page: Page) -> None:
    """Those of updates only for updates."""
    page.open("/ui/sparql")
    page.write("#text", "SELECT * WHERE { ")
    content = page.editor("#text").find_element(By.CSS_SELECTOR, ".cm-content")
    content.send_keys("OPT")
    offered = (
        "return [...document.querySelector('#editor .code').shadowRoot"
        ".querySelectorAll('.cm-tooltip-autocomplete li')].map((each) => each.textContent)"
    )
    page.until(lambda: any("OPTIONAL" in each for each in page.driver.execute_script(offered)), "OPTIONAL")
    assert not any("INSERT" in each for each in page.driver.execute_script(offered))
