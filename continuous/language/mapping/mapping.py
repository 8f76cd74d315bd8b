"""A mapping that was compiled: what a record of a stream becomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from quadrill.store.documents.statements import Statement, Statements

from ...errors import InputError
from .construct import read_construct
from .declaration import MappingDeclaration, read_declaration
from .fields import FieldReader, variable_name
from .generate import fields_of, generate, is_blank


class Mapped(NamedTuple):
    """What a record gives: its statements, and what stands in the field of its time, None without it."""

    statements: Statements
    time: Any


class RecordMapping(NamedTuple):
    """The function of a mapping, which raises InputError and LimitError; ``blank``: it makes blank nodes."""

    declaration: MappingDeclaration
    apply: Callable[[Mapping[str, Any]], Mapped]
    blank: bool


@lru_cache(maxsize=4096)
def compiled(text: str, base_iri: str) -> RecordMapping:
    """The mapping of a declaration's text, compiled once.

    Raises:
        InputError, QueryTextError, UnsupportedError: it is wrong.
    """
    declaration = read_declaration(json.loads(text))
    assert declaration.construct is not None
    construct = read_construct(declaration.construct, base_iri)
    fields = fields_of(construct)
    time = None if declaration.time is None else variable_name(declaration.time)
    names = fields if time is None or time in fields else (*fields, time)
    reader, make = FieldReader(names), generate(construct, names, base_iri)
    place = None if time is None else names.index(time)

    def apply(record: Mapping[str, Any]) -> Mapped:
        rows = reader.rows(record)
        found: list[Statement] = []
        for row in rows:
            make(*row, found.append)
        # An element is a dataset: each quad once.
        unique = tuple(found if len(found) < 2 else dict.fromkeys(found))
        if place is None:
            return Mapped(unique, None)
        if len(rows) == 1:
            return Mapped(unique, rows[0][place])
        return Mapped(unique, _only({repr(row[place]): row[place] for row in rows}, declaration.time))

    return RecordMapping(declaration, apply, is_blank(construct.template))


def _only(times: dict[str, Any], name: str | None) -> Any:
    if len(times) > 1:
        raise InputError(f"the field {name} has {len(times)} different times; an element has one")
    return next(iter(times.values()))
