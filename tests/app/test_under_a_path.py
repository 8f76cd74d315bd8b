"""A server that clients see below a path of a proxy: links, graphs, cookies, the login and origins."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from quadrill.app.cli import main
from quadrill.app.config import load_settings
from quadrill.app.front.mounting import prefix_of
from quadrill.app.page.views import ASSETS
from quadrill.app.security import SESSION_SECONDS, origin_of
from quadrill.app.setting_values import SettingsError
from quadrill.client import Client
from tests.app.conftest import LiveServer, Start, problem_of

from .forwarder import forwarding

TOKEN = "an admin token of some length"
QUERY = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
TURTLE = {"Content-Type": "text/turtle"}
BROWSER = {"Accept": "text/html"}
WAYS = ["public_url", "public_url, removed", "header", "header, removed"]


@dataclass
class Outer:
    """A server as clients of the proxy see it: each request is the one that the proxy would send."""

    server: LiveServer
    url: str
    removes: bool
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request for a path below the prefix."""
        headers = {**self.headers, **options.pop("headers", {})}
        sent = path if self.removes else f"/kg{path}"
        return self.server.client.request(method, sent, headers=headers, **options)


def behind(start_server: Start, way: str, **settings: Any) -> Outer:
    """A server below ``/kg``, known by the setting or by the header; the proxy removes the path or not."""
    removes = way.endswith("removed")
    if way.startswith("public_url"):
        url = "https://graph.example/kg"
        return Outer(start_server(public_url=f"{url}/", **settings), url, removes)
    server = start_server(trusted_proxies=("127.0.0.1",), **settings)
    headers = {"X-Forwarded-Prefix": "/kg", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
    return Outer(server, f"https://{urlsplit(server.url).netloc}/kg", removes, headers)


@pytest.mark.parametrize("way", WAYS)
def test_locations_and_graphs_have_the_address_that_clients_see(start_server: Start, way: str) -> None:
    outer = behind(start_server, way)
    for method, path, options in (
        ("PUT", "/queries/q", {"json": {"query": QUERY}}),
        ("PUT", "/streams/t", {"json": {}}),
        ("PUT", "/stored-queries/one", {"content": "ASK {}", "headers": {"Content-Type": "text/plain"}}),
        ("PUT", "/store/a/b", {"content": "<> <urn:p> <c> .", "headers": TURTLE}),
        ("PUT", "/store?graph=urn:g", {"content": "<urn:a> <urn:p> 1 .", "headers": TURTLE}),
    ):
        answer = outer.ask(method, path, **options)
        assert (answer.status_code, answer.headers["Location"]) == (201, outer.url + path), answer.text
    made = outer.ask("POST", "/store?default", content="<urn:a> <urn:p> 2 .", headers=TURTLE)
    assert made.status_code == 204, made.text
    found = outer.ask("GET", "/store/a/b", headers={"Accept": "application/n-triples"})
    assert found.text == f"<{outer.url}/store/a/b> <urn:p> <{outer.url}/store/a/c> .\n"
    graphs = outer.ask("GET", "/query", params={"query": "SELECT ?g { GRAPH ?g { ?s ?p ?o } }"}).json()
    names = {row["g"]["value"] for row in graphs["results"]["bindings"]}
    assert names == {f"{outer.url}/store/a/b", "urn:g"}
    assert outer.ask("GET", "/openapi.json").json()["servers"] == [{"url": outer.url}]
    described = outer.ask("GET", "/query", headers={"Accept": "application/n-triples"}).text
    assert f"<{outer.url}/query>" in described


@pytest.mark.parametrize("way", WAYS)
def test_login_leads_back_and_its_cookie_belongs_to_the_path(start_server: Start, way: str) -> None:
    outer = behind(start_server, way, token=TOKEN)
    refused = outer.ask("GET", "/ui/store?x=1", headers=BROWSER)
    assert refused.headers["Location"] == "/kg/login?next=%2Fkg%2Fui%2Fstore%3Fx%3D1"
    form = outer.ask("GET", "/login?next=%2Fkg%2Fui%2Fstore%3Fx%3D1", headers=BROWSER).text
    assert 'action="/kg/login"' in form
    assert 'data-next="/kg/ui/store?x=1"' in form
    for elsewhere in ("/ui/store", "//evil.example/", "/kgx", "https://evil.example/kg/"):
        asked = outer.ask("GET", "/login", params={"next": elsewhere}, headers=BROWSER)
        assert 'data-next="/kg/"' in asked.text
    answer = outer.ask("POST", "/login", data={"token": TOKEN})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/kg/")
    value, *attributes = answer.headers["Set-Cookie"].split("; ")
    assert {"Path=/kg", "Secure", "HttpOnly", "SameSite=Strict"} <= set(attributes)
    outer.server.client.cookies.clear()
    page = outer.ask("GET", "/ui/store", headers={**BROWSER, "Cookie": value})
    assert page.status_code == 200
    assert links_of(page.text) and all(link.startswith("/kg/") for link in links_of(page.text))
    gone = outer.ask("POST", "/logout", headers={"Cookie": value})
    assert gone.headers["Location"] == "/kg/"
    assert {"Path=/kg", "Secure"} <= set(gone.headers["Set-Cookie"].split("; "))


def links_of(html: str) -> list[str]:
    """The addresses in the attributes of a page, without those within the page."""
    parts = [part for name in ("href", "src", "action") for part in html.split(f'{name}="')[1:]]
    return [link for part in parts if not (link := part.partition('"')[0]).startswith("#")]


@pytest.mark.parametrize("way", WAYS)
def test_pushes_in_lines_and_websockets_work_below_the_path(start_server: Start, way: str) -> None:
    outer = behind(start_server, way)
    outer.ask("PUT", "/queries/q", json={"query": QUERY}).raise_for_status()
    lines = [json.dumps({"at": at, "data": f"<urn:{at}> <urn:p> <urn:o> ."}) + "\n" for at in (1, 2)]
    pushed = outer.ask(
        "POST",
        "/streams/s?ack=true",
        content=iter(line.encode() for line in lines),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert json.loads(pushed.text.splitlines()[-1])["accepted"] == 2
    address = outer.server.url.replace("http:", "ws:").rstrip("/") + ("" if outer.removes else "/kg")
    with connect(f"{address}/queries/q/results?from=0", additional_headers=outer.headers) as feed:
        assert [json.loads(feed.recv(timeout=10))["id"] for _ in range(2)] == [1, 2]


def test_client_and_commands_take_an_address_with_a_path(
    start_server: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server(public_url="https://graph.example/kg")
    url = f"{server.url}kg"
    with Client(url) as client:
        client.register(QUERY, name="q")
        client.push("http://e/s", "<urn:a> <urn:p> 1 .", media_type="text/turtle", at=1)
    assert main(["queries", "--server", url]) == 0
    assert "q" in capsys.readouterr().out


def test_header_counts_from_trusted_proxies_only(start_server: Start) -> None:
    server = start_server()
    sent = {"X-Forwarded-Prefix": "/kg", "X-Forwarded-Proto": "https"}
    answer = server.client.put("/streams/s", json={}, headers=sent)
    assert answer.headers["Location"] == f"{server.url}streams/s"
    assert server.client.get("/kg/streams", headers=sent).status_code == 404
    assert 'href="/ui/store"' in server.client.get("/", headers={**BROWSER, **sent}).text


def test_public_url_decides_before_the_header(start_server: Start) -> None:
    server = start_server(trusted_proxies=("127.0.0.1",), public_url="http://graph.example/")
    sent = {"X-Forwarded-Prefix": "/kg", "X-Forwarded-Proto": "https"}
    answer = server.client.put("/streams/s", json={}, headers=sent)
    assert answer.headers["Location"] == "http://graph.example/streams/s"


@pytest.mark.parametrize(
    ("header", "prefix"),
    [
        ("/kg", "/kg"),
        ("/kg/", "/kg"),
        ("/a/b-c", "/a/b-c"),
        ("/claim, /kg", "/kg"),
        ("/", ""),
        ("", ""),
        ("kg", ""),
        ("//evil.example", ""),
        ("/a//b", ""),
        ('/"><script>', ""),
        ("/a?b", ""),
        ("/a#b", ""),
        ("/a\\b", ""),
        ("/%2Fevil.example", ""),
        ("/%5cevil.example", ""),
        ("/a/..", ""),
        ("/../a", ""),
        ("/a.b/..c", "/a.b/..c"),
        ("/" + "a" * 256, ""),
    ],
)
def test_prefix_of_the_header_is_a_plain_path(start_server: Start, header: str, prefix: str) -> None:
    assert prefix_of(header.rpartition(",")[2].strip()) == prefix
    server = start_server(trusted_proxies=("127.0.0.1",))
    answer = server.client.put("/streams/s", json={}, headers={"X-Forwarded-Prefix": header})
    assert urlsplit(answer.headers["Location"]).path == f"{prefix}/streams/s"


def test_prefix_that_begins_like_a_resource_is_not_removed(start_server: Start) -> None:
    server = start_server(public_url="http://graph.example/store")
    put = server.client.put("/store/x", content="<> <urn:p> 1 .", headers=TURTLE)
    assert put.headers["Location"] == "http://graph.example/store/store/x"
    assert server.client.get("/store/streams").status_code == 404
    assert server.client.get("/streams").status_code == 200


def test_path_that_only_begins_like_the_prefix_stays(start_server: Start) -> None:
    server = start_server(public_url="http://graph.example/kg")
    assert server.client.get("/kgx/streams").status_code == 404
    assert server.client.get("/kg/kg/streams").status_code == 404
    for path in ("/kg/streams", "/kg//streams", "/streams"):
        assert server.client.get(path).status_code == 200
    assert "Quadrill" in server.client.get("/kg", headers=BROWSER).text


def test_scripts_of_the_page_ask_below_the_path_only() -> None:
    """Requests use `call`, feeds `openFeed`, other views `go`, and links `el`."""
    scripts = {
        path.relative_to(ASSETS).as_posix(): path.read_text("utf-8")
        for path in ASSETS.rglob("*.js")
        if "vendor" not in path.parts
    }
    escapes = {
        r"\bfetch\((?!at\()": "at(path)",
        r"new (?:EventSource|WebSocket)\((?!at\()": "at(path)",
        r"location\.(?:assign|replace)\(\s*[\"'`]/|location(?:\.href)? = ": "go(path)",
        r"\.(?:href|src|action) = [\"'`]/": "at(path)",
        r"setAttribute\(\"(?:href|src|action)\"": "el",
    }
    found = [
        f"{name}: {match[0]} instead of {instead}"
        for name, text in scripts.items()
        for escape, instead in escapes.items()
        for match in re.finditer(escape, text)
    ]
    assert len(scripts) > 50
    assert found == []


# --- origins and cookies ------------------------------------------------------------------------------------


def test_origin_of_the_public_url_may_write(start_server: Start) -> None:
    server = start_server(public_url="https://Graph.example:8443/kg/")
    update = {"Content-Type": "application/sparql-update"}
    for origin in ("https://graph.example:8443", server.url.rstrip("/")):
        answer = server.client.post("/update", content="CLEAR ALL", headers={**update, "Origin": origin})
        assert answer.status_code == 204, origin
    for origin in (
        "https://graph.example",
        "http://graph.example:8443",
        "https://graph.example:8444",
        "https://x.graph.example:8443",
        "null",
        "",
    ):
        answer = server.client.post("/update", content="CLEAR ALL", headers={**update, "Origin": origin})
        assert problem_of(answer, 403)["code"] == "foreign-origin", origin


def test_empty_origin_is_foreign_without_a_public_url(server: LiveServer) -> None:
    update = {"Content-Type": "application/sparql-update", "Origin": ""}
    assert server.client.post("/update", content="CLEAR ALL", headers=update).status_code == 403


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://a.example:443/x", "https://a.example"),
        ("http://a.example:80", "http://a.example"),
        ("http://[::1]:7878/", "http://[::1]:7878"),
        ("", ""),
    ],
)
def test_origin_is_written_as_browsers_send_it(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("settings", "headers", "secure"),
    [
        ({}, {}, False),
        ({}, {"X-Forwarded-Proto": "https"}, False),
        ({"public_url": "https://graph.example/"}, {}, True),
        ({"public_url": "HTTPS://graph.example/"}, {}, True),
        ({"public_url": "http://graph.example/"}, {}, False),
        ({"trusted_proxies": ("127.0.0.1",)}, {"X-Forwarded-Proto": "https"}, True),
        ({"trusted_proxies": ("127.0.0.1",)}, {"X-Forwarded-Proto": "https, http"}, False),
        ({"trusted_proxies": ("127.0.0.1",)}, {"X-Forwarded-Proto": "http"}, False),
        ({"trusted_proxies": ("127.0.0.1",)}, {}, False),
    ],
)
def test_session_cookie_is_secure_where_clients_use_https(
    start_server: Start, settings: dict[str, Any], headers: dict[str, str], secure: bool
) -> None:
    server = start_server(token=TOKEN, **settings)
    answer = server.client.post("/login", json={"token": TOKEN}, headers=headers)
    assert ("Secure" in answer.headers["Set-Cookie"].split("; ")) == secure


@pytest.mark.parametrize(
    "url",
    [
        "graph.example",
        "ftp://graph.example",
        "https://",
        "https://g.example/a?b",
        "https://g/#x",
        "https://g/a//b",
    ],
)
def test_public_url_that_is_no_address_stops_the_start(url: str) -> None:
    with pytest.raises(SettingsError, match="public_url"):
        load_settings(overrides={"public_url": url}, environment={})


# --- sessions that ended ------------------------------------------------------------------------------------


@pytest.fixture
def session(start_server: Start) -> Iterator[Callable[[], str]]:
    """A function that logs in at one server and leads the browser to another, as a restart does."""
    with forwarding() as proxy, closing(httpx.Client(base_url=proxy.url)) as browser:
        proxy.lead_to(start_server(token=TOKEN).url)
        assert browser.post("/login", json={"token": TOKEN}).status_code == 204
        browser.get("/ui/store", headers={**BROWSER, "Connection": "close"}).raise_for_status()

        def after_restart() -> str:
            proxy.lead_to(start_server(token=TOKEN).url)
            led = browser.get("/ui/store", headers={**BROWSER, "Connection": "close"})
            assert led.status_code == 302
            return browser.get(led.headers["Location"], headers={**BROWSER, "Connection": "close"}).text

        yield after_restart


def test_login_says_that_the_server_has_restarted(
    session: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time()
    monkeypatch.setattr("quadrill.app.security.time.time", lambda: began + 60)
    assert "The server has restarted since you signed in" in session()


def test_login_says_that_a_session_is_too_old_or_its_token_removed(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(token=TOKEN)
    security = server.services.security
    session = security.log_in(TOKEN, "127.0.0.1")
    assert security.lost_session(session) is None
    assert "sessions last 12 hours" in str(security.lost_session("1"))
    assert "restarted" in str(security.lost_session("1-x"))
    for cookie in ("", "²9-x", "9" * 40, "9" * 40 + "-x", "\x00"):
        assert "sessions last" in str(security.lost_session(cookie))
    now = time.monotonic()
    monkeypatch.setattr("quadrill.app.security.time.monotonic", lambda: now + SESSION_SECONDS + 1)
    assert "sessions last 12 hours" in str(security.lost_session(session))
    monkeypatch.undo()
    monkeypatch.setattr(security, "_own_hash", "")
    assert "token with which you signed in was removed" in str(security.lost_session(session))
    assert "ended" not in server.client.get("/login", headers=BROWSER).text
