"""A WebSocket (RFC 6455) whose messages are pushes, each answered by a message."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason, FrameProtocol
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import StoreUnwritableError

from ..http.problems import problem
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner
from .live_push import (
    NDJSON,
    EndingError,
    LivePush,
    PushLimits,
    PushMessage,
    RevokedError,
    acknowledgement,
    line_of,
)

N_QUADS = "application/n-quads"
_PINGS = 3
"""A client that has answered none of so many is gone."""


class MessagePush(LivePush):
    """The messages of one WebSocket, each a push by itself, all or nothing; a wrong one ends nothing."""

    def __init__(
        self,
        connection: Connection,
        home: ConnectionOwner,
        streams: StreamService,
        call: PushCall,
        limits: PushLimits,
        handshake: bytes,
    ) -> None:
        """Make one; ``handshake`` is what the client is answered first."""
        super().__init__(connection, home, streams, call, limits._replace(idle_seconds=limits.ping_seconds))
        self.unsent += handshake
        self._frames = Frames(ConnectionType.SERVER)
        self._messages: deque[PushMessage] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._count_of_messages = 0
        self._pings = 0
        self._goodbye: CloseConnection | None = None
        self._written = FrameProtocol(client=False, extensions=[])

    def open(self, now: float) -> None:
        """Begin: what came behind the request are frames."""
        data, self.connection.data = bytes(self.connection.data), b""
        self.heard = now
        self.feed(data)
        self.work(now)

    def feed(self, data: bytes) -> None:
        """Take frames."""
        self._pings = 0
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                if isinstance(event, TextMessage):
                    self._text(event)
                elif isinstance(event, BytesMessage):
                    self._close_later(CloseReason.UNSUPPORTED_DATA, "messages are text")
                elif isinstance(event, Ping):
                    self.unsent += self._frames.send(event.response())
                elif isinstance(event, CloseConnection):
                    self._goodbye = event.response()
                if self._goodbye is not None:
                    return
        except RemoteProtocolError as error:
            hint = error.event_hint
            reason = hint.code if isinstance(hint, CloseConnection) else CloseReason.PROTOCOL_ERROR
            self._close_later(reason, str(error))

    def _text(self, event: TextMessage) -> None:
        data = event.data.encode()
        self._size += len(data)
        if self._size > self.limits.message_bytes:
            most = self.limits.message_bytes
            self._close_later(CloseReason.MESSAGE_TOO_BIG, f"a message may have {most} bytes")
            return
        self._parts.append(data)
        if event.message_finished:
            body = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            # A statement of N-Quads begins with an IRI or a blank node, a line of JSON with a brace.
            media_type = NDJSON if body.lstrip()[:1] == b"{" else N_QUADS
            self._messages.append(PushMessage(body, self._call._replace(media_type=media_type)))

    def next_message(self) -> PushMessage | None:
        """The next message."""
        return self._messages.popleft() if self._messages else None

    def accepted(self, message: PushMessage, answer: dict[str, Any]) -> None:
        """A message is in the log."""
        self._count_of_messages += 1
        self._untold.append({**acknowledgement(answer), "message": self._count_of_messages})

    def refused(self, message: PushMessage, error: Exception) -> None:
        """A message is wrong: the client is told, and may go on."""
        self._count_of_messages += 1
        self._untold.append({**problem(error), "message": self._count_of_messages})

    def after_work(self) -> None:
        """After a goodbye nothing is read."""
        if self._goodbye is not None:
            self.ended = True

    def told(self) -> None:
        """The goodbye comes behind the answers to the messages before it."""
        if self.ended and not self.lost and self._goodbye is not None:
            with contextlib.suppress(LocalProtocolError):  # it is closed already
                self.unsent += self._frames.send(self._goodbye)
            self._goodbye = None

    def framed(self, document: dict[str, Any]) -> bytes:
        """A message with a document."""
        if self._frames.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            return b""
        # RFC 6455 section 5.5.1: until its own goodbye a server may send, which wsproto does not.
        return bytes(self._written.send_data(line_of(document).decode().rstrip("\n")))

    def cut_off(self) -> None:
        """The client is gone without a goodbye."""
        self.ended = True

    def fail(self, error: BaseException) -> None:
        """Say why, and end."""
        self._untold.clear()
        self.number = 0
        self.unsent += self.framed(problem(error))
        code = CloseReason.INTERNAL_ERROR
        if isinstance(error, EndingError):
            code = CloseReason.GOING_AWAY
        elif isinstance(error, RevokedError):
            code = CloseReason.POLICY_VIOLATION
        told = isinstance(error, EndingError | RevokedError | StoreUnwritableError)
        reason = str(error)[:120] if told else ""
        self.ended = True  # what the client still sends is not read
        self._goodbye = None
        if self._frames.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            self.unsent += self._frames.send(CloseConnection(code=code, reason=reason))

    def too_slow(self) -> None:
        """Ask a silent client whether it is there."""
        self._pings += 1
        if self._pings > _PINGS:
            self.lose()
        elif self._frames.state is ConnectionState.OPEN:
            self.unsent += self._frames.send(Ping())

    def _close_later(self, code: int, reason: str) -> None:
        """Say goodbye when the messages that came before are answered."""
        self._goodbye = CloseConnection(code=code, reason=reason[:120])
