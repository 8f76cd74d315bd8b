"""Strict decoder of the chunked transfer coding (RFC 9112 section 7.1): it rejects any deviation."""

from __future__ import annotations

import re

from .refused import RefusedError

MAX_LINE_BYTES = 4096
MAX_TRAILER_BYTES = 8192
_OVERHEAD_BYTES = 64 << 10
_OVERHEAD_RATIO = 16
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*")
_NOT_IN_TRAILERS = frozenset(
    b"content-length transfer-encoding host trailer te connection content-type content-encoding "
    b"content-range authorization expect upgrade cookie".split()
)


class ChunkedBody:
    """Decodes a chunked request body piece by piece.

    Attributes:
        decoded: decoded bytes of the body that the reader has not taken yet.
        received: number of encoded bytes received so far.
        ended: True after the body's last chunk and trailers; the bytes in ``rest`` then follow the body.
    """

    __slots__ = (
        *("_coded", "_data_left", "_size", "_step", "_trailer_left"),
        *("decoded", "ended", "received"),
    )

    def __init__(self) -> None:
        self.decoded = bytearray()
        self.received = 0
        self.ended = False
        self._coded = bytearray()
        self._data_left = 0
        self._size = 0
        self._trailer_left = MAX_TRAILER_BYTES
        self._step = self._read_size

    @property
    def rest(self) -> bytes:
        """The received bytes after the end of the chunked body; empty before the end."""
        return bytes(self._coded) if self.ended else b""

    def feed(self, data: bytes | bytearray) -> None:
        """Decode a received piece of a chunked body.

        Raises: RefusedError 400 when the chunked coding is malformed.
        """
        self._coded += data
        self.received += len(data)
        while not self.ended and self._step():
            pass
        if self.received > _OVERHEAD_BYTES + _OVERHEAD_RATIO * self._size:
            raise RefusedError(400, "the chunks are hardly more than their own heads")

    def take(self, most: int) -> bytes:
        """Remove and return at most ``most`` decoded bytes of the body."""
        piece = bytes(self.decoded[:most])
        del self.decoded[: len(piece)]
        return piece

    def _read_size(self) -> bool:
        line = self._line(MAX_LINE_BYTES, "the line before a chunk")
        if line is None:
            return False
        found = _SIZE.fullmatch(line)
        if found is None:
            raise RefusedError(400, "a chunk does not begin with its size in hexadecimal digits")
        self._data_left = int(found[1], 16)
        self._step = self._read_data if self._data_left else self._read_trailer
        return True

    def _read_data(self) -> bool:
        piece = self._coded[: self._data_left]
        del self._coded[: len(piece)]
        self.decoded += piece
        self._size += len(piece)
        self._data_left -= len(piece)
        if self._data_left:
            return False
        self._step = self._read_end_of_data
        return True

    def _read_end_of_data(self) -> bool:
        end = bytes(self._coded[:2])
        if not b"\r\n".startswith(end):
            raise RefusedError(400, "a chunk is longer than it says")
        if len(end) < 2:
            return False
        del self._coded[:2]
        self._step = self._read_size
        return True

    def _read_trailer(self) -> bool:
        line = self._line(self._trailer_left, "the trailer")
        if line is None:
            return False
        self._trailer_left -= len(line) + 2
        if not line:
            self.ended = True
            return True
        found = _TRAILER.fullmatch(line)
        if found is None:
            raise RefusedError(400, "the body ends with something that is no trailer")
        if found[1].lower() in _NOT_IN_TRAILERS:
            raise RefusedError(400, f"{found[1].decode('ascii')} may not stand in a trailer")
        # RFC 9110 section 6.5.1: a recipient may drop trailer fields; no handler of Quadrill reads any.
        return True

    def _line(self, most: int, what: str) -> bytearray | None:
        """Remove and return the next line of the chunked coding without CR LF; None if it is incomplete."""
        end = self._coded.find(b"\r\n", 0, most + 2)
        if end < 0:
            if len(self._coded) > most:
                raise RefusedError(400, f"{what} is longer than {most} bytes")
            if b"\n" in self._coded or 0 <= self._coded.find(b"\r") < len(self._coded) - 1:
                raise RefusedError(400, f"{what} does not end with CR LF")
            return None
        line = self._coded[:end]
        del self._coded[: end + 2]
        return line
