"""The state of an engine between two turns, as a checkpoint has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quadrill.store.errors import DAMAGED, StoreFormatError

from ..queries.running import State
from ..queries.snapshot import RECORDS as QUERY_RECORDS
from ..queries.snapshot import QuerySnapshot
from ..streams.dead_letters import DeadLetter


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """One stream: when it was declared, its time and counts, its dead letters."""

    created_ms: int
    figures: list[Any]
    dead_letters: list[DeadLetter]


@dataclass(frozen=True, slots=True)
class EntrySnapshot:
    """One registered query.

    ``members`` are those of the record that attached it, ``feed`` says where its feed is. ``query`` is None
    for one that does not run.
    """

    members: dict[str, Any]
    state: State
    error: str | None
    feed: list[int]
    query: QuerySnapshot | None

    @property
    def name(self) -> str:
        """The query's name."""
        return str(self.members["name"])


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """The state after record ``processed`` of the journal, whose newest record then was ``last``.

    ``version`` is that of the store as far as queries have seen its commits, ``keys`` are the idempotency
    keys of pushes, ``streams`` are by IRI.
    """

    processed: int
    last: int
    version: int
    keys: list[Any]
    streams: dict[str, StreamSnapshot]
    sources: list[dict[str, Any]]
    queries: list[EntrySnapshot]
    epoch: int = 0

    def require_followed(self, earliest: int, last: int, version: int) -> None:
        """Raise StoreFormatError where the journal or the store lacks what comes behind this, or led here."""
        problem = None
        if last < self.last or earliest > self.processed + 1:
            problem = f"records {self.processed + 1} to {self.last}, the journal has {earliest} to {last}"
        elif version < self.version:
            problem = f"version {self.version} of the store, which is at {version}"
        if problem is not None:
            raise StoreFormatError(f"the checkpoint of the engine needs {problem}", hint=DAMAGED)


RECORDS = QUERY_RECORDS | {
    "DeadLetter": DeadLetter,
    "EngineSnapshot": EngineSnapshot,
    "EntrySnapshot": EntrySnapshot,
    "StreamSnapshot": StreamSnapshot,
}
"""What a state is made of, by its names in checkpoints."""
