"""Push over a WebSocket (RFC 6455): each message is a push and gets one message as its answer."""

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
"""Number of unanswered WebSocket pings after which a client counts as disconnected."""


class MessagePush(LivePush):
    """Push of WebSocket messages, each accepted or rejected as a whole; the connection stays open."""

    def __init__(
        self,
        connection: Connection,
        home: ConnectionOwner,
        streams: StreamService,
        call: PushCall,
        limits: PushLimits,
        handshake: bytes,
    ) -> None:
        """Create a push over a WebSocket; ``handshake`` is the response that opens the WebSocket."""
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
        """Start the push with the bytes received after the request, which are WebSocket frames."""
        data, self.connection.data = bytes(self.connection.data), b""
        self.heard = now
        self.feed(data)
        self.work(now)

    def feed(self, data: bytes) -> None:
        """Decode received WebSocket frames into messages to push."""
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
            # A message that begins with a brace is JSON, because a statement of N-Quads begins with an IRI or
            # a blank node.
            media_type = NDJSON if body.lstrip()[:1] == b"{" else N_QUADS
            self._messages.append(PushMessage(body, self._call._replace(media_type=media_type)))

    def next_message(self) -> PushMessage | None:
        """Return the next complete WebSocket message; None if there is none."""
        return self._messages.popleft() if self._messages else None

    def accepted(self, message: PushMessage, answer: dict[str, Any]) -> None:
        """Queue the acknowledgement of a WebSocket message that the engine accepted."""
        self._count_of_messages += 1
        self._unacknowledged.append({**acknowledgement(answer), "message": self._count_of_messages})

    def refused(self, message: PushMessage, error: Exception) -> None:
        """Queue the error of a WebSocket message that was rejected; the connection stays open."""
        self._count_of_messages += 1
        self._unacknowledged.append({**problem(error), "message": self._count_of_messages})

    def after_work(self) -> None:
        """End the push if a WebSocket close frame was received or is due."""
        if self._goodbye is not None:
            self.ended = True

    def after_acknowledgements(self) -> None:
        """Send the WebSocket's close frame after the answers to all earlier messages."""
        if self.ended and not self.lost and self._goodbye is not None:
            with contextlib.suppress(LocalProtocolError):  # the WebSocket connection is already closed
                self.unsent += self._frames.send(self._goodbye)
            self._goodbye = None

    def framed(self, document: dict[str, Any]) -> bytes:
        """Encode a JSON document as a WebSocket text message."""
        if self._frames.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            return b""
        # By RFC 6455, 5.5.1, a server may send messages until its own close frame, but the library wsproto
        # does not.
        return bytes(self._written.send_data(line_of(document).decode().rstrip("\n")))

    def cut_off(self) -> None:
        """End the push, because the client has disconnected without a WebSocket close frame."""
        self.ended = True

    def fail(self, error: BaseException) -> None:
        """Send the error and a WebSocket close frame with the reason, and end the push."""
        self._unacknowledged.clear()
        self.number = 0
        self.unsent += self.framed(problem(error))
        code = CloseReason.INTERNAL_ERROR
        if isinstance(error, EndingError):
            code = CloseReason.GOING_AWAY
        elif isinstance(error, RevokedError):
            code = CloseReason.POLICY_VIOLATION
        named = isinstance(error, EndingError | RevokedError | StoreUnwritableError)
        reason = str(error)[:120] if named else ""
        self.ended = True  # the server reads no later bytes of the client
        self._goodbye = None
        if self._frames.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            self.unsent += self._frames.send(CloseConnection(code=code, reason=reason))

    def too_slow(self) -> None:
        """Send a WebSocket ping to a silent client; disconnect it after unanswered pings."""
        self._pings += 1
        if self._pings > _PINGS:
            self.lose()
        elif self._frames.state is ConnectionState.OPEN:
            self.unsent += self._frames.send(Ping())

    def _close_later(self, code: int, reason: str) -> None:
        """Schedule a WebSocket close frame after the answers to all earlier messages."""
        self._goodbye = CloseConnection(code=code, reason=reason[:120])
