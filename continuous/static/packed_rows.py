"""The rows of a table as blobs: its terms once each as N-Quads, the rows as columns of numbers.

The first blob says how wide and how many the rows are; then come blobs of terms, then of rows. A number is
the place of a term, counted from 1; 0 is unbound.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import TypeVar

from pyoxigraph import NamedNode, Quad

from quadrill.store.terms import Term

from ..durable.journal import from_lines, to_lines

T = TypeVar("T")
TERMS_EACH = 5_000
"""Terms of a blob: serialising them holds the interpreter, so that the engine waits as long."""
ROWS_EACH = 20_000
_CARRIER = NamedNode("urn:quadrill:term")


def pack(
    rows: Mapping[tuple[T, ...], int] | Sequence[tuple[T, ...]],
    width: int,
    unbound: T,
    term_of: Callable[[T], Term],
) -> Iterator[bytes]:
    """The blobs of rows: how often each is there, or in their order.

    Args:
        rows: of terms or what stands for them; nobody changes them meanwhile.
        width: the number of columns.
        unbound: what stands in a row where there is no term.
        term_of: the term that something in a row stands for.
    """
    numbers: dict[T, int] = {unbound: 0}
    # A loop and no single call: other threads go on between its steps.
    for each in chain.from_iterable(rows):
        if each not in numbers:
            numbers[each] = len(numbers)
    kept = list(numbers)[1:]
    counts = list(rows.values()) if isinstance(rows, Mapping) else []
    if all(count == 1 for count in counts):
        counts = []
    blobs = -(-len(kept) // TERMS_EACH)
    yield json.dumps({"width": width, "rows": len(rows), "terms": blobs, "counted": bool(counts)}).encode()
    for start in range(0, len(kept), TERMS_EACH):
        terms = [term_of(each) for each in kept[start : start + TERMS_EACH]]
        yield to_lines([Quad(_CARRIER, _CARRIER, term) for term in terms])
    ordered = list(rows)
    for start in range(0, len(ordered), ROWS_EACH):
        some = ordered[start : start + ROWS_EACH]
        columns = [array("q", map(numbers.__getitem__, column)) for column in zip(*some, strict=True)]
        if counts:
            columns.append(array("q", counts[start : start + ROWS_EACH]))
        yield b"".join(column.tobytes() for column in columns)


class PackedRows:
    """Rows read back: ``terms`` in the order of their numbers, rows of any numbering by `rows`."""

    def __init__(self, blobs: Sequence[bytes]) -> None:
        """Unpack the terms and rows of a blob.

        Raises:
            ValueError: they are not the rows of a table.
        """
        head = json.loads(blobs[0])
        self.width, self.count, self._counted = head["width"], head["rows"], head["counted"]
        ends = 1 + head["terms"]
        self.terms: list[Term] = [quad.object for blob in blobs[1:ends] for quad in from_lines(blob)]
        self._blobs = blobs[ends:]
        step = 8 * (self.width + self._counted)
        if sum(map(len, self._blobs)) != step * self.count:
            raise ValueError("the number of rows is wrong")

    def rows(self, values: Sequence[T], unbound: T) -> Iterator[tuple[tuple[T, ...], int]]:
        """Each row and how often it is there, of ``values`` that stand for the terms."""
        numbered = [unbound, *values]
        if not self.width:
            counts = list(_numbers(b"".join(self._blobs))) if self._counted else [1] * self.count
            yield from (((), count) for count in counts)
            return
        for blob in self._blobs:
            numbers = _numbers(blob)
            size = len(numbers) // (self.width + self._counted)
            columns = [numbers[place * size : (place + 1) * size] for place in range(self.width)]
            rows = zip(*(map(numbered.__getitem__, each) for each in columns), strict=True)
            counted = numbers[self.width * size :] if self._counted else repeat(1, size)
            yield from zip(rows, counted, strict=True)


def _numbers(blob: bytes) -> array[int]:
    numbers: array[int] = array("q")
    numbers.frombytes(blob)
    return numbers
