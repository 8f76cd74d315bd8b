"""Sinks of a job: standard output, a folder of files, a Kafka topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from quadrill.store.errors import ReportedError

from . import kafka
from .group import GroupEvent
from .inputs import KAFKA, split_topic
from .recordings import FOLDER
from .tasks import event_line, write_events


class Sink(Protocol):
    """Where the events of a job go.

    Attributes:
        given: the sink as the user gave it; empty for standard output.
        folder: the folder of a ``files:`` sink, in which tasks write their events themselves; else None.
    """

    given: str
    folder: str | None

    def check(self) -> None:
        """Check that the sink can be used, without writing anything; raises ReportedError."""
        ...

    def open(self) -> None:
        """Prepare the sink; raises ReportedError."""
        ...

    def emit(self, batch: int, events: Sequence[GroupEvent]) -> None:
        """Emit the events of a batch, which may have been emitted before a crash; raises ReportedError."""
        ...


class PrintedSink:
    """Standard output; ``lines`` returns the lines of an event."""

    given = ""
    folder: str | None = None

    def __init__(self, lines: Callable[[GroupEvent], Iterable[str]]) -> None:
        self._lines = lines

    def check(self) -> None:
        """Do nothing."""

    def open(self) -> None:
        """Do nothing."""

    def emit(self, batch: int, events: Sequence[GroupEvent]) -> None:
        """Print events."""
        for event in events:
            for line in self._lines(event):
                print(line)
        if events:
            print(end="", flush=True)


class FolderSink:
    """A folder of ``*.ndjson`` files, each of one batch; names and bytes depend on the input alone."""

    def __init__(self, given: str) -> None:
        self.given = given
        self._path = Path(given[len(FOLDER) :]).absolute()
        self.folder: str | None = str(self._path)

    def check(self) -> None:
        """Raise ReportedError if the folder is a file."""
        if self._path.exists() and not self._path.is_dir():
            raise ReportedError(f"{self._path} is no folder", code="sink")

    def open(self) -> None:
        """Create the folder if it does not exist; raises ReportedError."""
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReportedError(
                f"the folder {self._path} cannot be made: {error.strerror}", code="sink"
            ) from error

    def emit(self, batch: int, events: Sequence[GroupEvent]) -> None:
        """Write events to one file."""
        if events:
            write_events(self._path, f"{batch:08d}.ndjson", events)


class KafkaSink:
    """A Kafka topic, at least once; the key of a message is the event's id."""

    folder: str | None = None

    def __init__(self, given: str) -> None:
        self.given = given
        self._brokers, self._topic = split_topic(given)

    def check(self) -> None:
        """Check that the brokers can be reached; raises ReportedError."""
        kafka.partitions_of(self._brokers, self._topic)

    def open(self) -> None:
        """Do nothing."""

    def emit(self, batch: int, events: Sequence[GroupEvent]) -> None:
        """Produce events, and wait until the brokers have them; raises ReportedError."""
        messages = [(event.id, event_line(event).rstrip(b"\n")) for event in events]
        kafka.produce(self._brokers, self._topic, messages)


def sink_of(given: str | None, lines: Callable[[GroupEvent], Iterable[str]]) -> Sink:
    """Return the sink that an option names, by default standard output with the ``lines`` of each event.

    Raises ReportedError for an unknown form.
    """
    if given is None:
        return PrintedSink(lines)
    if given.startswith(FOLDER) and len(given) > len(FOLDER):
        return FolderSink(given)
    if given.startswith(KAFKA):
        return KafkaSink(given)
    raise ReportedError(f"the sink {given} is neither files:FOLDER nor kafka:BROKERS/TOPIC", code="sink")
