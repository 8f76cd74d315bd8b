"""Acceptance of pushes: check a push as a whole, number its elements, journal and enqueue it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Any

from quadrill.store.documents.element_terms import relabel_blank_nodes
from quadrill.store.errors import LimitError
from quadrill.store.pushes.decode import (
    PROV_GENERATED_AT_TIME,
    BadElement,
    DecodedElement,
    DecodedPush,
    EarlyElement,
)
from quadrill.store.pushes.receipts import PushReceipt, Receipts
from quadrill.store.registry.element_checks import check_elements
from quadrill.store.registry.records import Stamping, StreamRecord

from ..clock import Clock
from ..durable.records import note_input
from ..durable.tasks import InputTask, TaskQueue, weight_of
from ..inputs import Advance, Arrival, Element, LogRecord, StreamInput, StreamTime
from ..settings import EngineSettings
from .dead_letters import DeadLetter, DeadLetters
from .partitions import DIRECT, Partitions
from .push_call import PushCall

_FIGURES = (
    "seen floor idle next_seq counts.accepted counts.late counts.dropped counts.refused last_input_ms "
    "counts.derived promised counts.missed counts.early".split()
)
_figures_of = attrgetter(*_FIGURES)
# The function `tuple.__new__` creates a named tuple faster than the generated `__new__` of its class.
_made = tuple.__new__
_time_of, _statements_of, _blank_of = attrgetter("at"), attrgetter("statements"), attrgetter("blank")


@dataclass(slots=True)
class StreamCounts:
    """Counts of the elements of one stream since the stream was declared.

    Attributes:
        accepted: elements that got a sequence number, late ones included.
        derived: accepted elements that a query produced; all other accepted elements were pushed.
        late: elements whose event time was below the watermark of the stream.
        dropped: late elements that did not enter the stream.
        refused: elements that failed the checks of the stream, in pushes that accept the good elements
            (`PushCall.partial`).
        missed: late elements that were admitted but that no reading query could apply any more.
        early: refused elements whose event time was too far ahead of the clock.
    """

    accepted: int = 0
    derived: int = 0
    late: int = 0
    dropped: int = 0
    refused: int = 0
    missed: int = 0
    early: int = 0

    @property
    def lost(self) -> int:
        """Number of late elements without effect: dropped, or admitted too late for every reading query."""
        return self.dropped + self.missed


@dataclass(slots=True)
class RetainedInputs:
    """The newest inputs of one stream in memory, oldest first.

    Attributes:
        most: upper bound on the weight of all retained inputs.
        ms: milliseconds of event time for which an input is retained.
        inputs: the retained inputs with their places in the engine's input order.
        elements: number of elements in the retained inputs.
        weight: total weight of the retained inputs; see `weight_of`.
    """

    most: int
    ms: int = 0
    inputs: deque[LogRecord] = field(default_factory=deque)
    elements: int = 0
    weight: int = 0

    def add(self, order: int, event: StreamInput) -> int:
        """Retain an input, evict inputs that are out of retention, and return the weight of the new input.

        A single push above the bound on the weight of retained inputs is retained until the next push.
        """
        inputs, weight = self.inputs, 0
        if type(event) is Arrival:
            self.elements += len(event.elements)
            weight = weight_of(event.elements)
            self.weight += weight
        elif (
            type(event) is Advance
            and len(inputs) > 1
            and type(inputs[-1].input) is type(inputs[-2].input) is Advance
        ):
            # Of consecutive time movements (`Advance` inputs) of a stream only the first and the last
            # matter, so the ones between are discarded and a stream without elements does not fill the
            # memory.
            inputs.pop()
        inputs.append(_made(LogRecord, (order, event, weight)))
        floor = None if (seen := event.after.seen) is None else seen - self.ms
        while inputs and (
            self.weight > self.most
            and self.weight > inputs[0].weight
            or (floor is not None and _is_before(inputs[0].input, floor))
        ):
            self._forget_first()
        return weight

    def forget_before(self, order: int) -> None:
        """Evict the retained inputs before place `order` of the input order.

        The journal has deleted the inputs before place `order`, too.
        """
        while self.inputs and self.inputs[0].order < order:
            self._forget_first()

    def _forget_first(self) -> None:
        _, event, weight = self.inputs.popleft()
        self.weight -= weight
        self.elements -= len(event.elements) if type(event) is Arrival else 0

    @property
    def oldest(self) -> int | None:
        """The least event time in the oldest retained push; None if no push is retained."""
        arrivals = (each.input for each in self.inputs if isinstance(each.input, Arrival))
        return next((min(element.event_time for element in each.elements) for each in arrivals), None)

    def clear(self) -> None:
        """Evict all retained inputs of the stream."""
        self.inputs.clear()
        self.elements = self.weight = 0


@dataclass(slots=True)
class StreamState:
    """One stream: settings, event time, counts and retained inputs.

    The lock of the input order guards the state of a stream.

    Attributes:
        record: the stream's settings as the registry stores them.
        lateness_ms: the greatest lateness among the stream's own setting and those of its reading queries.
        idle_timeout_ms: milliseconds without input after which the stream is idle; 0 for never.
        seen: the greatest event time of the stream, or of its slowest partition; None before any element.
        floor: an event time that a heartbeat or the clock guaranteed; elements below the floor are late.
        idle: True while the windows of other streams do not wait for this stream.
        next_seq: the sequence number of the next element.
        last_input_ms: wall-clock time of the last input of the stream, in milliseconds since 1970.
        last_input_steady: monotonic-clock time of the last input of the stream, in milliseconds.
        looked_steady: monotonic-clock time at which the engine last checked the stream's clock and silence.
        promised: the event time of the last heartbeat; None if an element has arrived since the heartbeat.
        derived_from: the name of the query that produces the stream; None for a stream with pushes.
        reader_lateness: the lateness that each reading query asks for, by the name of the query.
        partitions: the partitions of the stream's sources; None if the stream has no partitions.
        dropped_for_good: True once the stream was dropped; a dropped stream accepts no further elements.
    """

    record: StreamRecord
    dead_letters: DeadLetters
    retained: RetainedInputs
    iri: str = ""
    timestamp_property: str = PROV_GENERATED_AT_TIME
    lateness_ms: int = 0
    idle_timeout_ms: int = 0
    seen: int | None = None
    floor: int | None = None
    idle: bool = False
    next_seq: int = 1
    counts: StreamCounts = field(default_factory=StreamCounts)
    last_input_ms: int | None = None
    last_input_steady: int | None = None
    looked_steady: int | None = None
    promised: int | None = None
    derived_from: str | None = None
    reader_lateness: dict[str, int] = field(default_factory=dict)
    partitions: Partitions | None = None
    dropped_for_good: bool = False

    def configure(self, record: StreamRecord, settings: EngineSettings) -> None:
        """Apply the stream's settings in `record`; the caller must not change the stream's name and IRI."""
        self.record = record
        self.iri = record.iri
        self.timestamp_property = record.timestamp_property or PROV_GENERATED_AT_TIME
        idle, retention = record.idle_timeout_ms, record.retention_ms
        self.idle_timeout_ms = settings.idle_timeout_ms if idle is None else idle
        self.retained.ms = settings.retention_ms if retention is None else retention
        self.wait_for_readers()

    @property
    def name(self) -> str:
        """The name under which the stream was declared."""
        return self.record.name

    def wait_for_readers(self) -> None:
        """Set the stream's lateness to the greatest of its own setting and its readers' lateness."""
        self.lateness_ms = max([self.record.lateness_ms, *self.reader_lateness.values()])

    @property
    def time(self) -> StreamTime:
        """The stream's current event time: greatest event time seen, floor and lateness."""
        ahead = None if self.partitions is None else self.partitions.newest
        return StreamTime(self.seen, self.floor, self.record.lateness_ms, ahead)

    @property
    def watermark(self) -> int | None:
        """The watermark: elements with earlier event times are late.

        The watermark of a stream is None before the first input.
        """
        seen, floor = self.seen, self.floor
        if seen is None:
            return floor
        moved = seen - self.lateness_ms
        return moved if floor is None or moved > floor else floor

    def take(
        self,
        elements: Sequence[Element],
        times: Sequence[int],
        watermark: int | None,
        partition: str = DIRECT,
    ) -> tuple[Sequence[Element], list[int], list[int]]:
        """Count a stream's new elements, apply the late policy and advance the stream's event time.

        Returns:
            The elements that enter the stream; the positions of late elements; the positions of dropped ones.
        """
        self.next_seq += len(elements)
        self.counts.accepted += len(elements)
        late: list[int] = []
        dropped = late
        entering = elements
        if watermark is not None and times and min(times) < watermark:
            admits = self.record.late == "admit"
            late = [place for place, at in enumerate(times) if at < watermark]
            dropped = [] if admits else late
            entering = elements if admits else [each for each in elements if each.event_time >= watermark]
            for place in late:
                self.dead_letters.add(DeadLetter(elements[place], "late", entered=admits))
            self.counts.late += len(late)
            self.counts.dropped += len(dropped)
        if self.partitions is not None and times:
            self.seen = self.partitions.move(partition, max(times), self.seen)
        elif entering:
            # A late element is always older than an element that enters in order, so the greatest of all
            # event times is the greatest event time of the elements that enter.
            newest = max(times)
            if self.seen is None or newest > self.seen:
                self.seen = newest
        return entering, late, dropped

    def heard(self, clock: Clock) -> None:
        """Record that an input of the stream arrived at the current time."""
        self.last_input_ms = clock.now_ms()
        self.last_input_steady = clock.steady_ms()

    def figures(self) -> list[Any]:
        """Return the stream's event time and counts as a list for a journal record."""
        known = [*_figures_of(self)]
        return known if self.partitions is None else [*known, self.partitions.figures()]

    def restore_figures(self, figures: list[Any]) -> None:
        """Restore the stream's event time and counts from the list that `figures` returned."""
        known, partitions = figures[:12], figures[12:]
        # Records of version 0.1.0 have no count of early elements, which is an integer.
        early = partitions.pop(0) if partitions and isinstance(partitions[0], int) else 0
        self.partitions = Partitions.restored(partitions[0] if partitions else None)
        for name, value in zip(_FIGURES, [*known, early], strict=True):
            part, _, count = name.rpartition(".")
            setattr(self.counts if part else self, count, value)

    def reset(self, *, counted: bool) -> None:
        """Discard the retained inputs of a dropped stream with the same IRI.

        The stream's counts and dead letters are reset as well, unless ``counted`` says that they belong to
        this stream.
        """
        if not counted:
            self.restore_figures([None, None, False, 1, 0, 0, 0, 0, None, 0, None, 0, 0])
            self.dead_letters.restore(())
        self.retained.clear()

    def guarantee(self, at: int) -> bool:
        """Raise the stream's watermark to at least ``at``; return False if the watermark does not rise."""
        watermark = self.watermark
        if watermark is not None and at <= watermark:
            return False
        self.floor = at
        return True


def _is_before(event: StreamInput, floor: int) -> bool:
    """Return True if all event times of an input are below ``floor``."""
    if isinstance(event, Arrival):
        last = event.elements[-1].event_time
        return last < floor and all(element.event_time < floor for element in event.elements)
    return (event.after.watermark() or 0) < floor


class Acceptor:
    """The acceptor of pushes: decides which elements enter a stream; enqueues the inputs of pushed streams.

    One lock guards both streams and the input order, so inputs are enqueued in the order of acceptance.

    Attributes:
        receipts: answers to earlier pushes by idempotency key, and positions of sources.
    """

    def __init__(
        self, tasks: TaskQueue, settings: EngineSettings, stamp: Callable[[StreamState, Stamping], None]
    ) -> None:
        """Create an acceptor, which calls ``stamp`` when a stream's first element fixes the stamping."""
        self._tasks = tasks
        self._clock = tasks.clock
        self._journal = tasks.journal
        self._settings = settings
        self._stamp = stamp
        self.receipts = Receipts(settings.idempotency_keys)

    # --- pushes ---------------------------------------------------------------------------------

    def push(
        self,
        stream: StreamState,
        decoded: DecodedPush,
        call: PushCall,
        digest: str | None = None,
    ) -> tuple[PushReceipt, InputTask | None]:
        """Accept a decoded push and return its receipt and the task for the elements that entered.

        The caller that accepts a push holds the lock of the input order. ``digest`` is the digest of the body
        of a push with an idempotency key. The task of an accepted push is None if no element entered the
        stream.

        Raises:
            InputError: an event time is wrong, missing or too far in the future, or the late policy refuses
                a late element.
            BackPressureError: the task queue is full.
            LimitError: the push has too many elements.
        """
        key, partial, retried = call.idempotency_key, call.partial, call.retried
        if key is not None and digest is not None:
            again = self.receipts.find(stream.iri, key, digest)
            if again is not None:
                return again, None
        record, now, watermark = stream.record, self._clock.wall_ns() // 1_000_000, stream.watermark
        elements, times, bad, early = self._check(stream, decoded, now, watermark, partial)
        members: dict[str, Any] = {}
        if bad or retried is not None:
            members = stream.dead_letters.keep_unread(bad, retried, self._tasks.order + 1, now)
            members |= stream.dead_letters.keep_early(early, self._tasks.order + 1)
            stream.counts.early += len(early)
        stream.counts.refused += decoded.refused + len(decoded.misshapen)
        if decoded.misshapen:
            members |= stream.dead_letters.keep_misshapen(decoded.misshapen, self._tasks.order + 1, now)
            if record.stamping is None and not elements:
                self._stamp(stream, "arrival" if decoded.misshapen[0].element.at is None else "event")
        newest = None if stream.partitions is None else stream.partitions.newest
        before = _made(StreamTime, (stream.seen, stream.floor, record.lateness_ms, newest))
        made, entering, late, dropped = self._number(stream, elements, times, now, watermark, call.partition)
        event = None
        if entering:
            stream.idle = False
            newest = None if stream.partitions is None else stream.partitions.newest
            after = _made(StreamTime, (stream.seen, stream.floor, record.lateness_ms, newest))
            event = _made(Arrival, (stream.iri, tuple(entering), before, after, record.late == "admit"))
        begin, end = (made[0].seq, made[-1].seq) if made else (None, None)
        durable, listed = self._journal is not None, tuple(bad) if partial else None
        counted = begin, end, len(made), len(late), durable, listed, len(dropped), decoded.skipped
        receipt = _made(PushReceipt, (stream.iri, *counted))
        if key is not None and digest is not None:
            self.receipts.add(stream.iri, key, digest, receipt)
            members["key"] = [key, digest, receipt.members()]
        if call.position is not None:
            self.receipts.restore(stream.iri, *call.position)
            members["position"] = call.position
        if not (made or members):
            return receipt, None
        members["late"], members["dropped"] = late, dropped
        return receipt, self.write(stream, event, now, made, members)

    def _check(
        self, stream: StreamState, decoded: DecodedPush, now: int, watermark: int | None, partial: bool
    ) -> tuple[list[DecodedElement], list[Any], list[BadElement], list[EarlyElement]]:
        """Return the elements of a push that pass the checks, their event times, the bad and the early ones.

        An early element is also among the bad ones.
        """
        elements, settings = decoded.elements, self._settings
        number, most = len(elements), settings.push_elements
        if number > most:
            raise LimitError(f"a push of {number} elements is over the limit of {most}", limit=most)
        if not self._tasks.waiting.empty():
            self._tasks.require_room(number, settings.queue_elements)
        if self._tasks.lag is not None:
            self._tasks.require_pace(stream.iri, number, settings.queue_elements)
        ahead, stamping = settings.max_future_ms, stream.record.stamping
        times: list[Any] = [*map(_time_of, elements)]
        if (
            times
            and stamping == "event"
            and None not in times
            and (watermark is None or min(times) >= watermark)
            and max(times) <= max(now, watermark or now) + ahead
        ):
            return elements, times, decoded.bad, []
        unstamped = times.count(None)
        arrival = max(now, watermark or now, stream.seen or now) if unstamped else now
        if unstamped == number and stamping == "arrival":
            return elements, [arrival] * number, decoded.bad, []
        known = stream.record, stream.lateness_ms, watermark, now, arrival, ahead, partial
        good, times, bad, early = check_elements(decoded, *known)
        stream.counts.refused += len(bad) - len(decoded.bad)
        return good, times, bad, early

    def _number(
        self,
        stream: StreamState,
        decoded: Sequence[DecodedElement],
        times: Sequence[int],
        now: int,
        watermark: int | None,
        partition: str,
    ) -> tuple[list[Element], Sequence[Element], list[int], list[int]]:
        """Give decoded elements the next sequence numbers and advance the event time of their stream.

        Returns:
            All elements; the elements that enter; the positions of late and of dropped elements.
        """
        iri, first = stream.iri, stream.next_seq
        statements: list[Any] = [*map(_statements_of, decoded)]
        for place, each in enumerate(decoded) if any(map(_blank_of, decoded)) else ():
            if each.blank:
                statements[place] = relabel_blank_nodes(each.statements, iri, first + place)
        made = [*map(Element, statements, times, count(first))]
        stamping = stream.record.stamping
        if stream.partitions is not None and stamping is None and made and decoded[0].at is None:
            # Elements that are stamped at arrival are in order, so the stream needs no partitions.
            stream.partitions = None
        entering, late, dropped = stream.take(made, times, watermark, partition)
        if made:
            stream.promised = None
            stream.last_input_ms, stream.last_input_steady = now, self._clock.steady_ns() // 1_000_000
            if stream.partitions is not None:
                stream.partitions.hear(partition, stream.last_input_steady)
            if stamping is None:
                self._stamp(stream, "arrival" if decoded[0].at is None else "event")
        return made, entering, late, dropped

    def admit(self, stream: StreamState, letter: DeadLetter) -> InputTask:
        """Admit a late element that was dropped before, and return the task that applies the element.

        The caller that admits a late element holds the lock of the input order. An admitted late element
        keeps its sequence number. Windows that still contain the element's event time are corrected, as for
        late elements under the policy `admit`.
        """
        self._tasks.require_room(1, self._settings.queue_elements)
        before, element = stream.time, letter.element
        stream.counts.dropped -= 1
        if stream.partitions is None:
            stream.seen = element.event_time if stream.seen is None else max(stream.seen, element.event_time)
        stream.dead_letters.remove([letter])
        event = Arrival(stream.iri, (element,), before, stream.time, True)
        task = self.write(stream, event, self._clock.now_ms(), [element], {"retried": letter.id})
        assert task is not None
        return task

    def forget(self, stream: StreamState, letters: Sequence[DeadLetter]) -> None:
        """Delete dead letters of a stream; the caller holds the lock of the input order."""
        stream.dead_letters.remove(letters)
        self.write(stream, None, self._clock.now_ms(), members={"forgotten": [each.id for each in letters]})

    # --- the log --------------------------------------------------------------------------------

    def write(
        self,
        stream: StreamState,
        event: StreamInput | None,
        now: int,
        elements: Sequence[Element] = (),
        members: dict[str, Any] | None = None,
    ) -> InputTask | None:
        """Write an input of a stream to the journal; retain and enqueue ``event`` unless it is None.

        ``elements`` are all elements of a push, including elements that did not enter the stream.
        """
        tasks = self._tasks
        if self._journal is None:
            tasks.order += 1
        else:
            members = {"stream": stream.iri, **(members or {}), "figures": [*_figures_of(stream)], "now": now}
            if stream.partitions is not None:
                members["figures"].append(stream.partitions.figures())
            tasks.order = note_input(self._journal, "input", event, elements, members)
        if event is None:
            return None
        weight = stream.retained.add(tasks.order, event)
        task = InputTask(event)
        task.number, task.at, task.weight = tasks.order, now, weight or 1
        tasks.put(task)
        return task
