"""Checkpoints: the engine's state after some record of the journal, in one file written whole or not at all.

Windows hold most of it, as quads and terms. Those are written once each as N-Quads, a hundred times faster
than one by one, and the objects around them refer to them by number (packing.py). What the windows themselves
are is pickled; only this package's own classes are read back. A checkpoint of another format or of classes
that have changed is not used: recovery then says so.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

from pyoxigraph import Quad

from quadrill.store.errors import StoreFormatError

from .journal import from_lines, to_lines
from .packing import TERMS, Table, packed

FORMAT = 6
_HEAD = struct.Struct("<8sIIQQ")
_MAGIC = b"quadrill"
_BUILTINS = {"set", "frozenset", "slice", "range", "complex", "bytearray"}
_MOVED = {
    "dead_letters": "streams.dead_letters",
    "inputs.Evaluation": "windows.reports",
    "packing": "durable.packing",
    "timeline": "windows.timeline",
    "s2r.counting": "windows.counting",
    "s2r.grid": "windows.grid",
    "s2r.operator": "windows.operator",
    "s2r.shared": "durable.older_windows",
    "s2r.sliding": "windows.sliding",
}
"""Modules, or classes of them, that earlier releases had elsewhere in this package."""
_ANCHOR = object()
_ANCHOR_NUMBER = -1
"""Stands for the table of quads itself."""


class _Writer(pickle.Pickler):
    """Quads and terms go to a table; objects refer to them by number, and long rows of them are arrays."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.table = Table()

    def persistent_id(self, item: Any) -> int | None:
        kind = type(item)
        if kind is Quad or kind in TERMS:
            return self.table.number(item)
        return _ANCHOR_NUMBER if item is _ANCHOR else None

    def reducer_override(self, item: Any) -> Any:
        return packed(item, self.table, _ANCHOR) or NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, quads: list[Quad]) -> None:
        super().__init__(file)
        self._quads = quads

    def persistent_load(self, number: int) -> Any:
        if number == _ANCHOR_NUMBER:
            return self._quads
        quad = self._quads[number >> 1]
        return quad.object if number & 1 else quad

    def find_class(self, module: str, name: str) -> Any:
        known = (
            module.startswith("quadrill.continuous.")
            or (module == "builtins" and name in _BUILTINS)
            or (module, name) in {("collections", "deque"), ("collections", "OrderedDict")}
            or (module, name) in {("collections", "Counter"), ("collections", "defaultdict")}
            or (module, name) == ("itertools", "count")
        )
        if not known:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong into a checkpoint")
        own = module.removeprefix("quadrill.continuous.")
        moved = _MOVED.get(f"{own}.{name}") or _MOVED.get(own)
        return super().find_class(module if moved is None else f"quadrill.continuous.{moved}", name)


def write_draft(draft: Path, state: dict[str, Any]) -> int:
    """Write a state to a file of its own and sync it; its size in bytes.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    file = io.BytesIO()
    writer = _Writer(file)
    writer.dump(state)
    pickled, quads = file.getvalue(), to_lines(writer.table.quads)
    check = zlib.crc32(quads, zlib.crc32(pickled))
    try:
        with draft.open("wb") as out:
            out.write(_HEAD.pack(_MAGIC, FORMAT, check, len(pickled), len(quads)))
            out.write(pickled)
            out.write(quads)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return _HEAD.size + len(pickled) + len(quads)


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


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """The state of a checkpoint, None when there is none.

    Raises:
        StoreFormatError: it is damaged, or of another version of the program.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be read: {error.strerror}") from error
    try:
        magic, version, check, pickled, lines = _HEAD.unpack_from(data)
        body = memoryview(data)[_HEAD.size :]
        if magic != _MAGIC or version != FORMAT or len(body) != pickled + lines:
            raise ValueError(f"format {version} where {FORMAT} is known, or cut off")
        if zlib.crc32(body[pickled:], zlib.crc32(body[:pickled])) != check:
            raise ValueError("its check sum is wrong")
        quads = from_lines(bytes(body[pickled:]))
        state: dict[str, Any] = _Reader(io.BytesIO(body[:pickled]), quads).load()
        return state
    except Exception as error:
        raise StoreFormatError(f"the checkpoint {path} cannot be used: {error}") from error


__all__ = ["publish", "read_checkpoint", "write_draft"]
