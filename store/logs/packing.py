"""Serialisation of a checkpoint's state: a pickle of plain values and records, plus a table of quads.

Python's pickler calls a method for every object, which is slow for millions of quads and numbers. The pickle
therefore stores elements and `QuadNumbers` as arrays of integers, and each quad and term as a number in a
table that holds each quad once. The pickle stores records under their names in `Records` instead of the
module paths of their classes, and reading a pickle creates no objects of classes outside `Records`.
"""

from __future__ import annotations

import io
import pickle
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Triple

from ..documents.statements import quads_of, statements_of
from ..terms import Term

Records: TypeAlias = Mapping[str, type[Any]]
"""The dataclasses and named tuples that a checkpoint may contain, by their names in the checkpoint.

A field that is added to a record of checkpoints needs a default, so that older checkpoints can be read. The
fields of a dataclass with ``init=False`` are not written to checkpoints.
"""
ELEMENT = "Element"
"""The name of the record class of stream elements; every deque in a checkpoint holds only elements.

An element has the attributes ``statements``, ``quads``, ``event_time`` and ``seq``; the class method ``of``
creates an element from quads, event time and sequence number.
"""

_TABLED = frozenset((Quad, NamedNode, Literal, BlankNode, Triple))
_CARRIER = NamedNode("urn:quadrill:term")
_QUADS = object()
_QUADS_NUMBER = -1
"""The number that stands for the whole table of quads in the pickle of a checkpoint."""


class QuadNumbers(dict[Quad, int]):
    """A map from quads to integers, which a checkpoint stores as two arrays."""


def pack(state: Any, records: Records) -> tuple[bytes, list[Quad]]:
    """Return a checkpoint's state as bytes, and the table of quads to which the bytes refer by number.

    Raises:
        pickle.PicklingError: the state contains an object that is no plain value, term, quad or record of
            ``records``.
    """
    file = io.BytesIO()
    writer = _Writer(file, records)
    writer.dump(state)
    return file.getvalue(), writer.quads


def unpack(data: bytes | memoryview, quads: list[Quad], records: Records) -> Any:
    """Return the checkpoint state that `pack` turned into ``data`` and ``quads``.

    Raises:
        pickle.UnpicklingError: the bytes name a class or function that is not in ``records``.
    """
    return _Reader(io.BytesIO(data), quads, records).load()


class _Writer(pickle.Pickler):
    """A pickler that replaces quads and terms by numbers and collects each quad once in a table.

    The pickler's table stores a term as the object of a quad. The number of a quad in the pickle is twice its
    index in the table; the number of a term is twice the index of its quad, plus one.
    """

    def __init__(self, file: io.BytesIO, records: Records) -> None:
        super().__init__(file, protocol=5)
        self.quads: list[Quad] = []
        self._numbers: dict[Quad | Term, int] = {}
        self._names = {made: name for name, made in _makers(records).items()}
        self._values = {record: _values_of(name, record) for name, record in records.items()}

    def persistent_id(self, item: Any) -> int | str | None:
        kind = type(item)
        if kind in _TABLED:
            return self._number(item)
        if item is _QUADS:
            return _QUADS_NUMBER
        return self._names[item] if kind is type or kind is _FUNCTION else None

    def reducer_override(self, item: Any) -> tuple[Any, ...]:
        kind = type(item)
        if kind is QuadNumbers:
            return numbers_of, (_QUADS, self._array_of(item), _whole(item.values()))
        if kind is deque:
            return elements_of, (
                _QUADS,
                self._array_of(quads_of(chain.from_iterable(element.statements for element in item))),
                _whole(len(element.statements) for element in item),
                _whole(element.event_time for element in item),
                _whole(element.seq for element in item),
            )
        if kind not in self._values:
            raise pickle.PicklingError(f"{kind.__name__} does not belong into a checkpoint")
        return kind, self._values[kind](item)

    def _number(self, item: Quad | Term) -> int:
        known = self._numbers.get(item)
        if known is None:
            is_quad = isinstance(item, Quad)
            known = self._numbers[item] = len(self.quads) * 2 + (not is_quad)
            self.quads.append(item if isinstance(item, Quad) else Quad(_CARRIER, _CARRIER, item))
        return known

    def _array_of(self, quads: Iterable[Quad]) -> bytes:
        return array("Q", map(self._number, quads)).tobytes()


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, quads: list[Quad], records: Records) -> None:
        super().__init__(file)
        self._quads = quads
        self._makers = _makers(records)
        if ELEMENT in records:
            element = records[ELEMENT]
            self._makers |= {ELEMENT: element.of, "elements": partial(elements_of, element)}

    def persistent_load(self, number: int | str) -> Any:
        return self._makers[number] if isinstance(number, str) else tabled(self._quads, number)

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a checkpoint")


def _makers(records: Records) -> dict[str, Callable[..., Any]]:
    return {**records, "elements": elements_of, "numbers": numbers_of}


def _values_of(name: str, record: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the constructor arguments of an object of the class ``record``."""
    if not is_dataclass(record):
        return tuple
    if name == ELEMENT:
        return attrgetter("quads", "event_time", "seq")
    names = [each.name for each in fields(record) if each.init]
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda item: (values(item),)


# --- reading arrays ---------------------------------------------------------------------------------


def tabled(quads: list[Quad], number: int) -> Any:
    """Return the quad or term with a number of the pickle's table; -1 returns the whole table."""
    if number == _QUADS_NUMBER:
        return quads
    quad = quads[number >> 1]
    return quad.object if number & 1 else quad


def numbers_of(quads: list[Quad], numbers: bytes, values: bytes) -> QuadNumbers:
    """Return a map from quads to integers, read from an array of quad numbers and an array of integers."""
    return QuadNumbers(zip(_found(quads, numbers), array("q", values), strict=True))


def elements_of(
    element: type[Any], quads: list[Quad], numbers: bytes, sizes: bytes, times: bytes, seqs: bytes
) -> deque[Any]:
    """Return stream elements, given arrays of quad numbers, quads per element, times and sequence numbers."""
    found = statements_of(_found(quads, numbers))
    elements: deque[Any] = deque()
    place = 0
    rows = zip(array("q", sizes), array("q", times), array("q", seqs), strict=True)
    for size, event_time, seq in rows:
        elements.append(element(found[place : place + size], event_time, seq))
        place += size
    return elements


def _found(quads: list[Quad], numbers: bytes) -> list[Quad]:
    return [quads[number >> 1] for number in array("Q", numbers)]


def _whole(numbers: Iterable[int]) -> bytes:
    return array("q", numbers).tobytes()


_FUNCTION = type(numbers_of)
