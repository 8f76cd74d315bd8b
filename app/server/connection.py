"""One connection of a client, which parses received bytes into requests and sends answers.

A client's connection belongs to one thread at a time: to the connection loop (connection_loop.py) until a
request is complete, then to the worker that answers the request. The socket of a connection never blocks;
callers pass a time limit for each wait.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass

from ..http.request import Request
from . import strict, wire
from .body_stream import SLOWEST_BYTES_PER_SECOND, BodyStream
from .chunked import ChunkedBody
from .proxies import client_behind
from .refused import RefusedError

COLLECTED_BYTES = 64 << 10
"""Bytes of a large body that are received before the request is dispatched to a worker."""
_RECEIVED_AT_ONCE = 16 << 10
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_POLLS = hasattr(select, "poll")
_LINGER, _NO_LINGER = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits for a client in seconds, and the maximum size of a request head.

    Attributes:
        header: maximum seconds for a request head, from its first byte.
        request: maximum seconds for a request (a large body gets more), for a pause of the client in an
            answer, and without a request on an open connection.
        header_bytes: maximum size of a request head in bytes.
    """

    header: float = 5.0
    request: float = 30.0
    header_bytes: int = 64 << 10


class Connection:
    """A TCP connection of a client with its socket, received bytes and current request.

    Attributes:
        socket: the non-blocking socket of the connection.
        address: the IP address of the connection's other end.
        port: the TCP port of the connection's other end.
        client: the client address for limits and the access log: the address that a trusted proxy names in
            its latest request, else ``address``.
        counted_as: the address under which the connection loop counts this connection.
        trusted: True if the connection's other end is a trusted proxy.
        data: bytes that were received on the connection and not parsed yet.
        request: the complete request that a worker has to answer; None without one.
        deadline: time at which the connection loop closes or rejects the waiting connection.
        ended: True after the client has closed its sending side.
        draining: True after the connection's last answer; further received bytes are discarded.
        waits_since: time at which a worker began to wait for the client; 0 if no worker waits. For a client
            below the slowest rate ``waits_since`` is earlier, so that single bytes do not restart the wait.
        handed_over: True after another owner, such as the writer of event streams, has taken over the socket.
        ends_by_reset: True if `close` has to reset the connection, because an answer is incomplete and
            an orderly end would look like its completion.
    """

    __slots__ = (
        *("address", "client", "counted_as", "data", "deadline", "draining", "ended", "ends_by_reset"),
        *("handed_over", "port", "request", "socket", "trusted", "waits_since"),
        *("_behind", "_chunks", "_timeouts", "_poll", "_searched", "_skipped", "_unfinished", "_unread"),
    )

    def __init__(
        self, sock: socket.socket, address: str, port: int, timeouts: Timeouts, *, trusted: bool = False
    ) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.address = self.client = self.counted_as = address
        self.trusted = trusted
        self.port = port
        self.data: bytes | bytearray = b""
        self.request: Request | None = None
        self.deadline = 0.0
        self.ended = False
        self.draining = False
        self.waits_since = 0.0
        self.handed_over = False
        self.ends_by_reset = False
        # Seconds by which the client has exceeded the time that its bytes take at the slowest rate, in
        # sending and receiving.
        self._behind = self._unread = 0.0
        self._timeouts = timeouts
        self._unfinished: Request | None = None
        self._chunks: ChunkedBody | None = None
        self._poll: select.poll | None = None
        self._searched = 0
        self._skipped = False

    @property
    def names_no_client(self) -> bool:
        """True for a trusted proxy that has not named the client of its latest request."""
        return self.trusted and self.client == self.address

    # --- requests -------------------------------------------------------------------------------------------

    @property
    def in_head(self) -> bool:
        """True while a part of a request's head has been received."""
        return bool(self.data) and self._unfinished is None

    @property
    def in_body(self) -> bool:
        """True while a request's head is complete, but its body is not."""
        return self._unfinished is not None

    def receive(self) -> bool:
        """Receive available bytes of the client; return False if it has closed its sending side.

        Raises: OSError if the connection is broken.
        """
        try:
            piece = self.socket.recv(COLLECTED_BYTES if self.data else _RECEIVED_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return True
        if not piece:
            return False
        if not self.data:
            self.data = piece
        else:
            if isinstance(self.data, bytes):
                self.data = bytearray(self.data)
            self.data += piece
        return True

    def next_request(self) -> Request | None:
        """Parse the next request from the received bytes; return None if the request is incomplete.

        The returned request has its whole body, or a stream of a large body whose beginning was received.

        Raises: RefusedError when the received bytes are not an acceptable request.
        """
        request = self._unfinished
        if request is None:
            data = self.data
            if not data:
                return None
            if not self._searched and isinstance(data, bytes):
                # Most frequently an ordinary request has arrived in one piece.
                request = wire.parse(data)
                if request is not None and request.body_at <= self._timeouts.header_bytes:
                    size = request.body_at + request.fields.body_length
                    if len(data) >= size:
                        request.body = data[request.body_at : size]
                        self.data = data[size:]
                        self._skipped = False
                        self._unread = 0.0
                        if self.trusted:
                            self._see_client(request)
                        return request
            request = self._unfinished = self._head()
            if request is None:
                return None
            if self.trusted:
                self._see_client(request)
            if request.fields.chunked:
                self._chunks = ChunkedBody()
            if request.fields.expects and not self.data:
                if self._may_be_refused_unread(request):
                    return self._unread_body(request)
                self.invite()
        whole = (
            self._length_body(request) if self._chunks is None else self._chunked_body(request, self._chunks)
        )
        if not whole:
            return None
        self._unfinished = None
        self._chunks = None
        self._behind = self._unread = 0.0
        return request

    def _see_client(self, request: Request) -> None:
        request.trusted = True
        self.client = client_behind(self.address, request.headers)

    def _head(self) -> Request | None:
        data = self.data
        if not self._skipped and data[:2] == b"\r\n":
            # RFC 9112 section 2.2: a server ignores one empty line before a request.
            data = self.data = data[2:]
            self._skipped = True
        end = data.find(wire.END, max(0, self._searched - len(wire.END)))
        most = self._timeouts.header_bytes
        if end < 0:
            strict.check_begun(data, self._searched)
            self._searched = len(data)
            if len(data) <= most:
                return None
        at = end + len(wire.END)
        if end < 0 or at > most:
            if not 0 <= data.find(b"\r\n") < most:
                raise RefusedError(414, f"the target of a request may have {most} bytes")
            raise RefusedError(413, f"the header of a request may have {most} bytes")
        self._searched = 0
        self._skipped = False
        head = bytes(data[:at])
        self.data = data[at:]
        return wire.parse(head) or strict.read(head)

    def _length_body(self, request: Request) -> bool:
        length, data = request.fields.body_length, self.data
        if len(data) >= length:
            request.body = bytes(data[:length])
            self.data = bytes(data[length:])
            return True
        if length > COLLECTED_BYTES and len(data) >= COLLECTED_BYTES:
            request.stream = BodyStream(self, self._timeouts.request, length, None)
            return True
        return False

    def _chunked_body(self, request: Request, chunks: ChunkedBody) -> bool:
        chunks.feed(self.data)
        self.data = b""
        if wire.in_lines(request):
            request.stream = BodyStream(self, self._timeouts.request, 0, chunks, lines=True)
            return True
        if chunks.ended:
            request.body = bytes(chunks.decoded)
            self.data = chunks.rest
            return True
        if len(chunks.decoded) >= COLLECTED_BYTES:
            request.stream = BodyStream(self, self._timeouts.request, 0, chunks)
            return True
        return False

    def _may_be_refused_unread(self, request: Request) -> bool:
        """Return True if the handler may reject a request before its client sends the large body."""
        fields = request.fields
        return not wire.in_lines(request) and (fields.chunked or fields.body_length > COLLECTED_BYTES)

    def _unread_body(self, request: Request) -> Request:
        """Return a request whose client sends the body only when the handler starts to read the body."""
        length, chunks = request.fields.body_length, self._chunks
        request.stream = BodyStream(self, self._timeouts.request, length, chunks, invited=False)
        self._unfinished = self._chunks = None
        self._behind = self._unread = 0.0
        return request

    def invite(self) -> None:
        """Send ``100 Continue``, which makes a waiting client send the body."""
        with contextlib.suppress(OSError):
            self.socket.send(_CONTINUE)

    # --- methods that wait for the client -------------------------------------------------------------------

    def wait_for_data(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for data from the client; return True if data can be received."""
        if not _POLLS:
            return _wait(self.socket, seconds, writing=False)
        poll = self._poll
        if poll is None:
            poll = self._poll = select.poll()
            poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def receive_more(self, most: int, seconds: float) -> bytes:
        """Receive bytes of a body for a worker; empty if the client has closed its sending side.

        Raises:
            TimeoutError: the client sent nothing for ``seconds``.
            OSError: the client has disconnected.
        """
        waited = 0.0
        try:
            piece = self.socket.recv(most)
        except (BlockingIOError, InterruptedError):
            began = time.monotonic()
            self.waits_since = began - self._behind
            try:
                if seconds <= 0 or not _wait(self.socket, seconds, writing=False):
                    raise TimeoutError("the client sends nothing") from None
                piece = self.socket.recv(most)
            finally:
                self.waits_since = 0.0
            waited = time.monotonic() - began
        # Only the time for which the worker waits for the client counts, not the worker's own work. A client
        # that sent fast gets no credit for later slowness.
        self._behind = max(0.0, self._behind + waited - len(piece) / SLOWEST_BYTES_PER_SECOND)
        return piece

    def send(self, data: bytes) -> None:
        """Send all of ``data``; wait while the client does not receive.

        Raises:
            TimeoutError: the client receives too slowly.
            OSError: the client has disconnected.
        """
        try:
            sent = self.socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:], len(data))
        elif self._unread:
            self._unread = max(0.0, self._unread - sent / SLOWEST_BYTES_PER_SECOND)

    def _send_rest(self, data: memoryview, size: int) -> None:
        """Send the rest of a piece of an answer within a time limit that many small pieces cannot extend."""
        pause, allowed = self._timeouts.request, size / SLOWEST_BYTES_PER_SECOND
        began = time.monotonic() - self._unread
        until = began + pause + allowed
        self.waits_since = began
        try:
            while data:
                left = min(pause, until - time.monotonic())
                if left <= 0 or not _wait(self.socket, left, writing=True):
                    raise TimeoutError("the client receives too slowly")
                with contextlib.suppress(BlockingIOError, InterruptedError):
                    data = data[self.socket.send(data) :]
        finally:
            self.waits_since = 0.0
        self._unread = max(0.0, time.monotonic() - began - allowed)

    # --- the end --------------------------------------------------------------------------------------------

    def end_by_reset(self, wanted: bool) -> None:
        """Make the connection end by a reset (RST) if ``wanted``, else by an ordinary end (FIN).

        The operating system sends the reset of a connection even if the process is killed.
        """
        self.ends_by_reset = wanted
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER if wanted else _NO_LINGER)

    def last_words(self, data: bytes) -> None:
        """Send as much of ``data`` as the client's socket accepts at once, then close the sending side."""
        with contextlib.suppress(OSError):
            if data:
                self.socket.send(data)
            self.socket.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Discard the bytes that the client has sent; return False if it has closed the connection."""
        try:
            return bool(self.socket.recv(1 << 16))
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False

    def take_socket(self) -> socket.socket:
        """Return a duplicate of the client's socket for another owner; this object no longer uses its own."""
        self.handed_over = True
        return self.socket.dup()

    def cut(self) -> None:
        """Shut down the client's socket, from any thread, which ends every wait for the client."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the client's socket; if another owner has taken it over, close only this descriptor."""
        if not (self.handed_over or self.ends_by_reset):
            # A child process may have a copy of the socket's descriptor, and then the client would not notice
            # a mere close.
            self.cut()
        self.socket.close()


def _wait(sock: socket.socket, seconds: float, *, writing: bool) -> bool:
    if _POLLS:
        poll = select.poll()
        poll.register(sock, select.POLLOUT if writing else select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))
    none: list[socket.socket] = []
    return any(select.select(none if writing else [sock], [sock] if writing else none, none, seconds))
