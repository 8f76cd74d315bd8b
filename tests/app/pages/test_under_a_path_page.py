"""Every view of the page works below a path: its links, scripts, feeds, requests, login and commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.app.server.proxies import nginx

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register, served, update
from .test_looks import FULL, TEXT, VIEWS, put_rules, put_sensor_shapes

pytestmark = NEEDS_BROWSER
TOKEN = "an admin token of some length"
HEADERS = "proxy_set_header X-Forwarded-Prefix /kg; proxy_set_header Host $http_host; proxy_buffering off;"
LINKS = """
const found = [...document.querySelectorAll("[href], [src], [action]")].flatMap((node) =>
  ["href", "src", "action"].map((name) => node.getAttribute(name)).filter((text) => text?.startsWith("/")));
const loaded = performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname);
return [...new Set([...found, ...loaded])];
"""


@contextmanager
def below_a_path(folder: Path, removed: bool, **settings: object) -> Iterator[str]:
    """A server below ``/kg``: nginx removes the path and names it in a header; else ``public_url`` has it."""
    if removed:
        with served(trusted_proxies=["127.0.0.1"], **settings) as url:
            with nginx(folder, url, HEADERS, path="/kg/") as outer:
                yield outer.rstrip("/")
    else:
        with served(public_url="http://graph.example/kg", **settings) as url:
            yield f"{url}/kg"


@pytest.fixture(scope="module", params=["removed", "kept"])
def outer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server below a path, with something to show in each view."""
    with below_a_path(tmp_path_factory.mktemp("proxy"), request.param == "removed") as url:
        with httpx.Client(base_url=url, timeout=30) as client:
            rooms = 'GRAPH ex:rooms { ex:s1 ex:in "kitchen" . ex:s2 ex:in "cellar" }'
            disjoint = "<http://www.w3.org/2002/07/owl#disjointWith>"
            update(
                client, PREFIX + f"INSERT DATA {{ {rooms} . ex:s1 a ex:Lost . ex:Placed {disjoint} ex:Lost }}"
            )
            register(client, "in-rooms", TEXT)
            put_rules(client)
            put_sensor_shapes(client)
            push(client, PREFIX + "ex:s1 ex:value 20 .", 1000)
        yield url


@pytest.fixture
def page(driver: object, outer: str) -> Iterator[Page]:
    shown = Page(driver, outer)  # type: ignore[arg-type]
    shown.complaints()
    yield shown
    assert shown.complaints() == []
    shown.driver.get("about:blank")


@pytest.mark.parametrize("name", VIEWS)
def test_all_addresses_of_a_view_begin_with_the_path(name: str, page: Page) -> None:
    page.open(VIEWS[name])
    page.until(lambda: page.text("h1"), "the title")
    if name in FULL:
        page.until_text("main", FULL[name])
    if page.all("#feed-state"):
        page.until_text("#feed-state", "live")
    page.until_text("#connection", "connected")
    addresses = page.driver.execute_script(LINKS)
    assert len(addresses) > 10
    assert [each for each in addresses if not each.startswith("/kg/")] == []


def test_a_person_registers_follows_and_drops_a_query_below_the_path(page: Page, outer: str) -> None:
    page.open("/ui/queries")
    page.until_text("main", "in-rooms")
    page.click("a[href$='/ui/register']")
    page.write("#name", "mine")
    page.write("#text", TEXT)
    page.click("#register")
    page.until(
        lambda: urlsplit(page.driver.current_url).path == "/kg/ui/queries/mine", "the view of the query"
    )
    page.until_text("#feed-state", "live")
    with httpx.Client(base_url=outer, timeout=30) as client:
        push(client, PREFIX + "ex:s2 ex:value 30 .", 2000)
    page.until_text("#live", "cellar")
    page.confirm("[data-action=drop]")
    page.until(lambda: urlsplit(page.driver.current_url).path == "/kg/ui/queries", "the list of queries")


@pytest.mark.parametrize(
    ("view", "command"),
    [
        ("/ui/store", "--server {}\n"),
        ("/ui/store", "'{}/store?graph="),
        ("/ui/streams", "'{}/streams/readings'"),
        ("/ui/rules", "'{}/rules/family'"),
    ],
)
def test_commands_of_the_page_name_the_path(page: Page, outer: str, view: str, command: str) -> None:
    page.open(view)
    shown = "return [...document.querySelectorAll('pre')].map((pre) => pre.textContent + '\\n').join('')"
    expected = command.format(outer)
    page.until(lambda: expected in page.driver.execute_script(shown), expected)


@pytest.mark.parametrize("removed", [True, False])
def test_login_below_the_path_leads_back_and_survives_no_restart(
    driver: object, tmp_path: Path, removed: bool
) -> None:
    with below_a_path(tmp_path, removed, token=TOKEN) as url:
        page = Page(driver, url)  # type: ignore[arg-type]
        page.open("/ui/store?x=1")
        assert urlsplit(page.driver.current_url).path == "/kg/login"
        page.write("[name=token]", TOKEN)
        page.click("#login button")
        page.until(lambda: page.driver.current_url == f"{url}/ui/store?x=1", "the view that was asked for")
        (cookie,) = page.driver.get_cookies()
        assert cookie["path"] == "/kg"
        page.driver.add_cookie({**cookie, "value": "1-lost"})
        page.driver.execute_script(
            "import('/kg/ui/static/base/api.js').then(({call}) => call('GET', '/streams'))"
        )
        page.until_text("main", "The server has restarted since you signed in")
        page.write("[name=token]", TOKEN)
        page.click("#login button")
        page.until(lambda: page.driver.current_url == f"{url}/ui/store?x=1", "the view again")
        page.click("form[action$='/logout'] button")
        page.until(lambda: urlsplit(page.driver.current_url).path == "/kg/login", "the login")
        assert "Sign in again" not in page.text("main")
        page.driver.get("about:blank")
