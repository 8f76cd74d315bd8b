"""Binary format of rows of terms: each term once as N-Quads, then rows of numbers.

The first blob of packed rows has the number of columns and of rows. In packed rows, blobs of terms follow the
first blob, then blobs of rows. A packed row has for each column the index of its term, counted from 1, or 0
for unbound, and then its multiplicity.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TypeVar

from pyoxigraph import NamedNode, Quad

from quadrill.store.terms import Term

from .statements import term_of, to_lines

T = TypeVar("T")
TERMS_EACH = 5_000
"""Maximum number of terms of a blob: while a blob is serialised, other threads cannot run Python code."""
ROWS_EACH = 20_000
_CARRIER = NamedNode("urn:quadrill:term")
_BEFORE = len(f"{_CARRIER} {_CARRIER} ")
"""Number of characters of an N-Quads line before its term; two characters follow the term."""


def pack(
    rows: Iterable[tuple[tuple[T, ...], int]], width: int, unbound: T, term_of: Callable[[T], Term]
) -> Iterator[bytes]:
    """Return the blobs of rows with their multiplicities; the rows must not change during the call.

    The rows contain terms or ids: ``term_of`` returns the term of an id, and ``unbound`` is the id of no
    term.
    """
    rows = list(rows)
    numbers: dict[T, int] = {unbound: 0}
    # A loop in Python instead of one call of a function in C lets other threads run between its steps.
    for row, _ in rows:
        for term in row:
            if term not in numbers:
                numbers[term] = len(numbers)
    terms = list(numbers)[1:]
    starts = range(0, len(terms), TERMS_EACH)
    yield json.dumps({"width": width, "rows": len(rows), "terms": len(starts)}).encode()
    for start in starts:
        some = [term_of(term) for term in terms[start : start + TERMS_EACH]]
        yield to_lines([Quad(_CARRIER, _CARRIER, term) for term in some])
    for start in range(0, len(rows), ROWS_EACH):
        flat = array("q")
        for row, count in rows[start : start + ROWS_EACH]:
            flat.extend(map(numbers.__getitem__, row))
            flat.append(count)
        yield flat.tobytes()


class PackedRows:
    """Unpacked rows of terms; ``texts`` are the terms in the order of their numbers."""

    def __init__(self, blobs: Sequence[bytes]) -> None:
        """Unpack the terms and rows of the blobs that `pack` returned.

        Raises:
            ValueError: the blobs are not packed rows.
        """
        head = json.loads(blobs[0])
        self.width = head["width"]
        ends = 1 + head["terms"]
        # Only \n ends a line of terms, because literals may contain other line separators unescaped.
        lines = chain.from_iterable(blob.decode().split("\n")[:-1] for blob in blobs[1:ends])
        self.texts = [line[_BEFORE:-2] for line in lines]
        self._flat = array("q", b"".join(blobs[ends:]))
        if len(self._flat) != (self.width + 1) * head["rows"]:
            raise ValueError("the number of rows is wrong")

    @property
    def terms(self) -> list[Term]:
        """Return the terms of the packed rows in the order of their numbers."""
        return list(map(term_of, self.texts))

    def rows(self, values: Sequence[T], unbound: T) -> Iterable[tuple[tuple[T, ...], int]]:
        """Return each unpacked row with its multiplicity; ``values`` replace the terms in their order."""
        numbered, step = [unbound, *values], self.width + 1
        columns = [map(numbered.__getitem__, self._flat[place::step]) for place in range(self.width)]
        rows = zip(*columns, strict=True) if columns else repeat(())
        return zip(rows, self._flat[self.width :: step], strict=False)
