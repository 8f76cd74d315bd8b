"""Rows of terms as blobs: each term once as N-Quads, then numbers.

The first blob says how wide and how many the rows are; then come blobs of terms, then of rows: for each
column a number, the place of a term counted from 1 or 0 for unbound, and how often the row is there.
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
"""Terms of a blob: serialising them holds the interpreter, so that others wait as long."""
ROWS_EACH = 20_000
_CARRIER = NamedNode("urn:quadrill:term")
_BEFORE = len(f"{_CARRIER} {_CARRIER} ")
"""Characters of a line before its term; behind it are two."""


def pack(
    rows: Iterable[tuple[tuple[T, ...], int]], width: int, unbound: T, term_of: Callable[[T], Term]
) -> Iterator[bytes]:
    """The blobs of rows, each with how often it is there; nobody changes them meanwhile.

    They may be of terms, or of what stands for the `term_of` something and for what is ``unbound``.
    """
    rows = list(rows)
    numbers: dict[T, int] = {unbound: 0}
    # A loop and no single call: other threads go on between its steps.
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
    """Rows read back: ``texts`` are the terms in the order of their numbers; `rows` are of any numbering."""

    def __init__(self, blobs: Sequence[bytes]) -> None:
        """Unpack the terms and rows of blobs.

        Raises:
            ValueError: they are not the rows of a table.
        """
        head = json.loads(blobs[0])
        self.width = head["width"]
        ends = 1 + head["terms"]
        # Only \n ends a line: other line separators may stand unescaped in literals.
        lines = chain.from_iterable(blob.decode().split("\n")[:-1] for blob in blobs[1:ends])
        self.texts = [line[_BEFORE:-2] for line in lines]
        self._flat = array("q", b"".join(blobs[ends:]))
        if len(self._flat) != (self.width + 1) * head["rows"]:
            raise ValueError("the number of rows is wrong")

    @property
    def terms(self) -> list[Term]:
        """The terms in the order of their numbers."""
        return list(map(term_of, self.texts))

    def rows(self, values: Sequence[T], unbound: T) -> Iterable[tuple[tuple[T, ...], int]]:
        """Each row and how often it is there, of ``values`` that stand for the terms."""
        numbered, step = [unbound, *values], self.width + 1
        columns = [map(numbered.__getitem__, self._flat[place::step]) for place in range(self.width)]
        rows = zip(*columns, strict=True) if columns else repeat(())
        return zip(rows, self._flat[self.width :: step], strict=False)
