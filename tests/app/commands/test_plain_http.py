"""The commands' HTTP: connections that are taken up again, answers that are cut, refusals, proxies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quadrill.app.commands.connection import ServerConnection, ServerError, UnreachableError
from quadrill.store.errors import ReportedError


class Came(list[bytes]):
    """What came by each connection; `ended` has a permit for each that the server has closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Semaphore(0)


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, Came]]:
    """A server with an answer for each connection, which it then closes; its address and what came."""
    came = Came()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    came.append(connection.recv(1 << 16))
                    connection.sendall(answer)
                came.ended.release()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", came
        thread.join(10)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_a_connection_that_the_server_ended_is_opened_anew() -> None:
    with answering(OK, OK) as (url, came), ServerConnection(url, None) as server:
        for _ in range(2):
            assert server.call("GET", "queries").json() == {}
            assert came.ended.acquire(timeout=10)
        assert len(came) == 2


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
def test_an_answer_that_ends_early_is_told(cut: bytes) -> None:
    with answering(cut) as (url, _), ServerConnection(url, None) as server:
        with pytest.raises(ServerError, match="the answer was cut"):
            list(server.stream("GET", "store"))


def test_a_refusal_is_read_while_the_body_is_still_sent() -> None:
    problem = b'{"detail": "too large", "status": 413}'
    head = b"HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    with answering(head % len(problem) + problem) as (url, _), ServerConnection(url, None) as server:
        # A system may tell of the closed connection before it gives the answer.
        with pytest.raises(ServerError, match="too large|no server answers"):
            server.call("POST", "store", content=(b"x" * 65_536 for _ in range(500)))


def test_an_address_with_a_name_and_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(OK) as (url, came):
        with ServerConnection(url.replace("//", "//ada:se%20cret@") + "/graph/", None) as server:
            server.call("GET", "streams", params={"iri": "http://e/a b"})
    assert came[0].startswith(b"GET /graph/streams?iri=http%3A%2F%2Fe%2Fa+b HTTP/1.1\r\n")
    assert b"Authorization: Basic YWRhOnNlIGNyZXQ=" in came[0]


def test_an_address_that_names_another_one_is_told() -> None:
    moved = b"HTTP/1.1 308 Moved\r\nLocation: https://e/\r\nContent-Length: 0\r\n\r\n"
    with answering(moved) as (url, _), ServerConnection(url, None) as server:
        with pytest.raises(ServerError, match="308 Moved") as caught:
            server.call("GET", "queries")
        assert caught.value.hint == "It names another address: https://e/"


def test_proxies_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(OK) as (url, came):
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        with ServerConnection("http://graph.example:81/at", "secret") as server:
            server.call("GET", "queries")
        assert came[0].startswith(
            b"GET http://graph.example:81/at/queries HTTP/1.1\r\nHost: graph.example:81\r\n"
        )
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with ServerConnection("http://127.0.0.1:9/", None) as server, pytest.raises(UnreachableError):
            server.call("GET", "queries")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_gets_its_own_name_and_password(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    with answering(OK if scheme == "http" else refused) as (url, came):
        monkeypatch.setenv(f"{scheme}_proxy", url.replace("//", "//ada:se%20cret@"))
        monkeypatch.delenv("no_proxy", raising=False)
        with ServerConnection(f"{scheme}://graph.example/", "token") as server:
            if scheme == "http":
                server.call("GET", "queries")
            else:
                with pytest.raises(UnreachableError, match="403"):
                    server.call("GET", "queries")
    assert b"Proxy-Authorization: Basic YWRhOnNlIGNyZXQ=\r\n" in came[0]
    # What the server asks for goes to it alone where there is a tunnel.
    assert (b"Bearer token" in came[0]) == (scheme == "http")


@pytest.mark.parametrize("proxy", ["socks5://me:pw@127.0.0.1:9", "https://me:pw@127.0.0.1:9"])
def test_a_proxy_of_another_kind_is_refused(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", proxy)
    for name in ("http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ServerConnection("http://graph.example/", None) as server:
        with pytest.raises(
            ReportedError, match="proxy with the unsupported scheme (socks5|https)://"
        ) as caught:
            server.call("GET", "queries")
    assert "pw" not in caught.value.message
