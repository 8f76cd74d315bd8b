"""Streams as the engine keeps them: names, time, counts, and what was accepted, for readers of the past."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from quadrill.store.registry.records import LatePolicy, Stamping, StreamRecord

from ..clock import Clock
from ..errors import InputError
from ..inputs import Advance, Arrival, Idle, StreamInput, StreamTime
from ..settings import EngineSettings
from .dead_letters import DeadLetters
from .decode import PROV_GENERATED_AT_TIME
from .times import duration_ms

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
OPTIONS = (
    "lateness", "late", "idle_timeout", "retention", "timestamp_property", "stamping", "quoted_asserted",
)  # fmt: skip


def check_name(name: str, what: str) -> str:
    """A name of the allowed form.

    Raises:
        InputError: it is not.
    """
    if not isinstance(name, str) or not NAME.match(name):
        raise InputError(
            f"{what} {name!r} is no name",
            hint="Names are 1 to 128 letters, digits, dots, underscores and hyphens, a letter or digit first",
            code="name",
        )
    return name


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One input of a stream; ``order`` grows over all streams of the engine."""

    order: int
    input: StreamInput


class MemoryLog:
    """An input log in memory, bounded by event time and number of elements."""

    def __init__(self, retention_ms: int, max_elements: int) -> None:
        self.retention_ms = retention_ms
        self._max_elements = max_elements
        self._records: deque[LogRecord] = deque()
        self._elements = 0

    def append(self, record: LogRecord) -> None:
        """Keep one input, forget what is out of retention."""
        event, records = record.input, self._records
        if type(event) is Arrival:
            self._elements += len(event.elements)
        elif isinstance(event, Advance) and self._ends_in_two_advances():
            # The first of a run of movements and the last say all: a silent stream does not fill the memory.
            records.pop()
        records.append(record)
        seen = event.after.seen
        floor = None if seen is None else seen - self.retention_ms
        while records and (
            self._elements > self._max_elements or (floor is not None and _is_before(records[0].input, floor))
        ):
            oldest = records.popleft().input
            self._elements -= len(oldest.elements) if type(oldest) is Arrival else 0

    def _ends_in_two_advances(self) -> bool:
        records = self._records
        return len(records) > 1 and all(isinstance(records[at].input, Advance) for at in (-1, -2))

    def records(self) -> list[LogRecord]:
        """The retained inputs in order."""
        return list(self._records)

    @property
    def earliest_order(self) -> int | None:
        """The order of the oldest record kept."""
        return self._records[0].order if self._records else None

    def forget_before(self, order: int) -> None:
        """Forget the inputs of lower orders: what is behind them is forgotten on disk, too."""
        while self._records and self._records[0].order < order:
            event = self._records.popleft().input
            self._elements -= len(event.elements) if isinstance(event, Arrival) else 0

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._elements = 0

    def retained(self) -> tuple[int, int | None]:
        """Number of elements, and the least event time of the push accepted first."""
        for record in self._records:
            if isinstance(record.input, Arrival):
                return self._elements, min(element.event_time for element in record.input.elements)
        return 0, None


def since(records: Iterable[LogRecord], from_ms: int) -> Iterator[LogRecord]:
    """The inputs without elements and movements of time before ``from_ms``, in order."""
    for record in records:
        match record.input:
            case Arrival(elements=elements):
                kept = tuple(element for element in elements if element.event_time >= from_ms)
                if kept:
                    yield LogRecord(record.order, record.input._replace(elements=kept))
            case Idle():
                yield record
            case advance:
                watermark = advance.after.watermark()
                if watermark is not None and watermark >= from_ms:
                    yield record


def _is_before(event: StreamInput, floor: int) -> bool:
    if isinstance(event, Arrival):
        last = event.elements[-1].event_time
        return last < floor and all(element.event_time < floor for element in event.elements)
    return (event.after.watermark() or 0) < floor


@dataclass(slots=True)
class StreamState:
    """One stream: its settings, its time and what was counted. Guarded by the lock of the order.

    Attributes:
        lateness_ms: its own lateness, or that of the reader that waits longest.
        derived: how many of the accepted elements queries made; the others were pushed.
        last_input_ms: when something came last, ``last_input_steady`` by the clock that never jumps.
        looked_steady: when the clock was last looked at for it, by the same clock.
        derived_from: the query that makes it.
        dropped_for_good: it was dropped; nothing enters any more.
    """

    record: StreamRecord
    log: MemoryLog
    dead_letters: DeadLetters
    iri: str = ""
    name: str = ""
    timestamp_property: str = PROV_GENERATED_AT_TIME
    lateness_ms: int = 0
    idle_timeout_ms: int = 0
    retention_ms: int = 0
    seen: int | None = None
    floor: int | None = None
    idle: bool = False
    next_seq: int = 1
    accepted: int = 0
    derived: int = 0
    late: int = 0
    dropped: int = 0
    refused: int = 0
    last_input_ms: int | None = None
    last_input_steady: int | None = None
    looked_steady: int | None = None
    derived_from: str | None = None
    reader_lateness: dict[str, int] = field(default_factory=dict)
    dropped_for_good: bool = False

    def configure(self, record: StreamRecord, settings: EngineSettings) -> None:
        """Take settings; name and IRI stay."""
        self.record = record
        self.iri, self.name = record.iri, record.name
        self.timestamp_property = record.timestamp_property or PROV_GENERATED_AT_TIME
        idle, retention = record.idle_timeout_ms, record.retention_ms
        self.idle_timeout_ms = settings.idle_timeout_ms if idle is None else idle
        self.log.retention_ms = self.retention_ms = settings.retention_ms if retention is None else retention
        self.wait_for_readers()

    def wait_for_readers(self) -> None:
        """The lateness follows from its own and those of its readers."""
        self.lateness_ms = max([self.record.lateness_ms, *self.reader_lateness.values()])

    @property
    def time(self) -> StreamTime:
        """What is known of its time now."""
        return StreamTime(self.seen, self.floor, self.record.lateness_ms)

    @property
    def watermark(self) -> int | None:
        """Elements before it are late. None before any time is known."""
        seen, floor = self.seen, self.floor
        if seen is None:
            return floor
        moved = seen - self.lateness_ms
        return moved if floor is None or moved > floor else floor

    def heard(self, clock: Clock) -> None:
        """Something came just now."""
        self.last_input_ms = clock.now_ms()
        self.last_input_steady = clock.steady_ms()

    def idle_in(self, clock: Clock) -> int | None:
        """Milliseconds until silence makes it idle, at most 0 when it does; None when it never will."""
        if self.idle or not self.idle_timeout_ms or self.last_input_steady is None:
            return None
        return self.last_input_steady + self.idle_timeout_ms - clock.steady_ms()

    def figures(self) -> list[Any]:
        """Time and counts, for a record of the journal."""
        return [
            self.seen, self.floor, self.idle, self.next_seq, self.accepted, self.late, self.dropped,
            self.refused, self.last_input_ms, self.derived,
        ]  # fmt: skip

    def restore_figures(self, figures: list[Any]) -> None:
        """Time and counts of `figures` again."""
        (
            self.seen, self.floor, self.idle, self.next_seq, self.accepted, self.late, self.dropped,
            self.refused, self.last_input_ms, *rest,
        ) = figures  # fmt: skip
        # Records of input logs from before queries' elements were counted by themselves end here.
        self.derived = rest[0] if rest else 0

    def forget_figures(self) -> None:
        """Time and counts of a stream to which nothing has come yet."""
        self.restore_figures([None, None, False, 1, 0, 0, 0, 0, None, 0])

    def guarantee(self, at: int) -> bool:
        """Nothing before ``at`` will come any more; True when that is news."""
        watermark = self.watermark
        if watermark is not None and at <= watermark:
            return False
        self.floor = at
        return True


def check_iri(iri: str) -> str:
    """An absolute IRI.

    Raises:
        InputError: it is none.
    """
    if not isinstance(iri, str) or not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*\Z", iri):
        raise InputError(f"{iri!r} is no absolute IRI", code="iri")
    return iri


def last_segment(iri: str) -> str | None:
    """The fragment or last path segment of an IRI as a name, other characters becoming ``-``."""
    parts = urlsplit(iri)
    segment = parts.fragment or parts.path.rstrip("/").rpartition("/")[2].rpartition(":")[2] or parts.netloc
    name = re.sub(r"[^A-Za-z0-9._-]", "-", segment).lstrip("._-")[:128]
    return name or None


def iri_of(name_or_iri: str, base_iri: str) -> str:
    """The IRI that a reference to an undeclared stream means: ``<base_iri>name`` for a name."""
    return base_iri + name_or_iri if NAME.match(name_or_iri) else check_iri(name_or_iri)


def free_name(iri: str, taken: Container[str]) -> str:
    """A name for a stream: the last path segment or fragment of its IRI, with -2, -3 ... when taken."""
    wanted = last_segment(iri) or "stream"
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted[:120]}-{number}"
    return name


def record_from_options(
    name: str, iri: str, options: dict[str, Any], settings: EngineSettings, created_ms: int
) -> StreamRecord:
    """A declared stream from the JSON members of its declaration.

    Raises:
        InputError: an unknown member or a wrong value.
    """
    unknown = sorted(set(options) - set(OPTIONS) - {"iri", "name"})
    if unknown:
        raise InputError(f"a stream has no option {unknown[0]!r}", hint=f"Options are {', '.join(OPTIONS)}")
    timestamps = options.get("timestamp_property")
    return StreamRecord(
        name=check_name(name, "stream name"),
        iri=check_iri(iri),
        lateness_ms=_duration(options, "lateness", settings.lateness_ms) or 0,
        late=_one_of(options, "late", ("drop", "admit", "error")) or "drop",
        idle_timeout_ms=_duration(options, "idle_timeout", None),
        retention_ms=_duration(options, "retention", None),
        timestamp_property=check_iri(timestamps) if timestamps else None,
        stamping=_one_of(options, "stamping", ("event", "arrival")),
        quoted_asserted=_flag(options, "quoted_asserted"),
        declared=True,
        created_ms=created_ms,
    )


def _duration(options: dict[str, Any], name: str, default: int | None) -> int | None:
    value = options.get(name)
    return default if value is None else duration_ms(value, name)


def _one_of(options: dict[str, Any], name: str, values: Iterable[str]) -> Any:
    value = options.get(name)
    if value is not None and value not in values:
        raise InputError(f"{name} is {value!r}, it must be one of {', '.join(values)}")
    return value


def _flag(options: dict[str, Any], name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, it must be true or false")
    return value


__all__ = [
    "LatePolicy",
    "LogRecord",
    "MemoryLog",
    "Stamping",
    "StreamState",
    "check_iri",
    "check_name",
    "free_name",
    "iri_of",
    "last_segment",
    "record_from_options",
    "since",
]
