"""What can be asked of an engine about streams: declare, push, move their time, look at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from quadrill.store.documents.times import GREATEST_MS, LEAST_MS, instant_ms
from quadrill.store.errors import ConflictError, NotFoundError, ReportedError
from quadrill.store.pushes.decode import DecodeOptions, decode, decode_lines
from quadrill.store.pushes.receipts import PushReceipt, fingerprint_of
from quadrill.store.pushes.records import type_of_record

from ..durable.tasks import InputTask, Task
from ..inputs import StreamInput
from ..language.mapping.decode import decode_mapped
from ..language.mapping.mapping import compiled
from ..queries.catalogue import QueryEntry
from ..streams.accept import StreamState
from ..streams.dead_letters import DeadLetter
from ..streams.movements import declare_partitions, heartbeat
from ..streams.push_call import PushCall
from .lifecycle import QueryLifecycle
from .parts import EngineParts
from .time_reset import TimeReset, reset_time
from .waiting import are_results_out, deadline_in, is_processed

T = TypeVar("T")

_HURRY_BYTES = 8 * 1024 * 1024
"""A push that does not want to wait for the log does so when this much is not written yet."""


class StreamService:
    """The operations of an engine on streams. Every method may be called from any thread.

    Methods that are given a stream's name or IRI raise NotFoundError where there is none; `push` and
    `heartbeat` declare it where the settings say so.
    """

    def __init__(self, parts: EngineParts, lifecycle: QueryLifecycle) -> None:
        self.parts = parts
        self.lifecycle = lifecycle

    def declare(
        self, iri: str | None = None, /, *, name: str | None = None, **options: Any
    ) -> tuple[StreamState, bool]:
        """Declare a stream or change its options; its state and whether it is new.

        Raises:
            InputError: a wrong option, neither name nor IRI.
            ConflictError: the name belongs to another IRI or the other way round.
        """
        with self.parts.admin:
            state, created = self.parts.streams.declare(iri, name, options)
            if created:
                self.lifecycle.announce_stream(state)
            return state, created

    def change(self, iri: str | None, /, *, name: str | None, **options: Any) -> str:
        """What `declare` would do: ``create``, ``change`` or ``same``; raises as it."""
        found, record = self.parts.streams.declared(iri, name, options)
        return "create" if found is None else "same" if record == found.record else "change"

    def drop(self, name_or_iri: str) -> None:
        """Forget a stream and what it retains.

        Raises:
            ConflictError: a query reads or makes it, be it one that waits, is paused or has failed.
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
        """True when a query that gets no inputs now would read a stream."""
        prepared = entry.prepared
        with suppress(ReportedError):  # what its text cannot be any more reads nothing
            prepared = prepared or self.lifecycle.prepare(entry.registration, entry.name)
        bound = () if entry.running is None else entry.running.timeline.inputs.streams
        return iri in bound or (prepared is not None and iri in prepared.streams)

    def inspect(self, name_or_iri: str, look: Callable[[StreamState, list[str]], T]) -> T:
        """What ``look`` finds of a stream and the names of its readers, while nothing enters it."""
        state = self.parts.streams.get(name_or_iri)
        with self.parts.tasks.lock:
            return look(state, self.parts.router.readers(state.iri))

    def retained(self, iris: Iterable[str], from_ms: int) -> list[StreamInput]:
        """What some streams retain from an event time on, in the order of acceptance."""
        with self.parts.tasks.lock:
            kept = self.parts.streams.kept_now()
        return list(self.parts.streams.retained(iris, from_ms, kept))

    def dead_letters(self, name_or_iri: str) -> list[dict[str, Any]]:
        """The late elements kept of a stream, and those at which a query failed, oldest first."""
        state = self.parts.streams.get(name_or_iri)
        with self.parts.tasks.lock:
            return [letter.to_json() for letter in state.dead_letters]

    def retry_dead_letter(self, name_or_iri: str, letter_id: str) -> dict[str, Any]:
        """Try a dead letter once more.

        A late element enters after all and corrects windows that still hold its time. An element at which a
        query failed stays where it is: that query begins anew with the retained elements from its time on. A
        record that could not be read is pushed.

        Raises: as `push`, for a record;
            ConflictError: the late element is in the stream already.
            BackPressureError: the queue is full.
        """
        self.parts.tasks.require_open()
        state = self.parts.streams.get(name_or_iri)
        letter = self._find_letter(state, letter_id)
        if letter.record is not None:
            call = PushCall(state.iri, type_of_record(letter.record), retried=letter)
            answer = self.push(call, letter.record.encode())
            return {"id": letter.id, "retried": "record", "seq": answer["first_seq"]}
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
            # Of two who try it at once the second one finds it no more.
            task = self.parts.acceptor.admit(state, self._find_letter(state, letter_id))
        answer = {"id": letter.id, "retried": "element", "seq": letter.element.seq}
        if not is_processed(self.parts, task, deadline_in()):
            answer["waited"] = False
        self.parts.tasks.wait_durable(self.parts.tasks.order)
        return answer

    def drop_dead_letters(self, name_or_iri: str, letter_ids: Sequence[str]) -> None:
        """Forget dead letters for good; raises NotFoundError, and forgets none, when one is not kept."""
        tasks, state = self.parts.tasks, self.parts.streams.get(name_or_iri)
        tasks.require_writable()
        with tasks.lock:
            self.parts.acceptor.forget(state, [self._find_letter(state, each) for each in letter_ids])
        tasks.wait_durable(tasks.order)

    def _find_letter(self, state: StreamState, letter_id: str) -> DeadLetter:
        """The dead letter of a stream; raises NotFoundError."""
        with self.parts.tasks.lock:
            letter = None if state.dropped_for_good else state.dead_letters.find(letter_id)
        if letter is None:
            raise NotFoundError(
                f"stream {state.name} keeps no dead letter {letter_id}", code="unknown-dead-letter"
            )
        return letter

    def push(self, call: PushCall, body: bytes) -> dict[str, Any]:
        """Accept the elements of a body; the JSON answer of the push.

        Raises:
            RdfSyntaxError, InputError, MediaTypeError, LimitError: the push is wrong; nothing was accepted.
            IdempotencyError: the key was used with another body.
            BackPressureError: the queue is full.
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
        """Push bodies with their times, one after the other, and wait for what they cause.

        The same code runs many times in a row, as all are read before they are accepted: a push takes two
        thirds of the time. What is raised is what `push` raises; the bodies before have been accepted.
        """
        parts, task, call = self.parts, None, PushCall(stream_ref, media_type)
        tasks, state = parts.tasks, parts.streams.known.get(stream_ref)
        tasks.require_ready()
        if bodies and state is not None and state.record.mapping is None:
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

    def accept(self, call: PushCall, body: bytes) -> tuple[dict[str, Any], InputTask | None, int]:
        """Accept the elements of a body: the answer, the turn of what entered, and the number of its record.

        The answer is to be given when `TurnQueue.wait_durable` has returned for the number.

        Raises: as `push`.
        """
        digest = None
        if call.idempotency_key is not None:
            given = {"at": call.at, "each": call.each, "partial": call.partial}
            digest = fingerprint_of(body, call.media_type, **given)
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
                    made = compiled(
                        mapping, parts.settings.base_iri, call.retried is not None, parts.settings.records
                    )
                    decoded = decode_mapped(body, call.media_type, made, options)
            tasks.stages.decode.noted.append(time.perf_counter() - began)
            with tasks.lock:
                if state.dropped_for_good or state.derived_from is not None:
                    continue  # dropped, or made by a query now, while the body was read
                if call.retried is not None:
                    # Of two who try it at once the second one finds it no more.
                    self._find_letter(state, call.retried.id)
                receipt, task = acceptor.push(state, decoded, call, digest)
                number = tasks.order
            parts.sequencer.drain()
            return _answer_of(receipt), task, number

    def source_position(self, stream_ref: str, source: str) -> str | None:
        """Where a source was at its last push to a stream that the journal has; None before the first."""
        state = self.parts.streams.find(stream_ref)
        with self.parts.tasks.lock:
            return None if state is None else self.parts.acceptor.receipts.positions.get((state.iri, source))

    def declare_partitions(
        self, stream_ref: str, source: str, waiting: Mapping[str, bool]
    ) -> Mapping[str, int | None] | None:
        """Take the partitions that a source has now, True for those with unread records: these hold back.

        Returns the greatest event time of each, in milliseconds; None where the stream has no time for each,
        as with a single one, or stamped at arrival.
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
        """Let the time of a stream begin anew; its readers begin a new epoch, see `time_reset.reset_time`."""
        self.parts.tasks.require_ready()
        with self.parts.admin:
            return reset_time(self.parts, self.lifecycle, self.parts.streams.get(stream_ref))

    def heartbeat(self, stream_ref: str, at_ms: int, *, wait: bool = False) -> bool:
        """Move a stream's watermark without data; False if ``wait`` ended before its results were out.

        Raises:
            InputError: too far in the future.
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
                if not state.dropped_for_good:  # as it may have been since just now
                    settings = self.parts.settings.max_future_ms, self.parts.settings.queue_elements
                    task = heartbeat(self.parts.acceptor, self.parts.tasks, state, at_ms, *settings)
                    break
        self.parts.sequencer.drain()
        self.parts.tasks.wait_durable(task.number)
        return not wait or is_processed(self.parts, task, deadline_in())


def _answer_of(receipt: PushReceipt) -> dict[str, Any]:
    """The JSON answer to a push; ``bad`` only for a partial push, ``skipped`` only for records."""
    stream, first, last, accepted, late, durable, bad, dropped, skipped = receipt
    answer: dict[str, Any] = {
        "stream": stream, "first_seq": first, "last_seq": last, "accepted": accepted, "late": late,
        "durable": durable,
    }  # fmt: skip
    if bad is not None:
        answer["bad"] = [element.to_json() for element in bad]
    answer["dropped"] = dropped
    if skipped is not None:
        answer["skipped"] = skipped
    return answer
