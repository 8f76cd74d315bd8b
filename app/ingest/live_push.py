"""A long-lived push: what is common to the lines of a body and the messages of a WebSocket.

    bytes received -> messages -> StreamService.take -> (durable) -> what the client is told

`read` takes what has come and gives it to the engine; the loop (loop.py) waits until the input log has what
all of its connections gave, once for all of them, and then lets each one `tell`. While the engine's queue is
full, or the client does not take what it is told, nothing is read: the client waits in its own send.
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
"""After this time the engine is asked again whether there is room."""
_MOST_UNSENT = 256 << 10
_RECEIVED_AT_ONCE = 128 << 10
_MOST_BAD = 10_000
"""Of the wrong elements of a push so many are listed at its end."""
_COUNTS = ("accepted", "late", "dropped", "skipped")


class PushLimits(NamedTuple):
    """Of one long-lived push.

    Attributes:
        message_bytes: longest line, or message of a WebSocket.
        idle_seconds: how long a client may say nothing.
        ping_seconds: the time between two pings of a WebSocket.
        grant: the token by which it was opened; None for none.
    """

    message_bytes: int = 1 << 20
    idle_seconds: float = 300.0
    ping_seconds: float = 15.0
    grant: Grant | None = None


class PushMessage(NamedTuple):
    """One push for the engine, and how many lines came before it."""

    body: bytes
    call: PushCall
    lines_before: int = 0


class PushTotals:
    """What all pushes of one connection gave, in the members of the answer to a push.

    ``lists_bad`` is True where the client does not get the wrong elements of each push.
    """

    def __init__(self, stream: str) -> None:
        self.lists_bad = False
        self._stream = stream
        self._members: dict[str, Any] = {}

    def add(self, answer: dict[str, Any]) -> None:
        """Count the answer to one push."""
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
        """The answer to all; ``durable`` is given where there was no push."""
        nothing = {"stream": self._stream, "first_seq": None, "last_seq": None}
        return nothing | {"accepted": 0, "late": 0, "durable": durable, "dropped": 0} | self._members

    def lose(self) -> None:
        """Say that not all of it is known to be durable."""
        self._members["durable"] = False


class LivePush:
    """One connection that pushes again and again. Used by one thread.

    Attributes:
        connection: of the client.
        number: what `tell` has to wait for, by `TurnQueue.wait_durable`; 0 for nothing.
        unsent: what the client has not taken yet.
        totals: of all that was accepted.
        ended: nothing more is read; when all is sent the connection goes home.
        resumes: when it is read again, in a pause.
        heard: when something came last, or was taken.
        lost: the client is gone.
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
        self._untold: list[dict[str, Any]] = []
        self._held: PushMessage | None = None
        self._next_check = 0.0

    # --- for the loop ---------------------------------------------------------------------------------------

    @property
    def reads(self) -> bool:
        """True while more is wanted of the client."""
        return not self.ended and self._held is None and len(self.unsent) < _MOST_UNSENT

    def open(self, now: float) -> None:
        """Begin: take what came with the request."""
        self.heard = now
        self.feed(b"")
        self.work(now)

    def read(self, now: float) -> None:
        """Take what has come."""
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
        """Give the engine what is whole, until it has no room."""
        self.resumes = 0.0
        while not self.ended or self._held is not None:
            message, self._held = self._held or self.next_message(), None
            if message is None:
                break
            try:
                answer, _, number = self._streams.accept(message.call, message.body)
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

    def tell(self) -> None:
        """What was accepted is durable: say so."""
        self.number = 0
        told, self._untold = self._untold, []
        for document in told:
            self.unsent += self.framed(document)
        self.told()

    def send(self) -> None:
        """Send what the client takes; once all is sent and nothing more comes the connection goes home."""
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
        """The client is gone."""
        self.ended = self.lost = True
        self.resumes = 0.0
        self._held = None
        self._untold.clear()
        self.unsent.clear()

    # --- what the two kinds do ------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes of the client."""
        raise NotImplementedError

    def next_message(self) -> PushMessage | None:
        """What is whole and was not given yet."""
        raise NotImplementedError

    def accepted(self, message: PushMessage, answer: dict[str, Any]) -> None:
        """A message is in the log, and will be durable."""
        raise NotImplementedError

    def refused(self, message: PushMessage, error: Exception) -> None:
        """A message is not."""
        raise NotImplementedError

    def after_work(self) -> None:
        """Everything that is whole was given."""

    def framed(self, document: dict[str, Any]) -> bytes:
        """A document for the client."""
        raise NotImplementedError

    def told(self) -> None:
        """Everything that was accepted was told."""

    def cut_off(self) -> None:
        """The client has ended its side of the connection."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """Nothing can go on: what was not told is not known to be durable."""
        raise NotImplementedError

    def look(self, now: float) -> None:
        """Look at the clock, now and then: who neither sends nor takes anything is too slow."""
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
        """End a push whose token was removed."""
        self.fail(RevokedError())

    def too_slow(self) -> None:
        """The client has said nothing for too long."""
        raise NotImplementedError

    def go_home(self) -> None:
        """All is said: the connection goes back or ends."""
        if self.lost:
            self._home.close(self.connection)
        else:
            self.leave()

    def leave(self) -> None:
        """Give the connection back, or end it."""
        self._home.drain(self.connection)


def acknowledgement(answer: dict[str, Any]) -> dict[str, Any]:
    """What a client is told of a message: the answer to a push, led by the last seq."""
    members = {name: value for name, value in answer.items() if name not in ("stream", "last_seq")}
    return {"acknowledged": answer["last_seq"], **members}


class EndingError(ReportedError):
    """The server stops."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("the server stops", hint="Connect again, and send what was not acknowledged.")


class RevokedError(HttpError):
    """The token by which a push was opened was removed."""

    def __init__(self) -> None:
        super().__init__(401, "the token of this connection was removed", code="unauthorised")


def line_of(document: dict[str, Any]) -> bytes:
    """A document as one line."""
    return json.dumps(document, ensure_ascii=False, default=str).encode() + b"\n"


def too_long(what: str, limit: int) -> HttpError:
    """The error of a line or message that is over its limit."""
    return HttpError(413, f"{what} may have {limit} bytes, this one has more", code="body-too-large")
