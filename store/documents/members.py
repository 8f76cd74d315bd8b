"""Validation of JSON members from clients: words, flags, names and IRIs.

JSON members with times are validated in the module `times`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any
from urllib.parse import urlsplit

from quadrill.store.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
"""Matches a valid name of a query or stream."""
MemberReader = Callable[[Any, str], Any]
"""Converts a member's JSON value, given value and name; raises InputError if the value is invalid."""


def one_of(*values: str) -> MemberReader:
    """Return a reader for a JSON member whose value is one of the words ``values``."""

    def read(value: Any, name: str) -> Any:
        if value not in values:
            raise InputError(f"{name} is {value!r}, it must be one of {', '.join(values)}")
        return value

    return read


def flag(value: Any, name: str) -> bool:
    """Return the value of a boolean JSON member; raise InputError for another value."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, it must be true or false")
    return value


def check_name(name: str, what: str) -> str:
    """Return the name of a query, stream or connector if it is valid; raise InputError otherwise."""
    if not isinstance(name, str) or not NAME.match(name):
        raise InputError(
            f"{what} {name!r} is no name",
            hint="Names are 1 to 128 letters, digits, dots, underscores and hyphens, a letter or digit first",
            code="name",
        )
    return name


def check_iri(iri: str) -> str:
    """Return the IRI if it is absolute; raise InputError otherwise."""
    if not isinstance(iri, str) or not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*\Z", iri):
        raise InputError(f"{iri!r} is no absolute IRI", code="iri")
    return iri


def last_segment(iri: str) -> str | None:
    """Return the fragment or last path segment of an IRI as a name; invalid characters become ``-``."""
    parts = urlsplit(iri)
    segment = parts.path.rstrip("/").rpartition("/")[2]
    if not parts.netloc:  # a URN has no host, and colons separate its parts
        segment = segment.rpartition(":")[2]
    segment = parts.fragment or segment or parts.netloc
    name = re.sub(r"[^A-Za-z0-9._-]", "-", segment).lstrip("._-")[:128]
    return name or None


def stream_iri(name_or_iri: str, base_iri: str) -> str:
    """Return the IRI of an undeclared stream from its IRI or name: ``<base_iri>name`` for a name."""
    return base_iri + name_or_iri if NAME.match(name_or_iri) else check_iri(name_or_iri)


def unused_stream_name(iri: str, taken: Container[str]) -> str:
    """Return a name for a stream: the last segment of its IRI, with -2, -3 ... if the name is in use."""
    wanted = last_segment(iri) or "stream"
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted[:120]}-{number}"
    return name
