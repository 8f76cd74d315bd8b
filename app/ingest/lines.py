"""A chunked body whose lines are taken as they come, and answered at its end or line by line."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any, NamedTuple

from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.push_call import PushCall

from ..http.errors import HttpError
from ..http.problems import problem_answer
from ..server.chunked import ChunkedBody
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner
from ..server.refused import RefusedError
from ..server.reply import head_of
from .live_push import (
    NDJSON,
    LivePush,
    PushLimits,
    PushMessage,
    RevokedError,
    acknowledgement,
    line_of,
    too_long,
)

_BATCH_BYTES = 256 << 10


class LineReply(NamedTuple):
    """How the push of a body's lines is answered.

    Attributes:
        headers: those that every answer carries.
        acknowledges: the client wants an acknowledgement of each batch.
        keeps: the connection may have further requests.
    """

    headers: dict[str, str]
    acknowledges: bool
    keeps: bool


class LinePush(LivePush):
    """The lines of one body. Each is an element; a line that is wrong ends the push, those before it stay.

    Where the client wants acknowledgements the answer is lines, too: one for each batch of lines that is
    durable, a problem document in place of what is wrong, and at last the totals.
    """

    def __init__(
        self,
        connection: Connection,
        home: ConnectionOwner,
        streams: StreamService,
        call: PushCall,
        limits: PushLimits,
        chunks: ChunkedBody,
        reply: LineReply,
    ) -> None:
        """Make one.

        Args:
            connection: of the client.
            home: where it goes afterwards.
            streams: what takes the elements.
            call: the push that each batch of lines is; ``durable`` where the answer waits for a log.
            limits: of the push.
            chunks: the decoder, with what was received so far.
            reply: how the push is answered.
        """
        super().__init__(connection, home, streams, call, limits)
        self._chunks = chunks
        self._reply = reply
        self.totals.lists_bad = not reply.acknowledges
        self._lines = bytearray()
        self._done = 0
        self._failure: BaseException | None = None
        self._broken: HttpError | None = None
        self._one_by_one: list[bytes] = []
        self._answered = False
        if reply.acknowledges:
            self._start(HTTPStatus.OK, {"Content-Type": NDJSON, "Transfer-Encoding": "chunked"})

    def feed(self, data: bytes) -> None:
        """Decode chunks."""
        chunks = self._chunks
        if data:
            try:
                chunks.feed(data)
            except RefusedError as error:
                # What came before it is whole.
                self._broken = HttpError(error.status, error.detail, code="bad-body")
        self._lines += chunks.decoded
        chunks.decoded.clear()

    def next_message(self) -> PushMessage | None:
        """Whole lines; at the end of the body the last one need not end."""
        if self._one_by_one:
            return PushMessage(self._one_by_one.pop(0), self._call, self._done)
        lines, most = self._lines, self.limits.message_bytes
        batch = min(_BATCH_BYTES, most)
        while lines:
            end = lines.rfind(b"\n", 0, batch) + 1 or lines.find(b"\n", batch, most) + 1
            if not end and self._chunks.ended and len(lines) <= most:
                end = len(lines)
            if not end:
                if len(lines) > most:
                    self._fail(too_long("a line", most))
                return None
            body = bytes(lines[:end])
            del lines[:end]
            if body.strip():
                return PushMessage(body, self._call, self._done)
            self._done += body.count(b"\n")
        return None

    def accepted(self, message: PushMessage, answer: dict[str, Any]) -> None:
        """Lines are in the log."""
        for each in answer.get("bad", ()):
            _move(each, ("element", "error"), each.get("line", 1), self._done)
        self._done += message.body.count(b"\n")
        if not self._call.durable:
            self.number = 0
            answer["durable"] = False
        if self._reply.acknowledges:
            self._untold.append(acknowledgement(answer))

    def refused(self, message: PushMessage, error: Exception) -> None:
        """One of some lines is wrong: those before it are taken, one by one."""
        lines = message.body.splitlines(keepends=True)
        if len(lines) > 1:
            self._one_by_one = lines
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._one_by_one.clear()
        self._lines.clear()
        self.ended = True

    def after_work(self) -> None:
        """The end of the body is the end of the push."""
        if self._broken is not None and not self.ended:
            self._fail(self._broken)
        elif self._chunks.ended and not self._lines and not self._one_by_one:
            self.ended = True

    def framed(self, document: dict[str, Any]) -> bytes:
        """A chunk with a line."""
        line = line_of(document)
        return b"%x\r\n%b\r\n" % (len(line), line)

    def told(self) -> None:
        """At the end of the push: its answer, or what was wrong, with what was accepted in any case."""
        if not self.ended or self._answered or self.lost:
            return
        self._answered = True
        document = self.totals.document(durable=self._call.durable)
        status, headers = HTTPStatus.OK, {"Content-Type": "application/json"}
        if self._failure is not None:
            refusal = problem_answer(self._failure)
            told = json.loads(refusal.body or b"{}")
            if "line" in told:
                _move(told, ("detail",), told["line"], self._done)
            document, status = told | document, HTTPStatus(refusal.status)
            headers = refusal.headers
        if self._reply.acknowledges:
            self.unsent += self.framed(document) + b"0\r\n\r\n"
        else:
            body = line_of(document)
            self._start(status, headers | {"Content-Length": str(len(body))})
            self.unsent += body

    def _start(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        given = self._reply.headers | headers
        if not self._reply.keeps or self._failure is not None:
            given["Connection"] = "close"
        self.unsent += head_of(status, given)

    def cut_off(self) -> None:
        """The body ends early: what came of it stays."""
        self._fail(HttpError(400, "the body of the request ends early", code="bad-body"))

    def fail(self, error: BaseException) -> None:
        """What was not told is not known to be durable."""
        self._untold.clear()
        self.totals.lose()
        self.number = 0
        self._fail(error)

    def revoke(self) -> None:
        """End a push whose token was removed; all that was taken is durable."""
        self._fail(RevokedError())

    def too_slow(self) -> None:
        """End who says nothing."""
        self._fail(HttpError(408, "the body of the request came too slowly", code="request-timeout"))

    def leave(self) -> None:
        """The connection may have further requests, unless its body was not read to the end."""
        if self._reply.keeps and self._failure is None:
            self.connection.data = self._chunks.rest
            self._home.put(self.connection)
        else:
            self._home.drain(self.connection)


def _move(document: dict[str, Any], texts: tuple[str, ...], line: int, lines_before: int) -> None:
    """Have a document name a line of the body, also in its texts, instead of that line of a message."""
    document["line"] = line + lines_before
    for name in texts:
        if isinstance(text := document.get(name), str):
            document[name] = re.sub(rf"^line {line}\b", f"line {line + lines_before}", text)
