"""Answers of any size: serialised straight to the client, within limits, and never half an answer.

The first 64 KiB are held back. An answer that ends within them gets a Content-Length, and an error or a
time-out within them is still an ordinary problem document. Beyond them the answer is chunked, and an error
breaks the connection without the final chunk, which every HTTP client reports.
"""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from flask import Response

from quadrill.store.errors import QuadrillError

from . import errors
from .errors import HttpError
from .server import AnswerBrokenError

HEAD_BYTES = 64 << 10
COMPRESS_FROM_BYTES = 1024
COMPRESSION_LEVEL = 1


class Sink(Protocol):
    """What a serialiser writes to. An exception from ``write`` stops the evaluation behind it."""

    def write(self, data: bytes) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Limits:
    """What one answer may cost: ``seconds`` of evaluation and sending, bytes and rows, 0 for no limit."""

    seconds: float
    max_bytes: int = 0
    max_rows: int = 0


Body = Callable[[Sink], None]

# What stands once between two rows, or after each, and nowhere else. In JSON a quotation mark inside a string
# is always escaped, and only rows are objects in an array. The other RDF formats are limited by bytes.
ROW_MARKS = {"json": b'}},{"', "xml": b"<result>", "csv": b"\r\n", "tsv": b"\n", "nt": b"\n", "nq": b"\n"}


def count_rows(sink: Sink, format_name: str) -> None:
    """Tell the sink by what to count the rows of the format that follows."""
    if isinstance(sink, _AnswerSink):
        sink.row_mark = ROW_MARKS.get(format_name, b"")


class StreamedAnswer(Response):
    """A response whose body is produced while it is sent.

    ``body`` writes the whole answer to the sink that it is given, in the calling thread: Oxigraph's result
    iterators must not change threads. Headers set on this object go out with whatever is answered.
    """

    def __init__(
        self,
        body: Body,
        *,
        content_type: str,
        limits: Limits,
        compress: bool = False,
        head_only: bool = False,
        cancelled: Callable[[], BaseException | None] = lambda: None,
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(b"", content_type=content_type)
        del self.headers["Content-Length"]
        self._body = body
        self._limits = limits
        self._compress = compress
        self._head_only = head_only
        self._cancelled = cancelled
        self._finished = finished

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The WSGI application: produce, send, and tell every ending apart."""
        sink = _AnswerSink(
            self, start_response, self._limits, self._compress, self._head_only, self._cancelled
        )
        try:
            self._body(sink)
            return sink.finish()
        except Exception as error:
            cause = sink.stopped or error
            # The traceback holds on to Oxigraph's iterator, which must be let go in this very thread.
            traceback.clear_frames(error.__traceback__)
            if isinstance(cause, _HeadIsEnough):
                return sink.head_only_answer()
            if sink.started:
                if isinstance(cause, OSError):
                    raise cause from None  # the client is gone
                raise AnswerBrokenError(str(cause)) from None
            answer = errors.problem_response(cause)
            for name, value in self.headers.items():
                if name.lower() not in ("content-type", "etag", "content-encoding", "cache-control"):
                    answer.headers.setdefault(name, value)
            return answer(environ, start_response)
        finally:
            sink.stopped = None
            self._finished()


class _HeadIsEnough(Exception):
    """A HEAD request has seen that the answer exists and is more than the buffer."""


class _AnswerSink:
    """Collects the head of an answer, then streams; checks the limits at every write."""

    def __init__(
        self,
        response: StreamedAnswer,
        start_response: Any,
        limits: Limits,
        compress: bool,
        head_only: bool,
        cancelled: Callable[[], BaseException | None],
    ) -> None:
        self.started = False
        self.stopped: BaseException | None = None
        self.row_mark = b""
        self._rows = 0
        self._tail = b""
        self._response = response
        self._start_response = start_response
        self._send: Callable[[bytes], object] | None = None
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds
        self._written = 0
        self._head = bytearray()
        self._compressor = zlib.compressobj(COMPRESSION_LEVEL, wbits=31) if compress else None
        self._head_only = head_only
        self._cancelled = cancelled

    def write(self, data: bytes) -> int:
        if self.stopped is not None:
            # The serialiser was told to stop; what it still flushes while it ends goes nowhere.
            return len(data)
        self._check(len(data))
        if self.row_mark and self._limits.max_rows:
            self._count(data)
        if self._send is not None:
            self._put(data)
            return len(data)
        self._head += data
        if len(self._head) >= HEAD_BYTES:
            if self._head_only:
                raise self._stop(_HeadIsEnough())
            self._start()
        return len(data)

    def flush(self) -> None:
        """Serialisers flush at their end; nothing is held that could go out earlier."""

    def finish(self) -> Iterable[bytes]:
        """The end of the answer: its last bytes."""
        if self.stopped is not None:
            raise self.stopped
        self._check(0)
        if self._send is None:
            return self._small_answer()
        if self._compressor is not None:
            tail = self._compressor.flush()
            if tail:
                self._send(tail)
        return ()

    def head_only_answer(self) -> Iterable[bytes]:
        """Headers without a length: the answer would be streamed."""
        self._start_response(self._response.status, list(self._response.headers))
        return ()

    def _small_answer(self) -> Iterable[bytes]:
        body = bytes(self._head)
        headers = self._response.headers
        if self._compressor is not None and len(body) >= COMPRESS_FROM_BYTES:
            body = self._compressor.compress(body) + self._compressor.flush()
            headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        self._start_response(self._response.status, list(headers))
        return () if self._head_only else (body,)

    def _start(self) -> None:
        if self._compressor is not None:
            self._response.headers["Content-Encoding"] = "gzip"
        self._send = self._start_response(self._response.status, list(self._response.headers))
        self.started = True
        head, self._head = bytes(self._head), bytearray()
        self._put(head)

    def _put(self, data: bytes) -> None:
        assert self._send is not None
        packed = self._compressor.compress(data) if self._compressor is not None else data
        if packed:
            try:
                self._send(packed)
            except OSError as error:
                raise self._stop(error) from error

    def _check(self, size: int) -> None:
        self._written += size
        cancelled = self._cancelled()
        if cancelled is not None:
            raise self._stop(cancelled)
        if time.monotonic() > self._deadline:
            raise self._stop(timeout_error(self._limits.seconds))
        if self._limits.max_bytes and self._written > self._limits.max_bytes:
            raise self._stop(
                HttpError(
                    413,
                    f"the answer is larger than {self._limits.max_bytes} bytes",
                    code="result-too-large",
                    hint="Ask for less with LIMIT, or raise the setting max_result_bytes.",
                )
            )

    def _count(self, data: bytes) -> None:
        joined = self._tail + data
        self._rows += joined.count(self.row_mark)
        keep = len(self.row_mark) - 1
        self._tail = bytes(joined[-keep:]) if keep else b""
        if self._rows > self._limits.max_rows:
            raise self._stop(
                HttpError(
                    413,
                    f"the answer has more than {self._limits.max_rows} rows",
                    code="result-too-large",
                    hint="Ask for less with LIMIT, or raise the setting max_result_rows.",
                )
            )

    def _stop(self, error: BaseException) -> BaseException:
        # The serialiser may wrap what it caught: the cause is kept here as well.
        self.stopped = error
        return error


class QueryTimeoutError(QuadrillError):
    """An evaluation took longer than it may."""

    code = "query-timeout"


def timeout_error(seconds: float) -> QueryTimeoutError:
    """The error of an evaluation that took longer than ``seconds``."""
    return QueryTimeoutError(
        f"the query took longer than {seconds:g} s and was stopped",
        hint="Make it narrower, or allow more with the parameter `timeout` up to the setting query_timeout.",
    )
