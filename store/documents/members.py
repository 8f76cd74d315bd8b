"""Values of JSON members that clients give, checked: words, flags, names and IRIs; times are in `times`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any
from urllib.parse import urlsplit

from quadrill.store.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
"""What queries and streams may be called."""
MemberReader = Callable[[Any, str], Any]
"""The value of a member of a declaration, from its JSON and its name; raises InputError."""


def one_of(*values: str) -> MemberReader:
    """What reads a member that is one of some words."""

    def read(value: Any, name: str) -> Any:
        if value not in values:
            raise InputError(f"{name} is {value!r}, it must be one of {', '.join(values)}")
        return value

    return read


def flag(value: Any, name: str) -> bool:
    """The value of a member that is true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, it must be true or false")
    return value


def check_name(name: str, what: str) -> str:
    """A name of the allowed form; raises InputError for another one."""
    if not isinstance(name, str) or not NAME.match(name):
        raise InputError(
            f"{what} {name!r} is no name",
            hint="Names are 1 to 128 letters, digits, dots, underscores and hyphens, a letter or digit first",
            code="name",
        )
    return name


def check_iri(iri: str) -> str:
    """An absolute IRI; raises InputError for something else."""
    if not isinstance(iri, str) or not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*\Z", iri):
        raise InputError(f"{iri!r} is no absolute IRI", code="iri")
    return iri


def last_segment(iri: str) -> str | None:
    """The fragment or last path segment of an IRI as a name, other characters becoming ``-``."""
    parts = urlsplit(iri)
    segment = parts.path.rstrip("/").rpartition("/")[2]
    if not parts.netloc:  # of a URN colons part the name
        segment = segment.rpartition(":")[2]
    segment = parts.fragment or segment or parts.netloc
    name = re.sub(r"[^A-Za-z0-9._-]", "-", segment).lstrip("._-")[:128]
    return name or None


def stream_iri(name_or_iri: str, base_iri: str) -> str:
    """The IRI that a reference to an undeclared stream means: ``<base_iri>name`` for a name."""
    return base_iri + name_or_iri if NAME.match(name_or_iri) else check_iri(name_or_iri)


def unused_stream_name(iri: str, taken: Container[str]) -> str:
    """A name for a stream: the last path segment or fragment of its IRI, with -2, -3 ... when taken."""
    wanted = last_segment(iri) or "stream"
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted[:120]}-{number}"
    return name
