"""The accept path: a push is checked as a whole, gets its seqs, is logged and queued; all under one lock."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyoxigraph import Quad

from quadrill.store.errors import LimitError

from ..clock import Clock
from ..durable.journal import Journal, JournalRecord, element_members, elements_of, event_members, event_of
from ..element import Element
from ..errors import BackPressureError, IdempotencyError, InputError, LateElementError
from ..inputs import Advance, Arrival, Idle, StreamInput
from ..settings import EngineSettings
from .dead_letters import DeadLetter
from .decode import BadElement, Decoded, DecodedElement
from .retained import LogRecord
from .stream import Stamping, StreamState
from .terms import ElementTerms, TermForms
from .times import format_instant

Enqueue = Callable[[StreamInput, int], Any]


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


class Acceptor:
    """Decides which elements enter a stream and in which order everything that moves time is queued.

    ``lock`` guards streams and order: what is accepted under it is queued under it.
    """

    def __init__(
        self,
        clock: Clock,
        settings: EngineSettings,
        enqueue: Enqueue,
        backlog: Callable[[], int],
        journal: Journal | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.journal = journal
        self._clock = clock
        self._settings = settings
        self._enqueue = enqueue
        self._backlog = backlog
        # Told the stamping of a stream by its first element.
        self.on_stamped: Callable[[StreamState, Stamping], None] | None = None
        self._forms = TermForms()
        self._order = 0
        self._keys: OrderedDict[tuple[str, str], tuple[str, PushReceipt]] = OrderedDict()

    # --- pushes ---------------------------------------------------------------------------------

    def remembered(self, stream: str, key: str | None, fingerprint: str) -> PushReceipt | None:
        """The receipt of an earlier push with this Idempotency-Key.

        Raises:
            IdempotencyError: that push had another body.
        """
        if key is None:
            return None
        with self.lock:
            found = self._keys.get((stream, key))
        if found is None:
            return None
        if found[0] != fingerprint:
            raise IdempotencyError(f"the Idempotency-Key {key!r} was used with another body")
        return found[1]

    def push(
        self,
        stream: StreamState,
        decoded: Decoded,
        *,
        partial: bool = False,
        key: str | None = None,
        fingerprint: str = "",
    ) -> tuple[PushReceipt, Any]:
        """Accept a decoded push; the receipt and the ticket of its processing.

        Raises:
            InputError: a wrong or missing time, an element too far in the future, a late one refused.
            BackPressureError: the queue is full.
            LimitError: too many elements.
        """
        self._check_size(len(decoded.elements))
        with self.lock:
            again = self.remembered(stream.iri, key, fingerprint)
            if again is not None:
                return again, None
            good, bad = self._checked(stream, decoded, partial=partial)
            return self._enter(stream, good, bad if partial else None, key, fingerprint)

    def _remember(self, stream: str, key: str | None, fingerprint: str, receipt: PushReceipt) -> None:
        if key is None:
            return
        self._keys[(stream, key)] = (fingerprint, receipt)
        if len(self._keys) > self._settings.idempotency_keys:
            self._keys.popitem(last=False)

    def forget_keys(self, stream: str) -> None:
        """A stream was dropped: what is pushed under its IRI from now on is for another one."""
        with self.lock:
            for each in [each for each in self._keys if each[0] == stream]:
                del self._keys[each]

    def _check_size(self, number: int) -> None:
        most = self._settings.push_elements
        if number > most:
            raise LimitError(f"a push of {number} elements is over the limit of {most}", limit=most)
        self.require_room(number)

    def require_room(self, number: int) -> None:
        """Raise BackPressureError when so many further elements would be too many in line."""
        waiting = self._backlog()
        if waiting and waiting + number > self._settings.queue_elements:
            raise BackPressureError(
                f"{waiting} elements wait for the engine, the limit is {self._settings.queue_elements}",
                retry_after=1.0,
            )

    def _checked(
        self, stream: StreamState, decoded: Decoded, *, partial: bool
    ) -> tuple[list[tuple[DecodedElement, int]], list[BadElement]]:
        """The elements that may enter, each with its event time; the bad ones of a partial push."""
        now = self._clock.now_ms()
        stamping = stream.record.stamping
        watermark = stream.watermark
        # A push is n transactions in time order, so each may be ahead of the one before it in time.
        reach = max(now, watermark if watermark is not None else now)
        ahead: dict[int, bool] = {}
        for at in sorted({e.at for e in decoded.elements if e.at is not None}):
            ahead[at] = at > reach + self._settings.max_future_ms
            if not ahead[at]:
                reach = max(reach, at - stream.lateness_ms)
        arrival = max([now, *(t for t in (watermark, stream.seen) if t is not None)])
        good: list[tuple[DecodedElement, int]] = []
        bad = list(decoded.bad)
        for element in decoded.elements:
            own = "arrival" if element.at is None else "event"
            try:
                if stamping is not None and own != stamping:
                    raise self._wrong_stamp(stream, element)
                if element.at is not None and ahead[element.at]:
                    raise InputError(
                        f"{element.place}: its time {format_instant(element.at)} is more than "
                        f"{self._settings.max_future_ms} ms ahead of the clock and of its stream's watermark",
                        hint="Check the sender's clock; one bad clock would make everything else late",
                        code="future",
                        line=element.line,
                    )
                at = arrival if element.at is None else element.at
                if watermark is not None and at < watermark and stream.record.late == "error":
                    raise LateElementError(
                        f"{element.place}: its time {format_instant(at)} is behind the watermark "
                        f"{format_instant(watermark)} of stream {stream.name}, which refuses late elements",
                        line=element.line,
                    )
            except InputError as error:
                if not partial:
                    raise
                stream.refused += 1
                bad.append(BadElement(element.place, error.message, element.line))
                continue
            stamping = stamping or own  # type: ignore[assignment]  # own is one of the two words
            good.append((element, at))
        # What could not be read was listed first; where lines are known they tell the order of the document.
        bad.sort(key=lambda each: each.line or 0)
        return good, bad

    def _wrong_stamp(self, stream: StreamState, element: DecodedElement) -> InputError:
        if element.at is None:
            return InputError(
                f"{element.place} has no time and stream {stream.name} is event-stamped",
                hint=f'Give it with "at", with ?at= or with the property {stream.timestamp_property}',
                code="no-time",
                line=element.line,
            )
        return InputError(
            f"{element.place} has a time and stream {stream.name} is stamped at arrival",
            hint="Leave the time out, or use another stream",
            code="has-time",
            line=element.line,
        )

    def _enter(
        self,
        stream: StreamState,
        good: list[tuple[DecodedElement, int]],
        bad: list[BadElement] | None,
        key: str | None,
        fingerprint: str,
    ) -> tuple[PushReceipt, Any]:
        watermark, before = stream.watermark, stream.time
        first = stream.next_seq
        elements: list[Element] = []
        late: list[int] = []
        for decoded, at in good:
            seq = stream.next_seq
            stream.next_seq += 1
            quads = ElementTerms(self._forms, stream.iri, seq).quads(decoded.quads)
            if watermark is not None and at < watermark:
                late.append(len(elements))
            elements.append(Element(quads, at, seq))
        dropped = set(late) if stream.record.late == "drop" else set()
        entering = tuple(each for place, each in enumerate(elements) if place not in dropped)
        for place in late:
            self._keep_dead(stream, elements[place], entered=place not in dropped)
        for element in entering:
            stream.see(element.event_time)
        stream.accepted += len(good)
        stream.late += len(late)
        stream.dropped += len(dropped)
        if good:
            stream.heard(self._clock)
            if stream.record.stamping is None and self.on_stamped is not None:
                self.on_stamped(stream, "arrival" if good[0][0].at is None else "event")
        event = None
        if entering:
            stream.idle = False
            event = Arrival(stream.iri, entering, before, stream.time, stream.record.late == "admit")
        last = stream.next_seq - 1
        receipt = PushReceipt(
            stream.iri,
            first if good else None,
            last if good else None,
            len(good),
            len(late),
            self.journal is not None or stream.log.durable,
            None if bad is None else tuple(bad),
        )
        self._remember(stream.iri, key, fingerprint, receipt)
        if event is None and not good and key is None:
            return receipt, None
        extra: dict[str, Any] = {"late": late, "dropped": sorted(dropped)}
        if key is not None:
            extra["key"] = [key, fingerprint, receipt_members(receipt)]
        order = self._log(stream, event, elements, extra)
        return receipt, None if event is None else self._enqueue(event, order)

    def _keep_dead(self, stream: StreamState, element: Element, *, entered: bool) -> None:
        stream.dead_letters.add(DeadLetter(element, "late", entered=entered))

    def admit(self, stream: StreamState, letter: DeadLetter) -> Any:
        """Let a late element that was dropped enter after all; the ticket of its processing.

        It keeps its seq. Windows that still hold its time are corrected, as under the policy `admit`.
        """
        self.require_room(1)
        with self.lock:
            before = stream.time
            stream.dropped -= 1
            stream.see(letter.element.event_time)
            event = Arrival(stream.iri, (letter.element,), before, stream.time, True)
            stream.dead_letters.remove([letter])
            order = self._log(stream, event, [letter.element], {"retried": letter.id})
            return self._enqueue(event, order)

    # --- derived streams ------------------------------------------------------------------------

    def derive(self, stream: StreamState, at: int, quads: list[Quad]) -> StreamInput | None:
        """One element of a stream that a query makes; logged, and given back to be handled at once."""
        with self.lock:
            before = stream.time
            watermark = stream.watermark
            element = Element(tuple(quads), at, stream.next_seq)
            stream.next_seq += 1
            stream.accepted += 1
            stream.derived += 1
            stream.heard(self._clock)
            if watermark is not None and at < watermark:
                stream.late += 1
                self._keep_dead(stream, element, entered=stream.record.late == "admit")
                if stream.record.late != "admit":
                    stream.dropped += 1
                    return None
            stream.see(at)
            arrival = Arrival(stream.iri, (element,), before, stream.time, stream.record.late == "admit")
            self._log_derived(stream, arrival)
            return arrival

    def derived_time(self, stream: StreamState, watermark: int) -> StreamInput | None:
        """The watermark of a derived stream follows its query's."""
        with self.lock:
            if not stream.guarantee(watermark):
                return None
            advance = Advance(stream.iri, stream.time)
            self._log_derived(stream, advance)
            return advance

    # --- time without data ----------------------------------------------------------------------

    def heartbeat(self, stream: StreamState, at: int) -> Any:
        """Move a stream's watermark without data; the ticket, None when it was there already.

        Raises:
            InputError: too far in the future.
            BackPressureError: the queue is full.
        """
        self.require_room(1)
        with self.lock:
            now = self._clock.now_ms()
            watermark = stream.watermark
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
            return self._log_and_queue(stream, Advance(stream.iri, stream.time))

    def tick(self, stream: StreamState, now: int) -> None:
        """The wall clock moves arrival-stamped streams; a silent event-stamped one becomes idle."""
        with self.lock:
            if stream.derived_from is not None:
                return
            if stream.record.stamping == "arrival":
                if stream.guarantee(now - stream.lateness_ms):
                    self._log_and_queue(stream, Advance(stream.iri, stream.time))
                return
            left = stream.idle_in(self._clock)
            if left is not None and left <= 0:
                stream.idle = True
                # Nothing is waited for any more: what was held back by lateness can go.
                if stream.seen is not None:
                    stream.guarantee(stream.seen)
                self._log_and_queue(stream, Idle(stream.iri, stream.time))

    # --- the log --------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """The order given last."""
        return self._order

    def note(self, kind: str, **members: Any) -> int:
        """Give something that is no input of a stream its place in the order; called under the lock."""
        if self.journal is None:
            return 0
        self._order = self.journal.note(kind, members)
        return self._order

    def _log(
        self,
        stream: StreamState,
        event: StreamInput | None,
        elements: Sequence[Element] = (),
        extra: dict[str, Any] | None = None,
    ) -> int:
        """Write an input; ``elements`` are all of a push, those that did not enter too."""
        if self.journal is None:
            self._order += 1
        else:
            members = {"stream": stream.iri} if event is None else event_members(event)
            figures, quads = element_members(elements)
            members |= figures | (extra or {}) | {"figures": stream.figures(), "now": self._clock.now_ms()}
            self._order = self.journal.note("input", members, quads)
        if event is not None:
            stream.log.append(LogRecord(self._order, event))
        return self._order

    def _log_derived(self, stream: StreamState, event: Arrival | Advance) -> None:
        """Keep what a query made for those that start in the past; a replay makes it again."""
        if self.journal is None:
            self._order += 1
        elif not self.journal.silent:
            figures, quads = element_members(event.elements if isinstance(event, Arrival) else ())
            self._order = self.journal.note("derived", event_members(event) | figures, quads)
        stream.log.append(LogRecord(self._order, event))

    def _log_and_queue(self, stream: StreamState, event: StreamInput) -> Any:
        order = self._log(stream, event)
        return self._enqueue(event, order)

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
        self._order = record.number
        if stream is not None:
            if event is not None:
                stream.log.append(LogRecord(record.number, event))
            if not counted:
                stream.restore_figures(record.members["figures"])
                for place in record.members.get("late", ()):
                    self._keep_dead(stream, elements[place], entered=place not in dropped)
                retried = stream.dead_letters.find(record.members.get("retried", ""))
                if retried is not None:
                    stream.dead_letters.remove([retried])
                if "key" in record.members:
                    key, fingerprint, members = record.members["key"]
                    self._remember(stream.iri, key, fingerprint, receipt_of(members))
        return event

    def replay_derived(self, record: JournalRecord, stream: StreamState | None) -> None:
        """Retain again what a query had made."""
        event = event_of(record, elements_of(record))
        if stream is not None and event is not None:
            stream.log.append(LogRecord(record.number, event))

    def begin_at(self, order: int) -> None:
        """Continue behind an order."""
        self._order = order

    @property
    def key_count(self) -> int:
        """How many idempotency keys are remembered."""
        return len(self._keys)

    def keys(self) -> list[tuple[str, str, str, list[Any]]]:
        """The idempotency keys: (stream, key, fingerprint, members of the receipt)."""
        return [
            (stream, key, fingerprint, receipt_members(receipt))
            for (stream, key), (fingerprint, receipt) in self._keys.items()
        ]

    def restore_keys(self, keys: Sequence[Sequence[Any]]) -> None:
        """The keys of `keys` again."""
        for stream, key, fingerprint, members in keys:
            self._remember(stream, key, fingerprint, receipt_of(members))


def receipt_members(receipt: PushReceipt) -> list[Any]:
    """A receipt for a record."""
    bad = receipt.bad
    return [
        receipt.stream, receipt.first_seq, receipt.last_seq, receipt.accepted, receipt.late, receipt.durable,
        None if bad is None else [[each.place, each.error, each.line, each.column] for each in bad],
    ]  # fmt: skip


def receipt_of(members: Sequence[Any]) -> PushReceipt:
    """The receipt again."""
    stream, first, last, accepted, late, durable, bad = members
    refused = None if bad is None else tuple(BadElement(*each) for each in bad)
    return PushReceipt(stream, first, last, accepted, late, durable, refused)


def fingerprint_of(body: bytes, media_type: str, **options: Any) -> str:
    """A digest of a push: body, type and options."""
    digest = hashlib.sha256(body)
    digest.update(json.dumps([media_type, options], sort_keys=True, default=str).encode())
    return digest.hexdigest()


__all__ = ["Acceptor", "PushReceipt", "fingerprint_of"]
