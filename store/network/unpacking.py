"""Incremental decompression of gzip and deflate bodies, with a maximum output size."""

from __future__ import annotations

import zlib

_GZIP_OR_ZLIB = 47


class Unpacker:
    """A decompressor for deflate, and for gzip with one or more members (RFC 1952, 2.2)."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)

    @property
    def complete(self) -> bool:
        """True if the last member of the compressed body has ended."""
        return self._member.eof

    def unpack(self, chunk: bytes, most: int) -> bytes:
        """Decompress a chunk of a body to at most ``most`` bytes; the remaining input is discarded.

        Raises: zlib.error for data that is neither gzip nor deflate.
        """
        found = b""
        while chunk and len(found) < most:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
            found += self._member.decompress(chunk, most - len(found))
            chunk = self._member.unused_data
        return found
