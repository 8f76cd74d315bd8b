"""The file of a checkpoint: a head with a check sum, a packed state, and the quads that it refers to.

It is written whole beside the old one and then takes its place. Quads are written as N-Quads, a hundred times
faster than one by one.
"""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from pathlib import Path

from quadrill.store.documents.statements import from_lines, to_lines
from quadrill.store.errors import StoreFormatError
from quadrill.store.folder import sync_folder

from ..durable.packing import pack, unpack
from .state import RECORDS, EngineSnapshot

FORMAT = 7
"""Counts up when checkpoints can no longer be read by the release before."""

_HEAD = struct.Struct("<8sIIQQ")
_MAGIC = b"quadrill"


def write_state(draft: Path, state: EngineSnapshot) -> int:
    """Write a state to a file of its own and sync it; its size in bytes.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    try:
        packed, quads = pack(state, RECORDS)
    except pickle.PicklingError as error:
        raise OSError(0, str(error)) from error
    lines = to_lines(quads)
    check = zlib.crc32(lines, zlib.crc32(packed))
    try:
        with draft.open("wb") as out:
            out.write(_HEAD.pack(_MAGIC, FORMAT, check, len(packed), len(lines)))
            out.write(packed)
            out.write(lines)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return _HEAD.size + len(packed) + len(lines)


def publish(draft: Path, path: Path) -> None:
    """Let a draft take the place of the checkpoint, as a whole.

    Raises:
        OSError: the old checkpoint, if any, is still there.
    """
    os.replace(draft, path)
    sync_folder(path.parent)


def read_state(path: Path) -> EngineSnapshot | None:
    """The state of a checkpoint, None when there is none.

    Raises:
        StoreFormatError: it is damaged, or of a release that this one does not know.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be read: {error.strerror}") from error
    if len(data) < _HEAD.size:
        raise StoreFormatError(f"the checkpoint {path} is cut off")
    magic, version, check, length, lines = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or len(body) != length + lines:
        raise StoreFormatError(f"the checkpoint {path} is none, or cut off")
    packed, quads = body[:length], body[length:]
    if zlib.crc32(quads, zlib.crc32(packed)) != check:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: its check sum is wrong")
    try:
        table = from_lines(bytes(quads))
        if version == FORMAT:
            state: EngineSnapshot = unpack(packed, table, RECORDS)
            return state
        from quadrill.migrations import checkpoint_6

        if version == checkpoint_6.FORMAT:
            return checkpoint_6.read(packed, table)
        raise ValueError(f"format {version} where {checkpoint_6.FORMAT} and {FORMAT} are known")
    except Exception as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: {error}") from error
