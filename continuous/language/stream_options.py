"""Options in the JSON declaration of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from quadrill.store.documents.members import MemberReader, check_iri, check_name, flag, one_of
from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.registry.records import (
    LatePolicy,
    OnViolation,
    Stamping,
    StreamClock,
    StreamRecord,
)

from .mapping.declaration import read_declaration
from .mapping.mapping import compiled

_OPTIONS: dict[str, tuple[str, MemberReader]] = {
    "lateness": ("lateness_ms", duration_ms),
    "late": ("late", one_of(*get_args(LatePolicy))),
    "idle_timeout": ("idle_timeout_ms", duration_ms),
    "retention": ("retention_ms", duration_ms),
    "timestamp_property": ("timestamp_property", lambda value, _: check_iri(value) if value else None),
    "stamping": ("stamping", one_of(*get_args(Stamping))),
    "quoted_asserted": ("quoted_asserted", flag),
    "clock": ("clock", one_of(*get_args(StreamClock))),
    "shapes": ("shapes", check_name),
    "on_violation": ("on_violation", one_of(*get_args(OnViolation))),
    "self_contained": ("self_contained", flag),
    "mapping": ("mapping", lambda value, _: read_declaration(value).text()),
}
"""For each option of a stream declaration: the field of `StreamRecord` that it sets, and its reader."""
OPTION_FIELDS = tuple(each for each, _ in _OPTIONS.values())
"""The fields of `StreamRecord` that options set."""


def declared(plain: StreamRecord, options: Mapping[str, Any], base_iri: str) -> StreamRecord:
    """Return the record of a stream with the options of its declaration.

    Raises:
        InputError: an option is unknown or has a wrong value, or the stream's name or IRI is wrong.
        QueryTextError, UnsupportedError: the stream's mapping is wrong.
    """
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise InputError(f"a stream has no option {unknown[0]!r}", hint=f"Options are {', '.join(_OPTIONS)}")
    check_name(plain.name, "stream name")
    check_iri(plain.iri)
    given = {each: value for each, value in options.items() if value is not None}
    read = {_OPTIONS[each][0]: _OPTIONS[each][1](value, each) for each, value in given.items()}
    record = replace(plain, **read)
    if record.on_violation is not None and record.shapes is None:
        raise InputError("on_violation needs shapes, which the stream does not name", hint="Add shapes.")
    if record.mapping is None:
        return record
    # By default, a mapping with a time field stamps elements by event time, other mappings by arrival time.
    timed = compiled(record.mapping, base_iri).declaration.time is not None
    if timed and record.stamping == "arrival":
        raise InputError("a stream stamped at arrival takes no time from its records", hint="Leave out time.")
    return replace(record, stamping=record.stamping or ("event" if timed else "arrival"))
