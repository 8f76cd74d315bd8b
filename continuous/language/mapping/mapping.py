"""A mapping that was compiled: what a record of a stream becomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from quadrill.store.documents.statements import Statement, Statements

from ...errors import InputError
from .construct import read_construct
from .context import read_context
from .declaration import MappingDeclaration, read_declaration
from .fields import FieldReader, variable_name
from .generate import fields_of, generate, is_blank, is_single
from .jsonld import statements_by


class Mapped(NamedTuple):
    """What a record gives: its statements, and what stands in the field of its time, None without it.

    ``blank``: a blank node may be among them.
    """

    statements: Statements
    time: Any
    blank: bool


Apply: TypeAlias = Callable[[Mapping[str, Any]], Mapped]


_mapped = partial(tuple.__new__, Mapped)


class RecordMapping(NamedTuple):
    """The function of a mapping, which raises InputError and LimitError."""

    declaration: MappingDeclaration
    apply: Apply


@lru_cache(maxsize=4096)
def compiled(text: str, base_iri: str) -> RecordMapping:
    """The mapping of a declaration's text, compiled once.

    Raises:
        InputError, QueryTextError, UnsupportedError: it is wrong.
    """
    declaration = read_declaration(json.loads(text))
    if declaration.construct is None:
        return RecordMapping(declaration, _by_context(declaration, base_iri))
    return RecordMapping(declaration, _by_construct(declaration, declaration.construct, base_iri))


def _by_construct(declaration: MappingDeclaration, text: str, base_iri: str) -> Apply:
    construct = read_construct(text, base_iri)
    fields = fields_of(construct)
    time = None if declaration.time is None else variable_name(declaration.time)
    names = fields if time is None or time in fields else (*fields, time)
    blank, single = is_blank(construct.template), is_single(construct)
    reader, make = FieldReader(names), generate(construct, names, base_iri)
    place = None if time is None else names.index(time)

    def apply(record: Mapping[str, Any]) -> Mapped:
        rows = reader.rows(record)
        found: list[Statement] = []
        for row in rows:
            make(*row, found.append)
        # An element is a dataset: each quad once.
        unique = tuple(found if len(found) < 2 or (single and len(rows) == 1) else dict.fromkeys(found))
        if place is None:
            return Mapped(unique, None, blank)
        when = rows[0][place] if len(rows) == 1 else _time([row[place] for row in rows], declaration.time)
        return _mapped((unique, when, blank))

    return apply


def _by_context(declaration: MappingDeclaration, base_iri: str) -> Apply:
    make = statements_by(read_context(json.loads(declaration.jsonld or "{}").get("@context"), base_iri))
    reader = None if declaration.time is None else FieldReader((variable_name(declaration.time),))

    def apply(record: Mapping[str, Any]) -> Mapped:
        unique = tuple(dict.fromkeys(make(record)))
        blank = any(subject[0] == "_" or value[0] == "_" for subject, _, value, _ in unique)
        when = None if reader is None else _time([row[0] for row in reader.rows(record)], declaration.time)
        return Mapped(unique, when, blank)

    return apply


def _time(found: list[Any], name: str | None) -> Any:
    times = {repr(each): each for each in found}
    if len(times) > 1:
        raise InputError(f"the field {name} has {len(times)} different times; an element has one")
    return next(iter(times.values()))
