"""The file of a checkpoint: a head with a check sum, packed bytes, and the quads that these refer to.

It is written whole beside the old one and then takes its place. What is in it is for `packing` and whoever
calls it to say; quads are written as N-Quads, a hundred times faster than one by one.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import Quad

from quadrill.store.errors import StoreFormatError

from .journal import from_lines, to_lines

_HEAD = struct.Struct("<8sIIQQ")
_MAGIC = b"quadrill"


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """What stands in the file of a checkpoint."""

    format: int
    packed: bytes
    quads: list[Quad]


def write_draft(draft: Path, content: CheckpointFile) -> int:
    """Write a checkpoint to a file of its own and sync it; its size in bytes.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    packed, quads = content.packed, to_lines(content.quads)
    check = zlib.crc32(quads, zlib.crc32(packed))
    try:
        with draft.open("wb") as out:
            out.write(_HEAD.pack(_MAGIC, content.format, check, len(packed), len(quads)))
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
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_file(path: Path) -> CheckpointFile | None:
    """What stands in a checkpoint, None when there is none.

    Raises:
        StoreFormatError: it cannot be read or is damaged.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be read: {error.strerror}") from error
    if len(data) < _HEAD.size:
        raise StoreFormatError(f"the checkpoint {path} is cut off")
    magic, version, check, packed, lines = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or len(body) != packed + lines:
        raise StoreFormatError(f"the checkpoint {path} is none, or cut off")
    if zlib.crc32(body[packed:], zlib.crc32(body[:packed])) != check:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: its check sum is wrong")
    return CheckpointFile(version, bytes(body[:packed]), from_lines(bytes(body[packed:])))


__all__ = ["CheckpointFile", "publish", "read_file", "write_draft"]
