"""Writer process of event streams: receives sockets and frames over one connection and serves the clients.

    server process                         this process, one thread
      ADOPT client, channel, first bytes     epoll --> 1,000 sockets
      (with the file descriptor of the socket)
      PUBLISH channel, frames                one message per result for all subscribers
      FRAMES client, frames
      PAGE client, frames            as FRAMES; the sender then waits for TAKEN
      FINISH client / END channel            close after everything is written
      REVOKE client                          close now, because its token was removed
    <-- GONE client                          the client left, was too slow or got everything
    <-- TAKEN client                         the client received its page
    <-- FIGURES

The writer process shares no interpreter lock with the engine, so subscribers are served while the engine
computes. `broadcast.py`, the script of the writer process, imports only the standard library and starts in
some 20 ms. On systems where processes cannot pass sockets, `Broadcaster.run` does the writer's work in a
thread of the server. The writer process ends when its connection to the server ends: clients then reconnect
with the id of the last event that they received.
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
"""Head of a message with the writer: kind, number of a client or channel, body length, publication time."""
WELCOME = struct.Struct("<IIII??")
"""Start of the body of an ADOPT message, which hands over a socket: channel, three lengths, flags."""
FIGURES_HEAD = struct.Struct("<QQ")
"""Start of the body of a FIGURES message: frames written to clients, bytes buffered for slow clients."""
TOO_SLOW = b"slow"
HEARTBEAT_FRAME = b": still here\n"
"""Heartbeat comment of event streams; no empty line follows, which some clients would read as an event."""
EMPTY_LINE = b"\n"
"""Heartbeat of event streams in lines, such as NDJSON and CSV, whose readers skip empty lines."""
LAST_CHUNK = b"0\r\n\r\n"
PING_FRAME, GOODBYE, GOING_AWAY = b"\x89\x00", b"\x88\x02\x03\xe8", b"\x88\x02\x03\xe9"
"""WebSocket control frames (RFC 6455, 5.5): a ping, and the two close frames of a feed."""
REVOKED = b"\x88\x02\x03\xf0"
"""Close frame (policy violation) for a WebSocket whose access token was removed."""

_MAX_IOV = 64
_READ_BYTES = 1 << 18
_MAX_FDS = 64
_CLOSE, _PING = 8, 9
_MOST_SAID = 64 << 10
"""Maximum bytes of a frame from a WebSocket subscriber; a longer frame closes the connection."""


class Greeting(NamedTuple):
    """First bytes for a new subscriber of an event stream, and the framing of all later bytes.

    Attributes:
        head: status line and headers of the answer, sent at once.
        first: bytes sent directly before the client's first frame.
        heartbeat: bytes for a client that received nothing for a heartbeat period; empty disables heartbeats.
        chunked: True to send frames as HTTP chunks (RFC 9112, 7.1), and an empty chunk at the end.
        messages: True for a WebSocket: the writer answers its pings and sends a close frame at the end.
        permitted: returns False when the client may no longer read; called periodically in the server
            process.
    """

    head: bytes
    first: bytes = b""
    heartbeat: bytes = HEARTBEAT_FRAME
    chunked: bool = False
    messages: bool = False
    permitted: Callable[[], bool] | None = None

    def pack(self, channel: int, frames: bytes = b"") -> bytes:
        """Encode a message that hands a client to the writer; ``frames`` are sent after the greeting."""
        lengths = len(self.head), len(self.first), len(self.heartbeat)
        welcome = WELCOME.pack(channel, *lengths, self.chunked, self.messages)
        return welcome + self.head + self.first + self.heartbeat + frames


class _FeedSocket:
    """The socket of a subscriber of an event stream, with its unsent bytes."""

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
        # Bytes received from a WebSocket client that are not parsed yet; None for clients without a
        # WebSocket.
        self.said: bytearray | None = None
        self.frames: deque[bytes | memoryview] = deque()
        self.buffered = 0
        self.last_write = now
        self.writing = False
        self.closing = False
        self.paged = False


class Broadcaster:
    """Writer of event streams; ``heartbeat`` is in seconds, ``buffer_bytes`` the limit for slow clients."""

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
        """Serve subscribers until a stop message arrives or the server's connection ends, then close all."""
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
        """Send the writer's pending messages to the server; while the connection is full, keep them."""
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
        """Write as many bytes to a subscriber as its socket accepts, and buffer the remaining bytes.

        A client of an event stream is too slow if a new message arrives while more bytes than the limit are
        buffered after the message that the socket is accepting: a single message larger than the limit is
        still delivered.
        """
        if client.first and data is not client.heartbeat:
            data, client.first = client.first + data, b""
        if client.chunked:
            data = as_chunk(data)
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
            self._report_taken(client)
            return
        client.frames.append(memoryview(data)[sent:])
        client.buffered += len(data) - sent
        self._watch(client)

    def _write(self, client: _FeedSocket) -> None:
        """Write buffered bytes to a subscriber's socket that is writable again."""
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
            self._report_taken(client)

    def _report_taken(self, client: _FeedSocket) -> None:
        if client.paged and not client.frames:
            client.paged = False
            self._answers.append(MESSAGE.pack(TAKEN, client.number, 0, 0.0))

    def _watch(self, client: _FeedSocket) -> None:
        """Register a subscriber's socket for write events while it has unsent bytes."""
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
        """Discard the bytes that a subscriber sends; close its connection when it has sent its last byte."""
        try:
            if data := client.sock.recv(4096):
                if client.said is not None:
                    self._read_messages(client, client.said, data)
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._drop(client)

    def _read_messages(self, client: _FeedSocket, said: bytearray, data: bytes) -> None:
        """Read WebSocket frames of a subscriber: answer pings and close frames, discard all other frames."""
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
        """Send heartbeats to idle subscribers; disconnect those that took no bytes for three heartbeats."""
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


def as_chunk(data: bytes) -> bytes:
    """Encode bytes as one HTTP chunk (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def main(arguments: list[str]) -> None:
    """Run the writer process; arguments: descriptor of the connection, heartbeat seconds, buffer bytes."""
    # The writer process ignores signals that a terminal or a supervisor sends to all processes, because the
    # server process ends it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=int(arguments[0]))
    Broadcaster(control, heartbeat=float(arguments[1]), buffer_bytes=int(arguments[2])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
