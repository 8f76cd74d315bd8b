"""What can be asked of an engine about streams: declare, push, move their time, look at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from quadrill.store.documents.times import GREATEST_MS, LEAST_MS, instant_ms
from quadrill.store.errors import ConflictError, NotFoundError, QuadrillError
from quadrill.store.pushes.decode import DecodeOptions, decode, decode_lines
from quadrill.store.pushes.receipts import PushReceipt, fingerprint_of
from quadrill.store.pushes.records import type_of_record

from ..durable.turns import InputTurn, Turn
from ..inputs import Element
from ..language.mapping.decode import decode_mapped
from ..language.mapping.mapping import compiled
from ..queries.catalogue import Entry
from ..settings import EngineSettings
from ..streams.accept import StreamState
from ..streams.dead_letters import DeadLetter
from ..streams.movements import declare_partitions, heartbeat
from ..streams.partitions import DIRECT
from .lifecycle import QueryLifecycle
from .parts import EngineParts
from .time_reset import TimeReset, reset_time
from .waiting import are_results_out, is_processed, within

T = TypeVar("T")

_HURRY_BYTES = 8 * 1024 * 1024
"""A push that does not want to wait for the log does so when this much is not written yet."""


class StreamService:
    """The half of an engine that deals with streams. Every method may be called from any thread.

    Methods that are given a stream's name or IRI raise NotFoundError where there is none; `push` and
    `heartbeat` declare it where the settings say so.
    """

    settings: EngineSettings
    parts: EngineParts
    lifecycle: QueryLifecycle

    def declare_stream(
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
                self.lifecycle.tell_new_stream(state)
            return state, created

    def stream_change(self, iri: str | None, /, *, name: str | None, **options: Any) -> str:
        """What `declare_stream` would do: ``create``, ``change`` or ``same``; raises as it."""
        found, record = self.parts.streams.declared(iri, name, options)
        return "create" if found is None else "same" if record == found.record else "change"

    def drop_stream(self, name_or_iri: str) -> None:
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
            self.parts.turns.require_writable()
            self.parts.streams.remove(state)
            with self.parts.turns.lock:
                self.parts.acceptor.receipts.forget(state.iri)
            turn = Turn()
            self.parts.turns.submit(turn, "unstream", stream=state.iri, created=state.record.created_ms)
            self.parts.sequencer.finish(turn)

    def _reads(self, entry: Entry, iri: str) -> bool:
        """True when a query that gets no inputs now would read a stream."""
        prepared = entry.prepared
        with suppress(QuadrillError):  # what its text cannot be any more reads nothing
            prepared = prepared or self.lifecycle.prepare(entry.registration, entry.name)
        bound = () if entry.running is None else entry.running.timeline.inputs.streams
        return iri in bound or (prepared is not None and iri in prepared.streams)

    def look_at_stream(self, name_or_iri: str, look: Callable[[StreamState, list[str]], T]) -> T:
        """What ``look`` finds of a stream and the names of its readers, while nothing enters it."""
        state = self.parts.streams.get(name_or_iri)
        with self.parts.turns.lock:
            return look(state, self.parts.router.readers(state.iri))

    def find_stream(self, name_or_iri: str) -> StreamState | None:
        """The stream of a name or IRI, with its counters as they are now."""
        return self.parts.streams.find(name_or_iri)

    def stream_states(self) -> list[StreamState]:
        """The streams with their counters, as they are now."""
        return list(self.parts.streams)

    def newest_elements(self, iri: str, most: int) -> list[Element]:
        """The newest elements that a stream retains, at most so many; none of a stream that is not there."""
        return self.parts.streams.newest(iri, most)

    def dead_letters(self, name_or_iri: str) -> list[dict[str, Any]]:
        """The late elements kept of a stream, and those at which a query failed, oldest first."""
        state = self.parts.streams.get(name_or_iri)
        with self.parts.turns.lock:
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
        self.parts.turns.require_open()
        state = self.parts.streams.get(name_or_iri)
        letter = self._letter(state, letter_id)
        if letter.record is not None:
            record, kind = letter.record.encode(), type_of_record(letter.record)
            answer = self.push(state.iri, record, kind, retried=letter)
            return {"id": letter.id, "retried": "record", "seq": answer["first_seq"]}
        if letter.query is not None:
            entry = self.parts.catalogue.get(letter.query)
            with self.parts.admin:
                begun = self.lifecycle.begin_anew(entry, letter.element.event_time)
            self.parts.sequencer.finish(begun)
            return {"id": letter.id, "retried": "query", "query": letter.query, "state": entry.state}
        if letter.entered:
            raise ConflictError(
                f"the late element {letter_id} has entered stream {state.name}, whose policy is admit",
                code="entered",
            )
        self.parts.turns.require_writable()
        self.parts.turns.follow_commits()
        with self.parts.turns.lock:
            # Of two who try it at once the second one finds it no more.
            turn = self.parts.acceptor.admit(state, self._letter(state, letter_id))
        answer = {"id": letter.id, "retried": "element", "seq": letter.element.seq}
        if not is_processed(self.parts, turn, within()):
            answer["waited"] = False
        self.parts.turns.wait_durable(self.parts.turns.order)
        return answer

    def drop_dead_letters(self, name_or_iri: str, letter_ids: Sequence[str]) -> None:
        """Forget dead letters for good; raises NotFoundError, and forgets none, when one is not kept."""
        turns, state = self.parts.turns, self.parts.streams.get(name_or_iri)
        turns.require_writable()
        with turns.lock:
            self.parts.acceptor.forget(state, [self._letter(state, each) for each in letter_ids])
        turns.wait_durable(turns.order)

    def _letter(self, state: StreamState, letter_id: str) -> DeadLetter:
        """The dead letter of a stream; raises NotFoundError."""
        with self.parts.turns.lock:
            letter = None if state.dropped_for_good else state.dead_letters.find(letter_id)
        if letter is None:
            raise NotFoundError(
                f"stream {state.name} keeps no dead letter {letter_id}", code="unknown-dead-letter"
            )
        return letter

    def push(
        self,
        stream_ref: str,
        body: bytes,
        media_type: str,
        *,
        at: int | str | None = None,
        each: str | None = None,
        partial: bool = False,
        wait: bool = False,
        durable: bool = True,
        idempotency_key: str | None = None,
        position: tuple[str, str] | None = None,
        retried: DeadLetter | None = None,
        timeout: float | None = None,
        partition: str = DIRECT,
    ) -> dict[str, Any]:
        """Accept the elements of a body; the JSON answer of the push.

        Args:
            stream_ref: name or IRI; an unknown stream is declared.
            body: the bytes.
            media_type: value of Content-Type, parameters included.
            at: the event time of every element that has none of its own line.
            each: ``triple`` makes one element of each triple.
            partial: accept the good elements and list the bad ones.
            wait: answer once every result that the push causes is in the feeds. ``waited`` in the answer is
                False if that took longer than ``timeout``; the elements are accepted all the same.
            durable: False answers without waiting for the input log; what was answered so can be lost with
                the process. Too much that waits is waited for all the same.
            idempotency_key: the same key and body get the same answer and nothing is accepted twice.
            position: a source and where it is behind this push, kept with the elements: `source_position`.
            retried: the dead letter that is pushed, which is one no more.
            timeout: seconds to wait for results at most, `WAIT_S` by default.
            partition: the source's partition that it is of, behind the source's name.

        Raises:
            RdfSyntaxError, InputError, MediaTypeError, LimitError: the push is wrong; nothing was accepted.
            IdempotencyError: the key was used with another body.
            BackPressureError: the queue is full.
        """
        key = None
        if idempotency_key is not None:
            key = idempotency_key, fingerprint_of(body, media_type, at=at, each=each, partial=partial)
        answer, turn, number = self.take(
            stream_ref,
            body,
            media_type,
            at=at,
            each=each,
            partial=partial,
            key=key,
            position=position,
            retried=retried,
            partition=partition,
        )
        turns = self.parts.turns
        if durable or (turns.journal is not None and turns.journal.log.waiting_bytes > _HURRY_BYTES):
            turns.wait_durable(number)
        else:
            answer["durable"] = False
        if wait:
            answer["waited"] = are_results_out(self.parts, turn, answer["stream"], timeout)
        return answer

    def push_each(self, stream_ref: str, bodies: Sequence[tuple[bytes, int]], media_type: str) -> None:
        """Push bodies with their times, one after the other, and wait for what they cause.

        The same code runs many times in a row, as all are read before they are accepted: a push takes two
        thirds of the time. What is raised is what `push` raises; the bodies before have been accepted.
        """
        parts, turn = self.parts, None
        turns, state = parts.turns, parts.streams.known.get(stream_ref)
        turns.require_ready()
        if bodies and state is not None and state.record.mapping is None:
            stamp = state.timestamp_property
            read = [
                decode_lines(body, media_type, at, stamp, True) if LEAST_MS <= at <= GREATEST_MS else None
                for body, at in bodies
            ]
            try:
                with turns.lock:
                    plain = [each for each in read if each is not None]
                    if len(plain) == len(read) and not (state.dropped_for_good or state.derived_from):
                        for decoded in plain:
                            turn = parts.acceptor.push(state, decoded)[1] or turn
                        bodies = ()
            finally:
                parts.sequencer.drain()
        for body, at in bodies:
            turn = self.take(stream_ref, body, media_type, at=at)[1] or turn
        turns.wait_durable(turns.order)
        if turn is not None:
            are_results_out(self.parts, turn, turn.event.stream)

    def wait_durable(self, number: int) -> None:
        """Return when everything up to a number of `take` is in the input log.

        Raises:
            StoreUnwritableError: not now.
        """
        self.parts.turns.wait_durable(number)

    def take(
        self,
        stream_ref: str,
        body: bytes,
        media_type: str,
        *,
        at: int | str | None = None,
        each: str | None = None,
        partial: bool = False,
        key: tuple[str, str] | None = None,
        position: tuple[str, str] | None = None,
        retried: DeadLetter | None = None,
        partition: str = DIRECT,
    ) -> tuple[dict[str, Any], InputTurn | None, int]:
        """Accept the elements of a body: the answer, the turn of what entered, and the number of its record.

        The answer is to be given when `wait_durable` has returned for the number. Arguments and errors are
        those of `push`; ``key`` is an idempotency key and a digest of all that it stands for.
        """
        parts = self.parts
        turns, acceptor, known = parts.turns, parts.acceptor, parts.streams.known
        turns.require_ready()
        instant = at if type(at) is int and LEAST_MS <= at <= GREATEST_MS else None
        if at is not None and instant is None:
            instant = instant_ms(at, "at")
        while True:
            state = known.get(stream_ref) or self.lifecycle.open_stream(stream_ref)
            if state.derived_from is not None:
                raise ConflictError(
                    f"stream {state.name} is made by the query {state.derived_from}, "
                    "nothing else can enter it",
                    code="derived-stream",
                )
            began = time.perf_counter()
            mapping, decoded = state.record.mapping, None
            if mapping is None:
                decoded = decode_lines(body, media_type, instant, state.timestamp_property, each is None)
            if decoded is None:
                options = DecodeOptions(
                    base_iri=self.settings.base_iri,
                    at=instant,
                    each_triple=each == "triple",
                    timestamp_property=state.timestamp_property,
                    partial=partial,
                )
                if mapping is None:
                    decoded = decode(body, media_type, options)
                else:
                    made = compiled(
                        mapping, self.settings.base_iri, retried is not None, self.settings.records
                    )
                    decoded = decode_mapped(body, media_type, made, options)
            turns.stages.decode.noted.append(time.perf_counter() - began)
            with turns.lock:
                if state.dropped_for_good or state.derived_from is not None:
                    continue  # dropped, or made by a query now, while the body was read
                if retried is not None:
                    # Of two who try it at once the second one finds it no more.
                    self._letter(state, retried.id)
                receipt, turn = acceptor.push(
                    state,
                    decoded,
                    partial=partial,
                    key=key,
                    position=position,
                    retried=retried,
                    partition=partition,
                )
                number = turns.order
            parts.sequencer.drain()
            return _answer_of(receipt), turn, number

    def source_position(self, stream_ref: str, source: str) -> str | None:
        """Where a source was at its last push to a stream that the journal has; None before the first."""
        state = self.parts.streams.find(stream_ref)
        with self.parts.turns.lock:
            return None if state is None else self.parts.acceptor.receipts.positions.get((state.iri, source))

    def declare_partitions(
        self, stream_ref: str, source: str, waiting: Mapping[str, bool]
    ) -> Mapping[str, int | None] | None:
        """Take the partitions that a source has now, True for those with unread records: these hold back.

        Returns the greatest event time of each, in milliseconds; None where the stream has no time for each,
        as with a single one, or stamped at arrival.
        """
        turns, state = self.parts.turns, self.parts.streams.find(stream_ref)
        if state is None:
            if len(waiting) < 2:
                return None
            state = self.lifecycle.open_stream(stream_ref)
        turns.require_ready()
        with turns.lock:
            if not state.dropped_for_good and state.derived_from is None:
                declare_partitions(self.parts.acceptor, turns.clock, state, source, waiting)
            known = state.partitions
            times = None if known is None else known.times_of(f"{source}/")
        self.parts.sequencer.drain()
        return times

    def reset_time(self, stream_ref: str) -> TimeReset:
        """Let the time of a stream begin anew; its readers begin a new epoch, see `time_reset.reset_time`."""
        self.parts.turns.require_ready()
        with self.parts.admin:
            return reset_time(self.parts, self.lifecycle, self.parts.streams.get(stream_ref))

    def heartbeat(self, stream_ref: str, at_ms: int, *, wait: bool = False) -> bool:
        """Move a stream's watermark without data; False if ``wait`` ended before its results were out.

        Raises:
            InputError: too far in the future.
        """
        self.parts.turns.require_ready()
        while True:
            state = self.parts.streams.find(stream_ref) or self.lifecycle.open_stream(stream_ref)
            with self.parts.turns.lock:
                if state.derived_from is not None:
                    raise ConflictError(
                        f"the watermark of stream {state.name} follows the query {state.derived_from}",
                        code="derived-stream",
                    )
                if not state.dropped_for_good:  # as it may have been since just now
                    settings = self.settings.max_future_ms, self.settings.queue_elements
                    turn = heartbeat(self.parts.acceptor, self.parts.turns, state, at_ms, *settings)
                    break
        self.parts.sequencer.drain()
        self.parts.turns.wait_durable(turn.number)
        return not wait or is_processed(self.parts, turn, within())


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
