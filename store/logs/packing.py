"""The state in a checkpoint as bytes: records of plain values, terms by number, long rows of them as arrays.

A pickler asks Python about every object that it meets, which is slow for millions of quads and numbers. Rows
of elements and numbers of quads are therefore written as arrays; the quads themselves stand once in a table,
as N-Quads. Records are known by names: nothing in the bytes says where in the program their classes
stand, and nothing else than what the reader lists is made of them.
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
"""The dataclasses and named tuples that a state is made of, by their names in files.

A field that is added to one has a default; one that is not given at construction is not written.
"""
ELEMENT = "Element"
"""The name of the record that deques are full of.

It has ``statements``, an ``event_time`` and a ``seq``; ``of`` makes it from quads and these.
"""

_TABLED = frozenset((Quad, NamedNode, Literal, BlankNode, Triple))
_CARRIER = NamedNode("urn:quadrill:term")
_QUADS = object()
_QUADS_NUMBER = -1
"""Stands for the table of quads itself."""


class QuadNumbers(dict[Quad, int]):
    """A whole number for each of some quads."""


def pack(state: Any, records: Records) -> tuple[bytes, list[Quad]]:
    """A state as bytes and the quads that they refer to.

    Raises:
        pickle.PicklingError: there is something in it that is no plain value, term, quad or listed record.
    """
    file = io.BytesIO()
    writer = _Writer(file, records)
    writer.dump(state)
    return file.getvalue(), writer.quads


def unpack(data: bytes | memoryview, quads: list[Quad], records: Records) -> Any:
    """The value that `pack` was given.

    Raises:
        pickle.UnpicklingError: it has something that is not listed.
    """
    return _Reader(io.BytesIO(data), quads, records).load()


class _Writer(pickle.Pickler):
    """Collects the quads that a state refers to, each once. A term stands there as the object of a quad.

    Its number is twice the place there, and one more where the object alone is meant.
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
    """Gives the values that an object of this class is made from."""
    if not is_dataclass(record):
        return tuple
    if name == ELEMENT:
        return attrgetter("quads", "event_time", "seq")
    names = [each.name for each in fields(record) if each.init]
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda item: (values(item),)


# --- reading arrays ---------------------------------------------------------------------------------


def tabled(quads: list[Quad], number: int) -> Any:
    """The quad or term of a number, or all quads."""
    if number == _QUADS_NUMBER:
        return quads
    quad = quads[number >> 1]
    return quad.object if number & 1 else quad


def numbers_of(quads: list[Quad], numbers: bytes, values: bytes) -> QuadNumbers:
    """Numbers of quads from their arrays."""
    return QuadNumbers(zip(_found(quads, numbers), array("q", values), strict=True))


def elements_of(
    element: type[Any], quads: list[Quad], numbers: bytes, sizes: bytes, times: bytes, seqs: bytes
) -> deque[Any]:
    """Elements from the arrays of their quads, how many each has, event times and seqs."""
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
