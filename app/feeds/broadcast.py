"""The process that writes event streams: sockets and frames come in over one connection, bytes go out.

    server process                         this process, one thread
      ADOPT client, channel, first bytes     epoll --> 1,000 sockets
      (the socket itself goes along)
      PUBLISH channel, frames                one message a result, however many subscribers
      FRAMES client, frames
      PAGE client, frames            as FRAMES, and more waits until it has taken them
      FINISH client / END channel            close when everything is written
      REVOKE client                          close now: its token was removed
    <-- GONE client                          it has left, was too slow or got everything
    <-- TAKEN client                         a page
    <-- FIGURES

It shares no interpreter lock with the engine, so that subscribers are served while that computes. Run as a
script by its path it needs the standard library alone and starts in some hundredths of a second;
`Broadcaster.run` in a thread does the same work where processes cannot pass sockets on. It ends when the
connection does: clients then connect again, with the id of the last event that they saw.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

ADOPT, PUBLISH, FRAMES, FINISH, END, STOP, PAGE, REVOKE = range(8)
GONE, FIGURES, TAKEN = range(3)
MESSAGE = struct.Struct("<BIId")
"""Kind, number of a client or channel, length of what follows, and when it was news (monotonic clock)."""
WELCOME = struct.Struct("<IIII??")
"""Of an ADOPT: the channel, the lengths of `Greeting.head`, ``first`` and ``heartbeat``; its two flags."""
FIGURES_HEAD = struct.Struct("<QQ")
"""Frames written to clients, bytes that wait for slow ones; then the seconds of each delivery, as doubles."""
TOO_SLOW = b"slow"
HEARTBEAT_FRAME = b": still here\n"
"""A comment without an empty line behind it: some clients take that for an event without data."""
LAST_CHUNK = b"0\r\n\r\n"
PING_FRAME, GOODBYE, GOING_AWAY = b"\x89\x00", b"\x88\x02\x03\xe8", b"\x88\x02\x03\xe9"
"""Of a WebSocket (RFC 6455, 5.5): a ping, and the two ways in which a feed ends."""
REVOKED = b"\x88\x02\x03\xf0"
"""The close frame of a WebSocket whose token was removed: policy violation."""

_MAX_IOV = 64
_READ_BYTES = 1 << 18
_MAX_FDS = 64
_CLOSE, _PING = 8, 9
_MOST_SAID = 64 << 10
"""A subscriber of a WebSocket has nothing to say: a longer frame ends its connection."""


class Greeting(NamedTuple):
    """What a client gets before anything else, and how it gets the rest.

    Attributes:
        head: status line and headers, sent at once.
        first: stands before its first frame.
        heartbeat: what it gets when it has got nothing for a while; nothing is sent when this is empty.
        chunked: frames are chunks (RFC 9112, 7.1), and a last one tells the end.
        messages: it is a WebSocket: frames are such, its pings are answered, and a goodbye tells the end.
        permitted: whether the client may still read; asked in the server process from time to time.
    """

    head: bytes
    first: bytes = b""
    heartbeat: bytes = HEARTBEAT_FRAME
    chunked: bool = False
    messages: bool = False
    permitted: Callable[[], bool] | None = None

    def pack(self, channel: int, frames: bytes = b"") -> bytes:
        """The body of an ADOPT; ``frames`` are sent at once, too."""
        lengths = len(self.head), len(self.first), len(self.heartbeat)
        welcome = WELCOME.pack(channel, *lengths, self.chunked, self.messages)
        return welcome + self.head + self.first + self.heartbeat + frames


class _FeedSocket:
    """A socket with what it has not taken yet."""

    __slots__ = (
        "buffered",
        "channel",
        "chunked",
        "closing",
        "first",
        "frames",
        "heartbeat",
        "last_write",
        "number",
        "paged",
        "said",
        "sock",
        "writing",
    )

    def __init__(self, number: int, sock: socket.socket, channel: int, now: float) -> None:
        self.number = number
        self.sock = sock
        self.channel = channel
        self.first = self.heartbeat = b""
        self.chunked = False
        # What a client of a WebSocket has said and is not read yet; None for others.
        self.said: bytearray | None = None
        self.frames: deque[bytes | memoryview] = deque()
        self.buffered = 0
        self.last_write = now
        self.writing = False
        self.closing = False
        self.paged = False


class Broadcaster:
    """Writes frames to clients. Units: ``heartbeat`` seconds, ``buffer_bytes`` bytes per client."""

    def __init__(self, control: socket.socket, *, heartbeat: float, buffer_bytes: int) -> None:
        self._control = control
        self._heartbeat = heartbeat
        self._buffer_bytes = buffer_bytes
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, _FeedSocket] = {}
        self._channels: dict[int, dict[int, _FeedSocket]] = {}
        self._incoming = bytearray()
        self._sockets: deque[int] = deque()
        self._answers: list[bytes] = []
        self._deliveries: list[float] = []
        self._written = 0
        self._stopping = False

    def run(self) -> None:
        """Work until told to stop or the connection ends, then close everything."""
        self._control.setblocking(False)
        self._selector.register(self._control, selectors.EVENT_READ, None)
        interval = min(1.0, self._heartbeat / 3)
        next_sweep = time.monotonic() + interval
        try:
            while not self._stopping:
                for key, events in self._selector.select(max(0.0, next_sweep - time.monotonic())):
                    client: _FeedSocket | None = key.data
                    if client is None:
                        self._listen()
                        continue
                    if events & selectors.EVENT_READ:
                        self._read(client)
                    if events & selectors.EVENT_WRITE and client.number in self._clients:
                        self._write(client)
                if time.monotonic() >= next_sweep:
                    self._sweep()
                    next_sweep = time.monotonic() + interval
                self._answer()
        finally:
            self._close()

    # --- messages ---------------------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            data, sockets, _, _ = socket.recv_fds(self._control, _READ_BYTES, _MAX_FDS)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, sockets = b"", []
        self._sockets.extend(sockets)
        if not data:
            self._stopping = True
            return
        incoming = self._incoming
        incoming += data
        place, end = 0, len(incoming)
        while end - place >= MESSAGE.size:
            kind, number, length, news = MESSAGE.unpack_from(incoming, place)
            begin = place + MESSAGE.size
            if end - begin < length:
                break
            place = begin + length
            self._take(kind, number, bytes(incoming[begin:place]), news)
        del incoming[:place]

    def _take(self, kind: int, number: int, data: bytes, news: float) -> None:
        if kind == PUBLISH:
            for client in list(self._channels.get(number, {}).values()):
                self._send(client, data)
            self._deliveries.append(time.monotonic() - news)
        elif kind == ADOPT:
            self._adopt(number, data)
        elif kind in (FRAMES, PAGE):
            if number in self._clients:
                client = self._clients[number]
                client.paged = client.paged or kind == PAGE
                self._send(client, data)
                self._deliveries.append(time.monotonic() - news)
        elif kind == FINISH:
            if number in self._clients:
                self._finish(self._clients[number])
        elif kind == REVOKE:
            if number in self._clients:
                self._finish(self._clients[number], REVOKED)
                if number in self._clients:
                    self._drop(self._clients[number])
        elif kind == END:
            for client in list(self._channels.pop(number, {}).values()):
                self._finish(client)
        else:
            self._stopping = True

    def _adopt(self, number: int, data: bytes) -> None:
        sock = socket.socket(fileno=self._sockets.popleft())
        sock.setblocking(False)
        channel, *lengths, chunked, messages = WELCOME.unpack_from(data)
        parts, place = [], WELCOME.size
        for length in lengths:
            parts.append(data[place : place + length])
            place += length
        client = self._clients[number] = _FeedSocket(number, sock, channel, time.monotonic())
        if channel:
            self._channels.setdefault(channel, {})[number] = client
        self._selector.register(sock, selectors.EVENT_READ, client)
        head, first, client.heartbeat = parts
        self._send(client, head)
        client.first, client.chunked = first, chunked
        client.said = bytearray() if messages else None
        if place < len(data) and number in self._clients:
            self._send(client, data[place:])

    def _answer(self) -> None:
        """Tell the server process what has happened; a full connection keeps it for the next round."""
        while self._answers:
            try:
                sent = self._control.send(self._answers[0])
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._stopping = True
                return
            if sent < len(self._answers[0]):
                self._answers[0] = self._answers[0][sent:]
                return
            self._answers.pop(0)

    # --- clients ----------------------------------------------------------------------------------

    def _send(self, client: _FeedSocket, data: bytes) -> None:
        """Write to a client what it takes at once and keep the rest.

        A client is too slow when something new meets more than the limit behind the message that it is just
        taking: one that is larger than the limit by itself still gets through.
        """
        if client.first and data is not client.heartbeat:
            data, client.first = client.first + data, b""
        if client.chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if client.frames:
            if client.buffered - len(client.frames[0]) > self._buffer_bytes:
                self._drop(client, TOO_SLOW)
                return
            client.frames.append(data)
            client.buffered += len(data)
            return
        try:
            sent = client.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._drop(client)
            return
        if sent:
            client.last_write = time.monotonic()
        if sent == len(data):
            self._written += 1
            self._tell_taken(client)
            return
        client.frames.append(memoryview(data)[sent:])
        client.buffered += len(data) - sent
        self._watch(client)

    def _write(self, client: _FeedSocket) -> None:
        """The socket takes more."""
        frames = client.frames
        try:
            while frames:
                batch = [frames[index] for index in range(min(len(frames), _MAX_IOV))]
                sent = client.sock.sendmsg(batch)
                client.buffered -= sent
                client.last_write = time.monotonic()
                while sent:
                    first = len(frames[0])
                    if sent < first:
                        frames[0] = memoryview(frames[0])[sent:]
                        break
                    sent -= first
                    frames.popleft()
                    self._written += 1
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._drop(client)
            return
        if not frames and client.closing:
            self._drop(client)
        else:
            self._watch(client)
            self._tell_taken(client)

    def _tell_taken(self, client: _FeedSocket) -> None:
        if client.paged and not client.frames:
            client.paged = False
            self._answers.append(MESSAGE.pack(TAKEN, client.number, 0, 0.0))

    def _watch(self, client: _FeedSocket) -> None:
        """Ask for writability while something waits."""
        if bool(client.frames) != client.writing:
            client.writing = bool(client.frames)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.writing else 0)
            self._selector.modify(client.sock, events, client)

    def _finish(self, client: _FeedSocket, goodbye: bytes = GOODBYE) -> None:
        if client.closing:
            return
        client.closing = True
        if client.chunked:
            client.chunked, client.first = False, b""
            self._send(client, LAST_CHUNK)
        elif client.said is not None:
            self._send(client, goodbye)
        if client.number not in self._clients:
            return
        if not client.frames:
            self._drop(client)

    def _read(self, client: _FeedSocket) -> None:
        """A subscriber has nothing more to say: what it sends is dropped, an end closes."""
        try:
            if data := client.sock.recv(4096):
                if client.said is not None:
                    self._hear(client, client.said, data)
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._drop(client)

    def _hear(self, client: _FeedSocket, said: bytearray, data: bytes) -> None:
        """Read the frames of a WebSocket: a ping is answered, a goodbye as well; the rest is dropped."""
        said += data
        while len(said) >= 2 and client.number in self._clients:
            opcode, size = said[0] & 15, said[1] & 127
            extended = {126: 2, 127: 8}.get(size, 0)
            begin = 2 + extended + 4
            if extended:
                size = int.from_bytes(said[2 : 2 + extended], "big")
            if not said[1] & 128 or size > _MOST_SAID:
                self._drop(client)
                return
            if len(said) < begin + size:
                return
            mask, masked = said[begin - 4 : begin], said[begin : begin + min(size, 125)]
            del said[: begin + size]
            if opcode not in (_CLOSE, _PING):
                continue
            payload = bytes(byte ^ mask[at & 3] for at, byte in enumerate(masked))
            if opcode == _PING:
                self._send(client, bytes((0x8A, len(payload))) + payload)
            else:
                client.said = None
                self._send(client, bytes((0x88, len(payload[:2]))) + payload[:2])
                if client.number in self._clients:
                    self._finish(client)

    def _drop(self, client: _FeedSocket, why: bytes = b"") -> None:
        if self._clients.pop(client.number, None) is None:
            return
        self._channels.get(client.channel, {}).pop(client.number, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.sock)
        with contextlib.suppress(OSError):
            client.sock.shutdown(socket.SHUT_RDWR)
        client.sock.close()
        self._answers.append(MESSAGE.pack(GONE, client.number, len(why), 0.0) + why)

    def _sweep(self) -> None:
        """Heartbeats for the silent; a client that took nothing for three of them is gone."""
        now = time.monotonic()
        waiting = 0
        for client in list(self._clients.values()):
            silent = now - client.last_write
            waiting += client.buffered
            if client.frames and silent > 3 * self._heartbeat:
                self._drop(client)
            elif client.heartbeat and not client.frames and silent >= self._heartbeat:
                self._send(client, client.heartbeat)
        deliveries, self._deliveries = self._deliveries, []
        figures = FIGURES_HEAD.pack(self._written, waiting)
        figures += struct.pack(f"<{len(deliveries)}d", *deliveries)
        if len(self._answers) < len(self._clients) + 10:
            self._answers.append(MESSAGE.pack(FIGURES, 0, len(figures), 0.0) + figures)

    def _close(self) -> None:
        for client in list(self._clients.values()):
            if client.said is not None:
                self._send(client, GOING_AWAY)
            self._write(client)
            self._drop(client)
        self._sweep()
        self._answer()
        for left in self._sockets:
            os.close(left)
        self._selector.close()
        self._control.close()


def main(arguments: list[str]) -> None:
    """Arguments: number of the connection's file, seconds between heartbeats, bytes kept per client."""
    # The server process ends this one, also where a terminal or a supervisor tells all processes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=int(arguments[0]))
    Broadcaster(control, heartbeat=float(arguments[1]), buffer_bytes=int(arguments[2])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
