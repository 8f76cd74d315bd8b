"""Base class of the kinds of sources, and the context through which a source feeds its stream."""

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
    DeclarationMember("kind", text, "the kind of the source", required=True),
    DeclarationMember(
        "stream",
        lambda value, _: check_iri(value),
        "the IRI of the stream that receives the records",
        required=True,
    ),
    DeclarationMember(
        "format", text, "the media type of the records; by default that of the remote system or file name"
    ),
    DeclarationMember("batch", number(1, 100_000), "maximum number of records in one push", default=1_000),
)
"""Members that the declaration of every source may have."""


class Message(NamedTuple):
    """One record of the remote system: its bytes, and its metadata as fields for a mapping.

    ``origin`` has the members that say in a dead letter where the record was, for instance its topic.
    """

    body: bytes
    fields: Mapping[str, Any] = {}
    at: int | None = None
    origin: Mapping[str, Any] = {}


class SourceContext:
    """Context of a running source: its stream, position, figures and stop signal.

    Attributes:
        name: the name of the source.
        stream: the IRI of the stream that the source feeds.
        hosts: the remote hosts that connectors of the server may contact.
        folders: the folders below which sources may read files.
        figures: the source's state, counters and newest error.
        letters: the dead letters of unreadable records.
        stopping: an event that is set when the source has to stop.
        created_ms: the time at which the source was declared, in milliseconds since 1970.
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
        """The source's position at its last push in the journal; None before the first push."""
        return self._streams.source_position(self.stream, self.name)

    def connected(self) -> None:
        """Set the source's state to `running`, because the remote system has accepted the connection."""
        if not self.stopping.is_set():
            self.figures.state, self.figures.error = "running", None

    def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds in the source's thread.

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
        """Push records into the stream and return the answer; invalid records become dead letters.

        Args:
            body: the records.
            media_type: the format of the records.
            position: the source's position after the records, stored in the journal with the elements.
            at: the event time, in milliseconds, of elements whose records have no time.
            each: with the value ``triple``, each triple of the body becomes one element.
            durable: True to wait until the pushed elements are durable in the journal.
            partition: the partition of the remote system from which the records come; None without
                partitions.
            origin: members of a dead letter with the location of the records.

        Raises:
            StoppedError: the source has to stop.
            ConnectorFailedError: the stream does not accept the records of this source.
        """
        try:
            call = self._call(media_type, position, partition)
            answer = self._enter(call._replace(at=at, each=each, durable=durable), body)
        except _UNREADABLE as error:
            self.refuse(body, error.message, **(origin or {}))
            return self._store_position(position)
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
        """Push lines of one partition into the stream; ``header`` precedes the lines of each push.

        ``place`` returns the source's position after a number of lines, ``origin`` the dead-letter members
        that locate a line.

        If a record format reports errors only for a whole document, rejected lines are split in halves until
        the invalid lines are found; all valid lines enter the stream.

        Raises: StoppedError or ConnectorFailedError, as `SourceContext.push`.
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
            self._store_position(place(1))
            return
        self._count(body, answer, lambda number: origin(number - header.count(b"\n")))

    def _call(self, media_type: str, position: str | None, partition: str | None) -> PushCall:
        """Return the parameters of a push that stores the source's position and lists invalid records."""
        place = None if position is None else (self.name, position)
        named = DIRECT if partition is None else f"{self.name}/{partition}"
        return PushCall(self.stream, media_type, partial=True, position=place, partition=named)

    def _enter(self, call: PushCall, body: bytes) -> dict[str, Any]:
        """Push a body into the stream, and retry while the stream is full; raises `_UNREADABLE` errors."""
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

    def _store_position(self, position: str | None) -> dict[str, Any]:
        """Store the source's position after records of which none entered the stream."""
        return {"accepted": 0} if position is None else self._enter(self._call(N_QUADS, position, None), b"")

    def push_or_raise(self, body: bytes, media_type: str) -> dict[str, Any]:
        """Push all records of a posted body into the stream, or none and raise the error."""
        try:
            answer = self._streams.push(PushCall(self.stream, media_type), body)
        except _UNREADABLE as error:
            self.figures.refuse(error.message)
            raise
        self.figures.count(answer["accepted"])
        return answer

    def declare_partitions(self, waiting: Mapping[str, bool]) -> Mapping[str, int | None] | None:
        """Declare the source's partitions to the stream, True for partitions with unread records.

        Partitions with unread records delay the stream's watermark until the source reads them or ends.
        Returns the greatest event time of each partition in milliseconds, None if the stream has no
        partition times.
        """
        self._declared = tuple(waiting)
        return self._streams.declare_partitions(self.stream, self.name, waiting)

    def release_partitions(self) -> None:
        """Report to the stream that the source does not read now, so its partitions may become idle."""
        if self._declared:
            # partitions need no release if the engine has stopped or the stream was dropped
            with suppress(ReportedError):
                self._streams.declare_partitions(self.stream, self.name, dict.fromkeys(self._declared, False))

    def push_messages(
        self,
        messages: Sequence[tuple[Message, str | None]],
        media_type: str,
        partition: str | None = None,
    ) -> None:
        """Push messages, each with the source's position after it, and wait until they are durable.

        JSON messages become one push of lines: messages of `JSON` are records with the fields of their
        message added, messages of `NDJSON` are lines. Each message in a format other than JSON and NDJSON is
        a separate push.

        Raises: StoppedError or ConnectorFailedError, as `SourceContext.push`.
        """
        if not messages:
            return
        asked = media_type.partition(";")[0].strip()
        behind = messages[-1][1]
        if asked in (JSON, NDJSON):
            lines: list[tuple[bytes, int]] = []
            for place, (message, _) in enumerate(messages):
                found = [message.body.strip()] if asked == NDJSON else self._lines(message)
                # An NDJSON message may have several lines, which the answer of a push counts separately.
                lines += [(line + b"\n", place) for body in found for line in body.splitlines()]
            # The source's position moves past a message only when the message's last line has entered.
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
                self._store_position(behind)
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
        """Return a JSON message as records, one per line, with the metadata fields of the message added.

        Each item of a JSON array is a record, as in a push, and null is skipped. A metadata field of a
        message replaces a record's member of the same name.
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
                # Encoding may fail, because half of a surrogate pair can be written in JSON, but not in
                # UTF-8.
                found.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())
            return found
        except (ValueError, RecursionError) as error:
            self.refuse(body, f"the message is not JSON: {error}", **message.origin)
            return []

    def refuse(self, record: bytes, error: str, reason: str = "unreadable", **members: Any) -> None:
        """Store a refused record as a dead letter; ``members`` say where the record was.

        The ``reason`` of a refused record is ``early`` if its time is ahead of the clock, otherwise
        ``unreadable``.
        """
        self.figures.refuse(error)
        self.letters.add(record, error, reason=reason, **members)

    def lose(self, where: str, reason: str, number: int = 1, **members: Any) -> None:
        """Count records deleted before the source read them, and report the loss as a dead letter."""
        log.warning("the source %s: %s: %s", self.name, where, reason)
        self.figures.lost += number
        self.refuse(where.encode("utf-8", "backslashreplace"), reason, **members)

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
                reason = "early" if each.get("early") else "unreadable"
                self.refuse(lines[line - 1] if known else body, each["error"], reason=reason, **where)


class Source(ABC):
    """Base class of a kind of source; `run` works in a separate thread until the source is stopped.

    The method `run` of a source raises ConnectorError for a restart after a pause, and ConnectorFailedError
    to end without a restart; `run` must not catch StoppedError.
    """

    members: ClassVar[tuple[DeclarationMember, ...]] = ()
    guarantee: ClassVar[str]

    def __init__(self, given: Mapping[str, Any], context: SourceContext) -> None:
        """Create a source from the values of its declaration, without connecting."""
        self.given = given
        self.context = context

    @classmethod
    @abstractmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Raise ReportedError for a source's declaration that is contradictory or names a forbidden place."""

    @abstractmethod
    def run(self) -> None:
        """Read records of the remote system and push the records into the stream."""

    def interrupt(self) -> None:
        """Interrupt waits of the source for the remote system; called from another thread to stop it."""
        return

    def receive(self, body: bytes, media_type: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Accept a body sent to ``POST /sources/{name}``; return the answer of the push."""
        _not_sent_to(self.context.name)


def _not_sent_to(name: str) -> NoReturn:
    raise ConflictError(
        f"the source {name} is not of the kind webhook, so bodies cannot be posted to it", code="no-webhook"
    )
