"""The parts of a load, canonical N-Quads, as what a store takes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyoxigraph import Quad

from ..documents.stored_lines import parse_stored_file

_BLOCK = 1 << 20


def quads_of(files: Sequence[Path]) -> Iterator[Quad]:
    """The quads of parts; blank nodes keep their labels."""
    for file in files:
        yield from parse_stored_file(file)


def may_have_blank_nodes(files: Sequence[Path], block_bytes: int = _BLOCK) -> bool:
    """True when some part has what looks like the label of a blank node, if only in a literal."""
    for file in files:
        with file.open("rb") as stream:
            end = b""
            while block := stream.read(block_bytes):
                if b"_:" in end + block:
                    return True
                end = block[-1:]
    return False


class PartsStream(io.RawIOBase):
    """The bytes of parts one behind the other; each ends with a whole line."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__()
        self._left = list(reversed(files))
        self._open: io.BufferedReader | None = None

    def readable(self) -> bool:
        """True: the loader may read from it."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what the present part still has, else from the next one; 0 at the end of the last."""
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
        """Close what is open."""
        if self._open is not None:
            self._open.close()
        super().close()
