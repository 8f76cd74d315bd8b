"""The input log of a stream: what was accepted, in order, for queries that start in the past."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..inputs import Advance, Arrival, Idle, StreamInput


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
