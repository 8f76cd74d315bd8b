"""The JSON declaration of a mapping: checks of its members, and its text for the registry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, get_args
from typing import Literal as OneOf

from quadrill.store.errors import InputError

Format = OneOf["json", "csv"]
TimeFormat = OneOf["iso", "s", "ms", "us"]
_MEMBERS = ("format", "construct", "jsonld", "time", "time_format", "header")
_HINT = 'Write {"format": "json", "construct": "CONSTRUCT { … } WHERE { … }", "time": "ts"}.'


@dataclass(frozen=True, slots=True)
class MappingDeclaration:
    """A declared mapping; exactly one of ``construct`` and ``jsonld`` (JSON text of a context) is set.

    If ``format`` is None, the mapping accepts JSON and CSV. ``time`` is the record's field with the event
    time; without ``time``, an element gets its time of arrival. If ``time_format`` is None, the time field
    has integer milliseconds or an xsd:dateTime. ``header`` is True if the first line of a CSV body has the
    column names.
    """

    format: Format | None = None
    construct: str | None = None
    jsonld: str | None = None
    time: str | None = None
    time_format: TimeFormat | None = None
    header: bool = True

    def text(self) -> str:
        """Return the declaration as JSON text; equal mappings have equal texts."""
        return json.dumps(self.members(), ensure_ascii=False, sort_keys=True)

    def members(self) -> dict[str, Any]:
        """Return the mapping's declared members as a JSON object, without members with default values."""
        found: dict[str, Any] = {"format": self.format, "construct": self.construct}
        found["jsonld"] = None if self.jsonld is None else json.loads(self.jsonld)
        found |= {"time": self.time, "time_format": self.time_format}
        found["header"] = None if self.header else False
        return {name: value for name, value in found.items() if value is not None}


def read_declaration(members: Any) -> MappingDeclaration:
    """Check the JSON value of a mapping and return its declaration.

    Raises:
        InputError: a member is unknown or has a wrong value, or not exactly one of construct and jsonld is
            set.
    """
    if not isinstance(members, dict):
        raise InputError("mapping must be a JSON object", hint=_HINT)
    unknown = sorted(set(members) - set(_MEMBERS))
    if unknown:
        raise InputError(f"a mapping has no member {unknown[0]!r}", hint=f"Members are {', '.join(_MEMBERS)}")
    given = {name: value for name, value in members.items() if value is not None}
    if ("construct" in given) == ("jsonld" in given):
        raise InputError("a mapping needs one of construct and jsonld", hint=_HINT)
    for name, values in (("format", get_args(Format)), ("time_format", get_args(TimeFormat))):
        if name in given and given[name] not in values:
            raise InputError(f"{name} of mapping is {given[name]!r}, it must be one of {', '.join(values)}")
    for name in ("construct", "time"):
        if name in given and not (isinstance(given[name], str) and given[name]):
            raise InputError(f"{name} of mapping must be a text")
    if "time_format" in given and "time" not in given:
        raise InputError("time_format of mapping needs time, the name of the field")
    if not isinstance(given.get("header", True), bool):
        raise InputError("header of mapping must be true or false")
    if "jsonld" in given:
        if not isinstance(given["jsonld"], dict) or set(given["jsonld"]) != {"@context"}:
            raise InputError('jsonld of mapping must be {"@context": …}')
        given["jsonld"] = json.dumps(given["jsonld"], ensure_ascii=False)
    return MappingDeclaration(**given)
