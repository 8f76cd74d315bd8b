"""A browser follows a feed through a restart of the server, for which a proxy answers 502."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.forwarder import Forwarder, forwarding

from .browser import NEEDS_BROWSER, Page
from .conftest import served

pytestmark = NEEDS_BROWSER
CLIENTS = Path(__file__).parents[3] / "docs" / "cookbook" / "clients.md"
TEXT = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"


@pytest.fixture
def proxy(driver: object) -> Iterator[Forwarder]:
    with forwarding() as found:
        yield found
        driver.get("about:blank")  # type: ignore[attr-defined]


def push(proxy: Forwarder, number: int) -> None:
    httpx.post(
        f"{proxy.url}/streams",
        params={"iri": "http://e/s", "at": str(number * 1000), "wait": "true"},
        content=f"<urn:s{number}> <urn:p> <urn:o> .",
        headers={"Content-Type": "text/turtle"},
    ).raise_for_status()


def test_page_opens_a_feed_again_after_a_proxy_answered_502(
    driver: object, proxy: Forwarder, tmp_path: Path
) -> None:
    page = Page(driver, proxy.url)  # type: ignore[arg-type]
    with served(data=str(tmp_path / "data")) as url:
        proxy.lead_to(url)
        httpx.put(f"{url}/queries/q", json={"query": TEXT}).raise_for_status()
        push(proxy, 1)
        page.open("/ui/queries/q")
        page.until_text("#live", "s1")
        page.until_text("#feed-state", "live")
        proxy.lead_to(None)
    page.until_text("#feed-state", "reconnecting")
    page.until(lambda: proxy.refused > 3, "the browser's own attempts, and one of the page")
    page.until_text("#connection", "no connection")
    assert "ended" not in page.text("#feed-state")
    with served(data=str(tmp_path / "data")) as url:
        proxy.lead_to(url)
        push(proxy, 2)
        page.until_text("#live", "s2")
        page.until_text("#feed-state", "live")
        page.until_text("#connection", "connected")
        push(proxy, 3)
        page.until_text("#live", "s3")
        assert [page.text("#live").count(f"s{number}") for number in (1, 2, 3)] == [1, 1, 1]


def test_page_says_that_the_feed_of_a_dropped_query_has_ended(driver: object, proxy: Forwarder) -> None:
    page = Page(driver, proxy.url)  # type: ignore[arg-type]
    with served() as url:
        proxy.lead_to(url)
        httpx.put(f"{url}/queries/q", json={"query": TEXT}).raise_for_status()
        page.open("/ui/queries/q")
        page.until_text("#feed-state", "live")
        httpx.delete(f"{url}/queries/q").raise_for_status()
        page.until_text("#feed-state", "ended")


def test_lines_of_the_documentation_follow_a_feed_through_a_restart(
    driver: object, proxy: Forwarder, tmp_path: Path
) -> None:
    (code,) = re.findall(r"```js\n(function follow.*?)```", CLIENTS.read_text("utf-8"), re.DOTALL)
    code = code.replace("http://127.0.0.1:7878", proxy.url).replace("/queries/warm/", "/queries/q/")
    code = code.replace("console.log(", "window.found.push(").replace("3000", "300")
    page = Page(driver, proxy.url)  # type: ignore[arg-type]

    def found() -> object:
        return page.driver.execute_script("return window.found.map(({s}) => s.value)")

    with served(data=str(tmp_path / "data")) as url:
        proxy.lead_to(url)
        httpx.put(f"{url}/queries/q", json={"query": TEXT}).raise_for_status()
        push(proxy, 1)
        page.open("/openapi.json")  # a page of the server without scripts of its own
        page.driver.execute_script(f"window.found = [];{code}")
        page.until(lambda: found() == ["urn:s1"], "the event that was there")
        push(proxy, 2)
        page.until(lambda: found() == ["urn:s1", "urn:s2"], "an event that comes")
        proxy.lead_to(None)
    page.until(lambda: proxy.refused > 2, "attempts of the browser and of the lines")
    with served(data=str(tmp_path / "data")) as url:
        proxy.lead_to(url)
        push(proxy, 3)
        page.until(lambda: found() == ["urn:s1", "urn:s2", "urn:s3"], "an event after the restart")
