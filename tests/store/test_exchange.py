"""Fetches from hostile peers end at their deadline and at their size, however the bytes are spread."""

from __future__ import annotations

import resource
import time

import pytest

from quadrill.store.errors import LimitError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.network.exchange import Exchanges, ExchangeStoppedError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.remote import FetchError, FetchTimeoutError, RemoteClient, http_fetcher
from tests.hostile_peers import HEAD, Answer, bomb, bytewise, endless, peer, silent, slow_body

HOSTS = AllowedHosts(["127.0.0.1"])
SLOW = {
    "silence": silent,
    "one byte of the head at a time": bytewise(HEAD + b"Content-Length: 0\r\n\r\n"),
    "one byte of the body at a time": slow_body(),
    "one byte of a chunked body at a time": slow_body(HEAD + b"Transfer-Encoding: chunked\r\n"),
    "headers without end": bytewise(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000),
}
LARGE = {
    "a body without end": endless(),
    "a body that unpacks to a thousand times its size": bomb(),
    "deflate": bomb(HEAD + b"X-Also: deflate\r\n"),
}


@pytest.mark.parametrize("answer", SLOW.values(), ids=SLOW)
def test_a_fetch_ends_at_its_deadline(answer: Answer) -> None:
    with peer(answer) as far:
        client, began = RemoteClient(HOSTS, timeout_s=1), time.monotonic()
        with pytest.raises(FetchTimeoutError) as caught:
            client.get(far.url)
        assert time.monotonic() - began < 8
        assert (caught.value.status, caught.value.code) == (504, "fetch-timeout")


@pytest.mark.parametrize("answer", LARGE.values(), ids=LARGE)
def test_a_fetch_ends_at_its_size(answer: Answer) -> None:
    with peer(answer) as far:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(LimitError, match="limit of 1,048,576 bytes"):
            RemoteClient(HOSTS, timeout_s=20, max_bytes=1 << 20).get(far.url)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 << 10


def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    with peer(endless(HEAD + b"Content-Encoding: br\r\n")) as far:
        with pytest.raises(FetchError, match="packed as br"):
            RemoteClient(HOSTS, timeout_s=20).get(far.url)
        assert b"gzip, deflate\r\n" in far.asked[0]


def test_a_head_without_end_is_refused() -> None:
    with peer(endless(b"HTTP/1.1 200 OK\r\nX: y", b"z\r\nX: y" * 1_000)) as far:
        with pytest.raises(FetchError):
            RemoteClient(HOSTS, timeout_s=20).get(far.url)
        assert far.sent < 8 << 20


@pytest.mark.parametrize("answer", [silent, slow_body()])
def test_an_exchange_ends_when_nobody_waits_for_it(answer: Answer) -> None:
    began = time.monotonic()
    with peer(answer) as far, Exchanges(lambda: time.monotonic() - began > 0.5) as exchanges:
        with pytest.raises(ExchangeStoppedError), exchanges.exchange("GET", far.url, 30, headers={}) as found:
            list(found.iter_raw())
        assert time.monotonic() - began < 8


def test_a_load_that_takes_too_long_is_504() -> None:
    with peer(slow_body()) as far:
        store = QuadStore.open(
            None,
            StoreOptions(fetcher=http_fetcher(HOSTS, timeout_s=1), allowed_hosts=AllowedHosts(["127.0.0.1"])),
        )
        with pytest.raises(FetchTimeoutError) as caught:
            store.writer.update(f"LOAD <{far.url}>")
        assert caught.value.status == 504
        store.writer.update(f"LOAD SILENT <{far.url}>")
        store.close()
