"""The checkpoint file: a header with a check sum, a packed state, and the N-Quads used by the state.

A new checkpoint is written to a separate file, which then replaces the old checkpoint atomically.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from ..errors import StoreFormatError
from ..folder import sync_folder

_HEAD = struct.Struct("<8sIIQQ")
_MAGIC = b"quadrill"


class Checkpoint(NamedTuple):
    """The content of a checkpoint file; ``version`` is the format version of the bytes ``packed``."""

    version: int
    packed: bytes | memoryview
    quads: bytes | memoryview


def write_checkpoint(draft: Path, checkpoint: Checkpoint) -> int:
    """Write and sync a checkpoint to the file ``draft``; return the size in bytes.

    Raises:
        OSError: the checkpoint cannot be written; the draft was deleted.
    """
    version, packed, quads = checkpoint
    check = zlib.crc32(quads, zlib.crc32(packed))
    try:
        with draft.open("wb") as out:
            out.write(_HEAD.pack(_MAGIC, version, check, len(packed), len(quads)))
            out.write(packed)
            out.write(quads)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return _HEAD.size + len(packed) + len(quads)


def publish(draft: Path, path: Path) -> None:
    """Replace the checkpoint at ``path`` by a draft, atomically.

    Raises:
        OSError: the replacement of the checkpoint or the sync of its folder failed.
    """
    os.replace(draft, path)
    sync_folder(path.parent)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Read the checkpoint in a file; return None if the file does not exist.

    Raises:
        StoreFormatError: the checkpoint is damaged or cannot be read.
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
    return Checkpoint(version, packed, quads)
