"""The picture of the demo in a real browser: departures on the map, and charts with their queries."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
from selenium.webdriver.support.ui import Select

from quadrill.app import running
from quadrill.app.config import load_settings
from quadrill.app.demo import arguments
from quadrill.app.demo.client import DemoClient
from quadrill.app.demo.data import QUERY_FILES
from quadrill.app.demo.replay import ReplayPlan, replay
from quadrill.app.page.pace import Pace

from .browser import NEEDS_BROWSER, Page
from .looks import looks_well, show_as

pytestmark = NEEDS_BROWSER
START_MS = arguments.instant(arguments.DEFAULT_FROM)


class _EndedError(Exception):
    """The test is over."""


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of a server on which the demo is replayed at its usual speed."""
    stop, pace = threading.Event(), Pace(arguments.DEFAULT_SPEED)

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise _EndedError

    def feed(client: DemoClient) -> None:
        try:
            replay(ReplayPlan.between(START_MS), client, pace=pace, pause=pause)
        except _EndedError:
            pass

    settings = load_settings(overrides={"data": ":memory:", "port": 0}, environment={})
    with running.serve(settings, demo=pace) as server, DemoClient(server.url, None) as client:
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
    picture.until_text("#mean-text", "Bars below zero")
    assert "2 hours and more" in picture.text("#delays")
    found = looks_well(picture, "demo")
    assert not found, "\n".join(found)


def edges(page: Page, css: str) -> list[tuple[float, float]]:
    """The left and right edges of elements, rounded to pixels."""
    script = """return [...document.querySelectorAll(arguments[0])]
    .map((node) => node.getBoundingClientRect())
    .map(({ left, right }) => [Math.round(left), Math.round(right)])"""
    return [(left, right) for left, right in page.driver.execute_script(script, css)]


@pytest.mark.parametrize("width", [1400, 390])
def test_all_bars_of_a_card_have_one_scale_and_those_below_zero_another_colour(
    width: int, picture: Page
) -> None:
    show_as(picture, width=width)
    try:
        picture.open("/ui/demo")
        picture.until(lambda: picture.all("#mean .below-zero"), "an airline that is early on average")
        for card in ("late", "mean", "watched"):
            picture.until(lambda css=card: picture.all(f"#{css} .bar-track"), f"bars of {card}")
            assert len(set(edges(picture, f"#{card} .bar-track"))) == 1, card
        zero = edges(picture, "#mean .below-zero")[0][1]
        assert {right for _, right in edges(picture, "#mean .below-zero")} <= {zero - 1, zero, zero + 1}
        late = edges(picture, "#mean .bar-fill:not(.below-zero)")
        assert {left for left, _ in late} <= {zero - 1, zero, zero + 1}
        colour = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
        below, above = (
            picture.driver.execute_script(colour, css) for css in ("#mean .below-zero", "#watched .bar-fill")
        )
        assert below != above
        scale = picture.text("#mean .bar-scale").split("\n")
        assert float(scale[0]) < 0 and "0" in scale and scale[-1].endswith("min")
    finally:
        show_as(picture)


def test_new_york_is_marked_where_its_flights_begin(picture: Page) -> None:
    picture.open("/ui/demo")
    picture.until(lambda: picture.all(".new-york[transform]"), "the mark")
    assert "New York" in picture.driver.execute_script("return document.querySelector('#map').textContent")
    within = """const [mark, map] = [".new-york", "#map svg"]
      .map((css) => document.querySelector(css).getBoundingClientRect());
    return mark.left > map.left && mark.right < map.right && mark.top > map.top
      && mark.bottom < map.bottom;"""
    assert picture.driver.execute_script(within)


def test_cards_have_no_holes(picture: Page) -> None:
    """Below its content a card has its padding only, and cards of a column follow each other."""
    show_as(picture)
    picture.open("/ui/demo")
    picture.until_text("#watched", "thunderstorms")
    picture.until_text("#visibility", "miles")
    holes = """const found = [];
    for (const stack of document.querySelectorAll(".stack")) {
      const cards = [...stack.children];
      for (const [i, card] of cards.entries()) {
        const box = card.getBoundingClientRect();
        const title = card.querySelector("h2").textContent;
        const shown = [...card.querySelectorAll("li, p, svg, h2, .bar-scale")]
          .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height);
        const end = Math.max(...shown.map((node) => node.getBoundingClientRect().bottom));
        if (box.bottom - end > 24) found.push(`${title}: ${box.bottom - end} px`);
        const next = cards[i + 1]?.getBoundingClientRect();
        if (next && next.top - box.bottom > 24) found.push(`below ${title}`);
      }
    }
    return found;"""
    assert picture.driver.execute_script(holes) == []


def test_the_replay_is_paused_and_changes_its_speed(picture: Page, demo: str) -> None:
    picture.open("/ui/demo")
    picture.until(lambda: moved(picture), "dots that move")
    picture.click("#pause")
    picture.until(lambda: picture.text("#pause") == "Continue", "the pause")
    assert httpx.get(f"{demo}ui/demo/pace").json() == {"speed": arguments.DEFAULT_SPEED, "paused": True}
    assert not moved(picture)
    last = httpx.get(f"{demo}queries/departures").json()["last_result"]["id"]
    picture.click("#pause")
    picture.until(lambda: moved(picture), "dots that move again")
    picture.until(
        lambda: httpx.get(f"{demo}queries/departures").json()["last_result"]["id"] > last, "more departures"
    )
    Select(picture.one("#speed")).select_by_visible_text("10 minutes a second")
    picture.until(lambda: httpx.get(f"{demo}ui/demo/pace").json()["speed"] == 600, "the speed")
    httpx.put(f"{demo}ui/demo/pace", json={"speed": arguments.DEFAULT_SPEED}).raise_for_status()
    picture.until(
        lambda: Select(picture.one("#speed")).first_selected_option.text == "40 minutes a second",
        "what somebody else has chosen",
    )
    assert httpx.put(f"{demo}ui/demo/pace", json={"speed": 0}).status_code == 400


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
