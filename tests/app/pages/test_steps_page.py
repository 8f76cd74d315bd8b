"""Steps that cannot be undone stand in menus and ask first; buttons that cannot work are off and say why."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register
from .looks import NARROW, faults, overflow, picture, show_as
from .test_looks import TEXT, filled
from .test_rules_page import sign_in

pytestmark = NEEDS_BROWSER
__all__ = ["filled"]
ADMIN, READER = "a-token-of-an-administrator", "a-token-of-a-reader-only"
DIALOG = "dialog[open]"


def opened(page: Page, css: str) -> str:
    """Open the menu that has a step; its id."""
    menu = page.driver.execute_script(
        "return document.querySelector(arguments[0]).closest('[popover]').id", css
    )
    page.click(f'[popovertarget="{menu}"]')
    return str(menu)


@pytest.mark.parametrize(
    ("view", "css"),
    [
        ("/ui/queries", 'tr[data-name="in-rooms"] [data-action="drop"]'),
        ("/ui/queries/in-rooms", ".head [data-action=replay]"),
        ("/ui/streams", "#streams button.danger"),
        ("/ui/store", "#graphs button.danger"),
        ("/ui/rules", "#rules button.danger"),
        ("/ui/rules/rooms", "#delete"),
        ("/ui/shapes", "#shapes button.danger"),
        ("/ui/shapes/sensors", "#delete"),
    ],
)
def test_steps_that_cannot_be_undone_stand_in_a_menu_within_the_window(
    view: str, css: str, filled: httpx.Client, page: Page
) -> None:
    inside = """const box = document.querySelector(':popover-open').getBoundingClientRect();
    return box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;"""
    page.open(view)
    page.until(lambda: page.all(css), "the step")
    try:
        for width in (1400, NARROW):
            show_as(page, width=width)
            assert not page.one(css).is_displayed(), "it is not shown before the menu is opened"
            opened(page, css)
            page.until(lambda: page.one(css).is_displayed(), "the menu")
            assert page.driver.execute_script(inside)
            assert overflow(page) == []
            if view == "/ui/streams":
                assert faults(page) == []
            page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
            page.until(lambda: not page.one(css).is_displayed(), "Escape closes the menu")
    finally:
        show_as(page)


def test_a_step_is_done_only_when_its_dialog_is_confirmed(filled: httpx.Client, page: Page) -> None:
    page.open("/ui/queries")
    drop = 'tr[data-name="in-rooms"] [data-action="drop"]'
    page.until_text("#queries", "in-rooms")
    opened(page, drop)
    page.click(drop)
    page.until_text(f"{DIALOG} h2", "Drop the query in-rooms?")
    assert "its results are deleted" in page.text(DIALOG)
    for width in (1400, NARROW):
        for dark in (False, True):
            show_as(page, width=width, dark=dark)
            assert faults(page) == []
            picture(page, f"dialog-{width}-{'dark' if dark else 'light'}")
    show_as(page)
    page.click(f"{DIALOG} button:not(.danger)")
    page.until(lambda: not page.all("dialog"), "the dialog is closed")
    assert filled.get("/queries/in-rooms").status_code == 200
    opened(page, drop)
    page.click(drop)
    page.one(DIALOG).send_keys(Keys.ESCAPE)
    page.until(lambda: not page.all("dialog"), "Escape closes the dialog")
    assert filled.get("/queries/in-rooms").status_code == 200
    page.confirm(drop)
    page.until(lambda: filled.get("/queries/in-rooms").status_code == 404, "the query is dropped")


def test_a_heartbeat_asks_for_its_time_in_a_dialog(filled: httpx.Client, page: Page) -> None:
    page.open("/ui/streams/one?iri=http://example.org/readings")
    page.until_text("#figures", "Watermark")
    page.click("#heartbeat")
    page.until_text(f"{DIALOG} h2", "Move the watermark of readings")
    page.write(f"{DIALOG} input", "90000")
    page.click(f"{DIALOG} [data-confirm]")
    page.until_text("#figures", "1970-01-01 00:01:30")


def test_a_step_that_cannot_be_done_now_says_why_in_its_menu(filled: httpx.Client, page: Page) -> None:
    page.open("/ui/streams")
    drop = "#streams button.danger"
    page.until(lambda: page.all(drop), "the row")
    opened(page, drop)
    page.until(lambda: page.one(drop).is_displayed(), "the menu")
    assert not page.one(drop).is_enabled()
    assert "A query reads this stream: in-rooms." in page.text(".menu-body:popover-open")


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server with something in each view, and a token that may only read."""
    with running.serve(Settings(data=":memory:", port=0, token=ADMIN)) as server:
        server.services.registry.tokens.add(TokenRecord(hash_token(READER), "read", "reader"))
        bearer = {"Authorization": f"Bearer {ADMIN}"}
        with httpx.Client(base_url=server.url, timeout=30, headers=bearer) as client:
            register(client, "in-rooms", TEXT)
            push(client, PREFIX + "ex:s1 ex:value 20 .", 1000)
            hook = {"kind": "webhook", "stream": "http://example.org/readings"}
            client.put("/sources/hook", json=hook).raise_for_status()
        yield server.url


@pytest.mark.parametrize(
    ("view", "ready", "off"),
    [
        ("/ui/queries", "#queries [data-name=in-rooms]", ["pause", "refresh", "drop"]),
        ("/ui/queries/in-rooms", "#counters dt", ["pause", "refresh", "replay", "drop"]),
        ("/ui/register", "#register", ["Register"]),
        ("/ui/streams", "#streams [data-action=push]", ["push", "Heartbeat", "drop", "Push", "Declare"]),
        (
            "/ui/streams/one?iri=http://example.org/readings",
            "#more button",
            ["Heartbeat", "drop", "Save", "Push"],
        ),
        ("/ui/connectors", "#sources [data-action=stop]", ["stop", "edit", "drop", "Declare and start"]),
        ("/ui/store", "#upload button", ["Load"]),
        ("/ui/jobs", "#load button", ["Load", "Compact the mirror", "Compact the database files"]),
    ],
)
def test_buttons_that_a_role_cannot_use_are_off_with_the_reason(
    view: str, ready: str, off: list[str], guarded: str, driver: object
) -> None:
    page = Page(driver, guarded)  # type: ignore[arg-type]
    page.driver.get(f"{guarded}login")
    page.driver.delete_all_cookies()
    try:
        sign_in(page, view, READER)
        page.until(lambda: page.all(ready), "the view")
        buttons = page.driver.execute_script(
            "return [...document.querySelectorAll('main button')].filter((each) => !each.closest('template'))"
            ".map((each) => [each.dataset.action ?? each.textContent.trim(), each.disabled, each.title])"
        )
        for name in off:
            found = [(disabled, title) for each, disabled, title in buttons if each == name]
            assert found, (name, buttons)
            for disabled, title in found:
                assert disabled and title.startswith("This token has the role read;"), name
    finally:
        page.driver.delete_all_cookies()
        page.driver.get("about:blank")


def test_counters_of_a_query_have_a_meaning(filled: httpx.Client, page: Page) -> None:
    page.open("/ui/queries/in-rooms")
    page.until_text("#counters", "Elements read")
    figures = page.driver.execute_script(
        "return [...document.querySelectorAll('#counters > div')]"
        ".map((each) => [each.querySelector('dt').firstChild.textContent, each.title])"
    )
    assert len(figures) >= 12
    assert [name for name, meaning in figures if len(meaning) < 30] == []
    assert not [name for name, _ in figures if "_" in name or name != name[:1].upper() + name[1:]]


def test_fields_of_a_source_have_labels_and_offer_streams_and_queries(
    filled: httpx.Client, page: Page
) -> None:
    page.open("/ui/connectors")
    page.until(lambda: page.all("#member-stream"), "the form")
    assert "Stream (required)" in page.text("#members")
    assert "File or pattern (required)" in page.text("#members")
    page.click("#member-stream")
    offered = "return [...document.getElementById(arguments[0]).list.options].map((each) => each.value)"
    page.until(
        lambda: page.driver.execute_script(offered, "member-stream") == ["http://example.org/readings"],
        "the streams",
    )
    assert "text/csv" in page.driver.execute_script(offered, "member-format")
    register(filled, "later", TEXT)
    Select(page.one("#role")).select_by_value("sinks")
    page.until(lambda: page.all("#member-query"), "the form of a sink")
    page.click("#member-query")
    page.until(
        lambda: page.driver.execute_script(offered, "member-query") == ["in-rooms", "later"], "the queries"
    )
