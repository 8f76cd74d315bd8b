"""Look-ups of names and connections end at the deadline of their exchange, and when their caller stops."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpcore
import pytest

from quadrill.store.errors import LimitError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.network import connections
from quadrill.store.network.connections import addresses, connect
from quadrill.store.network.exchange import Exchanges, ExchangeStoppedError, _Backend, _BoundedStream, _Bounds
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.remote import FetchError, FetchTimeoutError, RemoteClient, http_fetcher
from quadrill.store.sparql.update_plan import UpdateRequest
from tests.app.connectors.certificates import authority_and_server
from tests.hostile_peers import peer, silent

SLOW = "slow.example"
HOSTS = AllowedHosts([SLOW])
_RESOLVE = socket.getaddrinfo


class Resolver:
    """A resolver that hangs for the host `SLOW` and its relatives.

    Attributes:
        go_on: lets it answer with the loopback interface.
        asked: the names that it was asked for.
    """

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked: list[str] = []

    def getaddrinfo(self, host: str, port: int, *arguments: Any, **named: Any) -> list[Any]:
        if not host.endswith(SLOW):
            return _RESOLVE(host, port, *arguments, **named)
        self.asked.append(host)
        assert self.go_on.wait(30)
        return _RESOLVE("127.0.0.1", port, *arguments, **named)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    one = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", one.getaddrinfo)
    monkeypatch.setattr(connections, "_LOOKUPS", connections._Lookups())
    yield one
    one.go_on.set()


def never() -> None:
    """The caller goes on."""


def stopped() -> None:
    raise ExchangeStoppedError


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_fetch_ends_at_its_deadline_while_the_resolver_hangs(resolver: Resolver, scheme: str) -> None:
    began = time.monotonic()
    with pytest.raises(FetchTimeoutError):
        RemoteClient(HOSTS, timeout_s=0.3).get(f"{scheme}://{SLOW}/")
    assert time.monotonic() - began < 5 and resolver.asked == [SLOW]


def test_a_fetch_ends_when_its_caller_stops_while_the_resolver_hangs(resolver: Resolver) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    with Exchanges(stop.is_set) as exchanges, pytest.raises(ExchangeStoppedError):
        with exchanges.exchange("GET", f"http://{SLOW}/", 30, headers={}):
            pass
    assert time.monotonic() - began < 5


def test_a_load_of_a_name_that_hangs_is_504(resolver: Resolver) -> None:
    store = QuadStore.open(
        None, StoreOptions(fetcher=http_fetcher(HOSTS, timeout_s=0.3), allowed_hosts=AllowedHosts([SLOW]))
    )
    with pytest.raises(FetchTimeoutError):
        store.writer.update(f"LOAD <http://{SLOW}/>")
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        "LOAD <{}>",
        "LOAD SILENT <{}>",
        "INSERT {{ ?s ?p ?o }} WHERE {{ SERVICE <{}> {{ ?s ?p ?o }} }}",
        "INSERT {{ <urn:a> <urn:b> 1 }} WHERE {{ SERVICE SILENT <{}> {{ ?s ?p ?o }} }}",
    ],
)
def test_an_update_that_is_stopped_ends_its_fetch(text: str) -> None:
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > 0.4:
            raise LimitError("it was stopped")

    store = QuadStore.open(None, StoreOptions(allowed_hosts=AllowedHosts(["127.0.0.1"])))
    with peer(silent) as far, pytest.raises(LimitError, match="it was stopped"):
        store.writer.update(UpdateRequest(text.format(far.url), check=check))
    assert time.monotonic() - began < 8 and store.reader.quad_count == 0
    store.close()


def test_a_late_answer_of_the_resolver_is_used(resolver: Resolver) -> None:
    threading.Timer(0.3, resolver.go_on.set).start()
    with peer(silent) as far:
        port = int(far.url.rsplit(":", 1)[1].strip("/"))
        connect(SLOW, port, time.monotonic() + 20, never).close()


def test_an_error_of_the_resolver_is_told(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(FetchError, match="Name or service not known"):
        RemoteClient(HOSTS, timeout_s=5).get(f"http://{SLOW}/")


def test_callers_share_the_look_up_of_a_host(resolver: Resolver) -> None:
    for _ in range(5):
        with pytest.raises(TimeoutError):
            addresses(SLOW, 80, time.monotonic() + 0.01, never)
    assert resolver.asked == [SLOW]


def test_hanging_look_ups_take_a_bounded_number_of_threads(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_SHARED_S", 0.0)
    for number in range(60):
        for host in (SLOW, f"{number}.{SLOW}"):
            with pytest.raises(TimeoutError):
                addresses(host, 80 + number, time.monotonic() + 0.001, never)
    assert resolver.asked.count(SLOW) == 2
    assert len(resolver.asked) == 32
    with pytest.raises(ExchangeStoppedError):
        addresses(f"another.{SLOW}", 80, time.monotonic() + 20, stopped)
    resolver.go_on.set()
    assert addresses(f"another.{SLOW}", 80, time.monotonic() + 20, never)


def test_a_host_that_hangs_does_not_hold_others(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SHARED_S", 0.0)
    for port in range(80, 180):
        with pytest.raises(TimeoutError):
            addresses(SLOW, port, time.monotonic() + 0.001, never)
    assert addresses("localhost", 80, time.monotonic() + 20, never)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_needs_no_look_up(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it was looked up"))
    ((_, _, _, _, place),) = addresses(host, 80, time.monotonic() + 5, never)
    assert place[:2] == (host, 80)


def _full_listener() -> tuple[socket.socket, list[socket.socket]]:
    """A listener that takes no further connection: packets of new ones are dropped."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    for _ in range(3):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
        waiting.append(one)
    return listener, waiting


def _connect(port: int, seconds: float, ended: Callable[[], bool]) -> None:
    with Exchanges(ended) as exchanges:
        with exchanges.exchange("GET", f"http://127.0.0.1:{port}/", seconds, headers={}):
            pass


def test_a_connection_that_is_not_answered_ends_in_time() -> None:
    listener, waiting = _full_listener()
    with listener:
        port, began = listener.getsockname()[1], time.monotonic()
        with pytest.raises(Exception, match="timed out"):
            _connect(port, 0.4, lambda: False)
        with pytest.raises(ExchangeStoppedError):
            _connect(port, 30, lambda: time.monotonic() - began > 0.8)
        assert time.monotonic() - began < 10
    for one in waiting:
        one.close()


def test_tls_that_is_not_answered_ends_in_time() -> None:
    with peer(silent) as far:
        url, began = far.url.replace("http:", "https:"), time.monotonic()
        with pytest.raises(FetchTimeoutError):
            RemoteClient(AllowedHosts(["127.0.0.1"]), timeout_s=0.4).get(url)
        with (
            Exchanges(lambda: time.monotonic() - began > 0.8) as exchanges,
            pytest.raises(ExchangeStoppedError),
        ):
            with exchanges.exchange("GET", url, 30, headers={}):
                pass
        assert time.monotonic() - began < 10


def test_a_connection_is_closed_when_the_caller_stops_before_tls() -> None:
    ours, theirs = socket.socketpair()
    with theirs, pytest.raises(ExchangeStoppedError):
        _BoundedStream(ours, _Bounds(lambda: True)).start_tls(ssl.create_default_context())
    assert ours.fileno() == -1


def test_a_request_that_is_not_read_ends_when_the_caller_stops() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        began, port = time.monotonic(), listener.getsockname()[1]
        with (
            Exchanges(lambda: time.monotonic() - began > 0.3) as exchanges,
            pytest.raises(ExchangeStoppedError),
        ):
            body = bytes(64 << 20)
            with exchanges.exchange("POST", f"http://127.0.0.1:{port}/", 30, headers={}, content=body):
                pass
        assert time.monotonic() - began < 10


def test_the_second_address_is_tried_when_the_first_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    listener, waiting = _full_listener()
    with listener, socket.create_server(("127.0.0.1", 0)) as other:
        both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each.getsockname()) for each in (listener, other)]
        monkeypatch.setattr(connections, "_LOOKUPS", connections._Lookups())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        with connect("two.example", 80, time.monotonic() + 1.0, never) as sock:
            assert sock.getpeername() == other.getsockname()
    for one in waiting:
        one.close()


def test_tls_is_spoken_and_an_unknown_authority_refused(tmp_path: Path) -> None:
    authority, certificate, key = authority_and_server(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bounds = _Bounds(lambda: False)
    bounds.begin(20)
    pool = httpcore.ConnectionPool(
        ssl_context=ssl.create_default_context(cafile=authority), network_backend=_Backend(bounds)
    )
    url, body = f"https://localhost:{server.server_port}/", bytes(range(256)) * 4_096
    with pool:
        assert pool.request("POST", url, content=body).content == body
    with pytest.raises(FetchError, match="(?i)certificate"):
        RemoteClient(AllowedHosts(["localhost"]), timeout_s=20).get(url)
    server.shutdown()
    server.server_close()
