"""Push of a chunked request body, whose lines are processed on arrival, and acknowledged if asked."""

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
    """Form of the answer to a push of lines.

    Attributes:
        headers: the HTTP headers that every answer has.
        acknowledges: True if the client wants an acknowledgement of each batch of lines.
        keeps: True if the connection stays open for further requests.
    """

    headers: dict[str, str]
    acknowledges: bool
    keeps: bool


class LinePush(LivePush):
    """Push of the lines of one request body, each an element; an invalid line ends it, earlier lines stay.

    If the client of a push of lines wants acknowledgements, the answer has a line of JSON for each durable
    batch of lines, a problem document for an invalid line, and finally the totals. Each says how many lines
    and bytes of the body it covers, because some proxies drop a part of the body once the answer has begun.
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
        """Create a push of the lines of one request body.

        Args:
            connection: the connection of the client that sends the lines.
            home: the owner that gets the connection back after the push.
            streams: the service that accepts the elements.
            call: the parameters of each batch's push; ``durable`` if the answer waits for the input log.
            limits: the limits of the push on lengths and times.
            chunks: the chunk decoder, with the bytes received so far.
            reply: the form of the answer to the push.
        """
        super().__init__(connection, home, streams, call, limits)
        self._chunks = chunks
        self._reply = reply
        self.totals.lists_bad = not reply.acknowledges
        self._lines = bytearray()
        self._done = self._taken = 0  # lines and bytes of the body that are processed
        self._failure: BaseException | None = None
        self._broken: HttpError | None = None
        self._one_by_one: list[bytes] = []
        self._answered = False
        if reply.acknowledges:
            self._start(HTTPStatus.OK, {"Content-Type": NDJSON, "Transfer-Encoding": "chunked"})

    def feed(self, data: bytes) -> None:
        """Decode received chunks of the request body into lines."""
        chunks = self._chunks
        if data:
            try:
                chunks.feed(data)
            except RefusedError as error:
                # Lines before a damaged chunk are complete and still pushed.
                self._broken = HttpError(error.status, error.detail, code="bad-body")
        self._lines += chunks.decoded
        chunks.decoded.clear()

    def next_message(self) -> PushMessage | None:
        """Return the next batch of complete lines; the last line of the body may lack its line end."""
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
            self._count(body)
        return None

    def _count(self, body: bytes) -> None:
        """Count lines of the request body as processed; only the last line may lack its line end."""
        self._done += body.count(b"\n") + (not body.endswith(b"\n"))
        self._taken += len(body)

    def _reached(self) -> dict[str, int]:
        """Return the lines and bytes of the body up to here; fewer than were sent show a loss on the way."""
        return {"lines": self._done, "bytes": self._taken}

    def accepted(self, message: PushMessage, answer: dict[str, Any]) -> None:
        """Count the lines of an accepted batch, and queue its acknowledgement if the client wants one."""
        for each in answer.get("bad", ()):
            _move(each, ("element", "error"), each.get("line", 1), self._done)
        self._count(message.body)
        if not self._call.durable:
            self.number = 0
            answer["durable"] = False
        if self._reply.acknowledges:
            self._unacknowledged.append(acknowledgement(answer) | self._reached())

    def refused(self, message: PushMessage, error: Exception) -> None:
        """Handle an invalid line in a batch: push the lines before it one by one."""
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
        """End the push at the end of the request body."""
        if self._broken is not None and not self.ended:
            self._fail(self._broken)
        elif self._chunks.ended and not self._lines and not self._one_by_one:
            self.ended = True

    def framed(self, document: dict[str, Any]) -> bytes:
        """Encode a JSON document as an HTTP chunk with one line."""
        line = line_of(document)
        return b"%x\r\n%b\r\n" % (len(line), line)

    def after_acknowledgements(self) -> None:
        """Send the push's final answer: totals or error, both with the counts of accepted elements."""
        if not self.ended or self._answered or self.lost:
            return
        self._answered = True
        document = self.totals.document(durable=self._call.durable) | self._reached()
        status, headers = HTTPStatus.OK, {"Content-Type": "application/json"}
        if self._failure is not None:
            refusal = problem_answer(self._failure)
            problem = json.loads(refusal.body or b"{}")
            if "line" in problem:
                _move(problem, ("detail",), problem["line"], self._done)
            document, status = problem | document, HTTPStatus(refusal.status)
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
        """End the push with an error because the request body ends early; its complete lines stay."""
        self._fail(HttpError(400, "the body of the request ends early", code="bad-body"))

    def fail(self, error: BaseException) -> None:
        """End the push with an error; elements without an acknowledgement may not be durable."""
        self._unacknowledged.clear()
        self.totals.lose()
        self.number = 0
        self._fail(error)

    def revoke(self) -> None:
        """End a push whose token was removed; all accepted elements are durable."""
        self._fail(RevokedError())

    def too_slow(self) -> None:
        """End the push of a client that was silent for too long."""
        self._fail(HttpError(408, "the body of the request came too slowly", code="request-timeout"))

    def leave(self) -> None:
        """Return the connection for further requests, or end it if the body was not read completely."""
        if self._reply.keeps and self._failure is None:
            self.connection.data = self._chunks.rest
            self._home.put(self.connection)
        else:
            self._home.drain(self.connection)


def _move(document: dict[str, Any], texts: tuple[str, ...], line: int, lines_before: int) -> None:
    """Replace an error's line number within a message by the line number in the request body."""
    document["line"] = line + lines_before
    for name in texts:
        if isinstance(text := document.get(name), str):
            document[name] = re.sub(rf"^line {line}\b", f"line {line + lines_before}", text)
