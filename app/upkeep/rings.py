"""Series of the newest numbers, in two bytes a number: an hour of thousands of queries fits into memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

POINTS = 360
UNKNOWN = 0xFFFF
"""The code of a number that nobody knows."""
_EXACT_BITS = 12
EXACT = 1 << _EXACT_BITS
_ZEROS, _NO_ROOM = -1, -2


def code_of(number: int) -> int:
    """A number from 0 in 16 bits: exactly below 4,096, then its first 12 bits, at most 134 million."""
    shift = number.bit_length() - _EXACT_BITS
    if shift <= 0:
        return number
    return min(shift << _EXACT_BITS | number >> shift, UNKNOWN - 1) if shift < 16 else UNKNOWN - 1


def number_of(code: int) -> int | None:
    """The number of a code."""
    shift, kept = code >> _EXACT_BITS, code & 0xFFF
    return None if code == UNKNOWN else kept << shift


class Rings:
    """Some series of the newest `POINTS` numbers, by the number of the point; zeros until told otherwise.

    A series of zeros takes no room: its ring is made with the first other number.

    Attributes:
        begun: the first point.
    """

    __slots__ = ("_codes", "_places", "begun")

    def __init__(self, series: int, begun: int) -> None:
        self.begun = begun
        self._codes = array("H")
        # For each series where its ring begins among the codes.
        self._places = array("l", [_ZEROS] * series)

    @property
    def made(self) -> int:
        """How many rings there are."""
        return len(self._codes) // POINTS

    def put(self, point: int, codes: Sequence[int], room: int) -> None:
        """The codes of a point, one a series; at most so many rings are made, other series are unknown."""
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
        """Nobody knows the numbers of a point; of a series without a ring it stays what its others are."""
        at = point % POINTS
        for place in self._places:
            if place >= 0:
                self._codes[place + at] = UNKNOWN

    def read(self, series: int, points: range) -> Iterator[int | None]:
        """The numbers of a series."""
        place = self._places[series]
        if place < 0:
            nothing = 0 if place == _ZEROS else None
            return (nothing for _ in points)
        codes = self._codes
        return (number_of(codes[place + point % POINTS]) for point in points)
