"""Zstandard files as streams; unlike the library's reader, this reader detects truncated files."""

from __future__ import annotations

import io
from typing import IO, Any, cast

import zstandard

_BLOCK = 1 << 17


class _Frames(io.RawIOBase):
    """A raw stream of the decompressed frames of a Zstandard file."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._frame: Any = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            if not self._input:
                self._input = self._packed.read(_BLOCK)
                if not self._input:
                    if self._frame is not None:
                        raise EOFError("the file ends within a frame")
                    return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()


def open_zstd(path: str) -> IO[bytes]:
    """Open a Zstandard file of one or more frames for reading its decompressed bytes.

    Reading raises EOFError for a truncated file, and zstandard.ZstdError for other invalid data.
    """
    return cast("IO[bytes]", io.BufferedReader(_Frames(open(path, "rb")), _BLOCK))
