"""The bulk of a checkpoint as flat arrays of numbers: elements and window contents refer to a table of quads.

A pickler asks Python about every object that it meets, which is slow for millions of quads and numbers. Rows
of elements and the contents of windows are therefore written as arrays; the quads themselves stand once in
the table, as N-Quads.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from ..element import Element
from ..windows.encoded import EncodedContent, StoredContent
from ..windows.live import LiveQuads
from ..windows.timed import StoredTimes, TimedContent

Term: TypeAlias = NamedNode | Literal | BlankNode | Triple
TERMS = (NamedNode, Literal, BlankNode, Triple)
_CARRIER = NamedNode("urn:quadrill:term")


class Table:
    """The quads that a state refers to, each once. A term stands in it as the object of a quad.

    A number is twice the place in the table, and one more where the object alone is meant.
    """

    def __init__(self) -> None:
        self.quads: list[Quad] = []
        self._numbers: dict[Quad | Term, int] = {}

    def number(self, item: Quad | Term) -> int:
        """The number of a quad or term."""
        known = self._numbers.get(item)
        if known is None:
            is_quad = isinstance(item, Quad)
            known = self._numbers[item] = len(self.quads) * 2 + (not is_quad)
            self.quads.append(item if isinstance(item, Quad) else Quad(_CARRIER, _CARRIER, item))
        return known

    def numbers(self, quads: Iterable[Quad]) -> bytes:
        """The numbers of some quads."""
        number = self.number
        return array("Q", [number(quad) for quad in quads]).tobytes()


def packed(item: Any, table: Table, anchor: object) -> tuple[Any, ...] | None:
    """How to write an object as arrays: a function and its arguments; None where that does not pay.

    Args:
        item: any object.
        table: takes its quads.
        anchor: stands for the list of quads where the function is called.
    """
    if type(item) is LiveQuads:
        counts, newest = item.parts()
        numbers = table.numbers(counts)
        return _live, (anchor, numbers, _whole(counts.values()), _whole(newest.values()), None)
    if type(item) is EncodedContent or type(item) is TimedContent:
        stored = item.stored()
        numbers = table.numbers(stored.counts)
        counted = _whole(stored.counts.values())
        written = (anchor, numbers, counted, stored.changes, stored.occurrences)
        if not isinstance(stored, StoredTimes):
            return _stored, written
        triples, times = table.numbers(stored.times), stored.times.values()
        latest = _whole(each[1] for each in times)
        return _timed, (*written, triples, _whole(each[0] for each in times), latest, stored.touched)
    if type(item) is deque and item and all(type(each) is Element for each in item):
        quads = table.numbers(quad for element in item for quad in element.quads)
        return _elements, (
            anchor,
            quads,
            _whole(len(element.quads) for element in item),
            _whole(element.event_time for element in item),
            _whole(element.seq for element in item),
        )
    return None


def _live(quads: list[Quad], numbers: bytes, counts: bytes, latest: bytes, _: object = None) -> LiveQuads:
    found = [quads[number >> 1] for number in _array("Q", numbers)]
    return LiveQuads.of(
        dict(zip(found, _array("q", counts), strict=True)),
        dict(zip(found, _array("q", latest), strict=True)),
    )


def _stored(
    quads: list[Quad], numbers: bytes, counts: bytes, changes: dict[Quad, int], occurrences: int
) -> StoredContent:
    found = [quads[number >> 1] for number in _array("Q", numbers)]
    return StoredContent(dict(zip(found, _array("q", counts), strict=True)), changes, occurrences)


def _timed(
    quads: list[Quad],
    numbers: bytes,
    counts: bytes,
    changes: dict[Quad, int],
    occurrences: int,
    triples: bytes,
    occurring: bytes,
    latest: bytes,
    touched: dict[Quad, int | None],
) -> StoredTimes:
    plain = _stored(quads, numbers, counts, changes, occurrences)
    found = [quads[number >> 1] for number in _array("Q", triples)]
    times = zip(_array("q", occurring), _array("q", latest), strict=True)
    return StoredTimes(plain.counts, changes, occurrences, dict(zip(found, times, strict=True)), touched)


def _elements(quads: list[Quad], numbers: bytes, sizes: bytes, times: bytes, seqs: bytes) -> deque[Element]:
    found = [quads[number >> 1] for number in _array("Q", numbers)]
    elements: deque[Element] = deque()
    place = 0
    rows = zip(_array("q", sizes), _array("q", times), _array("q", seqs), strict=True)
    for size, event_time, seq in rows:
        elements.append(Element(tuple(found[place : place + size]), event_time, seq))
        place += size
    return elements


def _whole(numbers: Iterable[int]) -> bytes:
    return array("q", numbers).tobytes()


def _array(kind: str, data: bytes) -> array[int]:
    numbers: array[int] = array(kind)
    numbers.frombytes(data)
    return numbers


__all__ = ["TERMS", "Table", "packed"]
