"""Bodies that are packed with gzip or deflate, unpacked piece by piece within a limit."""

from __future__ import annotations

import zlib

_GZIP_OR_ZLIB = 47


class Unpacker:
    """Unpacks gzip, of one member or of several in sequence (RFC 1952, 2.2), or deflate."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)

    @property
    def complete(self) -> bool:
        """True when the last member has ended."""
        return self._member.eof

    def unpack(self, chunk: bytes, most: int) -> bytes:
        """Unpack some bytes to at most ``most`` bytes, or a few more; the rest of the chunk is lost then.

        Raises: zlib.error for bytes that are not packed so.
        """
        found = b""
        while chunk and len(found) < most:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
            found += self._member.decompress(chunk, most - len(found))
            chunk = self._member.unused_data
        return found
