"""Requests that need no token have small bodies: the table of these routes, and every way to send more."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import hmac
import re
import resource
import socket
from collections.abc import Iterator

import httpx
import pytest

from quadrill.app.http.callers import PUBLIC, PUBLIC_BODY_BYTES
from quadrill.app.routes import all_routes
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.routes import no_page

TOKEN = "t" * 32
KEY = "between the two of us"
PUBLIC_ROUTES = {
    ("GET", "/"): PUBLIC_BODY_BYTES,
    ("GET", "/health/live"): PUBLIC_BODY_BYTES,
    ("GET", "/health/ready"): PUBLIC_BODY_BYTES,
    ("GET", "/login"): PUBLIC_BODY_BYTES,
    ("GET", "/openapi.json"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/connectors"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/demo"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/docs"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/docs/<path:filename>"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/jobs"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/processes"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/queries"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/queries/<name>"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/register"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/rules"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/rules/<name>"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/settings"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/shapes"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/shapes/<name>"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/sparql"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/static/<path:filename>"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/store"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/streams"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/streams/one"): PUBLIC_BODY_BYTES,
    ("GET", "/ui/why"): PUBLIC_BODY_BYTES,
    ("POST", "/login"): PUBLIC_BODY_BYTES,
    ("POST", "/logout"): PUBLIC_BODY_BYTES,
    ("POST", "/sources/<part:name>"): 1 << 20,
}
"""Every route that needs no token, and the largest body that it accepts. Enter new routes here."""
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
LARGE = b"a=b&" * (2 << 20)
"""8 MiB: far above the limit, and above what a connection collects before a worker is asked."""


@pytest.fixture
def guarded(start_server: Start) -> Iterator[LiveServer]:
    server = start_server(token=TOKEN)
    members = {"kind": "webhook", "stream": "http://e/s", "format": "application/n-triples", "secret": KEY}
    admin = {"Authorization": f"Bearer {TOKEN}"}
    assert server.client.put("/sources/name", json=members, headers=admin).status_code == 201
    yield server


def _path(rule: str) -> str:
    return rule.replace("<name>", "name").replace("<part:name>", "name").replace("<path:filename>", "x.css")


def _pieces(body: bytes = LARGE) -> Iterator[bytes]:
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


def _served_routes(server: LiveServer) -> dict[tuple[str, str], int]:
    """The routes that some request may use without a token, with the limits of their bodies."""
    found = {}
    for route in all_routes(no_page):
        if route.role == PUBLIC or callable(route.role):
            limit = route.public_bytes
            most = getattr(server.services.settings, limit) if isinstance(limit, str) else limit
            found[route.method, route.label] = most
    return found


def test_the_table_lists_every_route_that_needs_no_token(guarded: LiveServer) -> None:
    assert _served_routes(guarded) == PUBLIC_ROUTES


def test_a_route_outside_the_table_needs_a_token(guarded: LiveServer) -> None:
    seen = 0
    for route in all_routes(no_page):
        path = re.sub("{[^}]*}", "name", route.path)
        headers = UPGRADE if route.websocket else {}
        if (route.method, route.label) not in PUBLIC_ROUTES:
            answer = guarded.client.request(route.method, path, headers=headers)
            assert answer.status_code == 401, (route.method, route.path)
            seen += 1
    assert seen > 90


@pytest.mark.parametrize("route", PUBLIC_ROUTES, ids=" ".join)
def test_a_public_route_refuses_a_body_above_its_limit(guarded: LiveServer, route: tuple[str, str]) -> None:
    method, rule = route
    body = b"a=" + b"b" * PUBLIC_ROUTES[route]
    for headers in ({}, {"Content-Type": "application/x-www-form-urlencoded"}):
        answer = guarded.client.request(method, _path(rule), content=body, headers=headers)
        assert problem_of(answer, 413)["code"] == "body-too-large"


@pytest.mark.parametrize("route", PUBLIC_ROUTES, ids=" ".join)
def test_a_chunked_body_without_length_is_dropped_unread(guarded: LiveServer, route: tuple[str, str]) -> None:
    """A route that reads its body answers 413; the connection ends behind the answer of any other."""
    method, rule = route
    host, _, port = guarded.url.removeprefix("http://").rstrip("/").partition(":")
    before, answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, b""
    with socket.create_connection((host, int(port)), timeout=10) as client:
        head = f"{method} {_path(rule)} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        client.sendall(f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode())
        with contextlib.suppress(OSError):  # the server may end the connection at any time
            for piece in _pieces(LARGE * 2):
                client.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        with contextlib.suppress(OSError):
            while received := client.recv(1 << 16):
                answer += received
    if method == "POST" and rule != "/logout":
        assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]
    assert b"Connection: close" in answer
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PARTS = {"Content-Type": "multipart/form-data; boundary=X"}


def _multipart(*fields: tuple[str, str]) -> bytes:
    lines = [
        f'--X\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields
    ]
    return "".join([*lines, "--X--\r\n"]).encode()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (FORM, LARGE),
        (PARTS, _multipart(("a", "b" * (8 << 20)))),
        (PARTS, _multipart(*(("a", "b"),) * 100_000)),
        (PARTS, _multipart(*(("a", ""),) * 60)),
        ({"Content-Type": "application/json"}, b'{"token": "' + b"t" * (8 << 20) + b'"}'),
        (FORM | {"Content-Encoding": "gzip"}, LARGE * 12),
        (PARTS | {"Content-Encoding": "gzip"}, _multipart(("a", "b" * (8 << 20)))),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b" " * (64 << 20)),
        ({"Content-Type": "text/plain"}, LARGE),
    ],
)
def test_login_answers_413_for_a_large_body_of_any_form(
    guarded: LiveServer, headers: dict[str, str], body: bytes
) -> None:
    # Packed here: at the head of the file every collection of the tests would pack them.
    sent = gzip.compress(body) if "Content-Encoding" in headers else body
    for content in (sent, list(_pieces(sent))):
        try:
            answer = guarded.client.post("/login", content=content, headers=headers)  # type: ignore[arg-type]
        except httpx.WriteError:  # the connection has ended before all of the body was sent
            continue
        assert problem_of(answer, 413)["code"] == "body-too-large"


def test_large_logins_take_no_memory(guarded: LiveServer) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        guarded.client.post("/login", content=LARGE, headers=FORM)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("headers", [FORM, PARTS, {"Content-Type": "application/json"}])
def test_login_accepts_the_token_in_each_form(
    guarded: LiveServer, headers: dict[str, str], coding: str
) -> None:
    bodies = {"application/x": f"x=1&token={TOKEN}".encode(), "multipart": _multipart(("token", TOKEN))}
    body = next((bodies[each] for each in bodies if headers["Content-Type"].startswith(each)), b"")
    body = body or b'{"token": "%b"}' % TOKEN.encode()
    sent = headers | {"Content-Encoding": coding}
    content = gzip.compress(body) if coding == "gzip" else body
    for each in (content, [content]):
        answer = guarded.client.post("/login", content=each, headers=sent)
        assert answer.status_code in (204, 303), answer.text
        assert "quadrill_session" in answer.headers["Set-Cookie"]


def test_a_signed_push_has_a_limit_of_its_own(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_signed_push_bytes=100)
    members = {"kind": "webhook", "stream": "http://e/s", "format": "application/n-triples", "secret": KEY}
    admin = {"Authorization": f"Bearer {TOKEN}"}
    assert server.client.put("/sources/hook", json=members, headers=admin).status_code == 201

    def push(body: bytes, chunked: bool = False) -> httpx.Response:
        digest = hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()
        content = [body] if chunked else body
        return server.client.post(
            "/sources/hook", content=content, headers={"X-Hub-Signature-256": f"sha256={digest}"}
        )

    triple = b"<urn:a> <urn:p> <urn:b> .\n"
    assert push(triple).status_code == 200
    assert push(triple, chunked=True).status_code == 200
    for chunked in (False, True):
        assert problem_of(push(triple * 10, chunked), 413)["code"] == "body-too-large"
