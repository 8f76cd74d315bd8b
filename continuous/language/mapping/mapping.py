"""Compilation of a mapping into a function from a record to statements."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from quadrill.store.documents.subject_columns import Statement, Statements
from quadrill.store.documents.times import GREATEST_MS, LEAST_MS
from quadrill.store.errors import InputError

from .construct import read_construct
from .context import read_context
from .declaration import MappingDeclaration, read_declaration
from .fields import FieldReader, variable_name
from .generate import generate
from .jsonld import statements_by
from .limits import RECORD_LIMITS, STATEMENT_BYTES, RecordLimits, RecordWork
from .times import record_ms
from .traits import fields_of, is_blank, is_counted, is_single


class Mapped(NamedTuple):
    """The result of mapping one record: distinct statements and an event time.

    The event ``time`` of a mapped record is in milliseconds since 1970; None if the mapping declares no time
    or the field is missing. ``blank`` is True if the statements of a mapped record may contain blank nodes.
    """

    statements: Statements
    time: int | None
    blank: bool


Apply: TypeAlias = Callable[[Mapping[str, Any]], Mapped]


_mapped = partial(tuple.__new__, Mapped)


class RecordMapping(NamedTuple):
    """A compiled mapping. ``apply`` maps one record to statements; it raises InputError and LimitError."""

    declaration: MappingDeclaration
    apply: Apply


@lru_cache(maxsize=4096)
def compiled(
    text: str, base_iri: str, any_format: bool = False, limits: RecordLimits = RECORD_LIMITS
) -> RecordMapping:
    """Compile the JSON text of a mapping's declaration, with a cache.

    With ``any_format``, the compiled mapping accepts records in all formats.

    Raises:
        InputError, QueryTextError, UnsupportedError: the declaration is wrong.
    """
    if any_format:
        found = compiled(text, base_iri, False, limits)
        return found._replace(declaration=replace(found.declaration, format=None))
    return compile_mapping(read_declaration(json.loads(text)), base_iri, limits)


def compile_mapping(
    declaration: MappingDeclaration, base_iri: str, limits: RecordLimits = RECORD_LIMITS
) -> RecordMapping:
    """Compile a mapping's declaration without a cache; raises the same errors as `compiled`."""
    if declaration.construct is None:
        return RecordMapping(declaration, _by_context(declaration, base_iri, limits))
    return RecordMapping(declaration, _by_construct(declaration, declaration.construct, base_iri, limits))


def _by_construct(declaration: MappingDeclaration, text: str, base_iri: str, limits: RecordLimits) -> Apply:
    construct = read_construct(text, base_iri)
    fields = fields_of(construct)
    time = None if declaration.time is None else variable_name(declaration.time)
    names = fields if time is None or time in fields else (*fields, time)
    blank, single = is_blank(construct.template), is_single(construct)
    work, counted = RecordWork(limits), is_counted(construct)
    reader = FieldReader(names, most_solutions=limits.solutions, most_bytes=limits.bytes)
    make = generate(construct, names, base_iri, work)
    place, time_of = None if time is None else names.index(time), _time_of(declaration)

    def apply(record: Mapping[str, Any]) -> Mapped:
        if counted or work.used:
            work.begin()
        rows = reader.rows(record)
        found: list[Statement] = []
        if len(rows) == 1:
            row = rows[0]
            make(*row, found)
            # An element is an RDF dataset, so it must not have the same quad twice.
            unique = tuple(found) if single else tuple(dict.fromkeys(found))
            when = time_of(row[place]) if place is not None and unique else None
            return _mapped((unique, when, blank))
        if not counted:
            work.begin()
        for row in rows:
            before = len(found)
            make(*row, found)
            if not counted:
                work.tick()
                for each in islice(found, before, None):
                    work.take(STATEMENT_BYTES + len(each[0]) + len(each[2]))
        when = None if place is None else _same([row[place] for row in rows], declaration.time)
        return Mapped(tuple(dict.fromkeys(found)), time_of(when) if found else None, blank)

    return apply


def _by_context(declaration: MappingDeclaration, base_iri: str, limits: RecordLimits) -> Apply:
    context = read_context(json.loads(declaration.jsonld or "{}").get("@context"), base_iri)
    work = RecordWork(limits)
    make = statements_by(context, work)
    reader = None if declaration.time is None else FieldReader((variable_name(declaration.time),))
    time_of = _time_of(declaration)

    def apply(record: Mapping[str, Any]) -> Mapped:
        if work.used:
            work.rest()
        unique = tuple(dict.fromkeys(make(record)))
        blank = False
        for subject, _, value, _ in unique:
            if subject[0] == "_" or value[0] == "_":
                blank = True
                break
        if reader is None or not unique:
            return _mapped((unique, None, blank))
        rows = reader.rows(record)
        when = rows[0][0] if len(rows) == 1 else _same([row[0] for row in rows], declaration.time)
        return _mapped((unique, time_of(when), blank))

    return apply


def _time_of(declaration: MappingDeclaration) -> Callable[[Any], int | None]:
    """Return a function from the value of the time field to milliseconds since 1970."""
    time_format, field = declaration.time_format, declaration.time or ""
    plain = time_format in (None, "ms")

    def time_of(value: Any) -> int | None:
        if value is None or (plain and type(value) is int and LEAST_MS <= value <= GREATEST_MS):
            return value
        return record_ms(value, time_format, field)

    return time_of


def _same(found: list[Any], name: str | None) -> Any:
    times = {repr(each): each for each in found}
    if len(times) > 1:
        raise InputError(f"the field {name} has {len(times)} different times; an element has one")
    return next(iter(times.values()))
