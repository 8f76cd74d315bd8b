"""The accept path: a push is checked as a whole, gets its seqs, is logged and queued; all under one lock."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyoxigraph import Quad

from quadrill.store.errors import LimitError

from ..durable.journal import JournalRecord, elements_of, event_of
from ..durable.turns import InputTurn, TurnQueue
from ..element import Element
from ..errors import IdempotencyError, InputError
from ..inputs import Advance, Arrival, Idle, StreamInput, StreamTime
from ..settings import EngineSettings
from .checks import checked
from .dead_letters import DeadLetter
from .decode import BadElement, Decoded, DecodedElement
from .registry import StreamRegistry
from .stream import LogRecord, StreamState
from .terms import TermForms
from .times import format_instant


@dataclass(frozen=True, slots=True)
class PushReceipt:
    """What a push is answered with. ``accepted`` counts late elements, too; ``late`` says how many."""

    stream: str
    first_seq: int | None
    last_seq: int | None
    accepted: int
    late: int
    durable: bool
    bad: tuple[BadElement, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON answer; ``bad`` only for a partial push."""
        document: dict[str, Any] = {
            "stream": self.stream,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "accepted": self.accepted,
            "late": self.late,
            "durable": self.durable,
        }
        if self.bad is not None:
            document["bad"] = [element.to_json() for element in self.bad]
        return document


class Receipts:
    """The receipts of pushes with a key, a bounded number of them. Guarded by the lock of the order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], tuple[str, PushReceipt]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, stream: str, key: str, fingerprint: str) -> PushReceipt | None:
        """The receipt of an earlier push with this key.

        Raises:
            IdempotencyError: that push had another body.
        """
        found = self._kept.get((stream, key))
        if found is None:
            return None
        if found[0] != fingerprint:
            raise IdempotencyError(f"the Idempotency-Key {key!r} was used with another body")
        return found[1]

    def keep(self, stream: str, key: str, fingerprint: str, receipt: PushReceipt) -> None:
        """Remember the receipt of a push."""
        self._kept[(stream, key)] = (fingerprint, receipt)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, stream: str) -> None:
        """A stream was dropped: what is pushed under its IRI from now on is for another one."""
        for each in [each for each in self._kept if each[0] == stream]:
            del self._kept[each]

    def figures(self) -> list[tuple[str, str, str, list[Any]]]:
        """For a checkpoint: (stream, key, fingerprint, members of the receipt)."""
        return [
            (stream, key, fingerprint, receipt_members(receipt))
            for (stream, key), (fingerprint, receipt) in self._kept.items()
        ]

    def restore(self, figures: Sequence[Sequence[Any]]) -> None:
        """The receipts of `figures` again."""
        for stream, key, fingerprint, members in figures:
            self.keep(stream, key, fingerprint, receipt_of(members))


def receipt_members(receipt: PushReceipt) -> list[Any]:
    """A receipt for a record."""
    bad = receipt.bad
    return [
        receipt.stream, receipt.first_seq, receipt.last_seq, receipt.accepted, receipt.late, receipt.durable,
        None if bad is None else [[each.place, each.error, each.line, each.column] for each in bad],
    ]  # fmt: skip


def receipt_of(members: Sequence[Any]) -> PushReceipt:
    """The receipt that `figures` of a checkpoint holds."""
    stream, first, last, accepted, late, durable, bad = members
    refused = None if bad is None else tuple(BadElement(*each) for each in bad)
    return PushReceipt(stream, first, last, accepted, late, durable, refused)


def fingerprint_of(body: bytes, media_type: str, **options: Any) -> str:
    """A digest of a push: body, type and options."""
    digest = hashlib.sha256(body)
    digest.update(json.dumps([media_type, options], sort_keys=True, default=str).encode())
    return digest.hexdigest()


class Acceptor:
    """Decides which elements enter a stream, and queues whatever moves time.

    The lock of the order guards streams, too: what is accepted under it is queued under it.

    Attributes:
        receipts: the answers that are remembered.
        derived: what queries made in the turn at work, which their readers get in the same turn.
    """

    def __init__(self, turns: TurnQueue, streams: StreamRegistry, settings: EngineSettings) -> None:
        self._turns = turns
        self._lock = turns.lock
        self._clock = turns.clock
        self._journal = turns.journal
        self._streams = streams
        self._settings = settings
        self._forms = TermForms()
        self.receipts = Receipts(settings.idempotency_keys)
        self.derived: deque[StreamInput] = deque()

    # --- pushes ---------------------------------------------------------------------------------

    def push(
        self,
        stream: StreamState,
        decoded: Decoded,
        *,
        partial: bool = False,
        key: str | None = None,
        fingerprint: str = "",
    ) -> tuple[PushReceipt, InputTurn | None]:
        """Accept a decoded push, called under the lock; the receipt and the turn of what entered.

        Raises:
            InputError: a wrong or missing time, an element too far in the future, a late one refused.
            BackPressureError: the queue is full.
            LimitError: too many elements.
        """
        elements, settings = decoded.elements, self._settings
        number = len(elements)
        if number > settings.push_elements:
            raise LimitError(
                f"a push of {number} elements is over the limit of {settings.push_elements}",
                limit=settings.push_elements,
            )
        if self._turns.weight:
            self._turns.require_room(number, settings.queue_elements)
        now, watermark = self._clock.now_ms(), stream.watermark
        if number == 1 and key is None and not partial:
            # The ordinary push has one element, in order: nothing below has anything to say about it.
            (only,) = elements
            at = only.at
            if (
                at is not None
                and stream.record.stamping == "event"
                and (watermark is None or at >= watermark)
                and at <= max(now, watermark or now) + settings.max_future_ms
            ):
                return self._enter(stream, [(only, at)], watermark, now)
        if key is not None:
            again = self.receipts.find(stream.iri, key, fingerprint)
            if again is not None:
                return again, None
        good, bad = checked(
            stream, decoded, watermark, now, max_future_ms=settings.max_future_ms, partial=partial
        )
        return self._enter(stream, good, watermark, now, bad if partial else None, key, fingerprint)

    def _enter(
        self,
        stream: StreamState,
        good: Sequence[tuple[DecodedElement, int]],
        watermark: int | None,
        now: int,
        bad: list[BadElement] | None = None,
        key: str | None = None,
        fingerprint: str = "",
    ) -> tuple[PushReceipt, InputTurn | None]:
        """Elements that were checked enter their stream, but for late ones that it drops."""
        iri, record = stream.iri, stream.record
        before = StreamTime(stream.seen, stream.floor, record.lateness_ms)
        first = stream.next_seq
        elements: list[Element] = []
        entering: list[Element] = []
        late: list[int] = []
        dropped: list[int] = []
        for decoded, at in good:
            element = Element(self._forms.quads(decoded.quads, iri, stream.next_seq), at, stream.next_seq)
            stream.next_seq += 1
            enters = True
            if watermark is not None and at < watermark:
                enters = record.late != "drop"
                late.append(len(elements))
                if not enters:
                    dropped.append(len(elements))
                stream.dead_letters.add(DeadLetter(element, "late", entered=enters))
            if enters:
                entering.append(element)
                if stream.seen is None or at > stream.seen:
                    stream.seen = at
            elements.append(element)
        stream.accepted += len(good)
        stream.late += len(late)
        stream.dropped += len(dropped)
        if good:
            stream.last_input_ms, stream.last_input_steady = now, self._clock.steady_ms()
            if record.stamping is None:
                self._streams.stamp(stream, "arrival" if good[0][0].at is None else "event")
        event = None
        if entering:
            stream.idle = False
            after = before._replace(seen=stream.seen)
            event = Arrival(iri, tuple(entering), before, after, record.late == "admit")
        receipt = PushReceipt(
            iri,
            first if good else None,
            stream.next_seq - 1 if good else None,
            len(good),
            len(late),
            self._journal is not None,
            None if bad is None else tuple(bad),
        )
        extra: dict[str, Any] = {"late": late, "dropped": dropped}
        if key is not None:
            self.receipts.keep(iri, key, fingerprint, receipt)
            extra["key"] = [key, fingerprint, receipt_members(receipt)]
        if event is None and not good and key is None:
            return receipt, None
        self._note(stream, event, now, elements, extra)
        return receipt, None if event is None else self._queue(stream, event, now)

    def admit(self, stream: StreamState, letter: DeadLetter) -> InputTurn:
        """Let a late element that was dropped enter after all, called under the lock; its turn.

        It keeps its seq. Windows that still hold its time are corrected, as under the policy `admit`.
        """
        self._turns.require_room(1, self._settings.queue_elements)
        before, at = stream.time, letter.element.event_time
        stream.dropped -= 1
        stream.seen = at if stream.seen is None else max(stream.seen, at)
        event = Arrival(stream.iri, (letter.element,), before, stream.time, True)
        stream.dead_letters.remove([letter])
        now = self._clock.now_ms()
        self._note(stream, event, now, [letter.element], {"retried": letter.id})
        return self._queue(stream, event, now)

    # --- derived streams ------------------------------------------------------------------------

    def derive(self, stream: StreamState, at: int, quads: Sequence[Quad], repeats: bool) -> None:
        """In a turn: one element of a stream that a query makes is logged, and kept for its readers.

        While the query repeats the past, instants that the stream has got are not told again.
        """
        with self._lock:
            if repeats and stream.seen is not None and at <= stream.seen:
                return
            before, watermark = stream.time, stream.watermark
            element = Element(tuple(quads), at, stream.next_seq)
            stream.next_seq += 1
            stream.accepted += 1
            stream.derived += 1
            stream.heard(self._clock)
            admits = stream.record.late == "admit"
            if watermark is not None and at < watermark:
                stream.late += 1
                stream.dead_letters.add(DeadLetter(element, "late", entered=admits))
                if not admits:
                    stream.dropped += 1
                    return
            stream.seen = at if stream.seen is None else max(stream.seen, at)
            self._log_derived(stream, Arrival(stream.iri, (element,), before, stream.time, admits))

    def derive_time(self, stream: StreamState, watermark: int) -> None:
        """In a turn: the watermark of a derived stream follows its query's."""
        with self._lock:
            if stream.guarantee(watermark):
                self._log_derived(stream, Advance(stream.iri, stream.time))

    def _log_derived(self, stream: StreamState, event: Arrival | Advance) -> None:
        """Keep what a query made for those that start in the past; a replay makes it again."""
        turns, journal = self._turns, self._journal
        if journal is None:
            turns.order += 1
        elif not journal.silent:
            turns.order = journal.note_input("derived", event)
        stream.log.append(LogRecord(turns.order, event))
        self.derived.append(event)

    # --- time without data ----------------------------------------------------------------------

    def heartbeat(self, stream: StreamState, at: int) -> InputTurn:
        """Move a stream's watermark without data, called under the lock; the turn.

        Raises:
            InputError: too far in the future.
            BackPressureError: the queue is full.
        """
        self._turns.require_room(1, self._settings.queue_elements)
        now, watermark = self._clock.now_ms(), stream.watermark
        reach = max(now, watermark if watermark is not None else now)
        if at > reach + self._settings.max_future_ms:
            raise InputError(
                f"the heartbeat {format_instant(at)} is more than {self._settings.max_future_ms} ms "
                "ahead of the clock and of its stream's watermark",
                code="future",
            )
        stream.heard(self._clock)
        stream.idle = False
        stream.guarantee(at)
        return self._note_and_queue(stream, Advance(stream.iri, stream.time), now)

    def tick(self, stream: StreamState, now: int) -> None:
        """The wall clock moves arrival-stamped streams; a silent event-stamped one becomes idle."""
        with self._lock:
            if stream.derived_from is not None:
                return
            if stream.record.stamping == "arrival":
                if stream.guarantee(now - stream.lateness_ms):
                    self._note_and_queue(stream, Advance(stream.iri, stream.time), now)
                return
            left = stream.idle_in(self._clock)
            if left is not None and left <= 0:
                stream.idle = True
                # Nothing is waited for any more: what was held back by lateness can go.
                if stream.seen is not None:
                    stream.guarantee(stream.seen)
                self._note_and_queue(stream, Idle(stream.iri, stream.time), now)

    # --- the log --------------------------------------------------------------------------------

    def _note(
        self,
        stream: StreamState,
        event: StreamInput | None,
        now: int,
        elements: Sequence[Element] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Write an input to the journal; ``elements`` are all of a push, those that did not enter too."""
        if self._journal is None:
            self._turns.order += 1
        else:
            members = {"stream": stream.iri, **(extra or {}), "figures": stream.figures(), "now": now}
            self._turns.order = self._journal.note_input("input", event, elements, members)

    def _queue(self, stream: StreamState, event: StreamInput, now: int) -> InputTurn:
        """Retain an input that was noted, and give it its turn."""
        turns = self._turns
        stream.log.append(LogRecord(turns.order, event))
        turn = InputTurn(event)
        turn.number, turn.at = turns.order, now
        if type(event) is Arrival:
            turn.weight = len(event.elements)
        turns.put(turn)
        return turn

    def _note_and_queue(self, stream: StreamState, event: StreamInput, now: int) -> InputTurn:
        self._note(stream, event, now)
        return self._queue(stream, event, now)

    # --- recovery -------------------------------------------------------------------------------

    def replay(
        self, record: JournalRecord, stream: StreamState | None, *, counted: bool
    ) -> StreamInput | None:
        """Bring a stream to where it was after a record; the input to hand out again.

        Args:
            record: of kind ``input``.
            stream: None when it was dropped later.
            counted: the stream's figures and dead letters hold the record already.
        """
        elements = elements_of(record)
        dropped = set(record.members.get("dropped", ()))
        event = event_of(record, [each for place, each in enumerate(elements) if place not in dropped])
        self._turns.order = record.number
        if stream is not None:
            if event is not None:
                stream.log.append(LogRecord(record.number, event))
            if not counted:
                stream.restore_figures(record.members["figures"])
                for place in record.members.get("late", ()):
                    letter = DeadLetter(elements[place], "late", entered=place not in dropped)
                    stream.dead_letters.add(letter)
                retried = stream.dead_letters.find(record.members.get("retried", ""))
                if retried is not None:
                    stream.dead_letters.remove([retried])
                if "key" in record.members:
                    key, fingerprint, members = record.members["key"]
                    self.receipts.keep(stream.iri, key, fingerprint, receipt_of(members))
        return event


def replay_derived(record: JournalRecord, stream: StreamState | None) -> None:
    """Retain again what a query had made."""
    event = event_of(record, elements_of(record))
    if stream is not None and event is not None:
        stream.log.append(LogRecord(record.number, event))
