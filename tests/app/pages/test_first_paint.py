"""What a browser fetches before it paints a view: less than 100 kB, with nothing in its cache."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from .browser import NEEDS_BROWSER, Page
from .conftest import register, served
from .test_looks import TEXT, VIEWS, put_rules, put_sensor_shapes

pytestmark = NEEDS_BROWSER
MOST_BYTES = 100_000
FETCHED = """
const painted = performance.getEntriesByName('first-contentful-paint')[0];
if (painted === undefined || document.readyState !== 'complete') return null;
return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter((each) => each.startTime <= painted.startTime)
  .map((each) => [each.name, each.transferSize]);
"""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of a server with many queries, for all tests: they only look."""
    with served() as url, httpx.Client(base_url=url, timeout=30) as client:
        register(client, "in-rooms", TEXT)
        put_rules(client)
        put_sensor_shapes(client)
        for number in range(60):
            register(client, f"in-rooms-{number}", TEXT)
        yield url


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_painted_from_less_than_100_kb(name: str, page: Page) -> None:
    command = page.driver.execute_cdp_cmd
    command("Network.enable", {})
    command("Network.setCacheDisabled", {"cacheDisabled": True})
    try:
        page.open(VIEWS[name])
        fetched = page.until(lambda: page.driver.execute_script(FETCHED), "the first paint")
    finally:
        command("Network.setCacheDisabled", {"cacheDisabled": False})
    assert sum(size for _, size in fetched) < MOST_BYTES, fetched


def test_codemirror_is_fetched_when_somebody_begins_to_write(page: Page) -> None:
    """The form that pushes stands at the end of the view; most people look at the streams above it."""
    fetched = "return performance.getEntriesByType('resource')"
    fetched += ".some(({ name }) => name.includes('codemirror'))"
    page.open("/ui/streams")
    page.until(lambda: page.driver.execute_script("return document.readyState") == "complete", "the view")
    assert not page.driver.execute_script(fetched)
    page.click("#push-body")
    page.until(lambda: page.driver.execute_script(fetched), "CodeMirror")
