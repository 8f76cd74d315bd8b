"""The state of an engine in a checkpoint: packed, with its quads as N-Quads, which are read at once."""

from __future__ import annotations

import pickle
from pathlib import Path

from quadrill.store.documents.own_lines import own_quads
from quadrill.store.documents.statements import to_lines
from quadrill.store.errors import OlderFormatError, StoreFormatError
from quadrill.store.logs.checkpoint_file import Checkpoint, read_checkpoint, write_checkpoint
from quadrill.store.logs.packing import pack, unpack

from .state import RECORDS, EngineSnapshot

FORMAT = 7
"""Counts up when checkpoints can no longer be read by the release before."""


def write_state(draft: Path, state: EngineSnapshot) -> int:
    """Write a state to a file of its own and sync it; its size in bytes.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    try:
        packed, quads = pack(state, RECORDS)
    except pickle.PicklingError as error:
        raise OSError(0, str(error)) from error
    return write_checkpoint(draft, Checkpoint(FORMAT, packed, to_lines(quads)))


def read_state(path: Path) -> EngineSnapshot | None:
    """The state of a checkpoint, None when there is none.

    Raises:
        OlderFormatError: its format is older than `FORMAT`.
        StoreFormatError: it is damaged, or its format is newer.
    """
    found = read_checkpoint(path)
    if found is None:
        return None
    if found.version < FORMAT:
        raise OlderFormatError(f"the checkpoint {path}")
    try:
        table = own_quads(bytes(found.quads))
        if found.version == FORMAT:
            state: EngineSnapshot = unpack(found.packed, table, RECORDS)
            return state
        raise ValueError(f"format {found.version} where {FORMAT} is known")
    except Exception as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: {error}") from error
