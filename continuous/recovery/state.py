"""The state of an engine between two turns, as a checkpoint has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


RECORDS = QUERY_RECORDS | {
    "DeadLetter": DeadLetter,
    "EngineSnapshot": EngineSnapshot,
    "EntrySnapshot": EntrySnapshot,
    "StreamSnapshot": StreamSnapshot,
}
"""What a state is made of, by its names in checkpoints."""
