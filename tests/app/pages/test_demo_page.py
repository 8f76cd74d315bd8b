"""The picture of the demo in a real browser: departures on the map, and charts with their queries."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import load_settings
from quadrill.app.demo import arguments
from quadrill.app.demo.client import DemoClient
from quadrill.app.demo.data import QUERY_FILES
from quadrill.app.demo.replay import ReplayPlan, replay

from .browser import NEEDS_BROWSER, Page
from .looks import looks_well

pytestmark = NEEDS_BROWSER
START_MS = arguments.instant(arguments.DEFAULT_FROM)


class _EndedError(Exception):
    """The test is over."""


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of a server on which the demo is replayed at its usual speed."""
    stop = threading.Event()

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise _EndedError

    def feed(client: DemoClient) -> None:
        try:
            replay(ReplayPlan.between(START_MS), client, speed=arguments.DEFAULT_SPEED, pause=pause)
        except _EndedError:
            pass

    settings = load_settings(overrides={"data": ":memory:", "port": 0}, environment={})
    with running.serve(settings, demo=True) as server, DemoClient(server.url, None) as client:
        client.set_up()
        feeding = threading.Thread(target=feed, args=(client,), daemon=True)
        feeding.start()
        yield server.url
        stop.set()
        feeding.join()


@pytest.fixture
def picture(driver: object, demo: str) -> Iterator[Page]:
    """The browser at the picture; its console must stay silent."""
    shown = Page(driver, demo)  # type: ignore[arg-type]
    shown.complaints()
    yield shown
    assert shown.complaints() == []


def places(page: Page) -> dict[str, str]:
    """Where each dot is, by the order in which they came."""
    found: dict[str, str] = page.driver.execute_script(
        "const dots = [...document.querySelectorAll('.flight:not([hidden])')];"
        "dots.forEach((dot) => { window.given = window.given ?? 0; dot.dataset.n ??= ++window.given; });"
        "return Object.fromEntries(dots.map((dot) => [dot.dataset.n, dot.getAttribute('cx')]))"
    )
    return found


def moved(page: Page) -> bool:
    before = places(page)
    page.driver.execute_async_script("setTimeout(arguments[0], 300)")
    after = places(page)
    return any(after[number] != before[number] for number in before.keys() & after.keys())


def test_departures_move_and_the_charts_say_what_the_queries_say(picture: Page) -> None:
    picture.open("/ui/demo")
    assert picture.text("nav a[aria-current]") == "Demo"
    picture.until_text("#feed-state", "live")
    picture.until(lambda: moved(picture), "dots that move")
    picture.until_text("#sentence", "left New York")
    picture.until(lambda: len(picture.all("#map .point")) > 5, "airports")
    picture.until_text("#late", "min")
    picture.until_text("#mean", "min")
    picture.until_text("#visibility", "miles")
    picture.until_text("#watched", "thunderstorms")
    assert "2 hours and more" in picture.text("#delays")
    found = looks_well(picture, "demo")
    assert not found, "\n".join(found)


def test_each_part_says_which_query_it_is_and_opens_it(picture: Page) -> None:
    picture.open("/ui/demo")
    assert {link.text.removeprefix("query ") for link in picture.all(".fed-by")} == QUERY_FILES.keys()
    picture.click("#late-title ~ .fed-by")
    picture.until(
        lambda: picture.driver.current_url.endswith("/ui/queries/late-departures"), "the query's page"
    )


def test_dots_stand_still_where_motion_is_unwanted(picture: Page) -> None:
    reduced = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    picture.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", reduced)  # type: ignore[attr-defined]
    try:
        picture.open("/ui/demo")
        picture.until(lambda: len(places(picture)) > 3, "dots")
        assert not moved(picture)
    finally:
        picture.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})  # type: ignore[attr-defined]


def test_a_server_without_the_demo_has_neither_the_picture_nor_its_link(page: Page, base: str) -> None:
    page.open("/ui/queries")
    assert "Demo" not in page.text("nav")
    assert httpx.get(f"{base}/ui/demo").status_code == 404
