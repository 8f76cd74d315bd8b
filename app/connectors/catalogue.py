"""The registry of the kinds of sources and sinks, built-in and from extensions (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from quadrill.store.errors import InputError, UnsupportedError
from quadrill.store.registry import ConnectorRole
from quadrill.store.sparql.extensions import load_built_in

from .sink import SINK_MEMBERS, Sink
from .source import SOURCE_MEMBERS, Source

BUILT_IN = f"{__package__}.kinds"
"""The extension that registers the built-in kinds of connectors; without it only other kinds exist."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source or sink, such as `kafka`, with the way to load its class.

    Attributes:
        load: imports the connector class on first use, because its library may be large or missing.
        extra: the extra of this distribution that installs the kind's library; None without a library.
    """

    load: Callable[[], type[Source] | type[Sink]]
    extra: str | None = None


_Table: TypeAlias = dict[str, Kind]
_SOURCES: _Table = {}
_SINKS: _Table = {}


def register_source(name: str, kind: Kind) -> None:
    """Register a kind of source, whose class is a subclass of `Source`.

    Raises:
        ValueError: a kind of this name is registered already.
    """
    _register(_SOURCES, name, kind)


def register_sink(name: str, kind: Kind) -> None:
    """Register a kind of sink, whose class is a subclass of `Sink`.

    Raises:
        ValueError: a kind of this name is registered already.
    """
    _register(_SINKS, name, kind)


def unregister_source(name: str) -> None:
    """Unregister a kind of source; the caller makes sure that no source of this kind is declared."""
    del _SOURCES[name]


def unregister_sink(name: str) -> None:
    """Unregister a kind of sink; the caller makes sure that no sink of this kind is declared."""
    del _SINKS[name]


def source_kind(kind: object) -> type[Source]:
    """Return the class of a kind of source.

    Raises:
        InputError: no kind of source has the name.
        UnsupportedError: the library of the kind of source is not installed.
    """
    found = _load(kind, _SOURCES, "source")
    assert issubclass(found, Source)
    return found


def sink_kind(kind: object) -> type[Sink]:
    """Return the class of a kind of sink.

    Raises: InputError or UnsupportedError if no kind of sink has the name, or its library is not installed.
    """
    found = _load(kind, _SINKS, "sink")
    assert issubclass(found, Sink)
    return found


def described_kinds(role: ConnectorRole) -> list[dict[str, Any]]:
    """Describe all kinds of sources or sinks, with the members of a declaration except ``kind``.

    The description of a kind whose library is not installed has only ``needs``, the pip extra to install.
    """
    table, common = (_SOURCES, SOURCE_MEMBERS) if role == "source" else (_SINKS, SINK_MEMBERS)
    descriptions = []
    load_built_in(BUILT_IN)
    for kind, registered in sorted(table.items()):
        description: dict[str, Any] = {"kind": kind, "needs": None, "guarantee": None, "members": []}
        try:
            found = source_kind(kind) if role == "source" else sink_kind(kind)
        except UnsupportedError:
            description["needs"] = f"quadrill[{registered.extra}]"
        else:
            own = {each.name: each for each in (*common, *found.members) if each.name != "kind"}
            description |= {
                "guarantee": found.guarantee,
                "members": [each.to_json() for each in own.values()],
            }
        descriptions.append(description)
    return descriptions


def _register(table: _Table, name: str, kind: Kind) -> None:
    load_built_in(BUILT_IN)
    if name in table:
        raise ValueError(f"a kind {name} is registered already")
    table[name] = kind


def _load(kind: object, table: _Table, what: str) -> type[Source] | type[Sink]:
    load_built_in(BUILT_IN)
    if not isinstance(kind, str) or kind not in table:
        raise InputError(
            f"there is no {what} of the kind {kind!r}" if kind is not None else f"a {what} needs its kind",
            code="member",
            hint=f"Kinds are {', '.join(sorted(table))}",
        )
    found = table[kind]
    try:
        return found.load()
    except ModuleNotFoundError as error:
        if found.extra is None:
            raise
        raise UnsupportedError(
            f"a {what} of the kind {kind}",
            f"a {what} of the kind {kind} needs the library {error.name}, which is not installed",
            hint=f"pip install 'quadrill[{found.extra}]'",
        ) from error
