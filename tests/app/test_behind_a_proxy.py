"""Clients behind reverse proxies: whose address counts, and what is refused without tokens."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from quadrill.app.config import load_settings
from quadrill.app.server.proxies import TrustedProxies, client_behind
from quadrill.app.setting_values import SettingsError
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.server.proxies import haproxy, nginx
from tests.app.server.test_departed_clients import connected, post
from tests.app.test_server import eventually, read_all

TOKEN = "an admin token of some length"
ASK = "/query?query=ASK%7B%7D"
UPDATE = {"Content-Type": "application/sparql-update"}
NQUADS = {"Content-Type": "application/n-quads"}
JSON = {"Content-Type": "application/json"}
REQUESTS: list[tuple[str, str, str, dict[str, str]]] = [
    ("GET", ASK, "", {}),
    ("POST", "/query", "ASK {}", {"Content-Type": "application/sparql-query"}),
    ("POST", "/sparql", "INSERT DATA { <urn:a> <urn:b> 1 }", UPDATE),
    ("POST", "/update", "INSERT DATA { <urn:a> <urn:b> 1 }", UPDATE),
    ("POST", "/streams?iri=urn:s", "<urn:a> <urn:b> <urn:c> .", NQUADS),
    ("POST", "/streams/s", "<urn:a> <urn:b> <urn:c> .", NQUADS),
    ("POST", "/streams/s:heartbeat?at=1", "", {}),
    ("PUT", "/store?default", "<urn:a> <urn:b> <urn:c> .", NQUADS),
    ("GET", "/store", "", {}),
    ("DELETE", "/store", "", {}),
    ("POST", "/queries", '{"query": "SELECT ?s WHERE { ?s ?p ?o }"}', JSON),
    ("GET", "/queries", "", {}),
    ("GET", "/streams", "", {}),
    ("POST", "/login", '{"token": "x"}', JSON),
    ("GET", "/metrics", "", {}),
    ("GET", "/health/live", "", {}),
    ("GET", "/", "", {"Accept": "text/html"}),
    ("GET", "/nowhere", "", {}),
]
MARKS = [
    {"X-Forwarded-For": "192.0.2.7"},
    {"x-forwarded-for": ""},
    {"Forwarded": "for=192.0.2.7"},
    {"Via": "1.1 proxy"},
]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def from_client(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


# --- addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("networks", "address", "trusted"),
    [
        ((), "127.0.0.1", False),
        (("127.0.0.1",), "127.0.0.1", True),
        (("127.0.0.1",), "127.0.0.2", False),
        (("10.0.0.0/8", "::1"), "10.200.3.4", True),
        (("10.0.0.0/8", "::1"), "::1", True),
        (("10.0.0.0/8",), "::ffff:10.0.0.1", True),
        (("10.0.0.1/8",), "10.9.9.9", True),
        (("2001:db8::/32",), "2001:db8::7%eth0", True),
        (("0.0.0.0/0",), "a name", False),
    ],
)
def test_proxy_is_trusted_by_address_or_network(
    networks: tuple[str, ...], address: str, trusted: bool
) -> None:
    assert (address in TrustedProxies(networks)) is trusted


@pytest.mark.parametrize(
    ("value", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("6.6.6.6, 192.0.2.7", "192.0.2.7"),
        ("6.6.6.6,192.0.2.7 ", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("2001:DB8::7", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7, unknown", "127.0.0.1"),
        ("192.0.2.7,", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def test_client_is_the_last_hop(value: str, client: str) -> None:
    assert client_behind("127.0.0.1", {"X-Forwarded-For": value}) == client


@pytest.mark.parametrize("text", ["localhost", "10.0.0.0/33", "10.0.0", "*"])
def test_setting_refuses_what_is_no_address(text: str) -> None:
    with pytest.raises(SettingsError, match="trusted_proxies"):
        load_settings(environment={"QUADRILL_TRUSTED_PROXIES": text})
    with pytest.raises(SettingsError, match="trusted_proxies"):
        load_settings(overrides={"trusted_proxies": (text,)}, environment={})


# --- without tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(("method", "target", "body", "headers"), REQUESTS)
def test_request_through_an_unknown_proxy_is_refused_without_tokens(
    server: LiveServer, method: str, target: str, body: str, headers: dict[str, str], mark: dict[str, str]
) -> None:
    version = server.services.store.reader.version
    answer = server.client.request(method, target, content=body, headers={**headers, **mark})
    problem = problem_of(answer, 403)
    assert problem["code"] == "untrusted-proxy"
    assert "proxy" in problem["detail"]
    assert "trusted_proxies" in problem["hint"]
    assert server.services.store.reader.version == version


def test_busy_connection_is_refused_on_every_request(server: LiveServer) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(base_url=server.url)) for _ in range(4)]
        for _ in range(20):
            for each in clients:
                assert each.get(ASK).status_code == 200
                assert each.get(ASK, headers=from_client("192.0.2.7")).status_code == 403
                assert each.post("/update", content="INSERT DATA {}", headers=UPDATE).status_code == 204
                refused = each.post("/update", content="INSERT DATA {}", headers={**UPDATE, **MARKS[3]})
                assert refused.status_code == 403


def test_unusual_head_with_a_mark_is_refused(server: LiveServer) -> None:
    head = b"GET " + ASK.encode() + b" HTTP/1.0\r\nHost: 127.0.0.1\r\nVia: a\r\nvia: b\r\n\r\n"
    with contextlib.closing(connected(server.url)) as client:
        client.sendall(head)
        assert read_all(client).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("mark", MARKS)
def test_trusted_proxy_is_served_without_tokens(start_server: Start, mark: dict[str, str]) -> None:
    server = start_server(trusted_proxies=("127.0.0.0/8",))
    for method, target, body, headers in REQUESTS[:11]:
        answer = server.client.request(method, target, content=body, headers={**headers, **mark})
        assert answer.is_success, (target, answer.text)


def test_other_addresses_are_not_trusted(start_server: Start) -> None:
    server = start_server(trusted_proxies=("10.0.0.0/8", "::1"))
    assert server.client.get(ASK, headers=MARKS[0]).status_code == 403


def test_marked_request_with_a_token_is_served(start_server: Start) -> None:
    server = start_server(token=TOKEN)
    for mark in MARKS:
        assert server.client.get(ASK, headers={**bearer(TOKEN), **mark}).status_code == 200


def test_nginx_and_haproxy_that_name_their_clients_are_refused(server: LiveServer, tmp_path: Path) -> None:
    forwarding = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
    with nginx(tmp_path, server.url, forwarding) as url:
        assert problem_of(httpx.get(url + ASK[1:]), 403)["code"] == "untrusted-proxy"
    with haproxy(tmp_path, server.url, "mode http\n  option forwardfor") as url:
        assert problem_of(httpx.get(url + ASK[1:]), 403)["code"] == "untrusted-proxy"


# --- wrong tokens -----------------------------------------------------------------------------------------


def test_right_token_is_never_refused_by_the_limit_of_wrong_ones(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_wrong_tokens=2)
    for _ in range(4):
        refused = server.client.get(ASK, headers=bearer("a wrong token of some length"))
    assert refused.status_code == 429
    assert server.client.get(ASK, headers=bearer(TOKEN)).status_code == 200
    assert server.client.post("/login", json={"token": "wrong"}).status_code == 429
    assert server.client.post("/login", json={"token": TOKEN}).status_code == 204


def test_wrong_tokens_count_for_the_client_behind_a_trusted_proxy(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_wrong_tokens=2, trusted_proxies=("127.0.0.1",))

    def status(client: str) -> int:
        return server.client.get(ASK, headers={**bearer("wrong"), **from_client(client)}).status_code

    assert [status("192.0.2.7") for _ in range(3)] == [401, 401, 429]
    assert [status("192.0.2.8") for _ in range(3)] == [401, 401, 429]
    assert status("192.0.2.8, 192.0.2.9") == 401
    assert status("192.0.2.9, 192.0.2.7") == 429
    wrong = [
        server.client.post("/login", json={"token": "w"}, headers=from_client("192.0.2.6")) for _ in "abc"
    ]
    assert [each.status_code for each in wrong] == [401, 401, 429]


def test_forwarded_address_of_others_is_not_believed(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_wrong_tokens=2)
    sent = [{**bearer("wrong"), **from_client(f"192.0.2.{n}")} for n in range(3)]
    assert [server.client.get(ASK, headers=each).status_code for each in sent] == [401, 401, 429]


# --- connections ------------------------------------------------------------------------------------------

VALUES = " ".join(map(str, range(300)))
LARGE = "SELECT * {" + "".join(f" VALUES ?{name} {{ {VALUES} }}" for name in "abcd") + " }"


def asking(server: LiveServer, client: str) -> socket.socket:
    """A connection whose request is answered for as long as nobody reads."""
    found = connected(server.url)
    found.sendall(post("/query", LARGE, more=f"X-Forwarded-For: {client}\r\n"))
    return found


def status_of(server: LiveServer, client: str) -> int:
    return server.client.get(ASK, headers={**from_client(client), "Connection": "close"}).status_code


def test_connections_count_for_the_client_behind_a_trusted_proxy(start_server: Start) -> None:
    server = start_server(trusted_proxies=("127.0.0.1",), max_connections_per_address=2)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(contextlib.closing(connected(server.url))) for _ in range(5)]
        first = [stack.enter_context(contextlib.closing(asking(server, "192.0.2.7"))) for _ in range(2)]
        eventually(lambda: status_of(server, "192.0.2.7") == 503)
        assert status_of(server, "192.0.2.8") == 200
        assert status_of(server, "192.0.2.7, 192.0.2.9") == 200
        idle[0].sendall(post("/query", "ASK {}", more="Connection: close\r\n"))
        assert read_all(idle[0]).startswith(b"HTTP/1.1 200 ")
        first[0].close()
        eventually(lambda: status_of(server, "192.0.2.7") == 200)


def test_idle_connections_of_a_proxy_count_for_no_client(start_server: Start) -> None:
    server = start_server(trusted_proxies=("127.0.0.1",), max_connections_per_address=2)
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            client = stack.enter_context(contextlib.closing(connected(server.url)))
            client.sendall(post("/query", "ASK {}", more="X-Forwarded-For: 192.0.2.7\r\n"))
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            eventually(lambda: status_of(server, "192.0.2.7") == 200)


def test_unfinished_requests_count_for_the_client_behind_a_trusted_proxy(start_server: Start) -> None:
    server = start_server(trusted_proxies=("127.0.0.1",), max_unfinished_per_address=2)
    head = "POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: {}\r\nContent-Length: 9\r\n\r\nASK"
    with contextlib.ExitStack() as stack:

        def begin(client: str) -> socket.socket:
            found = stack.enter_context(contextlib.closing(connected(server.url)))
            found.sendall(head.format(client).encode())
            return found

        others = [begin(f"192.0.2.{number}") for number in range(20, 26)]
        first = begin("192.0.2.7")
        begin("192.0.2.7")
        first.settimeout(1.2)
        with pytest.raises(TimeoutError):
            first.recv(1)
        begin("192.0.2.7")
        assert first.recv(100).startswith(b"HTTP/1.1 408 ")
        for each in others:
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(1)


# --- the access log ---------------------------------------------------------------------------------------


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("quadrill.access")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield found
    logger.removeHandler(handler)


def test_access_log_names_the_client_behind_a_trusted_proxy(start_server: Start, lines: list[str]) -> None:
    server = start_server(trusted_proxies=("127.0.0.1",))
    for method, target, body, headers in REQUESTS[:11]:
        server.client.request(
            method, target, content=body, headers={**headers, **from_client("6.6.6.6, 192.0.2.7")}
        )
    eventually(lambda: len(lines) == 11)
    assert {line.split()[0] for line in lines} == {"192.0.2.7"}
    server.client.get(ASK)
    eventually(lambda: len(lines) == 12)
    assert lines[-1].split()[0] == "127.0.0.1"


def test_access_log_names_the_client_of_nginx(start_server: Start, tmp_path: Path, lines: list[str]) -> None:
    server = start_server(trusted_proxies=("127.0.0.1",))
    forwarding = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
    with nginx(tmp_path, server.url, forwarding) as url:
        spoofed = httpx.get(url + ASK[1:], headers=from_client("6.6.6.6"))
    assert spoofed.status_code == 200
    eventually(lambda: lines)
    assert re.match(r'127\.0\.0\.1 "GET /query', lines[0])
