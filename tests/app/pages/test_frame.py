"""The header of every view: theme, navigation, and how lists and editors begin where it is narrow."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from .browser import NEEDS_BROWSER, Page
from .conftest import register
from .looks import NARROW, faults, show_as
from .test_looks import TEXT, VIEWS, filled

pytestmark = NEEDS_BROWSER
__all__ = ["filled"]
GROUND = "return getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(244, 245, 242)", "rgb(15, 22, 27)"
LONG_LINE = "SELECT ?sensor WHERE { ?sensor <http://example.org/in> ?a_room_with_a_name_that_is_long_enough }"


@pytest.fixture
def phone(page: Page) -> Iterator[Page]:
    """The browser with the width of a phone."""
    show_as(page, width=NARROW)
    yield page
    show_as(page)


def ground(page: Page) -> str:
    return str(page.driver.execute_script(GROUND))


def test_the_theme_follows_the_system_until_a_person_chooses_one(page: Page, client: httpx.Client) -> None:
    page.open("/ui/jobs")
    for dark, colour in ((True, DARK), (False, LIGHT)):
        show_as(page, dark=dark)
        assert ground(page) == colour
    page.click("#theme")
    page.click("#theme")
    assert ground(page) == DARK
    assert "Theme: dark" in str(page.one("#theme").get_attribute("aria-label"))
    page.open("/ui/docs/tutorial.md")
    assert ground(page) == DARK, "the next view has the chosen theme, too"
    assert faults(page, of_colours=True) == []
    show_as(page, dark=True)
    page.click("#theme")
    assert "as the system" in str(page.one("#theme").get_attribute("aria-label"))
    show_as(page)
    assert ground(page) == LIGHT


@pytest.mark.parametrize("name", ["queries", "sparql", "shapes", "running", "contents"])
def test_the_present_entry_of_the_navigation_is_in_sight_on_a_phone(
    name: str, filled: httpx.Client, phone: Page
) -> None:
    phone.open(VIEWS[name])
    in_sight = """const entry = document.querySelector('.bar nav [aria-current]').getBoundingClientRect();
    return entry.left >= 0 && entry.right <= document.documentElement.clientWidth;"""
    phone.until(lambda: phone.driver.execute_script(in_sight), "the entry")


def test_every_view_leads_to_the_documents(page: Page, client: httpx.Client) -> None:
    page.open("/ui/store")
    page.click('nav a[href="/ui/docs"]')
    page.until_text("h1", "Documentation")
    assert page.text("nav a[aria-current]") == "Docs"


@pytest.mark.parametrize(
    ("address", "editor"),
    [
        (f"/ui/sparql?query={quote(LONG_LINE)}", "#text"),
        ("/ui/register?edit=in-rooms", "#text"),
        ("/ui/streams", "#push-body"),
    ],
)
def test_an_editor_begins_at_the_left_on_a_phone(
    address: str, editor: str, client: httpx.Client, phone: Page
) -> None:
    register(client, "in-rooms", TEXT.replace("\n", " "))
    phone.open(address)
    scroller = ".cm-scroller" if editor == "#text" else None
    if scroller is None:
        left = phone.driver.execute_script("return document.querySelector(arguments[0]).scrollLeft", editor)
    else:
        found = phone.editor(editor).find_element("css selector", scroller)
        phone.until(lambda: "SELECT" in found.text, "the text")
        left = found.get_property("scrollLeft")
    assert left == 0


@pytest.mark.parametrize("name", ["store", "connectors", "jobs", "stream"])
def test_rows_of_a_list_are_stacked_on_a_phone(name: str, filled: httpx.Client, phone: Page) -> None:
    filled.put("/sources/hook", json={"kind": "webhook", "stream": "http://example.org/readings"})
    filled.post("/optimize")
    phone.open(VIEWS[name])
    lists = {
        "store": ["#graphs", "#changes"],
        "connectors": ["#sources"],
        "jobs": ["#jobs"],
        "stream": ["#tail"],
    }
    try:
        for each in lists[name]:
            phone.until(lambda css=each: phone.all(f"{css} tbody tr"), f"rows of {each}")
            hidden = phone.driver.execute_script(
                "const box = document.querySelector(arguments[0]).closest('.scroll');"
                "return box.scrollWidth - box.clientWidth;",
                each,
            )
            assert hidden == 0, each
    finally:
        filled.delete("/sources/hook")
