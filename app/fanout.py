"""One thread writes all event streams: a subscriber costs a socket and a bounded buffer, not a thread.

    worker thread --socket, subscription--> fan-out thread --epoll--> clients
    engine, store --"there is something new"--^

A request for ``text/event-stream`` is answered up to its headers in a worker thread, then its socket comes
here. Frames are encoded once per event and shared by all subscribers. A client that is too slow for its
buffer is disconnected and resumes with ``Last-Event-ID``; no event is ever skipped.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from quadrill.continuous.meters import Histogram

log = logging.getLogger("quadrill.fanout")

_HEARTBEAT_FRAME = b": still here\n\n"
_MAX_IOV = 64


class EventSource(Protocol):
    """A subscriber's place in a feed, drained without waiting.

    ``take`` gives the frames that are ready, in order; ``finished`` is True when none will follow;
    ``listen`` registers the function to call, from any thread, when there may be something to take.
    """

    finished: bool

    def take(self) -> list[bytes]: ...  # noqa: D102

    def listen(self, wake: Callable[[], None]) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


class _Client:
    """A socket with the frames that it has not taken yet."""

    __slots__ = ("buffered", "closing", "dirty", "frames", "last_write", "sock", "source", "writing")

    def __init__(self, sock: socket.socket, source: EventSource, head: bytes) -> None:
        self.sock = sock
        self.source = source
        self.frames: deque[bytes | memoryview] = deque([head])
        self.buffered = len(head)
        self.last_write = time.monotonic()
        self.writing = False
        self.closing = False
        self.dirty = True


class Fanout:
    """The fan-out thread. Units: ``heartbeat`` seconds, ``buffer_bytes`` bytes per client."""

    def __init__(
        self, *, heartbeat: float = 15.0, buffer_bytes: int = 1 << 20, max_clients: int = 10_000
    ) -> None:
        self.heartbeat = heartbeat
        self.buffer_bytes = buffer_bytes
        self.max_clients = max_clients
        self.dropped = 0
        self.frames_sent = 0
        # From the first news of a round to its last byte in a socket's buffer, once a round.
        self.latency = Histogram()
        self._news_s: float | None = None
        self._selector = selectors.DefaultSelector()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._selector.register(self._reader, selectors.EVENT_READ, None)
        self._clients: set[_Client] = set()
        self._incoming: deque[_Client] = deque()
        self._ready: deque[_Client] = deque()
        self._woken = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="quadrill-fanout", daemon=True)

    @property
    def clients(self) -> int:
        """How many subscribers there are."""
        return len(self._clients) + len(self._incoming)

    @property
    def buffered(self) -> int:
        """Bytes that wait for slow sockets."""
        return sum(client.buffered for client in list(self._clients))

    @property
    def full(self) -> bool:
        """True when no further subscriber is taken."""
        return self.clients >= self.max_clients

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """Write out what is ready, close every stream and end the thread."""
        if self._thread.ident is None:
            # Never started: there is no thread that would close these at its end.
            self._close_wakers()
            return
        if not self._thread.is_alive():
            return
        self._stopping = True
        self._wake()
        self._thread.join(timeout)

    def adopt(self, sock: socket.socket, source: EventSource, head: bytes) -> None:
        """Take over a connected socket: send ``head`` (status line and headers), then the source's frames."""
        sock.setblocking(False)
        client = _Client(sock, source, head)
        source.listen(lambda: self._mark(client))
        self._incoming.append(client)
        self._wake()

    # --- called from other threads ---------------------------------------------------------------

    def _mark(self, client: _Client) -> None:
        if not client.dirty:
            client.dirty = True
            if self._news_s is None:
                self._news_s = time.perf_counter()
            self._ready.append(client)
            self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with contextlib.suppress(OSError):
                self._writer.send(b"\0")

    # --- the fan-out thread ----------------------------------------------------------------------

    def _run(self) -> None:
        next_sweep = time.monotonic() + self._sweep_interval()
        while not self._stopping:
            wait = max(0.0, next_sweep - time.monotonic())
            for key, events in self._selector.select(wait):
                client: _Client | None = key.data
                if client is None:
                    with contextlib.suppress(BlockingIOError):
                        self._reader.recv(4096)
                    continue
                if events & selectors.EVENT_READ:
                    self._read(client)
                if events & selectors.EVENT_WRITE and client in self._clients:
                    self._write(client)
            # Cleared before the queues are read: a mark that comes later writes to the pipe again.
            self._woken = False
            self._work()
            if time.monotonic() >= next_sweep:
                self._sweep()
                next_sweep = time.monotonic() + self._sweep_interval()
        self._finish()

    def _work(self) -> None:
        while self._incoming:
            client = self._incoming.popleft()
            self._clients.add(client)
            self._selector.register(client.sock, selectors.EVENT_READ, client)
            self._pump(client)
        began, self._news_s = self._news_s, None
        while self._ready:
            client = self._ready.popleft()
            if client in self._clients:
                self._pump(client)
        if began is not None:
            self.latency.observe(time.perf_counter() - began)

    def _pump(self, client: _Client) -> None:
        """Move frames from the source to the client's buffer and write what the socket takes.

        A client is too slow when new events meet a buffer that is over its limit already: an event that is
        larger than the limit by itself still gets through.
        """
        client.dirty = False
        behind = client.buffered > self.buffer_bytes
        try:
            frames = client.source.take()
            finished = client.source.finished
        except Exception:
            log.exception("a feed failed while it was read")
            self._drop(client)
            return
        if frames and behind:
            self.dropped += 1
            self._drop(client)
            return
        client.frames.extend(frames)
        client.buffered += sum(map(len, frames))
        client.closing = client.closing or finished
        self._write(client)

    def _write(self, client: _Client) -> None:
        frames = client.frames
        try:
            while frames:
                batch = [frames[index] for index in range(min(len(frames), _MAX_IOV))]
                sent = client.sock.sendmsg(batch)
                client.buffered -= sent
                while sent:
                    first = len(frames[0])
                    if sent < first:
                        frames[0] = memoryview(frames[0])[sent:]
                        break
                    sent -= first
                    frames.popleft()
                    self.frames_sent += 1
                client.last_write = time.monotonic()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._drop(client)
            return
        if not frames and client.closing:
            self._drop(client)
        elif bool(frames) != client.writing:
            client.writing = bool(frames)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if frames else 0)
            self._selector.modify(client.sock, events, client)

    def _read(self, client: _Client) -> None:
        """A subscriber has nothing more to say: what it sends is dropped, an end closes."""
        try:
            if client.sock.recv(4096):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._clients.discard(client)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.sock)
        with contextlib.suppress(Exception):
            client.source.close()
        with contextlib.suppress(OSError):
            client.sock.shutdown(socket.SHUT_RDWR)
        client.sock.close()

    def _sweep_interval(self) -> float:
        return min(1.0, self.heartbeat / 3)

    def _sweep(self) -> None:
        """Heartbeats for the silent; a client that took nothing for three of them is gone."""
        now = time.monotonic()
        for client in list(self._clients):
            silent = now - client.last_write
            if client.frames and silent > 3 * self.heartbeat:
                self._drop(client)
            elif not client.frames and silent >= self.heartbeat:
                client.frames.append(_HEARTBEAT_FRAME)
                client.buffered += len(_HEARTBEAT_FRAME)
                self._write(client)

    def _finish(self) -> None:
        self._work()
        for client in list(self._clients):
            self._drop(client)
        self._close_wakers()

    def _close_wakers(self) -> None:
        self._selector.close()
        self._reader.close()
        self._writer.close()


def frame(*, kind: str | None, data: str, event_id: int | None = None) -> bytes:
    """One Server-Sent Event; ``data`` must be one line."""
    lines = []
    if event_id is not None:
        lines.append(f"id: {event_id}\n")
    if kind is not None:
        lines.append(f"event: {kind}\n")
    lines.append(f"data: {data}\n\n")
    return "".join(lines).encode("utf-8")


def blocking_stream(source: EventSource, *, head: bytes, heartbeat: float) -> Iterator[bytes]:
    """The frames of a source as a generator that waits, for servers that cannot hand a socket over."""
    event = threading.Event()
    source.listen(event.set)
    try:
        if head:
            yield head
        while True:
            event.clear()
            frames = source.take()
            if frames:
                yield b"".join(frames)
            elif source.finished:
                return
            elif not event.wait(heartbeat):
                yield _HEARTBEAT_FRAME
    finally:
        source.close()
