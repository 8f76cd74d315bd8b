"""A cache file of values by key; damaged values count as missing and are computed again.

The cache file is never synced, and a full disk raises no error. Each value in the cache file has a digest, so
a truncated or changed value is never used; values after a damaged value are ignored, too. A cache file with
another stamp, which identifies the version of its values, is overwritten.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

log = logging.getLogger("quadrill.store")

KEY_BYTES = 16
_HEAD = struct.Struct(f"<{KEY_BYTES}s16sI")
_MAGIC = b"quadrill values\n"


class KeyedFile:
    """The values of a cache file, read once at the start; one thread at a time adds values to the file.

    Attributes:
        values: the values in the file when it was opened; callers may remove values.
        known: the keys whose values are in the file.
    """

    def __init__(self, path: Path, stamp: bytes, *, most_bytes: int = 256 << 20) -> None:
        """Read the values of a cache file.

        Args:
            path: the file, which the first added value creates.
            stamp: identifies the version of the values; a file with another stamp is ignored.
            most_bytes: no value is added to a file larger than this number of bytes.
        """
        self._path = path
        self._head = _MAGIC + _digest(stamp)
        self._most = most_bytes
        self._end = 0
        self.values: dict[bytes, bytes] = {}
        try:
            data = path.read_bytes()
        except OSError:
            data = b""
        if data.startswith(self._head):
            self._end = len(self._head)
            for key, value, end in _records(data, self._end):
                self.values[key], self._end = value, end
        self.known = set(self.values)

    def add(self, key: bytes, value: bytes) -> None:
        """Append a value to the cache file; if a write fails, the file gets no further values."""
        if key in self.known or self._end > self._most:
            return
        record = _HEAD.pack(key, _digest(key + value), len(value)) + value
        try:
            with self._path.open("r+b" if self._end else "wb") as file:
                self._end = self._end or file.write(self._head)
                file.seek(self._end)
                file.truncate()
                file.write(record)
        except OSError as error:
            self._give_up(error)
            return
        self._end += len(record)
        self.known.add(key)

    def keep_only(self, keys: Collection[bytes]) -> None:
        """Rewrite the cache file with only the values of ``keys``, if these are less than half of it."""
        kept = self.known.intersection(keys)
        if self._most < 0 or len(self.known) <= 2 * len(kept) + KEY_BYTES:
            return
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            data = self._path.read_bytes()
            at = len(self._head)
            with draft.open("wb") as file:
                file.write(self._head)
                for key, _, end in _records(data, at):
                    if key in kept:
                        file.write(data[at:end])
                    at = end
                self._end = file.tell()
            os.replace(draft, self._path)
            self.known = kept
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.info("nothing more is kept in %s: %s", self._path, error.strerror)
        self._most = -1


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _records(data: bytes, at: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield (key, value, end offset) of the cache file's records before the first damaged record."""
    while at + _HEAD.size <= len(data):
        key, digest, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        value = data[at : at + length]
        at += length
        if len(value) < length or _digest(key + value) != digest:
            return
        yield key, value, at
