"""One stream's view in a browser: newest elements, dead letters, declaration and mapping, pushes."""

from __future__ import annotations

import httpx
import pytest
from selenium.webdriver.common.by import By

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register
from .looks import looks_well

pytestmark = NEEDS_BROWSER

IRI = "http://example.org/readings"
VIEW = f"/ui/streams/one?iri={IRI}"
CONSTRUCT = """PREFIX ex: <http://example.org/>
CONSTRUCT { ?s ex:value ?value } WHERE { BIND(IRI(CONCAT(STR(ex:), ?sensor)) AS ?s) }"""


def declare(client: httpx.Client, **options: object) -> None:
    client.put("/streams", params={"iri": IRI}, json={"iri": IRI, **options}).raise_for_status()


def letters(client: httpx.Client) -> list[dict[str, object]]:
    found: list[dict[str, object]] = client.get("/streams/readings/dead-letters").json()["letters"]
    return found


def set_text(page: Page, css: str, text: str) -> None:
    """Put a text of several lines into a field, as pasting does."""
    script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
    page.driver.execute_script(script, page.one(css), text)


@pytest.fixture
def late(client: httpx.Client) -> httpx.Client:
    """A stream with an element, and three that came too late."""
    register(client, "reader", PREFIX + "SELECT * WHERE { STREAM ex:readings [RANGE 1m] { ?s ex:value ?v } }")
    for at in (60_000, 3_000, 2_000, 1_000):
        push(client, PREFIX + f"ex:s1 ex:value {at} .", at)
    return client


def test_the_list_leads_to_a_stream_whose_newest_elements_come_by_themselves(
    page: Page, client: httpx.Client
) -> None:
    push(client, PREFIX + 'ex:s1 ex:value 21 ; ex:note "<b>not bold</b>" .', 1_000)
    page.open("/ui/streams")
    page.until_text("#streams tbody", "readings")
    page.press(lambda: page.one("#streams tbody").find_element(By.LINK_TEXT, "readings"), "the stream")
    page.until_text("#tail tbody", "<b>not bold</b>")
    assert page.text("h1") == "readings"
    assert "1970-01-01 00:00:01" in page.text("#tail tbody")
    push(client, PREFIX + "ex:s1 ex:value 22 .", 2_000)
    page.until(lambda: len(page.all("#tail tbody tr")) == 2, "the second element")
    assert page.text("#tail tbody tr:first-child td.rownum") == "2"
    page.until_text("#figures", "1970-01-01 00:00:02")
    page.until(lambda: page.all("#chart svg"), "the rates")
    assert "pushed to" in page.text("#sources")


def test_held_elements_stay_while_one_looks_at_them(page: Page, client: httpx.Client) -> None:
    push(client, PREFIX + "ex:s1 ex:value 21 .", 1_000)
    page.open(VIEW)
    page.until_text("#tail tbody", "21")
    page.click("#hold")
    push(client, PREFIX + "ex:s1 ex:value 22 .", 2_000)
    page.until_text("#figures", "1970-01-01 00:00:02")
    assert len(page.all("#tail tbody tr")) == 1
    page.click("#hold")
    page.until(lambda: len(page.all("#tail tbody tr")) == 2, "what came meanwhile")


def test_a_late_element_is_tried_again_and_another_dropped(page: Page, late: httpx.Client) -> None:
    page.open(VIEW)
    page.until_text("#letters", "Late (3)")
    assert "behind the watermark" in page.text("#letters")
    page.click('[data-letter="2"] button:not(.danger)')
    page.until_text("#letters", "Late (2)")
    answer = late.get("/queries/reader/results", headers={"Accept": "application/json"}).json()
    assert len(answer["results"]["bindings"]) == 2
    page.click('[data-letter="3"] button.danger')
    page.until_text("#letters", "Late (1)")
    assert [each["id"] for each in letters(late)] == ["4"]


@pytest.mark.always("Retry all")
@pytest.mark.parametrize("action", ["Retry all", "Drop all"])
def test_all_letters_of_a_reason_are_tried_again_or_dropped(
    action: str, page: Page, late: httpx.Client
) -> None:
    page.open(VIEW)
    page.until_text("#letters", "Late (3)")
    step = page.confirm if action == "Drop all" else page.click
    step(f'[data-reason="late"] button[aria-label^="{action}"]')
    page.until_text(
        "#announcements", "3 letters tried again" if action == "Retry all" else "3 dead letters dropped"
    )
    page.until(lambda: not page.one("#no-letters").get_property("hidden"), "no letter is left")
    assert letters(late) == []


def test_a_mapping_is_tried_on_a_sample_before_it_is_saved(page: Page, client: httpx.Client) -> None:
    declare(client)
    page.open(VIEW)
    page.one("#mapping-kind").send_keys("by a CONSTRUCT")
    set_text(page, "#mapping-text", CONSTRUCT.replace("BIND", "BOND"))
    page.click("#try")
    page.until_text("#declare-problem", "400")
    assert client.get("/streams/readings").json()["mapping"] is None
    set_text(page, "#mapping-text", CONSTRUCT)
    set_text(page, "#mapping-sample", '{"sensor": "kitchen", "value": 7}\n{"sensor": "cellar", "value": 8}')
    page.click("#try")
    page.until_text("#tried", "http://example.org/kitchen")
    assert "http://example.org/cellar" in page.text("#tried")
    set_text(page, "#mapping-sample", "sensor,value\nattic,9")
    page.click("#try")
    page.until_text("#tried", "http://example.org/attic")
    assert client.get("/streams/readings").json()["elements"] == 0
    page.write("#option-lateness", "2s")
    page.click("#save")
    page.until_text("#announcements", "The declaration is saved")
    declared = client.get("/streams/readings").json()
    assert (declared["lateness"], declared["mapping"]) == ("2s", {"construct": CONSTRUCT})
    page.open(VIEW)
    page.until(lambda: "json" in page.one("#push-type").get_property("value"), "records are pushed")
    page.click("#push button[type=submit]")
    page.until_text("#receipt", "1 element accepted")
    page.until_text("#tail tbody", "http://example.org/a")


def test_a_record_that_cannot_be_read_is_shown_with_its_reason(page: Page, client: httpx.Client) -> None:
    declare(client, mapping={"construct": CONSTRUCT})
    body, headers = '{"sensor": "a"}\n{"sensor": \n', {"Content-Type": "application/x-ndjson"}
    parameters = {"iri": IRI, "partial": "true"}
    client.post("/streams", params=parameters, content=body, headers=headers).raise_for_status()
    page.open(VIEW)
    page.until_text("#letters", "Unreadable (1)")
    assert '{"sensor":' in page.text("#letters .record")
    assert page.text("#letters .bad")


def test_a_stream_that_a_query_makes_has_neither_push_nor_declaration(
    page: Page, client: httpx.Client
) -> None:
    text = "REGISTER STREAM ex:out AS CONSTRUCT { ?s ex:warm ?v } "
    register(
        client,
        "maker",
        PREFIX + text + f"FROM STREAM <{IRI}> [RANGE 5s STEP 5s] WHERE {{ ?s ex:value ?v }}",
        dialect="csparql",
    )
    page.open("/ui/streams/one?iri=http://example.org/out")
    page.until_text("#sources", "Made by the query maker")
    assert page.all("#push, #declare") == []


def test_a_stream_that_is_not_there_is_told_so(page: Page) -> None:
    page.open("/ui/streams/one?iri=http://example.org/nobody")
    page.until_text("main", "No such stream")


def test_the_view_of_a_stream_with_dead_letters_looks_well(page: Page, late: httpx.Client) -> None:
    late.put("/streams", params={"iri": IRI}, json={"iri": IRI, "stamping": "event"}).raise_for_status()
    page.open(VIEW)
    page.until_text("#letters", "Late (3)")
    page.one("#mapping-kind").send_keys("by a CONSTRUCT")
    found = looks_well(page, "stream-letters")
    assert not found, "\n".join(found)


def test_without_streams_the_first_push_is_taught(page: Page, client: httpx.Client) -> None:
    page.open("/ui/streams")
    page.until_text("#first-push", "curl")
    assert page.base in page.text("#first-push")
    found = looks_well(page, "streams-empty")
    assert not found, "\n".join(found)
