"""Readers for the part files of a bulk load, which contain canonical N-Quads."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyoxigraph import Quad

from ..documents.stored_lines import parse_stored_file

_BLOCK = 1 << 20


def quads_of(files: Sequence[Path]) -> Iterator[Quad]:
    """Yield the quads of part files of a load; blank nodes keep their labels."""
    for file in files:
        yield from parse_stored_file(file)


def may_have_blank_nodes(files: Sequence[Path], block_bytes: int = _BLOCK) -> bool:
    """Return True if a part file contains ``_:``, the prefix of blank node labels, even in a literal."""
    for file in files:
        with file.open("rb") as stream:
            end = b""
            while block := stream.read(block_bytes):
                if b"_:" in end + block:
                    return True
                end = block[-1:]
    return False


class PartsStream(io.RawIOBase):
    """A binary stream of the concatenated part files, each of which ends with a complete line."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__()
        self._left = list(reversed(files))
        self._open: io.BufferedReader | None = None

    def readable(self) -> bool:
        """Return True, because the stream of part files can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes of the current or next part file into a buffer; return 0 after the last part file."""
        while True:
            if self._open is None:
                if not self._left:
                    return 0
                self._open = self._left.pop().open("rb")
            count = self._open.readinto(buffer)
            if count:
                return count
            self._open.close()
            self._open = None

    def close(self) -> None:
        """Close the open part file and the stream."""
        if self._open is not None:
            self._open.close()
        super().close()
