"""What a source is: a kind's class, and the context through which it reaches its stream."""

from __future__ import annotations

import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

from quadrill.continuous.errors import BackPressureError, EngineStoppedError
from quadrill.continuous.lifecycle.stream_service import StreamService
from quadrill.continuous.streams.partitions import DIRECT
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.documents.members import check_iri
from quadrill.store.errors import (
    ConflictError,
    InputError,
    LimitError,
    MediaTypeError,
    NotFoundError,
    RdfSyntaxError,
    ReportedError,
)
from quadrill.store.hosts import AllowedHosts

from .dead_letters import DeadLetterFile
from .declaration import DeclarationMember, number, text
from .errors import ConnectorFailedError, StoppedError
from .figures import Figures

log = logging.getLogger("quadrill.connectors")

JSON = "application/json"
NDJSON = "application/x-ndjson"
N_QUADS = "application/n-quads"
_UNREADABLE = (InputError, RdfSyntaxError, LimitError)

SOURCE_MEMBERS = (
    DeclarationMember("kind", text, "what kind of source it is", required=True),
    DeclarationMember(
        "stream", lambda value, _: check_iri(value), "the IRI of the stream that it feeds", required=True
    ),
    DeclarationMember("format", text, "the media type of what comes, of the other side where it tells one"),
    DeclarationMember("batch", number(1, 100_000), "most records of one push", default=1_000),
)
"""Members that every source has."""


class Message(NamedTuple):
    """One record of the other side: its bytes, and what else is known of it, as fields for a mapping.

    ``origin`` are the members of a dead letter that tell where it stood.
    """

    body: bytes
    fields: Mapping[str, Any] = {}
    at: int | None = None
    origin: Mapping[str, Any] = {}


class SourceContext:
    """What a running source uses: its stream, its place, its figures, and the wish that it stops.

    Attributes:
        name: the source's name.
        stream: the IRI of its stream.
        hosts: the hosts that may be reached.
        folders: the folders that may be read.
        figures: what is told of it.
        letters: what could not be read.
        stopping: is set when it has to stop.
        created_ms: when it was declared.
    """

    created_ms = 1 << 43

    def __init__(
        self,
        name: str,
        stream: str,
        streams: StreamService,
        hosts: AllowedHosts,
        folders: Sequence[Path],
        letters: DeadLetterFile,
    ) -> None:
        self.name = name
        self.stream = stream
        self.hosts = hosts
        self.folders = folders
        self.figures = Figures()
        self.letters = letters
        self.stopping = threading.Event()
        self._streams = streams
        self._declared: tuple[str, ...] = ()

    @property
    def position(self) -> str | None:
        """Where the source was at its last push that the journal has; None before the first."""
        return self._streams.source_position(self.stream, self.name)

    def connected(self) -> None:
        """The other side is there and has accepted us."""
        if not self.stopping.is_set():
            self.figures.state, self.figures.error = "running", None

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            StoppedError: the source has to stop.
        """
        if self.stopping.wait(seconds):
            raise StoppedError

    def push(
        self,
        body: bytes,
        media_type: str,
        *,
        position: str | None = None,
        at: int | None = None,
        each: str | None = None,
        durable: bool = True,
        partition: str | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Bring records into the stream; the answer of the push. Bad ones become dead letters.

        Args:
            body: the records.
            media_type: their format.
            position: where the source is behind them: kept in the journal together with the elements.
            at: the event time of elements that have none of their own.
            each: ``triple`` makes one element of each triple.
            durable: wait until the journal has them.
            partition: the partition that they are of.
            origin: members of a dead letter that tell where they stood.

        Raises:
            StoppedError: the source has to stop.
            ConnectorFailedError: the stream does not take what this source brings.
        """
        try:
            call = self._call(media_type, position, partition)
            answer = self._enter(call._replace(at=at, each=each, durable=durable), body)
        except _UNREADABLE as error:
            self.refuse(body, error.message, **(origin or {}))
            return self._pass_by(position)
        self._count(body, answer, lambda _: origin or {})
        return answer

    def push_lines(
        self,
        lines: Sequence[bytes],
        media_type: str,
        place: Callable[[int], str | None],
        *,
        header: bytes = b"",
        each: str | None = None,
        partition: str | None = None,
        origin: Callable[[int], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """Bring lines of one partition into the stream; ``header`` stands before any push.

        ``place`` gives the position behind the first so many lines, ``origin`` the members of a dead letter
        that tell where a line stood.

        A format whose errors are of a whole document keeps the bad lines alone from entering: lines that
        cannot enter together are tried by halves.

        Raises: as `push`.
        """
        if not lines:
            return
        body = header + b"".join(lines)
        try:
            call = self._call(media_type, place(len(lines)), partition)._replace(each=each)
            answer = self._enter(call, body)
        except _UNREADABLE as error:
            if len(lines) > 1:
                half = len(lines) // 2
                alike: dict[str, Any] = {"header": header, "each": each, "partition": partition}
                self.push_lines(lines[:half], media_type, place, origin=origin, **alike)
                self.push_lines(
                    lines[half:],
                    media_type,
                    lambda number: place(half + number),
                    origin=lambda number: origin(half + number),
                    **alike,
                )
                return
            self.refuse(lines[0].rstrip(b"\n"), error.message, **origin(0))
            self._pass_by(place(1))
            return
        self._count(body, answer, lambda number: origin(number - header.count(b"\n")))

    def _call(self, media_type: str, position: str | None, partition: str | None) -> PushCall:
        """A push of this source that keeps its place, and lists bad records instead of failing."""
        place = None if position is None else (self.name, position)
        named = DIRECT if partition is None else f"{self.name}/{partition}"
        return PushCall(self.stream, media_type, partial=True, position=place, partition=named)

    def _enter(self, call: PushCall, body: bytes) -> dict[str, Any]:
        """One push, as often as the stream is full; raises what is wrong with it as `_UNREADABLE`."""
        while True:
            if self.stopping.is_set():
                raise StoppedError
            try:
                return self._streams.push(call, body)
            except BackPressureError as error:
                self.sleep(error.retry_after)
            except EngineStoppedError as error:
                raise StoppedError from error
            except (MediaTypeError, ConflictError, NotFoundError) as error:
                raise ConnectorFailedError(error.message, hint=error.hint) from error

    def _pass_by(self, position: str | None) -> dict[str, Any]:
        """Note a place behind records of which nothing entered."""
        return {"accepted": 0} if position is None else self._enter(self._call(N_QUADS, position, None), b"")

    def push_or_raise(self, body: bytes, media_type: str) -> dict[str, Any]:
        """One push for a sender who waits for its answer: all or nothing, its errors are told."""
        try:
            answer = self._streams.push(PushCall(self.stream, media_type), body)
        except _UNREADABLE:
            self.figures.refused += 1
            raise
        self.figures.count(answer["accepted"])
        return answer

    def declare_partitions(self, waiting: Mapping[str, bool]) -> Mapping[str, int | None] | None:
        """Tell the stream which partitions the source has, True for those with unread records.

        Those hold back the stream's time until the source reads them, or ends. Returns the greatest event
        time of each in milliseconds, None where the stream has no time for each.
        """
        self._declared = tuple(waiting)
        return self._streams.declare_partitions(self.stream, self.name, waiting)

    def release_partitions(self) -> None:
        """Tell the stream that nothing more is read for now: its partitions become idle after a time."""
        if self._declared:
            with suppress(ReportedError):  # the engine has stopped, or the stream is gone
                self._streams.declare_partitions(self.stream, self.name, dict.fromkeys(self._declared, False))

    def push_messages(
        self,
        messages: Sequence[tuple[Message, str | None]],
        media_type: str,
        partition: str | None = None,
    ) -> None:
        """Bring messages into the stream, each with the position behind it, and wait until they are durable.

        JSON messages become one push, of lines: those of `JSON` are records, with the fields of their message
        beside them, those of `NDJSON` lines as they are. Of other formats each is a push of its own.

        Raises: as `push`.
        """
        if not messages:
            return
        asked = media_type.partition(";")[0].strip()
        behind = messages[-1][1]
        if asked in (JSON, NDJSON):
            lines: list[tuple[bytes, int]] = []
            for place, (message, _) in enumerate(messages):
                found = [message.body.strip()] if asked == NDJSON else self._lines(message)
                # A line of NDJSON may be several: each counts for itself in what a push answers.
                lines += [(line + b"\n", place) for body in found for line in body.splitlines()]
            # A message is passed by with its last line.
            last = {place: number for number, (_, place) in enumerate(lines, 1)}
            before = [None, *(position for _, position in messages)]

            def position_of(number: int) -> str | None:
                place = lines[number - 1][1]
                return messages[place][1] if last[place] == number else before[place]

            if lines:
                self.push_lines(
                    [line for line, _ in lines],
                    NDJSON,
                    lambda number: behind if number == len(lines) else position_of(number),
                    partition=partition,
                    origin=lambda number: messages[lines[number][1]][0].origin,
                )
            else:
                self._pass_by(behind)
            return
        for message, position in messages:
            self.push(
                message.body,
                media_type,
                position=position,
                at=message.at,
                durable=message is messages[-1][0],
                partition=partition,
                origin=message.origin,
            )

    def _lines(self, message: Message) -> list[bytes]:
        """A JSON message as records in one line each, with the fields that the other side tells beside them.

        The members of an array are records, null is none, as in a push. The other side's fields win.
        """
        body = message.body.strip()
        try:
            value = json.loads(body)
            records = value if isinstance(value, list) else [value]
            known = [each for each in records if each is not None]
            self.figures.skipped += len(records) - len(known) or not records
            if not message.fields and len(known) == len(records) == 1 and value is known[0]:
                if b"\n" not in body and b"\r" not in body:
                    return [body]
            found = []
            for each in known:
                record = each
                if isinstance(each, dict):
                    record = {**message.fields, **each, **message.fields}
                elif message.fields:
                    record = {**message.fields, "value": each}
                # Half of a surrogate pair can be written in JSON, but not in UTF-8.
                found.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())
            return found
        except (ValueError, RecursionError) as error:
            self.refuse(body, f"the message is not JSON: {error}", **message.origin)
            return []

    def refuse(self, record: bytes, error: str, **members: Any) -> None:
        """A record that cannot be read becomes a dead letter; ``members`` tell where it stood."""
        self.figures.refused += 1
        self.letters.add(record, error, **members)

    def lose(self, where: str, told: str, number: int = 1, **members: Any) -> None:
        """Records that are gone before they could be read become a dead letter and are counted."""
        log.warning("the source %s: %s: %s", self.name, where, told)
        self.figures.lost += number
        self.refuse(where.encode("utf-8", "backslashreplace"), told, **members)

    def _count(
        self, body: bytes, answer: Mapping[str, Any], origin: Callable[[int], Mapping[str, Any]]
    ) -> None:
        self.figures.count(answer["accepted"])
        self.figures.skipped += answer.get("skipped") or 0
        bad = answer.get("bad") or ()
        if bad:
            lines = body.split(b"\n")
            for each in bad:
                line = each.get("line")
                known = isinstance(line, int) and 0 < line <= len(lines)
                where = origin(line - 1) if known else {}
                self.refuse(lines[line - 1] if known else body, each["error"], **where)


class Source(ABC):
    """One kind of source. `run` works in a thread of its own until it is stopped.

    It raises ConnectorError to be run again after a while, ConnectorFailedError to be left alone, and lets
    StoppedError through.
    """

    members: ClassVar[tuple[DeclarationMember, ...]] = ()
    guarantee: ClassVar[str]

    def __init__(self, given: Mapping[str, Any], context: SourceContext) -> None:
        """Make one of the values of its declaration; nothing is reached yet."""
        self.given = given
        self.context = context

    @classmethod
    @abstractmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Raise ReportedError where the values of a declaration contradict, or name a forbidden place."""

    @abstractmethod
    def run(self) -> None:
        """Bring what comes into the stream."""

    def interrupt(self) -> None:
        """Called from another thread when it has to stop: end what waits for the other side."""
        return

    def receive(self, body: bytes, media_type: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """What somebody has sent to ``POST /sources/{name}``; the answer of the push."""
        _not_sent_to(self.context.name)


def _not_sent_to(name: str) -> NoReturn:
    raise ConflictError(
        f"the source {name} fetches what it brings, nothing can be sent to it", code="no-webhook"
    )
