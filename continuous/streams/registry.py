"""All streams of an engine by name and IRI: declaration, look-up and removal, stored in the registry."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from quadrill.store.documents.members import (
    NAME,
    check_name,
    stream_iri,
    unused_stream_name,
)
from quadrill.store.errors import ConflictError, InputError, NotFoundError
from quadrill.store.registry import Registry
from quadrill.store.registry.records import Stamping, StreamRecord

from ..clock import Clock
from ..inputs import Arrival, Element, Idle, LogRecord, StreamInput
from ..language.stream_options import OPTION_FIELDS, declared
from ..settings import EngineSettings
from .accept import RetainedInputs, StreamState
from .dead_letters import DeadLetter, DeadLetters, Reason

_MOST_FAILED = 100
"""Maximum number of elements of one instant that become dead letters when a query fails at the instant."""


@dataclass(eq=False)
class StreamRegistry:
    """All streams of an engine, stored across restarts.

    The lock of the input order guards the streams' event times and counts.

    Attributes:
        known: the streams by name and by IRI; no name is an IRI.
    """

    _registry: Registry | None
    _clock: Clock
    _settings: EngineSettings
    _lock: threading.RLock
    known: dict[str, StreamState] = field(default_factory=dict)

    def __iter__(self) -> Iterator[StreamState]:
        # The copy of the dictionary's values is atomic, so it needs no lock. With a lock around the copy, the
        # engine's thread, which iterates between two tasks, and clients that push would wait for each other
        # at every push.
        return iter({state.name: state for state in [*self.known.values()]}.values())

    def find(self, name_or_iri: str) -> StreamState | None:
        """Return the stream with this name or IRI; None if no such stream is declared."""
        found = self.known.get(name_or_iri)
        if found is None and NAME.match(name_or_iri):
            found = self.known.get(self._settings.base_iri + name_or_iri)
        return found

    def get(self, name_or_iri: str) -> StreamState:
        """Return the stream with this name or IRI; raises NotFoundError if no such stream is declared."""
        found = self.find(name_or_iri)
        if found is None:
            raise NotFoundError(
                f"no stream {name_or_iri} is declared",
                code="unknown-stream",
                hint="GET /streams lists them; PUT /streams/<name> declares one",
            )
        return found

    def restore(self) -> None:
        """Load all streams from the registry's database."""
        if self._registry is None:
            return
        with self._lock:
            for record in self._registry.streams.all():
                if self.find(record.iri) is None:
                    self._enter(record)

    def declare(self, iri: str | None, name: str | None, options: dict[str, Any]) -> tuple[StreamState, bool]:
        """Declare a stream or change the options of a declared one; return the stream and True if it is new.

        Raises:
            InputError: an option is wrong, or neither name nor IRI is given.
            ConflictError: name and IRI belong to different streams, the stream already has elements of the
                other kind of stamping, or a derived stream would get an ``idle_timeout``.
        """
        with self._lock:
            found, record = self.declared(iri, name, options)
            if found is None:
                return self._add(record), True
            if record != found.record:
                found.configure(record, self._settings)
                self._write(record)
            return found, False

    def declared(
        self, iri: str | None, name: str | None, options: dict[str, Any]
    ) -> tuple[StreamState | None, StreamRecord]:
        """Return the existing stream, if any, and the record that a declaration would store.

        Raises the same errors as `declare` does for a stream.
        """
        if iri is None and name is None:
            raise InputError("a declaration needs a name or an IRI")
        with self._lock:
            found = self._existing(iri, name)
            if found is None:
                address = iri or stream_iri(check_name(name or "", "stream name"), self._settings.base_iri)
                chosen = name or unused_stream_name(address, self.known)
                return None, self._read(chosen, address, options, self._clock.now_ms())
            if found.derived_from is not None and options.get("idle_timeout") is not None:
                raise ConflictError(
                    f"stream {found.name} is made by the query {found.derived_from}: it is idle while all "
                    "streams that this query reads are idle, and has no idle_timeout",
                    code="derived-stream",
                    hint="Declare idle_timeout for the streams that the query reads",
                )
            record = self._read(found.name, found.iri, options, found.record.created_ms)
            if record.stamping is None and (found.counts.accepted or found.record.mapping is None):
                record = replace(record, stamping=found.record.stamping)
            elif found.counts.accepted and record.stamping != found.record.stamping:
                raise ConflictError(
                    f"stream {found.name} is {found.record.stamping}-stamped, it cannot become "
                    f"{record.stamping}-stamped",
                    code="stamping",
                )
            return found, record

    def _read(self, name: str, iri: str, options: dict[str, Any], created_ms: int) -> StreamRecord:
        plain = StreamRecord(name, iri, self._settings.lateness_ms, declared=True, created_ms=created_ms)
        return declared(plain, options, self._settings.base_iri)

    def _existing(self, iri: str | None, name: str | None) -> StreamState | None:
        by_name = None if name is None else self.find(name)
        if by_name is not None and iri is not None and by_name.iri != iri:
            raise ConflictError(f"stream {name} has the IRI <{by_name.iri}>", code="stream-exists")
        by_iri = None if iri is None else self.find(iri)
        if by_iri is not None and name is not None and by_iri.name != name:
            raise ConflictError(f"<{iri}> is the stream {by_iri.name}", code="stream-exists")
        return by_name or by_iri

    def open(self, name_or_iri: str) -> tuple[StreamState, bool]:
        """Return the stream with this name or IRI, declaring an unknown one, and True if it is new.

        Raises:
            NotFoundError: the stream is unknown, and the setting forbids automatic declaration.
        """
        with self._lock:
            found = self.find(name_or_iri)
            if found is not None:
                return found, False
            if not self._settings.auto_declare:
                self.get(name_or_iri)
            iri = stream_iri(name_or_iri, self._settings.base_iri)
            name = name_or_iri if iri != name_or_iri else unused_stream_name(iri, self.known)
            record = StreamRecord(name, iri, self._settings.lateness_ms, created_ms=self._clock.now_ms())
            return self._add(record), True

    def remove(self, state: StreamState) -> None:
        """Remove a stream from memory and from the registry's database."""
        with self._lock:
            self._forget(state)
            if self._registry is not None:
                self._registry.streams.remove(state.name)

    def stamp(self, state: StreamState, stamping: Stamping) -> None:
        """Store whether a stream's event times come with its elements or from the clock at arrival.

        The first element of a stream decides whether its event times come with the elements.
        """
        with self._lock:
            record = replace(state.record, stamping=stamping)
            state.configure(record, self._settings)
            self._write(record)

    # --- for queries ----------------------------------------------------------------------------

    def check_output(self, iri: str, query: str | None) -> None:
        """Raise ConflictError if a query's output stream has pushed elements or another producing query."""
        state = self.find(iri)
        if state is None:
            return
        if state.derived_from not in (None, query):
            raise ConflictError(
                f"<{state.iri}> is made by the query {state.derived_from} already", code="stream-exists"
            )
        if state.derived_from is None and state.counts.accepted > state.counts.derived:
            raise ConflictError(f"elements were pushed to <{state.iri}>", code="stream-exists")

    def open_output(self, iri: str, query: str) -> StreamState:
        """Return the output stream of a CONSTRUCT query, declaring the stream if it is unknown."""
        state, _ = self.open(iri)
        with self._lock:
            state.derived_from = query
            if state.record.stamping is None:
                self.stamp(state, "event")
        return state

    def wait_for(self, reader: str, lateness: Mapping[str, int]) -> None:
        """Record the lateness in milliseconds that a query asks for on each stream that it reads."""
        with self._lock:
            for iri, lateness_ms in lateness.items():
                state = self.find(iri)
                if state is not None and lateness_ms:
                    state.reader_lateness[reader] = lateness_ms
                    state.wait_for_readers()

    def release(self, reader: str) -> None:
        """Remove a query as reader and as producer of streams."""
        with self._lock:
            for state in self:
                if state.reader_lateness.pop(reader, None) is not None:
                    state.wait_for_readers()
                if state.derived_from == reader:
                    state.derived_from = None

    def keep_failed(
        self, event: StreamInput, instant: int | None, query: str, error: str | None, reason: Reason
    ) -> None:
        """Store the elements of the instant at which a query failed as dead letters of the input's stream."""
        state = self.find(event.stream)
        if state is None:
            return
        with self._lock:
            came = event.elements if isinstance(event, Arrival) else ()
            found = [element for element in came if element.event_time == instant]
            if not found:
                # The failed input has no elements of the instant, which come from an earlier input. Elements
                # that arrived after the failed input are excluded from the dead letters.
                arrivals = [each.input for each in state.retained.inputs if isinstance(each.input, Arrival)]
                until = came[-1].seq if came else state.next_seq
                there = [one for each in arrivals for one in each.elements if one.seq <= until]
                found = [one for one in there if one.event_time == instant]
            for element in (found or list(came))[:_MOST_FAILED]:
                state.dead_letters.add(DeadLetter(element, reason, query, error, True))

    def keep_missed(self, event: Arrival, missed: Sequence[list[Element]]) -> None:
        """Store late elements that no reading query could apply as dead letters; called within a task.

        ``missed`` has one list of late elements for each reading query; the lists are cleared.
        """
        found = [each for each in event.elements if all(any(each is one for one in of) for of in missed)]
        for elements in missed:
            elements.clear()
        state = self.find(event.stream) if missed and found else None
        if state is None:
            return
        with self._lock:
            for element in found:
                letter = DeadLetter(element, "late")
                known = state.dead_letters.find(letter.id)
                # A replay processes elements that the checkpoint has counted already, so these are not
                # counted again.
                if known is None or known.entered:
                    state.dead_letters.add(letter)
                    state.counts.missed += 1

    def forget_failed(self, query: str, from_ms: int) -> None:
        """Remove a query's dead letters at or after `from_ms`, because it evaluates these elements again."""
        with self._lock:
            for letters in [state.dead_letters for state in self]:
                letters.remove(
                    [each for each in letters if each.query == query and each.element.event_time >= from_ms]
                )

    def newest(self, iri: str, most: int) -> list[Element]:
        """Return the newest retained elements of a stream, newest first, at most ``most``."""
        with self._lock:
            state = self.known.get(iri)
            inputs = () if state is None else reversed(state.retained.inputs)
            arrivals = (each.input for each in inputs if isinstance(each.input, Arrival))
            return list(islice((one for each in arrivals for one in reversed(each.elements)), most))

    def kept_now(self) -> dict[str, list[LogRecord]]:
        """Return the retained inputs of each stream without a producing query; the caller holds the lock."""
        return {each.iri: list(each.retained.inputs) for each in self if each.derived_from is None}

    def retained(
        self, iris: Iterable[str], from_ms: int, kept: dict[str, list[LogRecord]]
    ) -> Iterator[StreamInput]:
        """Yield the retained inputs of streams from event time ``from_ms`` on, in the order of acceptance.

        ``kept`` is an earlier result of `kept_now`; streams that are missing in ``kept`` yield their current
        inputs.
        """
        with self._lock:
            found = [(iri, self.find(iri)) for iri in iris]
            logs = [
                kept[iri] if iri in kept else list(each.retained.inputs if each else ())
                for iri, each in found
            ]
        chosen = [_since(records, from_ms) for records in logs]
        for record in heapq.merge(*chosen, key=lambda record: record.order):
            yield record.input

    def _add(self, record: StreamRecord) -> StreamState:
        state = self._enter(record)
        if self._registry is not None:
            try:
                self._registry.streams.add(record)
            except BaseException:
                self._forget(state)
                raise
        return state

    def _enter(self, record: StreamRecord) -> StreamState:
        if record.name in self.known or record.iri in self.known:
            taken = "name" if record.name in self.known else "IRI"
            raise ConflictError(
                f"the {taken} of stream {record.name} <{record.iri}> is taken", code="stream-exists"
            )
        settings = self._settings
        state = StreamState(
            record, DeadLetters(settings.dead_letters), RetainedInputs(settings.retained_elements)
        )
        state.configure(record, settings)
        self.known[record.name] = self.known[record.iri] = state
        return state

    def _forget(self, state: StreamState) -> None:
        del self.known[state.name], self.known[state.iri]
        state.dropped_for_good = True

    def _write(self, record: StreamRecord) -> None:
        if self._registry is None:
            return
        changes = {each: getattr(record, each) for each in OPTION_FIELDS}
        try:
            self._registry.streams.update(record.name, **changes, declared=record.declared)
        except NotFoundError:
            self._registry.streams.add(record)


def _since(records: Iterable[LogRecord], from_ms: int) -> Iterator[LogRecord]:
    """Yield retained inputs in order, without elements and time movements before ``from_ms``."""
    for record in records:
        event = record.input
        if isinstance(event, Arrival):
            if kept := tuple(element for element in event.elements if element.event_time >= from_ms):
                yield LogRecord(record.order, event._replace(elements=kept))
            continue
        watermark = event.after.watermark()
        if isinstance(event, Idle) or (watermark is not None and watermark >= from_ms):
            yield record


def conforming_to(streams: StreamRegistry, shapes: str) -> list[str]:
    """Return the names of the streams whose declaration names these shapes."""
    return [state.name for state in streams if state.record.shapes == shapes]
