"""Base class of the kinds of sinks, which deliver events of a query's feed, and their context."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.hosts import AllowedHosts

from .dead_letters import DeadLetterFile
from .declaration import DeclarationMember, list_of, number, one_of, text
from .errors import StoppedError
from .figures import Figures

KINDS_OF_EVENTS = ("insert", "delete", "answer", "resolved", "error", "reset")

SINK_MEMBERS = (
    DeclarationMember("kind", text, "the kind of the sink", required=True),
    DeclarationMember("query", text, "the name of the query whose events the sink delivers", required=True),
    DeclarationMember(
        "from",
        number(0, 2**63 - 1),
        "the event id after which the sink starts, 0 for the oldest event; by default only new events",
    ),
    DeclarationMember(
        "events",
        list_of(one_of(*KINDS_OF_EVENTS)),
        "the kinds of events to deliver",
        default=list(KINDS_OF_EVENTS),
    ),
    DeclarationMember("batch", number(1, 100_000), "maximum number of events in one delivery", default=1_000),
)
"""Members that the declaration of every sink may have."""


class SinkContext:
    """Context of a running sink: figures, position and stop signal.

    Attributes:
        name: the name of the sink.
        hosts: the remote hosts that connectors of the server may contact.
        folder: the folder below which the sink may write; None if sinks may write no files.
        figures: the sink's state, counters and newest error.
        letters: the dead letters of the sink, events that could not be delivered.
        stopping: an event that is set when the sink has to stop.
        position: the id of the last event that the sink delivered.
        place_of: registration time of the query that ``position`` belongs to; None if unknown.
        query_ms: registration time of the query whose events are delivered.
    """

    def __init__(
        self,
        name: str,
        hosts: AllowedHosts,
        folder: Path | None,
        letters: DeadLetterFile,
        position: int | None,
        place_of: int | None = None,
    ) -> None:
        self.name = name
        self.hosts = hosts
        self.folder = folder
        self.figures = Figures()
        self.letters = letters
        self.stopping = threading.Event()
        self.position = position
        self.place_of = place_of
        self.query_ms = 0

    def connected(self) -> None:
        """Set the sink's state to `running`, because the remote system has accepted the connection."""
        if not self.stopping.is_set():
            self.figures.state, self.figures.error = "running", None

    def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds in the sink's thread.

        Raises:
            StoppedError: the sink has to stop before the time has passed.
        """
        if self.stopping.wait(seconds):
            raise StoppedError

    def refuse(self, event: StoredEvent, error: str) -> None:
        """Store an undeliverable event as a dead letter."""
        self.figures.refuse(error)
        self.letters.add(event.data, error, id=event.id, event=event.kind)


class Sink(ABC):
    """Base class of a kind of sink.

    A sink's methods ``open``, ``deliver`` and ``close`` are called in the sink's thread, ``open`` again after
    errors. A method of a sink raises ConnectorError for a retry with the same events after a pause, and
    ConnectorFailedError to end without a retry. No method of a sink may catch StoppedError.
    """

    members: ClassVar[tuple[DeclarationMember, ...]] = ()
    guarantee: ClassVar[str]
    counts_itself: ClassVar[bool] = False
    """True if the kind of sink itself counts delivered events, because a batch may be delivered partially."""

    def __init__(self, given: Mapping[str, Any], context: SinkContext) -> None:
        """Create a sink from the values of its declaration, without connecting."""
        self.given = given
        self.context = context

    @classmethod
    @abstractmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folder: Path | None) -> None:
        """Raise ReportedError for a sink's declaration that is contradictory or names a forbidden place."""

    @classmethod
    def check_columns(cls, given: Mapping[str, Any], columns: Sequence[str]) -> None:
        """Raise InputError for a declaration that names a column which the query does not have."""
        return None

    @classmethod
    def claims(cls, given: Mapping[str, Any], folder: Path | None) -> Path | None:
        """Return the path to which only this sink may write; None if sinks of the kind may share paths."""
        return None

    @abstractmethod
    def open(self) -> None:
        """Connect the sink to the remote system."""

    @abstractmethod
    def deliver(self, events: Sequence[StoredEvent]) -> None:
        """Deliver events of a query in order; on return each is stored remotely or is a dead letter."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect the sink from the remote system."""
