"""Long-lived push: common base of the pushes of lines of a body and of WebSocket messages.

    bytes received -> messages -> StreamService.accept -> (durable) -> acknowledgement

`LivePush.read` passes the bytes received from a client as messages to the engine. The loop of long-lived
pushes (loop.py) waits once until the messages of all its connections are durable in the input log, and then
calls `acknowledge` of each connection. While the engine's queue is full, or the client does not read its
acknowledgements, the server reads no bytes, and the client blocks in its send.
"""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

from quadrill.continuous.errors import BackPressureError
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import ReportedError

from ..http.errors import HttpError
from ..http.grants import CHECK_SECONDS, Grant
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner

NDJSON = "application/x-ndjson"
PAUSE_SECONDS = 0.02
"""Seconds until a message that met a full queue of the engine is pushed again."""
_MOST_UNSENT = 256 << 10
_RECEIVED_AT_ONCE = 128 << 10
_MOST_VALIDATION_MS = 1_000
"""Maximum time in milliseconds for which shapes validate the elements of one message, because other live
pushes wait; one element may take a tenth of it."""
_MOST_BAD = 10_000
"""Maximum number of invalid elements listed at the end of a push."""
_COUNTS = ("accepted", "late", "dropped", "early", "skipped")


class PushLimits(NamedTuple):
    """Limits of one long-lived push.

    Attributes:
        message_bytes: maximum length of a line or a WebSocket message, in bytes.
        idle_seconds: maximum time without data from the client, in seconds.
        ping_seconds: seconds between two pings to the client of a silent WebSocket.
        grant: the token that opened the push; None without authentication.
    """

    message_bytes: int = 1 << 20
    idle_seconds: float = 300.0
    ping_seconds: float = 15.0
    grant: Grant | None = None


class PushMessage(NamedTuple):
    """Body of one push to the engine, and the number of lines before it."""

    body: bytes
    call: PushCall
    lines_before: int = 0


class PushTotals:
    """Totals of all messages of a long-lived push, with the same members as the answer to one push.

    ``lists_bad`` is True if only the totals list invalid elements, not the acknowledgement of each message.
    """

    def __init__(self, stream: str) -> None:
        self.lists_bad = False
        self._stream = stream
        self._members: dict[str, Any] = {}

    def add(self, answer: dict[str, Any]) -> None:
        """Add the counts in the answer to one message."""
        members = self._members
        for name, value in answer.items():
            if name in _COUNTS:
                members[name] = members.get(name, 0) + value
            elif name == "bad":
                if self.lists_bad:
                    kept = members.setdefault(name, [])
                    kept += value[: _MOST_BAD - len(kept)]
            elif name != "first_seq" or members.get(name) is None:
                members[name] = value if value is not None else members.get(name)

    def document(self, *, durable: bool) -> dict[str, Any]:
        """Return the totals as JSON; before the first message the member ``durable`` is the argument."""
        nothing = {"stream": self._stream, "first_seq": None, "last_seq": None}
        return nothing | {"accepted": 0, "late": 0, "durable": durable, "dropped": 0} | self._members

    def lose(self) -> None:
        """Mark the totals as not durable, because some of the pushed elements may be lost."""
        self._members["durable"] = False


class LivePush:
    """A long-lived push: one connection on which a client pushes many messages; used by one thread.

    Attributes:
        connection: the connection of the client that pushes.
        number: number of the input-log record that must be durable before `acknowledge`; 0 for none.
        unsent: answer bytes that the client has not received yet.
        totals: the counts of elements of all accepted messages.
        ended: True if the server reads no more bytes; the connection is returned after all answers are sent.
        resumes: time at which a paused push continues; 0 if it is not paused.
        heard: time at which bytes were last received or accepted by the client.
        lost: True if the pushing client has disconnected.
    """

    def __init__(
        self,
        connection: Connection,
        home: ConnectionOwner,
        streams: StreamService,
        call: PushCall,
        limits: PushLimits,
    ) -> None:
        self.connection = connection
        self.number = 0
        self.unsent = bytearray()
        self.totals = PushTotals(call.stream)
        self.ended = False
        self.resumes = 0.0
        self.heard = 0.0
        self.lost = False
        self.limits = limits
        self._home = home
        self._streams = streams
        self._call = call
        self._unacknowledged: list[dict[str, Any]] = []
        self._held: PushMessage | None = None
        self._next_check = 0.0

    # --- methods that the loop of long-lived pushes calls ---------------------------------------------------

    @property
    def reads(self) -> bool:
        """True while the server reads further bytes of the push from the client."""
        return not self.ended and self._held is None and len(self.unsent) < _MOST_UNSENT

    def open(self, now: float) -> None:
        """Start the push with the bytes received along with the request."""
        self.heard = now
        self.feed(b"")
        self.work(now)

    def read(self, now: float) -> None:
        """Receive bytes of the client and process the messages in these bytes."""
        try:
            piece = self.connection.socket.recv(_RECEIVED_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lose()
            return
        self.heard = now
        if piece:
            self.feed(piece)
        else:
            self.cut_off()
        self.work(now)

    def work(self, now: float) -> None:
        """Pass complete messages of the push to the engine until the engine's queue is full."""
        self.resumes = 0.0
        while not self.ended or self._held is not None:
            message, self._held = self._held or self.next_message(), None
            if message is None:
                break
            try:
                answer, _, number = self._streams.accept(
                    message.call, message.body, most_ms=_MOST_VALIDATION_MS
                )
            except BackPressureError:
                self._held = message
                self.resumes = now + PAUSE_SECONDS
                return
            except Exception as error:
                self.refused(message, error)
            else:
                self.number = number
                self.accepted(message, answer)
                self.totals.add(answer)
        self.after_work()

    def acknowledge(self) -> None:
        """Acknowledge the messages that the engine accepted and that are durable now."""
        self.number = 0
        pending, self._unacknowledged = self._unacknowledged, []
        for document in pending:
            self.unsent += self.framed(document)
        self.after_acknowledgements()

    def send(self) -> None:
        """Send as many of the unsent answer bytes as the client receives without a wait."""
        try:
            while self.unsent:
                sent = self.connection.socket.send(self.unsent)
                del self.unsent[:sent]
                self.heard = time.monotonic()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lose()

    def lose(self) -> None:
        """Discard acknowledgements and unsent answer bytes, because the client has disconnected."""
        self.ended = self.lost = True
        self.resumes = 0.0
        self._held = None
        self._unacknowledged.clear()
        self.unsent.clear()

    # --- methods that the two kinds of long-lived pushes implement -----------------------------------------

    def feed(self, data: bytes) -> None:
        """Decode bytes received from the client into messages."""
        raise NotImplementedError

    def next_message(self) -> PushMessage | None:
        """Return the next complete message of the client; None if there is none."""
        raise NotImplementedError

    def accepted(self, message: PushMessage, answer: dict[str, Any]) -> None:
        """Handle the answer to a pushed message that the engine accepted and will make durable."""
        raise NotImplementedError

    def refused(self, message: PushMessage, error: Exception) -> None:
        """Handle the error of one message of a push that the engine rejected."""
        raise NotImplementedError

    def after_work(self) -> None:
        """Called after all complete messages of the push were passed to the engine."""

    def framed(self, document: dict[str, Any]) -> bytes:
        """Encode a JSON document in the form in which the client gets acknowledgements."""
        raise NotImplementedError

    def after_acknowledgements(self) -> None:
        """Called after all accepted messages of the push were acknowledged."""

    def cut_off(self) -> None:
        """End the push, because the client has closed its sending side."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """End the push with an error; messages without an acknowledgement may not be durable."""
        raise NotImplementedError

    def check_timeouts(self, now: float) -> None:
        """End the push if its token was removed; end the push of a silent client, or call `too_slow`."""
        grant = self.limits.grant
        if grant is not None and not self.ended and now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            if not grant.holds():
                self._held, self.resumes = None, 0.0
                self.revoke()
                return
        if now - self.heard > self.limits.idle_seconds and self._held is None:
            if self.unsent or self.ended:
                self.lose()
            else:
                self.too_slow()

    def revoke(self) -> None:
        """End the push, because its access token was removed."""
        self.fail(RevokedError())

    def too_slow(self) -> None:
        """Handle a client of a long-lived push that was silent for too long."""
        raise NotImplementedError

    def return_connection(self) -> None:
        """Return or close the connection of the push after the last byte of its answer."""
        if self.lost:
            self._home.close(self.connection)
        else:
            self.leave()

    def leave(self) -> None:
        """Return the connection of the push to its owner, or close it."""
        self._home.drain(self.connection)


def acknowledgement(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the acknowledgement of a message: the answer to a push, with its last sequence number first."""
    members = {name: value for name, value in answer.items() if name not in ("stream", "last_seq")}
    return {"acknowledged": answer["last_seq"], **members}


class EndingError(ReportedError):
    """The error of a long-lived push that ends because the server stops."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("the server stops", hint="Connect again, and send what was not acknowledged.")


class RevokedError(HttpError):
    """The error of a long-lived push whose access token was removed."""

    def __init__(self) -> None:
        super().__init__(401, "the token of this connection was removed", code="unauthorised")


def line_of(document: dict[str, Any]) -> bytes:
    """Encode a JSON document as one line of text."""
    return json.dumps(document, ensure_ascii=False, default=str).encode() + b"\n"


def too_long(what: str, limit: int) -> HttpError:
    """Return the HTTP error 413 for a pushed line or message that is longer than its limit."""
    return HttpError(413, f"{what} may have {limit} bytes, this one has more", code="body-too-large")
