"""What a sink is: a kind's class that delivers events of a query's feed, and its context."""

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

KINDS_OF_EVENTS = ("insert", "delete", "answer", "error", "reset")

SINK_MEMBERS = (
    DeclarationMember("kind", text, "what kind of sink it is", required=True),
    DeclarationMember("query", text, "the name of the query whose feed it takes", required=True),
    DeclarationMember(
        "from",
        number(0, 2**63 - 1),
        "the id behind which it begins, 0 for the oldest event; left out: with the next one",
    ),
    DeclarationMember(
        "events",
        list_of(one_of(*KINDS_OF_EVENTS)),
        "the kinds of events that it takes",
        default=list(KINDS_OF_EVENTS),
    ),
    DeclarationMember("batch", number(1, 100_000), "most events that are delivered together", default=1_000),
)
"""Members that every sink has."""


class SinkContext:
    """What a running sink uses: its figures, its place, and the wish that it stops.

    Attributes:
        name: the sink's name.
        hosts: the hosts that may be reached.
        folder: the folder below which it may write, None where there is none.
        figures: what is told of it.
        letters: events that could not be delivered.
        stopping: is set when it has to stop.
        position: the id of the last event that is delivered.
        place_of: when the query was registered that ``position`` is an id of, None where it is not known.
        query_ms: when the query was registered that is delivered from.
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
        """The other side is there and has accepted us."""
        if not self.stopping.is_set():
            self.figures.state, self.figures.error = "running", None

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            StoppedError: the sink has to stop.
        """
        if self.stopping.wait(seconds):
            raise StoppedError

    def refuse(self, event: StoredEvent, error: str) -> None:
        """An event that will never be delivered becomes a dead letter."""
        self.figures.refused += 1
        self.letters.add(event.data, error, id=event.id, event=event.kind)


class Sink(ABC):
    """One kind of sink. All methods are called in its thread, ``open`` again after each error.

    They raise ConnectorError to be tried again after a while with the same events, ConnectorFailedError to be
    left alone, and let StoppedError through.
    """

    members: ClassVar[tuple[DeclarationMember, ...]] = ()
    guarantee: ClassVar[str]
    counts_itself: ClassVar[bool] = False
    """Whether the kind adds to ``figures.taken`` itself, because a part of a batch may be delivered."""

    def __init__(self, given: Mapping[str, Any], context: SinkContext) -> None:
        """Make one of the values of its declaration; nothing is reached yet."""
        self.given = given
        self.context = context

    @classmethod
    @abstractmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folder: Path | None) -> None:
        """Raise ReportedError where the values of a declaration contradict, or name a forbidden place."""

    @classmethod
    def claims(cls, given: Mapping[str, Any], folder: Path | None) -> Path | None:
        """What no other sink of the kind may write, too; None where they may."""
        return None

    @abstractmethod
    def open(self) -> None:
        """Reach the other side."""

    @abstractmethod
    def deliver(self, events: Sequence[StoredEvent]) -> None:
        """Deliver events in their order; when it returns they are safe, or dead letters."""

    @abstractmethod
    def close(self) -> None:
        """Leave the other side; nothing is delivered any more."""
