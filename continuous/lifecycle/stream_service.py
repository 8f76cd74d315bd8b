"""The operations of an engine on streams: declare, push, move event time, inspect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from quadrill.store.documents.members import check_name
from quadrill.store.documents.statements import lines_of, may_have_blank
from quadrill.store.documents.times import GREATEST_MS, LEAST_MS, instant_ms
from quadrill.store.errors import ConflictError, NotFoundError, ReportedError
from quadrill.store.pushes.decode import DecodedElement, DecodedPush, DecodeOptions, decode, decode_lines
from quadrill.store.pushes.receipts import PushReceipt, fingerprint_of
from quadrill.store.pushes.records import type_of_record

from ..durable.tasks import InputTask, Task
from ..inputs import StreamInput
from ..language.mapping.decode import decode_mapped
from ..language.mapping.mapping import compiled
from ..queries.catalogue import QueryEntry
from ..streams.accept import StreamState
from ..streams.conformance import require_conforming, with_conforming_elements
from ..streams.dead_letters import DeadLetter
from ..streams.movements import declare_partitions, heartbeat
from ..streams.push_call import PushCall
from .lifecycle import QueryLifecycle
from .parts import EngineParts
from .time_reset import TimeReset, reset_time
from .waiting import are_results_out, deadline_in, is_processed

T = TypeVar("T")

_HURRY_BYTES = 8 * 1024 * 1024
"""Number of unwritten bytes of the journal above which even a push with ``durable=false`` waits for the
sync."""


class StreamService:
    """The operations of an engine on streams, for example declarations and pushes.

    Any thread may call any operation on streams. Operations with a stream's name or IRI raise NotFoundError
    if the stream does not exist. Pushes, `heartbeat` and `declare_partitions` declare an unknown stream
    instead if the settings allow it; `source_position` returns None.
    """

    def __init__(self, parts: EngineParts, lifecycle: QueryLifecycle) -> None:
        self.parts = parts
        self.lifecycle = lifecycle

    def declare(
        self, iri: str | None = None, /, *, name: str | None = None, **options: Any
    ) -> tuple[StreamState, bool]:
        """Declare a stream or change its options; return its state and whether it is new.

        Raises:
            InputError: an option is wrong, or there is neither a name nor an IRI.
            NotFoundError: the shapes that the options name do not exist.
            ConflictError: the name belongs to another IRI, the IRI to another name, or an option cannot be
                changed now.
        """
        with self.parts.admin:
            _require_shapes(self.parts, options)
            state, created = self.parts.streams.declare(iri, name, options)
            if created:
                self.lifecycle.announce_stream(state)
            return state, created

    def change(self, iri: str | None, /, *, name: str | None, **options: Any) -> str:
        """Return what `declare` would do, ``create``, ``change`` or ``same``; raises as `declare`."""
        _require_shapes(self.parts, options)
        state, record = self.parts.streams.declared(iri, name, options)
        return "create" if state is None else "same" if record == state.record else "change"

    def validates(self, stream_ref: str) -> bool:
        """Return True if the declaration of a stream names shapes, so that a push may take long."""
        state = self.parts.streams.find(stream_ref)
        return state is not None and state.record.shapes is not None

    def drop(self, name_or_iri: str) -> None:
        """Drop a stream and its retained elements.

        Raises:
            ConflictError: a query reads or makes the stream, even if that query waits, is paused or has
                failed.
        """
        with self.parts.admin:
            state = self.parts.streams.get(name_or_iri)
            readers = self.parts.router.readers(state.iri)
            readers = readers or [
                entry.name for entry in self.parts.catalogue.entries() if self._reads(entry, state.iri)
            ]
            if readers:
                raise ConflictError(
                    f"stream {state.name} is read by {', '.join(readers)}",
                    code="stream-in-use",
                    hint="Drop the queries first",
                )
            if state.derived_from is not None:
                raise ConflictError(
                    f"stream {state.name} is made by the query {state.derived_from}", code="stream-in-use"
                )
            self.parts.tasks.require_writable()
            self.parts.streams.remove(state)
            with self.parts.tasks.lock:
                self.parts.acceptor.receipts.forget(state.iri)
            task = Task()
            self.parts.tasks.submit(task, "unstream", stream=state.iri, created=state.record.created_ms)
            self.parts.sequencer.finish(task)

    def _reads(self, entry: QueryEntry, iri: str) -> bool:
        """Return True if a query that is not a reader now would read the stream ``iri`` when it runs."""
        prepared = entry.prepared
        with suppress(ReportedError):  # A query whose text is not valid any more reads no stream.
            prepared = prepared or self.lifecycle.prepare(entry.registration, entry.name)
        bound = () if entry.running is None else entry.running.timeline.inputs.streams
        return iri in bound or (prepared is not None and iri in prepared.streams)

    def inspect(self, name_or_iri: str, read: Callable[[StreamState, list[str]], T]) -> T:
        """Return the result of ``read`` for a stream and its readers' names, while no input is accepted."""
        state = self.parts.streams.get(name_or_iri)
        with self.parts.tasks.lock:
            return read(state, self.parts.router.readers(state.iri))

    def retained(self, iris: Sequence[str], from_ms: int, after: int = 0) -> list[StreamInput]:
        """Return the retained inputs of some streams from an event time on, in the order of acceptance.

        With ``after``, only inputs after this place in the order of all streams' inputs are returned.
        """
        with self.parts.tasks.lock:
            states = [(iri, self.parts.streams.find(iri)) for iri in iris]
            kept = {iri: list(state.retained.inputs) for iri, state in states if state is not None}
        # Inputs are selected without the lock, so that pushes do not wait.
        kept = {iri: [each for each in inputs if each.order > after] for iri, inputs in kept.items()}
        return list(self.parts.streams.retained(iris, from_ms, kept))

    def dead_letters(self, name_or_iri: str) -> list[dict[str, Any]]:
        """Return the dead letters of a stream as JSON, oldest first."""
        state = self.parts.streams.get(name_or_iri)
        with self.parts.tasks.lock:
            return [letter.to_json() for letter in state.dead_letters]

    def retry_dead_letter(self, name_or_iri: str, letter_id: str) -> dict[str, Any]:
        """Retry a dead letter: an element, or an unreadable record.

        On a retry, a late element enters the stream after all and corrects windows that still contain its
        event time. On a retry of an element at which a query failed, the query restarts with the retained
        elements from that event time on. On a retry, an unreadable record is pushed again. An element that
        was early or does not conform to shapes is checked again, and enters the stream if it is valid now.

        Raises: as `push`, for a record;
            ViolationError, ValidationStoppedError: the element still does not conform to the shapes.
            InputError: the time of the element is still ahead of the clock.
            NotFoundError: the stream has no such dead letter, or the letter's query was dropped.
            ConflictError: the late element is in the stream already.
            BackPressureError: the queue of tasks is full.
            ReportedError: the query that failed at the dead letter's element cannot restart.
        """
        self.parts.tasks.require_open()
        state = self.parts.streams.get(name_or_iri)
        letter = self._find_letter(state, letter_id)
        if letter.record is not None:
            call = PushCall(state.iri, type_of_record(letter.record), retried=letter)
            answer = self.push(call, letter.record.encode())
            return {"id": letter.id, "retried": "record", "seq": answer["first_seq"]}
        if letter.reason in ("early", "shape"):
            return self._retry_refused(state, letter)
        if letter.query is not None:
            entry = self.parts.catalogue.get(letter.query)
            with self.parts.admin:
                begun = self.lifecycle.restart(entry, letter.element.event_time)
            self.parts.sequencer.finish(begun)
            return {"id": letter.id, "retried": "query", "query": letter.query, "state": entry.state}
        if letter.entered:
            raise ConflictError(
                f"the late element {letter_id} has entered stream {state.name}, whose policy is admit",
                code="entered",
            )
        self.parts.tasks.require_writable()
        self.parts.tasks.follow_commits()
        with self.parts.tasks.lock:
            # If two clients retry the same dead letter concurrently, the second client gets NotFoundError.
            task = self.parts.acceptor.admit(state, self._find_letter(state, letter_id))
        answer = {"id": letter.id, "retried": "element", "seq": letter.element.seq}
        if not is_processed(self.parts, task, deadline_in()):
            answer["waited"] = False
        self.parts.tasks.wait_durable(self.parts.tasks.order)
        return answer

    def _retry_refused(self, state: StreamState, letter: DeadLetter) -> dict[str, Any]:
        """Push the element of a dead letter with reason ``early`` or ``shape`` again if it is valid now."""
        parts, statements = self.parts, letter.element.statements
        at = None if state.record.stamping == "arrival" else letter.element.event_time
        element = DecodedElement(statements, at, "the element", None, may_have_blank(lines_of(statements)))
        if (shapes := state.record.shapes) is not None:
            require_conforming(element, state.iri, shapes, parts.settings.conformance)
        parts.tasks.require_ready()
        with parts.tasks.lock:
            self._find_letter(state, letter.id)
            call = PushCall(state.iri, "", retried=letter)
            receipt, task = parts.acceptor.push(state, DecodedPush([element]), call)
            number = parts.tasks.order
        parts.sequencer.drain()
        parts.tasks.wait_durable(number)
        answer: dict[str, Any] = {"id": letter.id, "retried": "element", "seq": receipt.first_seq}
        if task is not None and not is_processed(parts, task, deadline_in()):
            answer["waited"] = False
        return answer

    def drop_dead_letters(self, name_or_iri: str, letter_ids: Sequence[str]) -> None:
        """Delete dead letters; if one does not exist, raise NotFoundError and delete none."""
        tasks, state = self.parts.tasks, self.parts.streams.get(name_or_iri)
        tasks.require_writable()
        with tasks.lock:
            self.parts.acceptor.forget(state, [self._find_letter(state, each) for each in letter_ids])
        tasks.wait_durable(tasks.order)

    def _find_letter(self, state: StreamState, letter_id: str) -> DeadLetter:
        """Return a dead letter of a stream; raise NotFoundError if it does not exist."""
        with self.parts.tasks.lock:
            letter = None if state.dropped_for_good else state.dead_letters.find(letter_id)
        if letter is None:
            raise NotFoundError(
                f"stream {state.name} keeps no dead letter {letter_id}", code="unknown-dead-letter"
            )
        return letter

    def push(self, call: PushCall, body: bytes) -> dict[str, Any]:
        """Accept the elements of a push's body; return the JSON answer of the push.

        Raises:
            RdfSyntaxError, InputError, MediaTypeError, LimitError: the push is wrong; no element was
                accepted.
            IdempotencyError: the key was used with another body.
            ConflictError: a query makes the stream.
            BackPressureError: the queue of tasks is full.
        """
        answer, task, number = self.accept(call, body)
        tasks = self.parts.tasks
        if call.durable or (tasks.journal is not None and tasks.journal.log.waiting_bytes > _HURRY_BYTES):
            tasks.wait_durable(number)
        else:
            answer["durable"] = False
        if call.wait:
            answer["waited"] = are_results_out(self.parts, task, answer["stream"], call.timeout)
        return answer

    def push_each(self, stream_ref: str, bodies: Sequence[tuple[bytes, int]], media_type: str) -> None:
        """Push several bodies with their event times, one after the other, and wait for the results.

        If each body of a batch of pushes is one element in canonical form, all bodies are decoded before the
        first is accepted, so each part of the code runs many times in a row: a push takes a third less time.
        Raises the errors of `push`; the bodies before the wrong one were accepted.
        """
        parts, task, call = self.parts, None, PushCall(stream_ref, media_type)
        tasks, state = parts.tasks, parts.streams.known.get(stream_ref)
        tasks.require_ready()
        if bodies and state is not None and state.record.mapping is None and state.record.shapes is None:
            stamp = state.timestamp_property
            read = [
                decode_lines(body, media_type, at, stamp, True) if LEAST_MS <= at <= GREATEST_MS else None
                for body, at in bodies
            ]
            try:
                with tasks.lock:
                    plain = [each for each in read if each is not None]
                    if len(plain) == len(read) and not (state.dropped_for_good or state.derived_from):
                        for decoded in plain:
                            task = parts.acceptor.push(state, decoded, call)[1] or task
                        bodies = ()
            finally:
                parts.sequencer.drain()
        for body, at in bodies:
            task = self.accept(call._replace(at=at), body)[1] or task
        tasks.wait_durable(tasks.order)
        if task is not None:
            are_results_out(self.parts, task, task.event.stream)

    def accept(
        self, call: PushCall, body: bytes, *, most_ms: int | None = None
    ) -> tuple[dict[str, Any], InputTask | None, int]:
        """Accept a push's elements; return its answer, its task and the number of its journal record.

        ``most_ms`` limits the time in milliseconds for which shapes validate all elements; one element may
        take a tenth of it.

        The returned task is None if no element of the push entered the stream. The caller may send the answer
        of the push once `TaskQueue.wait_durable` has returned for the record number.

        Raises: as `push`.
        """
        digest = None
        if call.idempotency_key is not None:
            form = {"at": call.at, "each": call.each, "partial": call.partial}
            digest = fingerprint_of(body, call.media_type, **form)
        parts = self.parts
        tasks, acceptor, known = parts.tasks, parts.acceptor, parts.streams.known
        tasks.require_ready()
        at = call.at
        instant = at if type(at) is int and LEAST_MS <= at <= GREATEST_MS else None
        if at is not None and instant is None:
            instant = instant_ms(at, "at")
        while True:
            state = known.get(call.stream) or self.lifecycle.open_stream(call.stream)
            if state.derived_from is not None:
                raise ConflictError(
                    f"stream {state.name} is made by the query {state.derived_from}, "
                    "nothing else can enter it",
                    code="derived-stream",
                )
            began = time.perf_counter()
            mapping, decoded = state.record.mapping, None
            if mapping is None:
                decoded = decode_lines(
                    body, call.media_type, instant, state.timestamp_property, call.each is None
                )
            if decoded is None:
                options = DecodeOptions(
                    base_iri=parts.settings.base_iri,
                    at=instant,
                    each_triple=call.each == "triple",
                    timestamp_property=state.timestamp_property,
                    partial=call.partial,
                )
                if mapping is None:
                    decoded = decode(body, call.media_type, options)
                else:
                    compiled_mapping = compiled(
                        mapping, parts.settings.base_iri, call.retried is not None, parts.settings.records
                    )
                    decoded = decode_mapped(body, call.media_type, compiled_mapping, options)
            tasks.stages.decode.noted.append(time.perf_counter() - began)
            if state.record.shapes is not None and not _is_repeated(parts, state, call, digest):
                decoded = with_conforming_elements(
                    decoded,
                    state.record,
                    state.record.shapes,
                    parts.settings.conformance,
                    partial=call.partial,
                    most_ms=most_ms,
                )
            with tasks.lock:
                if state.dropped_for_good or state.derived_from is not None:
                    # The stream was dropped or became a derived stream while the body of the push was
                    # decoded.
                    continue
                if call.retried is not None:
                    # If two clients retry the same dead letter concurrently, the second client gets
                    # NotFoundError.
                    self._find_letter(state, call.retried.id)
                receipt, task = acceptor.push(state, decoded, call, digest)
                number = tasks.order
            parts.sequencer.drain()
            return _answer_of(receipt), task, number

    def source_position(self, stream_ref: str, source: str) -> str | None:
        """Return a source's position at its last push in the journal; None before the first push."""
        state = self.parts.streams.find(stream_ref)
        with self.parts.tasks.lock:
            return None if state is None else self.parts.acceptor.receipts.positions.get((state.iri, source))

    def declare_partitions(
        self, stream_ref: str, source: str, waiting: Mapping[str, bool]
    ) -> Mapping[str, int | None] | None:
        """Set the partitions of a source; True marks a partition with unread records.

        A partition with unread records delays the watermark. Returns the greatest event time of each
        partition, in milliseconds; None if the stream does not track partitions, as with a single partition
        or with arrival stamps.
        """
        tasks, state = self.parts.tasks, self.parts.streams.find(stream_ref)
        if state is None:
            if len(waiting) < 2:
                return None
            state = self.lifecycle.open_stream(stream_ref)
        tasks.require_ready()
        with tasks.lock:
            if not state.dropped_for_good and state.derived_from is None:
                declare_partitions(self.parts.acceptor, tasks.clock, state, source, waiting)
            known = state.partitions
            times = None if known is None else known.times_of(f"{source}/")
        self.parts.sequencer.drain()
        return times

    def reset_time(self, stream_ref: str) -> TimeReset:
        """Reset the time of a stream; its readers begin a new epoch, see `time_reset.reset_time`."""
        self.parts.tasks.require_ready()
        with self.parts.admin:
            return reset_time(self.parts, self.lifecycle, self.parts.streams.get(stream_ref))

    def heartbeat(self, stream_ref: str, at_ms: int, *, wait: bool = False) -> bool:
        """Advance a stream's watermark without data; return False if ``wait`` timed out before the results.

        Raises:
            InputError: the time is too far in the future.
            ConflictError: a query produces the stream.
            BackPressureError: the queue of tasks is full.
        """
        self.parts.tasks.require_ready()
        while True:
            state = self.parts.streams.find(stream_ref) or self.lifecycle.open_stream(stream_ref)
            with self.parts.tasks.lock:
                if state.derived_from is not None:
                    raise ConflictError(
                        f"the watermark of stream {state.name} follows the query {state.derived_from}",
                        code="derived-stream",
                    )
                if (
                    not state.dropped_for_good
                ):  # Another thread may have dropped the stream since the look-up.
                    settings = self.parts.settings.max_future_ms, self.parts.settings.queue_elements
                    task = heartbeat(self.parts.acceptor, self.parts.tasks, state, at_ms, *settings)
                    break
        self.parts.sequencer.drain()
        self.parts.tasks.wait_durable(task.number)
        return not wait or is_processed(self.parts, task, deadline_in())


def _answer_of(receipt: PushReceipt) -> dict[str, Any]:
    """Return the JSON answer to a push.

    Only a partial push has ``bad`` and ``early``, only a push of records has ``skipped``.
    """
    stream, first, last, accepted, late, durable, bad, dropped, skipped = receipt
    answer: dict[str, Any] = {
        "stream": stream, "first_seq": first, "last_seq": last, "accepted": accepted, "late": late,
        "durable": durable,
    }  # fmt: skip
    if bad is not None:
        answer["bad"] = [element.to_json() for element in bad]
        answer["early"] = sum(element.early for element in bad)
    answer["dropped"] = dropped
    if skipped is not None:
        answer["skipped"] = skipped
    return answer


def _require_shapes(parts: EngineParts, options: Mapping[str, Any]) -> None:
    """Raise NotFoundError if the options of a stream name shapes that are not registered."""
    shapes = options.get("shapes")
    if isinstance(shapes, str):
        parts.settings.conformance.require(check_name(shapes, "shapes"))


def _is_repeated(parts: EngineParts, state: StreamState, call: PushCall, digest: str | None) -> bool:
    """Return True if a push with the same idempotency key was accepted, so that it is not validated."""
    if call.idempotency_key is None or digest is None:
        return False
    with parts.tasks.lock:
        return parts.acceptor.receipts.find(state.iri, call.idempotency_key, digest) is not None
