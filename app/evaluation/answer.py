"""Answers of any size: serialised straight to the client, within limits, and never half an answer.

The first 64 KiB are held back. An answer that ends within them gets a Content-Length, and an error or a
time-out within them is still an ordinary problem document. Beyond them the answer is chunked, and an error
breaks the connection without the final chunk, which every HTTP client reports. The serialiser's blocks of
some kilobytes are sent together, since each send costs a system call and a turn at the interpreter.
"""

from __future__ import annotations

import math
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from quadrill.store.errors import QuadrillError

from ..config import Settings
from ..http import errors, negotiation, xml_text
from ..http.errors import HttpError
from ..http.reply import AnswerBrokenError
from ..http.turn import Held
from .large_answers import SMALL_BYTES, LargeAnswers
from .processes import Process, Processes

HEAD_BYTES = 64 << 10
BLOCK_BYTES = 256 << 10
OK = "200 OK"
COMPRESS_FROM_BYTES = 1024
COMPRESSION_LEVEL = 1


class Sink(Protocol):
    """The target of a serialiser. An exception from ``write`` stops the evaluation behind it."""

    def write(self, data: bytes) -> int: ...  # noqa: D102


class AnswerLimits(NamedTuple):
    """The limits of one answer: ``seconds`` of evaluation and sending, bytes and rows, 0 for no limit."""

    seconds: float
    max_bytes: int = 0
    max_rows: int = 0


# What stands once between two rows, or after each, and nowhere else. In JSON a quotation mark inside a string
# is always escaped, and only rows are objects in an array. The other RDF formats are limited by bytes.
ROW_MARKS = {"json": b'}},{"', "xml": b"<result>", "csv": b"\r\n", "tsv": b"\n", "nt": b"\n", "nq": b"\n"}


class Headers(Protocol):
    """The headers of an answer, by name; a plain dictionary, or werkzeug's."""

    def __setitem__(self, name: str, value: str, /) -> None: ...

    def items(self) -> Iterable[tuple[str, str]]: ...  # noqa: D102


class Client(NamedTuple):
    """The wishes of a client about answers; the same for all requests of a client with the same headers.

    Attributes:
        accept: the formats that are liked.
        headers: the answer carries them in any case.
        compress: gzip is wanted.
        head_only: only the headers are wanted.
    """

    accept: str | None
    headers: Mapping[str, str]
    compress: bool = False
    head_only: bool = False


def client_of(
    settings: Settings, accept: str | None, accept_encoding: str | None, *, head_only: bool = False
) -> Client:
    """The client's wishes in the headers of a request."""
    return Client(
        accept,
        {"Content-Type": negotiation.JSON_RESULTS.header, "Vary": "Accept, Accept-Encoding"},
        settings.gzip and negotiation.accepts_gzip(accept_encoding),
        head_only,
    )


Start = Callable[[str, list[tuple[str, str]]], Callable[[bytes], object]]
"""Begins to send: takes the status line and the headers, gives what takes the blocks of the body."""


class HttpAnswer:
    """An answer whose body is produced while it is sent; it knows no web framework.

    `produce` runs in the thread that sends: Oxigraph's result iterators must not change threads. What it sets
    in ``headers`` goes out with the answer. ``turn`` is given back when the answer is large after all.
    """

    __slots__ = ("client", "headers", "large_answers", "limits", "process", "processes", "turn")

    def __init__(
        self,
        processes: Processes,
        process: Process,
        limits: AnswerLimits,
        client: Client,
        large_answers: LargeAnswers | None = None,
    ) -> None:
        """Make an answer.

        Args:
            processes: the list that ``process`` stands in until the answer has ended.
            process: the evaluation behind the answer; when it is cancelled, the answer ends.
            limits: what the answer may cost.
            client: what the answer has to be like.
            large_answers: where the answer is computed from its second block on; None where this thread
                only passes on what another process computes.
        """
        self.processes = processes
        self.process = process
        self.limits = limits
        self.client = client
        self.large_answers = large_answers
        self.headers: Headers = dict(client.headers)
        self.turn: Held | None = None

    def produce(self, sink: AnswerSink) -> None:
        """Write the whole answer to ``sink``."""
        raise NotImplementedError

    def send(self, start: Start) -> Iterable[bytes]:
        """Produce and send, and tell every ending apart; returns what is still to be sent.

        Raises:
            AnswerBrokenError: the answer ended early after its first bytes were sent.
            OSError: the client is gone.
        """
        sink = AnswerSink(self, start)
        try:
            self.produce(sink)
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
            return self._problem(cause, start)
        finally:
            sink.stopped = None
            sink.leave()
            self.processes.end(self.process)

    def _problem(self, cause: BaseException, start: Start) -> Iterable[bytes]:
        answer = errors.problem_response(cause)
        for name, value in self.headers.items():
            if name.lower() not in ("content-type", "etag", "content-encoding", "cache-control"):
                answer.headers.setdefault(name, value)
        body = answer.get_data()
        answer.headers["Content-Length"] = str(len(body))
        start(answer.status, list(answer.headers))
        return () if self.client.head_only else (body,)


class BodyAnswer(HttpAnswer):
    """An answer whose body a function writes to the sink that it is given."""

    __slots__ = ("body",)

    body: Callable[[Sink], None]

    def produce(self, sink: AnswerSink) -> None:
        """Write the whole answer."""
        self.body(sink)


class _HeadIsEnough(Exception):
    """A HEAD request has seen that the answer exists and is more than the buffer."""


class AnswerSink:
    """Collects the head of an answer, then streams in large blocks; checks the limits at every write.

    Attributes:
        resumed: when the evaluation last had the word.
        stalled_seconds: the longest time between two blocks, while nothing could stop the evaluation.
    """

    __slots__ = (
        *("process", "resumed", "stalled_seconds", "started", "stopped"),
        *("_answer", "_compressor", "_deadline", "_held", "_held_bytes", "_last", "_limits", "_most"),
        *(
            "_large_answers",
            "_paused",
            "_placed",
            "_row_mark",
            "_rows",
            "_send",
            "_start_answer",
            "_tail",
            "_written",
            "_xml",
        ),
    )

    def __init__(self, answer: HttpAnswer, start: Start) -> None:
        self.started = False
        self.stopped: BaseException | None = None
        self._row_mark = b""
        self._xml = False
        self._last = b""
        self._rows = 0
        self._tail = b""
        self._answer = answer
        self._start_answer = start
        self._send: Callable[[bytes], object] | None = None
        self._limits = answer.limits
        self._deadline = answer.process.started + answer.limits.seconds
        self._written = 0
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._compressor: zlib._Compress | None = None
        self.resumed = answer.process.started
        self.stalled_seconds = 0.0
        self._most = answer.limits.max_bytes or math.inf
        self._large_answers = answer.large_answers
        self._placed = self._paused = False
        self.process = answer.process

    def begin(self, chosen: negotiation.Offer) -> None:
        """The format is known: its rows are counted, its characters are checked."""
        self._row_mark = ROW_MARKS.get(chosen.name, b"")
        self._xml = chosen.name in xml_text.NAMES

    def write(self, data: bytes) -> int:
        """Take a block; an exception stops the evaluation behind the answer."""
        if self.stopped is not None:
            # The serialiser was told to stop; what it still flushes while it ends goes nowhere.
            return len(data)
        size = len(data)
        self._written += size
        now = time.monotonic()
        if self.process.error is not None or now > self._deadline or self._written > self._most:
            raise self._refusal()
        if now - self.resumed > self.stalled_seconds:
            self.stalled_seconds = now - self.resumed
        self.resumed = now
        self._held.append(data)
        self._held_bytes += size
        if self._held_bytes >= (BLOCK_BYTES if self.started else HEAD_BYTES):
            self._pass_on()
            self.resumed = time.monotonic()
        if self._large_answers is not None and self._written > SMALL_BYTES:
            self._take_turns(self._large_answers, now)
        return size

    def flush(self) -> None:
        """Serialisers flush at their end; nothing is held that could go out earlier."""

    def finish(self) -> Iterable[bytes]:
        """The end of the answer: its last bytes."""
        if self.stopped is not None:
            raise self.stopped
        if self.is_over():
            raise self._refusal()
        if self._send is None:
            answer, body = self._answer, self._joined()
            if self._row_mark and body.count(self._row_mark) > (self._limits.max_rows or len(body)):
                raise self._too_many_rows()
            if answer.client.compress and len(body) >= COMPRESS_FROM_BYTES:
                compressor = _compressor()
                body = compressor.compress(body) + compressor.flush()
                answer.headers["Content-Encoding"] = "gzip"
            answer.headers["Content-Length"] = str(len(body))
            self._start_answer(OK, list(answer.headers.items()))
            return () if answer.client.head_only else (body,)
        if self._held:
            self._pass_on()
        if self._compressor is not None:
            tail = self._compressor.flush()
            if tail:
                self._send(tail)
        return ()

    def head_only_answer(self) -> Iterable[bytes]:
        """Headers without a length: the answer would be streamed."""
        self._start_answer(OK, list(self._answer.headers.items()))
        return ()

    def leave(self) -> None:
        """Leave the place among the large answers: nothing is computed for a while."""
        if self._placed and self._large_answers is not None:
            self._placed = False
            self._large_answers.leave()

    def _take_turns(self, large_answers: LargeAnswers, now: float) -> None:
        """Have a place before more is computed, and pause there once when requests are in line."""
        if not self._placed:
            if self._answer.turn is not None:
                self._answer.turn.give_back()
            self._placed = large_answers.enter(self._written, self.is_over)
            if not self._placed:
                raise self._refusal()
        elif self._paused or large_answers.paused_until <= now:
            return
        else:
            self._paused = True
            time.sleep(large_answers.paused_until - now)
        self.resumed = time.monotonic()

    def note_end(self) -> None:
        """Note what has ended an evaluation that was stopped or has taken too long, as its cause."""
        if self.is_over():
            self._refusal()

    def is_over(self) -> bool:
        """Return True once the evaluation was stopped or has taken too long; from any thread."""
        return self.process.error is not None or time.monotonic() > self._deadline

    def _pass_on(self) -> None:
        """Send what is held; the first time the headers before it."""
        block = self._joined()
        if self._row_mark and self._limits.max_rows:
            self._count(block)
        if self._send is None:
            answer = self._answer
            if answer.client.head_only:
                raise self._stop(_HeadIsEnough())
            if answer.client.compress:
                self._compressor = _compressor()
                answer.headers["Content-Encoding"] = "gzip"
            answer.processes.answering(self.process)
            self._send = self._start_answer(OK, list(answer.headers.items()))
            self.started = True
        self._held, self._held_bytes = [], 0
        packed = self._compressor.compress(block) if self._compressor is not None else block
        self.leave()
        self._paused = False
        if packed:
            try:
                self._send(packed)
            except OSError as error:
                raise self._stop(error) from error

    def _joined(self) -> bytes:
        """What is held, as it may be sent."""
        block = b"".join(self._held)
        if not self._xml:
            return block
        try:
            return xml_text.xml_text(block, self._last)
        except QuadrillError as error:
            raise self._stop(error) from None
        finally:
            self._last = (self._last + block)[-xml_text.OVERLAP :]

    def _refusal(self) -> BaseException:
        """The error that ends an answer: it was stopped, took too long, or is too large."""
        if self.process.error is not None:
            return self._stop(self.process.error)
        if time.monotonic() > self._deadline:
            return self._stop(timeout_error(self._limits.seconds))
        return self._stop(
            HttpError(
                413,
                f"the answer is larger than {self._limits.max_bytes} bytes",
                code="result-too-large",
                hint="Ask for less with LIMIT, or raise the setting max_result_bytes.",
            )
        )

    def _count(self, data: bytes) -> None:
        joined = self._tail + data
        self._rows += joined.count(self._row_mark)
        keep = len(self._row_mark) - 1
        self._tail = bytes(joined[-keep:]) if keep else b""
        if self._rows > self._limits.max_rows:
            raise self._too_many_rows()

    def _too_many_rows(self) -> BaseException:
        return self._stop(
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


def _compressor() -> zlib._Compress:
    return zlib.compressobj(COMPRESSION_LEVEL, wbits=31)


class QueryTimeoutError(QuadrillError):
    """An evaluation took longer than it may."""

    code = "query-timeout"


def timeout_error(seconds: float, what: str = "query") -> QueryTimeoutError:
    """The error of an evaluation that took longer than ``seconds``."""
    hint = "Make it narrower, or allow more with the parameter `timeout`"
    if what == "query":
        hint += " up to the setting query_timeout"
    return QueryTimeoutError(f"the {what} took longer than {seconds:g} s and was stopped", hint=f"{hint}.")


def reading_timeout_error(seconds: float) -> QueryTimeoutError:
    """The error of an update whose text alone took longer than ``seconds`` to read."""
    return QueryTimeoutError(
        f"reading the update's text took longer than {seconds:g} s and was stopped",
        hint="Send large data as RDF to the graph store, or raise the setting query_timeout.",
    )
