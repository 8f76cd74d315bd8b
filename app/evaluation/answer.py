"""Answers of any size, serialised straight to the client, within limits, and never cut without an error.

The first 64 KiB of an answer are buffered. An answer below 64 KiB gets a Content-Length, and an error or a
timeout before the first 64 KiB are sent is an ordinary problem document. An answer above 64 KiB is chunked,
and an error then breaks the connection without the final chunk, which every HTTP client reports. The
serialiser's blocks of some kilobytes are joined before a send, because each send costs a system call and the
interpreter lock.
"""

from __future__ import annotations

import math
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

from quadrill.store.errors import ReportedError

from ..http import negotiation, xml_text
from ..http.answers import Output, StreamedAnswer, WholeAnswer
from ..http.errors import HttpError
from ..http.problems import problem_answer
from ..server.reply import AnswerBrokenError
from .large_answers import SMALL_BYTES, LargeAnswers
from .processes import Process, Processes
from .short_answers import LockLease

HEAD_BYTES = 64 << 10
BLOCK_BYTES = 256 << 10
VARY = {"Vary": "Accept, Accept-Encoding"}


class ByteSink(Protocol):
    """The target of an answer's serialiser. An exception of ``write`` stops the query's evaluation."""

    def write(self, data: bytes) -> int: ...  # noqa: D102


class AnswerLimits(NamedTuple):
    """Limits of one answer: seconds of evaluation and sending; bytes and rows, of which 0 means no limit."""

    seconds: float
    max_bytes: int = 0
    max_rows: int = 0


# The bytes by which rows are counted in each format: they occur once per row (or between two rows) and
# nowhere else. In SPARQL's JSON results a quotation mark inside a string is escaped, and only rows are
# objects in an array. The answers in RDF formats without an entry here, such as Turtle, are limited by bytes
# only.
ROW_MARKS = {"json": b'}},{"', "xml": b"<result>", "csv": b"\r\n", "tsv": b"\n", "nt": b"\n", "nq": b"\n"}


class AnswerPreferences(NamedTuple):
    """What a client's request says about the form of the answer.

    Attributes:
        accept: the value of the request header ``Accept``; None without the header.
        head_only: True for a HEAD request, whose answer has no body.
    """

    accept: str | None
    head_only: bool = False


class EvaluatedAnswer(StreamedAnswer):
    """The answer of a query's evaluation, which produces the body while the body is sent.

    `EvaluatedAnswer.produce` runs in the thread that sends, because Oxigraph's result iterators must not
    change threads. `produce` may set ``headers`` and ``version``, which are sent with the answer.
    """

    __slots__ = ("client", "headers", "hold", "large_answers", "limits", "process", "processes", "version")

    def __init__(
        self,
        processes: Processes,
        process: Process,
        limits: AnswerLimits,
        client: AnswerPreferences,
        large_answers: LargeAnswers | None = None,
    ) -> None:
        """Make an answer that produces its body while it is sent.

        Args:
            processes: the list that contains ``process`` until the answer has ended.
            process: the evaluation behind the answer; when it is cancelled, the answer ends.
            limits: limits on seconds, bytes and rows of the answer.
            client: the Accept header of the client, and whether it wants only the head.
            large_answers: the limit on concurrent large answers; None if this thread only relays an
                answer that another process computes.
        """
        self.processes = processes
        self.process = process
        self.limits = limits
        self.client = client
        self.large_answers = large_answers
        self.headers = dict(VARY)
        self.version: int | None = None
        self.hold: LockLease | None = None

    @abstractmethod
    def produce(self, sink: AnswerSink) -> None:
        """Evaluate the query and write the whole answer to ``sink``."""

    def send(self, output: Output) -> WholeAnswer | None:
        """Produce and send the answer; return a small answer, or the problem document of an error, unsent."""
        sink = AnswerSink(self, output)
        try:
            self.produce(sink)
            return sink.finish()
        except Exception as error:
            cause = sink.stopped or error
            # The error's traceback keeps Oxigraph's result iterator, which must be released in the thread
            # that made it.
            traceback.clear_frames(error.__traceback__)
            if isinstance(cause, _HeadIsEnough):
                return WholeAnswer(200, self.headers, None, self.version)
            if sink.started:
                if isinstance(cause, OSError):
                    raise cause from None  # the client has closed its connection
                raise AnswerBrokenError(str(cause)) from None
            problem = problem_answer(cause)
            problem.headers.update(VARY)
            return problem
        finally:
            sink.stopped = None
            sink.leave()
            self.processes.end(self.process)


class BodyAnswer(EvaluatedAnswer):
    """An HTTP answer whose body is written to a sink by a function."""

    __slots__ = ("body",)

    body: Callable[[ByteSink], None]

    def produce(self, sink: AnswerSink) -> None:
        """Write the whole body of the answer to ``sink``."""
        self.body(sink)


class _HeadIsEnough(Exception):
    """Stops the evaluation for a HEAD request when its answer would exceed the buffer."""


class AnswerSink:
    """Buffers the start of an answer, then streams in large blocks; checks the answer's limits at each write.

    Attributes:
        resumed: time at which the evaluation last continued after a write, by the monotonic clock.
        stalled_seconds: the longest time between two blocks of the answer; between blocks the evaluation
            cannot be stopped.
    """

    __slots__ = (
        *("process", "resumed", "stalled_seconds", "started", "stopped"),
        *("_answer", "_deadline", "_held", "_held_bytes", "_last", "_limits", "_most"),
        *(
            "_large_answers",
            "_paused",
            "_placed",
            "_row_mark",
            "_rows",
            "_output",
            "_tail",
            "_written",
            "_xml",
        ),
    )

    def __init__(self, answer: EvaluatedAnswer, output: Output) -> None:
        self.started = False
        self.stopped: BaseException | None = None
        self._row_mark = b""
        self._xml = False
        self._last = b""
        self._rows = 0
        self._tail = b""
        self._answer = answer
        self._output = output
        self._limits = answer.limits
        self._deadline = answer.process.started + answer.limits.seconds
        self._written = 0
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.resumed = answer.process.started
        self.stalled_seconds = 0.0
        self._most = answer.limits.max_bytes or math.inf
        self._large_answers = answer.large_answers
        self._placed = self._paused = False
        self.process = answer.process

    def begin(self, chosen: negotiation.Offer) -> None:
        """Set the answer's format, by which rows are counted, and characters are checked if it is XML."""
        self._row_mark = ROW_MARKS.get(chosen.name, b"")
        self._xml = chosen.name in xml_text.NAMES

    def write(self, data: bytes) -> int:
        """Buffer or send one block of the answer; raise an exception to stop the evaluation."""
        if self.stopped is not None:
            # Blocks that the serialiser still flushes after the evaluation was stopped are dropped.
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
            self._acquire_slot(self._large_answers, now)
        return size

    def flush(self) -> None:
        """Do nothing when a serialiser flushes at the end of an answer; `finish` sends the buffered bytes."""

    def finish(self) -> WholeAnswer | None:
        """Return the whole answer if no byte of it was sent yet; else send its last block and return None."""
        if self.stopped is not None:
            raise self.stopped
        if self.is_over():
            raise self._refusal()
        if self.started:
            if self._held:
                self._pass_on()
            return None
        answer, body = self._answer, self._joined()
        if self._row_mark and body.count(self._row_mark) > (self._limits.max_rows or len(body)):
            raise self._too_many_rows()
        return WholeAnswer(200, answer.headers, body, answer.version)

    def leave(self) -> None:
        """Release the answer's slot for large answers, because its thread computes nothing while it sends."""
        if self._placed and self._large_answers is not None:
            self._placed = False
            self._large_answers.leave()

    def _acquire_slot(self, large_answers: LargeAnswers, now: float) -> None:
        """Acquire a slot for large answers, or, with a slot, pause once per block if requests are queued."""
        if not self._placed:
            if self._answer.hold is not None:
                self._answer.hold.release_early()
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
        """Record that a stop or the time limit is the cause, if one of them has ended the evaluation."""
        if self.is_over():
            self._refusal()

    def is_over(self) -> bool:
        """Return True if the evaluation was stopped or has timed out; safe from any thread."""
        return self.process.error is not None or time.monotonic() > self._deadline

    def _pass_on(self) -> None:
        """Send the buffered blocks of the answer; the first call sends the HTTP headers before the blocks."""
        block = self._joined()
        if self._row_mark and self._limits.max_rows:
            self._count(block)
        if not self.started:
            answer = self._answer
            if answer.client.head_only:
                raise self._stop(_HeadIsEnough())
            answer.processes.answering(self.process)
            self._output.begin(answer.headers, answer.version)
            self.started = True
        self._held, self._held_bytes = [], 0
        self.leave()
        self._paused = False
        try:
            self._output.write(block)
        except OSError as error:
            raise self._stop(error) from error

    def _joined(self) -> bytes:
        """Return the buffered blocks of the answer as one block; XML text is checked and corrected."""
        block = b"".join(self._held)
        if not self._xml:
            return block
        try:
            return xml_text.xml_text(block, self._last)
        except ReportedError as error:
            raise self._stop(error) from None
        finally:
            self._last = (self._last + block)[-xml_text.OVERLAP :]

    def _refusal(self) -> BaseException:
        """Return the error of an answer that was stopped, has timed out or is too large."""
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
        # The sink keeps the original exception, because the serialiser may wrap it.
        self.stopped = error
        return error


class QueryTimeoutError(ReportedError):
    """The evaluation of a query, update or static part exceeded its time limit."""

    code = "query-timeout"


def timeout_error(seconds: float, what: str = "query") -> QueryTimeoutError:
    """Return the error of an evaluation, such as a query or update, that took longer than ``seconds``."""
    hint = "Make it narrower, or allow more with the parameter `timeout`"
    if what == "query":
        hint += " up to the setting query_timeout"
    return QueryTimeoutError(f"the {what} took longer than {seconds:g} s and was stopped", hint=f"{hint}.")


def reading_timeout_error(seconds: float) -> QueryTimeoutError:
    """Return the error of an update whose text alone took longer than ``seconds`` to parse."""
    return QueryTimeoutError(
        f"reading the update's text took longer than {seconds:g} s and was stopped",
        hint="Send large data as RDF to the graph store, or raise the setting query_timeout.",
    )
