"""The file format of a checkpoint: the packed state, and its quads as N-Quads, which are parsed together."""

from __future__ import annotations

import pickle
from pathlib import Path

from quadrill.store.documents.statements import to_lines
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.errors import OlderFormatError, StoreFormatError
from quadrill.store.logs.checkpoint_file import Checkpoint, read_checkpoint, write_checkpoint
from quadrill.store.logs.packing import pack, unpack

from .state import RECORDS, EngineSnapshot

FORMAT = 7
"""The format number of checkpoints; it increases when the previous release cannot read new ones."""


def write_state(draft: Path, state: EngineSnapshot) -> int:
    """Write a checkpoint's state to a draft file and sync the file; return its size in bytes.

    Raises:
        OSError: the state cannot be written; no file is left.
    """
    try:
        packed, quads = pack(state, RECORDS)
    except pickle.PicklingError as error:
        raise OSError(0, str(error)) from error
    return write_checkpoint(draft, Checkpoint(FORMAT, packed, to_lines(quads)))


def read_state(path: Path) -> EngineSnapshot | None:
    """Read the state of a checkpoint; return None if there is no checkpoint.

    Raises:
        OlderFormatError: the checkpoint has an older format than `FORMAT`.
        StoreFormatError: the checkpoint file is damaged, or its format is newer.
    """
    checkpoint = read_checkpoint(path)
    if checkpoint is None:
        return None
    if checkpoint.version < FORMAT:
        raise OlderFormatError(f"the checkpoint {path}")
    try:
        table = parse_stored_quads(bytes(checkpoint.quads))
        if checkpoint.version == FORMAT:
            state: EngineSnapshot = unpack(checkpoint.packed, table, RECORDS)
            return state
        raise ValueError(f"format {checkpoint.version} where {FORMAT} is known")
    except Exception as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: {error}") from error
