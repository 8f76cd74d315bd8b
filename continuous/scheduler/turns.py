"""The turns that the sequencer knows, beside the inputs of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from quadrill.store.changes.commit import Commit
from quadrill.store.registry.records import QueryState

from ..durable.turns import Turn
from ..queries.catalogue import Entry, Pending
from ..queries.registration import Registration
from ..queries.running import RunningQuery
from ..streams.accept import LogRecord


@dataclass(slots=True, eq=False)
class CommitTurn(Turn):
    """The store has a new version."""

    commit: Commit


@dataclass(slots=True, eq=False)
class SwapAgainTurn(Turn):
    """In a replay: rows of these tables were read anew at a version."""

    names: Sequence[str]
    version: int


@dataclass(slots=True, eq=False)
class RefreshTurn(Turn):
    """A query's static parts are read anew, by hand or by a timer."""

    name: str
    cause: str


@dataclass(slots=True, eq=False)
class AttachTurn(Turn):
    """A query begins; its result is how many retained elements came first.

    Attributes:
        running: the query.
        reset: its feed goes on, with a reset.
        replay_from: the event time from which retained elements come first; by default that of ``start``.
        kept: what its streams retained at its place in the order.
    """

    running: RunningQuery
    reset: bool
    replay_from: int | None = None
    kept: dict[str, list[LogRecord]] | None = field(default=None)


@dataclass(slots=True, eq=False)
class ReserveTurn(Turn):
    """A query whose static parts are still read has its place: what arrives for it is kept."""

    entry: Entry
    pending: Pending


@dataclass(slots=True, eq=False)
class UnreadyTurn(Turn):
    """The static parts of a query that waited cannot be read: it has failed."""

    entry: Entry
    reason: str
    code: str


@dataclass(slots=True, eq=False)
class DetachTurn(Turn):
    """A query ends, and its feed with it when it was dropped."""

    entry: Entry
    running: RunningQuery | None
    dropped: bool


@dataclass(slots=True, eq=False)
class StateTurn(Turn):
    """A query pauses or goes on."""

    running: RunningQuery
    state: QueryState


@dataclass(slots=True, eq=False)
class RegistrationTurn(Turn):
    """A query gets other settings."""

    running: RunningQuery
    registration: Registration
