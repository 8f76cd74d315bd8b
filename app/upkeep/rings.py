"""Ring buffers for the newest numbers of the history's series, with two bytes per number to save memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

POINTS = 360
UNKNOWN = 0xFFFF
"""The 16-bit code of an unknown number in a ring buffer."""
_EXACT_BITS = 12
EXACT = 1 << _EXACT_BITS
_ZEROS, _NO_ROOM = -1, -2


def code_of(number: int) -> int:
    """Encode a number from 0 to 134 million in 16 bits: exact below 4,096, else to 12 significant bits."""
    shift = number.bit_length() - _EXACT_BITS
    if shift <= 0:
        return number
    return min(shift << _EXACT_BITS | number >> shift, UNKNOWN - 1) if shift < 16 else UNKNOWN - 1


def number_of(code: int) -> int | None:
    """Return the number that a 16-bit code stands for; None for an unknown number."""
    shift, kept = code >> _EXACT_BITS, code & 0xFFF
    return None if code == UNKNOWN else kept << shift


class Rings:
    """Ring buffers of several series, each with its newest `POINTS` numbers; numbers are zero by default.

    A series of zeros takes no memory: its ring buffer is allocated with the first non-zero number.

    Attributes:
        begun: number of the first point of the series.
    """

    __slots__ = ("_codes", "_places", "begun")

    def __init__(self, series: int, begun: int) -> None:
        self.begun = begun
        self._codes = array("H")
        # For each series, the index of its ring buffer's first code; negative without a ring buffer.
        self._places = array("l", [_ZEROS] * series)

    @property
    def made(self) -> int:
        """Number of allocated ring buffers."""
        return len(self._codes) // POINTS

    def put(self, point: int, codes: Sequence[int], room: int) -> None:
        """Store a point, one code per series; after ``room`` new ring buffers, more series become unknown."""
        at = point % POINTS
        kept = self._codes
        for series, place in enumerate(self._places):
            if place >= 0:
                kept[place + at] = codes[series]
            elif codes[series] and place == _ZEROS:
                if room <= 0:
                    self._places[series] = _NO_ROOM
                    continue
                room -= 1
                self._places[series] = place = len(kept)
                kept.frombytes(bytes(2 * POINTS))
                kept[place + at] = codes[series]

    def miss(self, point: int) -> None:
        """Mark the numbers of a point as unknown, except in series without a ring buffer."""
        at = point % POINTS
        for place in self._places:
            if place >= 0:
                self._codes[place + at] = UNKNOWN

    def read(self, series: int, points: range) -> Iterator[int | None]:
        """Return the numbers of a series at a range of points; None for unknown numbers."""
        place = self._places[series]
        if place < 0:
            nothing = 0 if place == _ZEROS else None
            return (nothing for _ in points)
        codes = self._codes
        return (number_of(codes[place + point % POINTS]) for point in points)
