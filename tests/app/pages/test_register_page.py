"""The view Register: what it finds while one types, completion, preview, parameters, edit in place, share."""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register, update
from .looks import looks_well

pytestmark = NEEDS_BROWSER
ROOT = Path(__file__).parents[3]
ROOMS = PREFIX + 'INSERT DATA { GRAPH ex:rooms { ex:s1 ex:inRoom "kitchen" . ex:s2 ex:inRoom "cellar" } }'
TEXT = (
    PREFIX
    + """SELECT ?sensor ?value ?room WHERE {
  STREAM ex:readings [RANGE 1m] { ?sensor ex:value ?value }
  GRAPH ex:rooms { ?sensor ex:inRoom ?room }
}"""
)


@pytest.fixture
def filled(client: httpx.Client) -> httpx.Client:
    """A server with a graph and a stream."""
    update(client, ROOMS)
    for at in range(10):
        push(client, PREFIX + f"ex:s{1 + at % 2} ex:value {20 + at} .", 1000 * at)
    return client


def _type(page: Page, text: str) -> None:
    """Type at the end of the editor's text, as a person does."""
    content = page.editor("#text").find_element(By.CSS_SELECTOR, ".cm-content")
    content.send_keys(Keys.CONTROL, Keys.END)
    content.send_keys(text)


def _offered(page: Page) -> list[str]:
    found: list[str] = page.driver.execute_script(
        "return [...document.querySelector('#editor .code').shadowRoot"
        ".querySelectorAll('.cm-tooltip-autocomplete li')].map((each) => each.textContent)"
    )
    return found


def _offers(page: Page, name: str) -> bool:
    """Whether a name is offered; asked for again where nothing is."""
    found = _offered(page)
    if not found:
        ActionChains(page.driver).key_down(Keys.CONTROL).send_keys(Keys.SPACE).key_up(Keys.CONTROL).perform()
        deadline = time.monotonic() + 1
        while not found and time.monotonic() < deadline:
            time.sleep(0.03)
            found = _offered(page)
    return any(name in each for each in found)


def _press(page: Page, key: str) -> None:
    """A key alone: keys sent to an element set its caret first, and a moved caret ends what is offered."""
    ActionChains(page.driver).send_keys(key).perform()


def _take(page: Page) -> None:
    """Enter takes what is offered, a moment after it is: what comes at once is meant for the text."""
    time.sleep(0.3)
    _press(page, Keys.ENTER)


def test_what_is_wrong_or_doubtful_is_marked_while_one_types(page: Page, filled: httpx.Client) -> None:
    """Nothing is clicked: the server's parser is asked when one stops."""
    page.open("/ui/register")
    page.write("#text", TEXT)
    page.until_text("#live-check", "No fault found: cqels")
    page.write("#text", TEXT.replace("[RANGE 1m]", "[RANGE ever]"))
    page.until_text("#live-check", "Line 3")
    assert page.marked("#text", ".cm-lintRange-error") == ["ever"]
    assert page.text("#problem") == ""
    page.write("#text", TEXT.replace("?room }", "?rom }"))
    page.until_text("#live-check", "?rom")
    assert page.marked("#text", ".cm-lintRange-warning") != []
    assert filled.get("/queries").json()["queries"] == []


def test_names_of_the_store_and_the_streams_are_completed(page: Page, filled: httpx.Client) -> None:
    """Predicates of the store and of newest elements, graphs, streams, variables, keywords."""
    page.open("/ui/register")
    page.write("#text", PREFIX + "SELECT ?sensor WHERE { ?sensor ")
    for typed, offered in (
        ("ex:inR", "ex:inRoom"),
        (" ex:val", "ex:value"),
        (" ?sen", "?sensor"),
        (" GRAPH ex:ro", "ex:rooms"),
    ):
        _type(page, typed)
        page.until(lambda wanted=offered: _offers(page, wanted), f"{offered} is offered")
        _press(page, Keys.ESCAPE)
    _type(page, " STREAM ex:rea")
    page.until(lambda: _offers(page, "ex:readings"), "the stream is offered")
    _take(page)
    page.until(lambda: page.one("#text").get_property("value").endswith("STREAM ex:readings"), "it is put in")


def test_a_name_whose_prefix_is_not_declared_brings_it_along(page: Page, filled: httpx.Client) -> None:
    """The prefix is one that the server keeps."""
    filled.post("/prefixes", params={"prefix": "room", "uri": "http://example.org/"}).raise_for_status()
    page.open("/ui/register")
    page.driver.execute_script("sessionStorage.removeItem('quadrill.vocabulary')")
    page.open("/ui/register")
    page.write("#text", "SELECT * WHERE { ?s ")
    _type(page, "room:inR")
    page.until(lambda: _offers(page, "room:inRoom"), "something is offered")
    _take(page)
    page.until(lambda: "room:inRoom" in page.one("#text").get_property("value"), "it is put in")
    assert page.one("#text").get_property("value").startswith("PREFIX room: <http://example.org/>\n")
    filled.delete("/prefixes", params={"prefix": "room"}).raise_for_status()


def test_a_preview_shows_what_it_would_have_told(page: Page, filled: httpx.Client) -> None:
    """Over the last minutes; nothing is registered."""
    page.open("/ui/register")
    page.write("#text", TEXT)
    page.click("#preview")
    page.until_text("#outcome", "10 elements")
    assert "kitchen" in page.text("#outcome table") and "29" in page.text("#outcome table")
    assert filled.get("/queries").json()["queries"] == []
    found = looks_well(page, "register-preview")
    assert not found, "\n".join(found)


def test_parameters_are_fields(page: Page, filled: httpx.Client) -> None:
    """A value that is given stands in the registration."""
    page.open("/ui/register")
    page.write("#name", "by-room")
    page.write("#text", TEXT.replace("?room }", '"$Room$" }').replace(" ?room", ""))
    page.until_text("#parameters", "Room")
    page.write("[data-parameter=Room]", "kitchen")
    page.click("#register")
    page.until(lambda: "/ui/queries/by-room" in page.driver.current_url, "the query's own page")
    assert filled.get("/queries/by-room").json()["options"]["parameters"] == {"Room": "kitchen"}


def test_a_query_is_edited_in_place_and_put_back(page: Page, filled: httpx.Client) -> None:
    """Undo within a minute gives text and options as they were."""
    register(filled, "kept", TEXT, output="changes")
    before = filled.get("/queries/kept").json()
    page.open("/ui/queries/kept")
    page.click("#edit")
    page.until_text("h1", "Edit kept")
    page.until(lambda: page.one("#text").get_property("value") == TEXT, "the text is there")
    assert page.one("#output").get_property("value") == "changes"
    page.write("#text", TEXT.replace("1m", "2m"))
    page.click("#register")
    page.until_text("#undo-bar", "was replaced")
    assert "2m" in filled.get("/queries/kept").json()["query"]
    page.click("#undo")
    page.until(lambda: page.all("#undo-bar") == [], "it is put back")
    after = filled.get("/queries/kept").json()
    assert (after["query"], after["options"]) == (before["query"], before["options"])


def test_a_link_holds_the_whole_query(page: Page, filled: httpx.Client) -> None:
    """Behind the #, which no server gets."""
    page.open("/ui/register")
    page.write("#name", "shared")
    page.write("#text", TEXT)
    page.click("#share")
    page.until(lambda: "#registration=" in page.driver.current_url, "the address has it")
    link = page.driver.current_url
    page.open("/ui/queries/none")
    page.driver.get(link)
    page.until(lambda: page.one("#text").get_property("value") == TEXT, "the text is there")
    assert page.one("#name").get_property("value") == "shared"


def test_the_examples_are_the_recipes_of_the_cookbook() -> None:
    """Each text of the first recipes stands in docs/cookbook/queries.md; the others are of other dialects."""
    recipes = (ROOT / "docs/cookbook/queries.md").read_text("utf-8")
    texts = re.findall(r"text: `(.*?)`", (ROOT / "static/editor/examples.js").read_text("utf-8"), re.DOTALL)
    known = [text for text in texts if text.replace("\\\\", "\\") in recipes]
    assert len(known) >= 11 and len(texts) - len(known) <= 2
