"""A WebSocket (RFC 6455) whose messages are pushes, each answered by a message."""

from __future__ import annotations

from collections import deque
from typing import Any

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from quadrill.continuous.engine import Engine
from quadrill.store.errors import StoreUnwritableError

from ..http.connection import Connection
from ..http.errors import problem
from .live_push import NDJSON, EndingError, Home, Limits, LivePush, Message, Wanted, acknowledgement, line_of

N_QUADS = "application/n-quads"
_PINGS = 3
"""A client that has answered none of so many is gone."""


class MessagePush(LivePush):
    """The messages of one WebSocket, each a push by itself, all or nothing; a wrong one ends nothing."""

    def __init__(
        self,
        connection: Connection,
        home: Home,
        engine: Engine,
        wanted: Wanted,
        limits: Limits,
        handshake: bytes,
    ) -> None:
        """Make one; ``handshake`` is what the client is answered first."""
        super().__init__(connection, home, engine, wanted, limits._replace(idle_seconds=limits.ping_seconds))
        self.unsent += handshake
        self._frames = Frames(ConnectionType.SERVER)
        self._messages: deque[Message] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._count_of_messages = 0
        self._pings = 0

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
                    self._close(CloseReason.UNSUPPORTED_DATA, "messages are text")
                elif isinstance(event, Ping):
                    self.unsent += self._frames.send(event.response())
                elif isinstance(event, CloseConnection):
                    self.unsent += self._frames.send(event.response())
                    self.ended = not self._messages
                if self._frames.state is not ConnectionState.OPEN:
                    return
        except RemoteProtocolError as error:
            hint = error.event_hint
            reason = hint.code if isinstance(hint, CloseConnection) else CloseReason.PROTOCOL_ERROR
            self._close(reason, str(error))

    def _text(self, event: TextMessage) -> None:
        data = event.data.encode()
        self._size += len(data)
        if self._size > self.limits.message_bytes:
            self._close(CloseReason.MESSAGE_TOO_BIG, f"a message may have {self.limits.message_bytes} bytes")
            return
        self._parts.append(data)
        if event.message_finished:
            body = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            # A statement of N-Quads begins with an IRI or a blank node, a line of JSON with a brace.
            media_type = NDJSON if body.lstrip()[:1] == b"{" else N_QUADS
            self._messages.append(Message(body, media_type))

    def next_message(self) -> Message | None:
        """The next message."""
        return self._messages.popleft() if self._messages else None

    def accepted(self, message: Message, answer: dict[str, Any]) -> None:
        """A message is in the log."""
        self._count_of_messages += 1
        self._untold.append({**acknowledgement(answer), "message": self._count_of_messages})

    def refused(self, message: Message, error: Exception) -> None:
        """A message is wrong: the client is told, and may go on."""
        self._count_of_messages += 1
        self._untold.append({**problem(error), "message": self._count_of_messages})

    def after_work(self) -> None:
        """After the client's goodbye nothing follows."""
        if self._frames.state is not ConnectionState.OPEN:
            self.ended = True

    def framed(self, document: dict[str, Any]) -> bytes:
        """A message with a document."""
        try:
            return self._frames.send(TextMessage(data=line_of(document).decode().rstrip("\n")))
        except LocalProtocolError:  # it is closed already
            return b""

    def cut_off(self) -> None:
        """The client is gone without a goodbye."""
        self.ended = True

    def fail(self, error: BaseException) -> None:
        """Say why, and end."""
        self._untold.clear()
        self.number = 0
        self.unsent += self.framed(problem(error))
        stops = isinstance(error, EndingError)
        self._close(
            CloseReason.GOING_AWAY if stops else CloseReason.INTERNAL_ERROR,
            str(error) if isinstance(error, EndingError | StoreUnwritableError) else "",
        )

    def too_slow(self) -> None:
        """Ask a silent client whether it is there."""
        self._pings += 1
        if self._pings > _PINGS:
            self.lose()
        elif self._frames.state is ConnectionState.OPEN:
            self.unsent += self._frames.send(Ping())

    def _close(self, code: int, reason: str) -> None:
        """Say goodbye; what the client still sends is not looked at."""
        self.ended = True
        if self._frames.state is ConnectionState.OPEN:
            self.unsent += self._frames.send(CloseConnection(code=code, reason=reason[:120]))
