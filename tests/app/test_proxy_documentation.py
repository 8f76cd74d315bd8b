"""The configurations of proxies in docs/operations.md, run as they are printed, with TLS.

Only ports, paths of certificates and, for Caddy, options of the whole program differ from the page.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect

from quadrill.app.config import Settings
from tests.app.ingest.talking import NDJSON, line
from tests.app.server.proxies import free_port, running

from .pages.browser import NEEDS_BROWSER, Page, chromium
from .pages.conftest import served

OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
BLOCKS = {
    name: text for name, text in re.findall(r"```(nginx|haproxy|caddy)\n(.*?)```", OPERATIONS, re.DOTALL)
}
UNDER_A_PATH = {
    name.lower(): (line, instead)
    for name, line, instead in re.findall(r"\| (nginx|HAProxy|Caddy) \| `(.*?)` \| `(.*?)` \|", OPERATIONS)
}
pytestmark = pytest.mark.process
PROXIES = ["nginx", "haproxy", "caddy"]
NAME = "graph.example.org"
TOKEN = "an admin token of some length"
QUERY = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
TIMES = itertools.count(1_700_000_000_000, 1000)
"""Event times of elements; each is later than those before."""
NGINX_AROUND = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  {block}
}}
"""
CADDY_BEFORE = """
{{
  admin off
  local_certs
  skip_install_trust
  auto_https disable_redirects
  https_port {port}
}}
"""


@dataclass
class Outer:
    """A server behind a documented proxy.

    Attributes:
        port: the port at which the proxy listens with TLS.
        url: the address of the server as clients of the proxy write it.
    """

    port: int
    url: str

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request through the proxy with a token."""
        with self.client() as client:
            return client.request(method, self.inner(path), **self.options(options))

    def client(self) -> httpx.Client:
        return httpx.Client(verify=False, timeout=20)

    def inner(self, path: str) -> str:
        """The address by which this machine reaches a path of the server."""
        scheme, path_of_server = urlsplit(self.url).scheme, urlsplit(self.url).path
        return f"{scheme}://127.0.0.1:{self.port}{path_of_server}{path}"

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        headers = {"Host": f"{NAME}:{self.port}", **BEARER, **options.pop("headers", {})}
        return {"headers": headers, "extensions": {"sni_hostname": NAME}, **options}

    def websocket(self, path: str) -> connect:
        """Open a WebSocket through the proxy."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        found = socket.create_connection(("127.0.0.1", self.port), 10)
        found.setblocking(False)
        return connect(
            self.url.replace("https:", "wss:") + path,
            sock=found,
            ssl=context,
            server_hostname=NAME,
            additional_headers=BEARER,
        )


def configuration(name: str, folder: Path, port: int, upstream: str, changes: dict[str, str]) -> str:
    """A documented configuration with the ports and files of a test; each change must be possible."""
    block = BLOCKS[name]
    replaced = {"127.0.0.1:7878": upstream}
    if name != "caddy":
        replaced |= {"/etc/ssl/graph.example.org": str(folder / "certificate")}
        replaced |= {"listen 443": f"listen {port}"} if name == "nginx" else {":443": f":{port}"}
    for old, new in (replaced | changes).items():
        assert old in block, f"{old} is not in the configuration of {name}"
        block = block.replace(old, new)
    if name == "nginx":
        return NGINX_AROUND.format(folder=folder, block=block)
    return CADDY_BEFORE.format(port=port) + block if name == "caddy" else block


@contextmanager
def behind(
    name: str, folder: Path, *, path: str = "", changes: dict[str, str] | None = None, **settings: Any
) -> Iterator[Outer]:
    """A server behind a proxy as documented; ``path`` changes the line that the page names."""
    certify(folder)
    changes = dict(changes or {})
    if path:
        line_below, instead = UNDER_A_PATH[name]
        changes[instead.replace("127.0.0.1:7878", "UPSTREAM")] = line_below.replace(
            "127.0.0.1:7878", "UPSTREAM"
        )
    inner = free_port()
    upstream = f"127.0.0.1:{inner}"
    changes = {
        old.replace("UPSTREAM", upstream): new.replace("UPSTREAM", upstream) for old, new in changes.items()
    }
    with running(name, folder, lambda port: configuration(name, folder, port, upstream, changes)) as port:
        url = f"https://{NAME}:{port}{path}"
        given = {
            "public_url": url,
            "trusted_proxies": ["127.0.0.1"],
            "token": TOKEN,
            "port": inner,
            **settings,
        }
        with served(**given):
            yield Outer(port, url)


def certify(folder: Path) -> None:
    """Write a certificate of the documented name, its key, and both in one file."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    key, certificate = folder / "certificate.key", folder / "certificate.pem"
    command = (
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={NAME}"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    (folder / "certificate.both.pem").write_text(certificate.read_text() + key.read_text())


@pytest.fixture(scope="module", params=PROXIES)
def outer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outer]:
    with behind(request.param, tmp_path_factory.mktemp(request.param)) as found:
        register(found)
        yield found


def register(outer: Outer) -> None:
    answer = outer.ask("PUT", "/queries/q", json={"query": QUERY})
    assert (answer.status_code, answer.headers["Location"]) == (201, f"{outer.url}/queries/q"), answer.text


def push(outer: Outer, name: str) -> httpx.Response:
    """Push an element later than all before, and wait for its results."""
    return outer.ask(
        "POST",
        f"/streams?iri=http://e/s&at={next(TIMES)}&wait=true",
        content=f"<urn:{name}> <urn:p> <urn:o> .",
        headers={"Content-Type": "text/turtle"},
    )


def test_page_documents_each_proxy_once() -> None:
    assert sorted(BLOCKS) == sorted(PROXIES) == sorted(UNDER_A_PATH)
    assert len(re.findall(r"```(?:nginx|haproxy|caddy)\n", OPERATIONS)) == len(PROXIES)


def test_time_outs_of_the_page_fit_those_of_the_server() -> None:
    settings = Settings(data=":memory:")
    for name, seconds in (
        ("sse_heartbeat", settings.sse_heartbeat),
        ("query_timeout", settings.query_timeout),
        ("push_idle_timeout", settings.push_idle_timeout),
        ("request_timeout", settings.request_timeout),
    ):
        assert f"{seconds:.0f} s" in next(
            each for each in OPERATIONS.splitlines() if each.startswith(f"| `{name}`")
        )
    longer = [
        int(each)
        for each in re.findall(r"(?:_timeout|client|server) (\d+)s", BLOCKS["nginx"] + BLOCKS["haproxy"])
    ]
    idle = re.findall(
        r"(?:keepalive_timeout|timeout http-keep-alive|keepalive) (\d+)s", "".join(BLOCKS.values())
    )
    assert len(idle) == 3 and all(int(each) < settings.request_timeout for each in idle)
    assert sum(each > settings.push_idle_timeout for each in longer) == 5


def test_answers_are_those_of_the_server(outer: Outer) -> None:
    put = outer.ask("PUT", "/store/a", content="<> <urn:p> 1 .", headers={"Content-Type": "text/turtle"})
    assert put.headers["Location"] == f"{outer.url}/store/a"
    assert f"<{outer.url}/store/a>" in outer.ask("GET", "/store/a", headers={"Accept": "text/turtle"}).text
    login = outer.ask("POST", "/login", json={"token": TOKEN}, headers={"Authorization": ""})
    assert "Secure" in login.headers["Set-Cookie"]
    cookie = {"Authorization": "", "Cookie": login.headers["Set-Cookie"].partition(";")[0]}
    update = {**cookie, "Content-Type": "application/sparql-update"}
    for origin, status in ((outer.url, 204), ("https://evil.example", 403)):
        answer = outer.ask("POST", "/update", content="CLEAR ALL", headers={**update, "Origin": origin})
        assert answer.status_code == status, answer.text


def test_large_bodies_pass(outer: Outer) -> None:
    quads = "".join(f"<urn:{number}> <urn:p> <urn:o> .\n" for number in range(100_000))
    answer = outer.ask(
        "PUT", "/store?graph=urn:large", content=quads, headers={"Content-Type": "text/turtle"}
    )
    assert answer.status_code == 201, answer.text


def test_events_come_at_once(outer: Outer) -> None:
    assert statistics.median(waits_for_events(outer)) < 0.1


def test_events_come_at_once_through_haproxy_without_tls(tmp_path: Path) -> None:
    """Without `option http-no-delay` each event takes 200 ms."""
    tls = f" ssl crt {tmp_path}/certificate.both.pem alpn h2,http/1.1"
    with behind("haproxy", tmp_path, changes={tls: ""}) as outer:
        outer.url = outer.url.replace("https:", "http:")
        outer.ask("PUT", "/queries/q", json={"query": QUERY}).raise_for_status()
        assert statistics.median(waits_for_events(outer)) < 0.1


def waits_for_events(outer: Outer) -> list[float]:
    """The seconds after the answer to a push until its event came, for some pushes."""
    waits = []
    path, sent = (
        outer.inner("/queries/q/results"),
        outer.options({"headers": {"Accept": "text/event-stream"}}),
    )
    with outer.client() as client, client.stream("GET", path, **sent) as feed:
        lines = feed.iter_lines()
        for number in range(9):
            with ThreadPoolExecutor(1) as pool:
                pushed = pool.submit(after_push, outer, number)
                next(text for text in lines if text.startswith("data:"))
                waits.append(time.monotonic() - pushed.result())
    return waits


def after_push(outer: Outer, number: int) -> float:
    """Push an element; the time at which its results were in the feed."""
    assert push(outer, f"at-once-{number}").status_code == 200
    return time.monotonic()


def test_websockets_are_opened(outer: Outer) -> None:
    async def talk() -> None:
        async with outer.websocket("/queries/q/results") as feed:
            async with outer.websocket("/streams?iri=http://e/s") as stream:
                element = line(next(TIMES)).decode()
                await stream.send(element.replace("http://e/p", "urn:p"))
                assert json.loads(await asyncio.wait_for(stream.recv(), 10))["accepted"] == 1
                assert json.loads(await asyncio.wait_for(feed.recv(), 10))["event"] == "insert"

    asyncio.run(talk())


def test_lines_of_a_push_enter_before_its_body_ends(outer: Outer) -> None:
    iri = "http://e/over-time"
    entered = threading.Event()

    def lines() -> Iterator[bytes]:
        yield line(1000)
        assert entered.wait(10), "the first line is in the stream before the second one is sent"
        yield line(2000)

    def wait_for_the_first() -> None:
        while not entered.is_set() and time.monotonic() < until:
            answer = outer.ask("GET", "/streams", params={"iri": iri})
            if answer.status_code == 200 and answer.json()["last_seq"] == 1:
                entered.set()
            time.sleep(0.05)

    until = time.monotonic() + 10
    watcher = threading.Thread(target=wait_for_the_first)
    watcher.start()
    headers = {"Content-Type": NDJSON}
    answer = outer.ask("POST", f"/streams?iri={iri}", content=lines(), headers=headers)
    watcher.join()
    assert (answer.status_code, answer.json()["accepted"], answer.json()["lines"]) == (200, 2, 2), answer.text


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_quiet_feeds_outlive_the_time_outs(name: str, tmp_path: Path) -> None:
    """The times are scaled: 2 s in place of 310 s, a heartbeat each 0.5 s; Caddy has no time-outs."""

    async def follow(outer: Outer) -> None:
        async with outer.websocket("/queries/q/results") as feed:
            await asyncio.to_thread(read_quiet_feeds, outer)
            await asyncio.to_thread(push, outer, "last")
            assert json.loads(await asyncio.wait_for(feed.recv(), 10))["id"] == 1

    with behind(name, tmp_path, changes={"310s": "2s"}, sse_heartbeat=0.5) as outer:
        register(outer)
        asyncio.run(follow(outer))


def read_quiet_feeds(outer: Outer) -> None:
    """Read three forms of a feed without events for four seconds."""

    def read(accept: str) -> None:
        path = outer.inner("/queries/q/results" + ("?follow=true" if accept == "text/csv" else ""))
        options = outer.options({"headers": {"Accept": accept}})
        with outer.client() as client, client.stream("GET", path, **options) as feed:
            began, chunks = time.monotonic(), feed.iter_raw()
            while time.monotonic() < began + 4:
                next(chunks)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(read, accept) for accept in ("text/event-stream", NDJSON, "text/csv")]:
            done.result()


# --- pushes with acknowledgements ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_acknowledged_push_arrives_whole(name: str, tmp_path: Path) -> None:
    with behind(name, tmp_path) as outer:
        sent, totals = acknowledged_push(outer, "--http1.1")
        assert (totals["accepted"], totals["lines"], totals["bytes"]) == (100, 100, sent)


def test_totals_show_that_caddy_dropped_a_part_of_an_acknowledged_push(tmp_path: Path) -> None:
    with behind("caddy", tmp_path) as outer:
        sent, totals = acknowledged_push(outer, "--http1.1")
        whole = (totals["accepted"], totals["lines"], totals["bytes"]) == (100, 100, sent)
        assert whole or totals["bytes"] < sent
        sent, totals = acknowledged_push(outer, "--http2")
        assert (totals["accepted"], totals["lines"], totals["bytes"]) == (100, 100, sent)


def acknowledged_push(outer: Outer, version: str) -> tuple[int, dict[str, Any]]:
    """Push 100 lines over a second with curl; the bytes sent, and the totals or the error at the end."""
    if (curl := shutil.which("curl")) is None:
        pytest.skip("curl is not installed")
    address = f"{outer.url}/streams?iri=http://e/acknowledged{version}&ack=true"
    resolved = f"{NAME}:{outer.port}:127.0.0.1"
    headers = [f"Authorization: Bearer {TOKEN}", f"Content-Type: {NDJSON}"]
    command = [curl, "-skNT-", "-XPOST", version, "--resolve", resolved, address]
    command += [part for header in headers for part in ("-H", header)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        sent = 0
        for number in range(100):
            sent += process.stdin.write(line(1000 + number))
            process.stdin.flush()
            time.sleep(0.01)
        process.stdin.close()
        answers = process.stdout.read().splitlines()
    return sent, json.loads(answers[-1])


# --- in a browser, and under a path -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A browser that finds the documented name on this machine."""
    flags = [f"--host-resolver-rules=MAP {NAME} 127.0.0.1", "--ignore-certificate-errors"]
    with chromium(tmp_path_factory.mktemp("profile"), *flags) as started:
        yield started


@pytest.mark.browser
@NEEDS_BROWSER[1]
@pytest.mark.parametrize("path", ["", "/kg"])
@pytest.mark.parametrize("name", PROXIES)
def test_browser_logs_in_and_follows_a_feed(name: str, path: str, driver: object, tmp_path: Path) -> None:
    with behind(name, tmp_path, path=path) as outer:
        register(outer)
        page = Page(driver, outer.url)  # type: ignore[arg-type]
        page.open("/login")
        page.driver.delete_all_cookies()  # cookies of servers at other ports
        page.open("/ui/queries/q")
        page.write("[name=token]", TOKEN)
        page.click("#login button")
        page.until_text("#feed-state", "live")
        (cookie,) = page.driver.get_cookies()
        assert (cookie["secure"], cookie["path"]) == (True, path or "/")
        protocol = "return performance.getEntriesByType('navigation')[0].nextHopProtocol"
        assert page.driver.execute_script(protocol) in ("h2", "h3")
        assert push(outer, "of-the-proxy").status_code == 200
        page.until_text("#live", "of-the-proxy")
        page.confirm("[data-action=drop]")
        page.until(lambda: page.driver.current_url == f"{outer.url}/ui/queries", "the list of queries")
        page.driver.get("about:blank")
