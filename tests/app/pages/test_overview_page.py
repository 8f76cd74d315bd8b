"""The overview and the view of settings in a browser: figures, troubles, charts with ranges, roles."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from selenium.webdriver.support.ui import Select

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register
from .looks import looks_well

pytestmark = NEEDS_BROWSER
ADMIN, READER = "a-token-of-an-administrator", "a-token-of-a-reader-only"
POINTS = 40
"""Points of ten seconds that the server of these tests has kept already."""
LIVE = PREFIX + "SELECT ?s ?v WHERE { STREAM ex:readings [NOW] { ?s ex:value ?v } }"


@pytest.fixture(scope="module")
def busy() -> Iterator[running.RunningServer]:
    """A server with some minutes of history."""
    with running.serve(Settings(data=":memory:", port=0)) as server:
        history, now_ms = server.services.history, int(time.time() * 1000)
        with httpx.Client(base_url=server.url, timeout=30) as client:
            register(client, "live", LIVE)
            for number in range(POINTS):
                history._now_ms = lambda at=now_ms + 10_000 * number: at  # type: ignore[misc]
                push(client, PREFIX + f"ex:s ex:value {number} .", 1000 * number)
                history.take()
        yield server


@pytest.fixture
def overview(driver: object, busy: running.RunningServer) -> Iterator[Page]:
    """The browser at that server; its console must stay silent."""
    shown = Page(driver, busy.url)  # type: ignore[arg-type]
    shown.complaints()
    yield shown
    assert shown.complaints() == []


def drawn_x(page: Page, css: str) -> list[float]:
    """The places of the points of the first line of a chart, from the left."""
    path = str(page.one(f"{css} path.line").get_attribute("d"))
    return [float(point.split()[0]) for point in path.replace("M", "L").split("L")[1:]]


def test_the_overview_is_the_first_view_and_each_figure_names_its_metric(overview: Page) -> None:
    overview.open("/")
    assert overview.text("nav a[aria-current]") == "Overview"
    overview.until_text("#figures", "Half of the inputs within")
    unnamed = overview.driver.execute_script(
        "return [...document.querySelectorAll('#figures > div')]"
        ".filter((each) => !each.querySelector('.metric')?.textContent).map((each) => each.innerText)"
    )
    assert unnamed == []
    assert "ms" in overview.text("#figures > div:first-child dd")
    overview.until(lambda: overview.all("#latency path.line"), "the chart of the latency")
    for chart in ("rates", "cpu", "memory"):
        assert overview.all(f"#{chart} path.line"), chart
    found = looks_well(overview, "overview-busy")
    assert not found, "\n".join(found)


def test_the_range_of_the_charts_is_chosen_once_for_all_views(overview: Page) -> None:
    overview.open("/")
    overview.until(lambda: overview.all("#memory path.line"), "a chart")
    assert len(drawn_x(overview, "#memory")) == POINTS - 1
    width = drawn_x(overview, "#memory")[-1] - drawn_x(overview, "#memory")[-2]
    Select(overview.one("#range")).select_by_visible_text("5 min")
    wider = drawn_x(overview, "#memory")[-1] - drawn_x(overview, "#memory")[-2]
    assert wider == pytest.approx(12 * width, rel=0.05), "an hour has twelve times five minutes"
    assert len(drawn_x(overview, "#memory")) == 31, "nothing is drawn before the beginning of the range"
    overview.open("/ui/queries/live")
    assert Select(overview.one("#range")).first_selected_option.text == "5 min"
    overview.until_text("#chart", "5 min ago")
    Select(overview.one("#range")).select_by_visible_text("hour")
    overview.until_text("#chart", "6 min")


def test_what_fails_is_listed_and_led_to(overview: Page, busy: running.RunningServer) -> None:
    with httpx.Client(base_url=busy.url, timeout=30) as client:
        register(client, "small", LIVE.replace("[NOW]", "[RANGE 1m]"), memory=1)
        push(client, PREFIX + "ex:s ex:value 1, 2, 3 .", 1_000_000)
        overview.open("/")
        overview.until_text("#troubles", "query small: the query has failed")
        assert overview.text("#troubles .badge-failed") == "failed"
        found = looks_well(overview, "overview-troubles")
        assert not found, "\n".join(found)
        overview.click("#troubles a")
        overview.until_text("h1", "small")
        client.delete("/queries/small").raise_for_status()


def test_settings_are_found_by_name_and_by_what_differs(page: Page) -> None:
    page.open("/ui/settings")
    page.until_text("#settings tbody", "max_wrong_tokens")
    page.write("#find", "max_wrong")
    page.until(lambda: len(page.all("#settings tbody tr")) == 1, "one setting")
    assert "the default" in page.text("#settings tbody")
    page.write("#find", "")
    page.click("#only-set")
    page.until(
        lambda: {each.text for each in page.all("#settings tbody th code")} == {"data", "port"},
        "what the test has set",
    )
    assert "the command line" in page.text("#settings tbody")


def test_tokens_and_settings_are_shown_to_administrators_only(driver: object) -> None:
    with running.serve(Settings(data=":memory:", port=0, token=ADMIN)) as server:
        server.services.registry.tokens.add(TokenRecord(hash_token(READER), "read", "dashboard"))
        page = Page(driver, server.url)  # type: ignore[arg-type]
        for token in (READER, ADMIN):
            page.open("/login?next=/ui/settings")
            page.write("input[name=token]", token)
            page.click("main button.primary")
            page.until_text("h1", "Settings and tokens")
            if token == READER:
                assert "need the role admin" in page.text("main")
                assert page.all("#settings") == []
                page.click("header form button")
        page.until_text("#tokens tbody", "dashboard")
        page.until_text("#settings tbody", "***")
        assert ADMIN not in page.driver.page_source
        found = looks_well(page, "settings-tokens")
        assert not found, "\n".join(found)
        page.click("header form button")
        page.until_text("h1", "Sign in")
        page.driver.get("about:blank")
