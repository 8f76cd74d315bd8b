"""Streams as the engine keeps them: names, time, counts; and which elements may enter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from quadrill.store.errors import ConflictError, NotFoundError
from quadrill.store.registry.records import LatePolicy, Stamping, StreamRecord

from ..clock import Clock
from ..errors import InputError
from ..inputs import StreamTime
from ..settings import EngineSettings
from .dead_letters import DeadLetters
from .decode import PROV_GENERATED_AT_TIME
from .retained import InputLog, MemoryLog
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


@dataclass(slots=True)
class StreamState:
    """One stream: its settings, its time and what was counted. Guarded by the engine's ingest lock."""

    record: StreamRecord
    log: InputLog
    idle_timeout_ms: int
    retention_ms: int
    seen: int | None = None
    floor: int | None = None
    idle: bool = False
    next_seq: int = 1
    accepted: int = 0
    # How many of those queries made; the others were pushed.
    derived: int = 0
    late: int = 0
    dropped: int = 0
    refused: int = 0
    last_input_ms: int | None = None
    # The same by the clock that never jumps; not kept over restarts.
    last_input_steady: int | None = None
    # When the clock was last looked at for it, by the same clock.
    looked_steady: int | None = None
    derived_from: str | None = None
    reader_lateness: dict[str, int] = field(default_factory=dict)
    dead_letters: DeadLetters = field(default_factory=lambda: DeadLetters(0))

    @property
    def name(self) -> str:
        """The short name."""
        return self.record.name

    @property
    def iri(self) -> str:
        """The IRI."""
        return self.record.iri

    @property
    def timestamp_property(self) -> str:
        """The property by which elements carry their time."""
        return self.record.timestamp_property or PROV_GENERATED_AT_TIME

    @property
    def time(self) -> StreamTime:
        """What is known of its time now."""
        return StreamTime(self.seen, self.floor, self.record.lateness_ms)

    @property
    def lateness_ms(self) -> int:
        """Its own lateness, or that of the reader that waits longest."""
        return max([self.record.lateness_ms, *self.reader_lateness.values()])

    @property
    def watermark(self) -> int | None:
        """Elements before it are late. None before any time is known."""
        return self.time.watermark(self.lateness_ms)

    def see(self, event_time: int) -> None:
        """An element of this event time was accepted."""
        self.seen = event_time if self.seen is None else max(self.seen, event_time)

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


class StreamTable:
    """All streams by name and by IRI."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._by_name: dict[str, StreamState] = {}
        self._by_iri: dict[str, StreamState] = {}

    def __iter__(self) -> Iterator[StreamState]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name_or_iri: str) -> StreamState | None:
        """The stream of a name or an IRI."""
        found = self._by_name.get(name_or_iri) or self._by_iri.get(name_or_iri)
        if found is None and NAME.match(name_or_iri):
            found = self._by_iri.get(self._settings.base_iri + name_or_iri)
        return found

    def get(self, name_or_iri: str) -> StreamState:
        """The stream of a name or an IRI.

        Raises:
            NotFoundError: there is none.
        """
        found = self.find(name_or_iri)
        if found is None:
            raise NotFoundError(
                f"no stream {name_or_iri} is declared",
                code="unknown-stream",
                hint="GET /streams lists them; PUT /streams/<name> declares one",
            )
        return found

    def add(self, record: StreamRecord) -> StreamState:
        """Put a stream into the table.

        Raises:
            ConflictError: its name or IRI is taken.
        """
        if record.name in self._by_name or record.iri in self._by_iri:
            taken = "name" if record.name in self._by_name else "IRI"
            raise ConflictError(
                f"the {taken} of stream {record.name} <{record.iri}> is taken", code="stream-exists"
            )
        state = StreamState(record, MemoryLog(0, self._settings.retained_elements), 0, 0)
        state.dead_letters = DeadLetters(self._settings.dead_letters)
        self._by_name[record.name] = self._by_iri[record.iri] = state
        self.configure(state, record)
        return state

    def configure(self, state: StreamState, record: StreamRecord) -> None:
        """Give a stream other settings; name and IRI stay."""
        settings = self._settings
        state.record = record
        idle, retention = record.idle_timeout_ms, record.retention_ms
        state.idle_timeout_ms = settings.idle_timeout_ms if idle is None else idle
        state.retention_ms = settings.retention_ms if retention is None else retention
        if isinstance(state.log, MemoryLog):
            state.log.retention_ms = state.retention_ms

    def remove(self, state: StreamState) -> None:
        """Take a stream out of the table."""
        del self._by_name[state.name]
        del self._by_iri[state.iri]

    def iri_of(self, name_or_iri: str) -> str:
        """The IRI that a reference to an undeclared stream means: ``<base_iri>name`` for a name."""
        if NAME.match(name_or_iri):
            return self._settings.base_iri + name_or_iri
        check_iri(name_or_iri)
        return name_or_iri

    def free_name(self, iri: str) -> str:
        """A name for a stream: the last path segment or fragment of its IRI, with -2, -3 ... when taken."""
        wanted = last_segment(iri) or "stream"
        name, number = wanted, 1
        while name in self._by_name:
            number += 1
            name = f"{wanted[:120]}-{number}"
        return name


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
    "Stamping",
    "StreamState",
    "StreamTable",
    "check_iri",
    "check_name",
    "last_segment",
    "record_from_options",
]
