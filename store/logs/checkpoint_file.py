"""The file of a checkpoint: a head with a check sum, a packed state, and N-Quads that it refers to.

It is written whole beside the old one and then takes its place.
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
    """What a checkpoint holds; ``version`` is that of the format of ``packed``."""

    version: int
    packed: bytes | memoryview
    quads: bytes | memoryview


def write_checkpoint(draft: Path, checkpoint: Checkpoint) -> int:
    """Write a checkpoint to a file of its own and sync it; its size in bytes.

    Raises:
        OSError: it cannot be written; nothing of it is left.
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
    """Let a draft take the place of the checkpoint, as a whole.

    Raises:
        OSError: the old checkpoint, if any, is still there.
    """
    os.replace(draft, path)
    sync_folder(path.parent)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in a file, None when there is none.

    Raises:
        StoreFormatError: it is damaged.
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
