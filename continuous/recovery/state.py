"""The state of an engine between two tasks, as stored in a checkpoint."""

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
    """The state of one stream: its time of declaration, its time figures and counts, its dead letters."""

    created_ms: int
    figures: list[Any]
    dead_letters: list[DeadLetter]


@dataclass(frozen=True, slots=True)
class EntrySnapshot:
    """The state of one registered query in a checkpoint.

    ``members`` are the members of the journal record that attached the query, and ``feed`` the figures of its
    feed. ``query`` is None in a checkpoint for a query that does not run.
    """

    members: dict[str, Any]
    state: State
    error: str | None
    feed: list[int]
    query: QuerySnapshot | None

    @property
    def name(self) -> str:
        """The name of the query."""
        return str(self.members["name"])


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """The state of an engine after the journal record ``processed``, when ``last`` was the newest record.

    ``version`` is the store version up to which queries have processed commits, ``keys`` are the idempotency
    keys of pushes, and ``streams`` maps IRIs to states.
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
        """Raise StoreFormatError if journal or store lack data on which the checkpoint's state depends.

        Args:
            earliest: the number of the oldest record in the journal.
            last: the number of the newest record in the journal.
            version: the newest version of the store.
        """
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
"""The classes of objects in an engine's state, by their names in checkpoints."""
