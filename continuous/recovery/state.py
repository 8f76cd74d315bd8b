"""The state of an engine between two turns, as a checkpoint has it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadrill.store.errors import StoreFormatError

from ..durable.checkpoint import CheckpointFile, read_file, write_draft
from ..durable.packing import pack, unpack
from ..queries.running import State
from ..queries.snapshot import RECORDS as QUERY_RECORDS
from ..queries.snapshot import QuerySnapshot
from ..streams.dead_letters import DeadLetter
from . import format6

FORMAT = 7
"""Counts up when checkpoints can no longer be read by the release before; see `read_state`."""


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


_RECORDS = (*QUERY_RECORDS, DeadLetter, StreamSnapshot, EntrySnapshot, EngineSnapshot)


def write_state(draft: Path, state: EngineSnapshot) -> int:
    """Write a state to a file of its own and sync it; its size in bytes.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    try:
        packed, quads = pack(state, _RECORDS)
    except pickle.PicklingError as error:
        raise OSError(0, str(error)) from error
    return write_draft(draft, CheckpointFile(FORMAT, packed, quads))


def read_state(path: Path) -> EngineSnapshot | None:
    """The state of a checkpoint, None when there is none.

    Raises:
        StoreFormatError: it is damaged, or of a release that this one does not know.
    """
    file = read_file(path)
    if file is None:
        return None
    try:
        if file.format == FORMAT:
            state: EngineSnapshot = unpack(file.packed, file.quads, _RECORDS)
            return state
        if file.format == format6.FORMAT:
            return _of_format_6(format6.read(file.packed, file.quads))
        raise ValueError(f"format {file.format} where {format6.FORMAT} and {FORMAT} are known")
    except Exception as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: {error}") from error


def _of_format_6(state: dict[str, Any]) -> EngineSnapshot:
    streams = {
        iri: StreamSnapshot(each["created"], each["figures"], each["dead_letters"])
        for iri, each in state["streams"].items()
    }
    queries = [
        EntrySnapshot(
            {name: each[name] for name in ("name", "text", "dialect", "options", "created", "sources")},
            each["state"],
            each["error"],
            each["feed"],
            each["query"],
        )
        for each in state["queries"]
    ]
    return EngineSnapshot(
        state["processed"], state["last"], state["version"], state["keys"], streams, state["sources"], queries
    )
