"""The state of an engine in a checkpoint: packed, with its quads as N-Quads, which are read at once."""

from __future__ import annotations

import pickle
from pathlib import Path

from quadrill.store.documents.own_lines import own_quads
from quadrill.store.documents.statements import to_lines
from quadrill.store.errors import StoreFormatError
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
        StoreFormatError: it is damaged, or of a release that this one does not know.
    """
    found = read_checkpoint(path)
    if found is None:
        return None
    try:
        table = own_quads(bytes(found.quads))
        if found.version == FORMAT:
            state: EngineSnapshot = unpack(found.packed, table, RECORDS)
            return state
        from quadrill.migrations import checkpoint_6

        if found.version == checkpoint_6.FORMAT:
            return checkpoint_6.read(memoryview(found.packed), table)
        raise ValueError(f"format {found.version} where {checkpoint_6.FORMAT} and {FORMAT} are known")
    except Exception as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: {error}") from error
