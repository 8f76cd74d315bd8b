"""Computation of the steps of ``quadrill apply`` from declarations and descriptions, without requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError

from ..connectors.figures import Figures
from .declared import SECTIONS, Declared, escaped

Action: TypeAlias = Literal["create", "change", "same", "remove"]

HIDDEN = "***"
"""Text that a server shows in place of a secret."""
_DURATIONS = ("lateness", "idle_timeout", "retention")
_STAYING = (*_DURATIONS, "stamping")
"""Members of a stream whose defaults only the server knows: they stay as they are where a file has none."""
_STREAM_DEFAULTS: dict[str, Any] = {
    "late": "drop",
    "timestamp_property": "http://www.w3.org/ns/prov#generatedAtTime",
    "quoted_asserted": False,
    "clock": "event",
    "mapping": None,
}
_FIGURES = frozenset(("name", "guarantee", "position", *Figures().to_json()))
"""What the description of a source or a sink has beside its declaration."""


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One thing to do, or none: ``same``. ``differs`` names the members that do; ``place`` is in a file."""

    action: Action
    section: str
    name: str
    members: Mapping[str, Any]
    differs: tuple[str, ...] = ()
    place: str | None = None


def plan(
    declared: Iterable[Declared],
    present: Mapping[str, Collection[str]],
    differing: Mapping[tuple[str, str], tuple[str, ...]],
    removed: Mapping[str, Collection[str]],
) -> list[ApplyStep]:
    """Return the steps of an apply: removals in reverse order of creation, then the declared objects.

    Args:
        declared: declarations of the files.
        present: the names that the server has, by section.
        differing: members that differ, for each object that is both declared and present.
        removed: names, by section, to be removed unless a file declares them.
    """
    wanted = sorted(declared, key=lambda each: SECTIONS.index(each.section))
    kept = {(each.section, each.name) for each in wanted}
    steps = [
        ApplyStep("remove", section, name, {})
        for section in reversed(SECTIONS)
        for name in reversed(tuple(removed.get(section, ())))
        if (section, name) not in kept
    ]
    for each in wanted:
        differs = differing.get((each.section, each.name), ())
        action: Action = "create"
        if each.name in present.get(each.section, ()):
            action = "change" if differs else "same"
        steps.append(ApplyStep(action, each.section, each.name, each.members, differs, each.place))
    return steps


def stream_differences(given: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which a declaration differs from the server's description of a stream.

    A stream that a push or a query created differs in ``declared``. An unknown member always differs, so that
    the server gets the declaration and reports the error.
    """
    found = [] if described["declared"] else ["declared"]
    for name in dict.fromkeys((*given, *_STREAM_DEFAULTS)):
        has = described.get(name)
        wants = given.get(name, _STREAM_DEFAULTS.get(name))
        if name in _DURATIONS:
            has, wants = _milliseconds(has), _milliseconds(wants)
        elif name == "mapping":
            has, wants = _mapping(has), _mapping(wants)
        elif name == "timestamp_property":
            wants = wants or _STREAM_DEFAULTS[name]
        if has != wants:
            found.append(name)
    return tuple(found)


def stream_declaration(given: Mapping[str, Any], described: Mapping[str, Any] | None) -> dict[str, Any]:
    """A declaration of a stream, completed by what stays as it is where the stream is there already.

    One that is nowhere yet has the IRI that the server makes of its name, if none is given. Who stamps it is
    left to the server, which knows whether elements came and what the mapping tells.
    """
    has = described or {}
    staying = {name: has[name] for name in _DURATIONS if has.get(name) is not None}
    return {**staying, **given}


def connector_differences(given: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which a source or sink that the server reports as changed differs."""
    has = connector_members(described)
    names = dict.fromkeys((*given, *has))
    hidden = [each for each in names if _is_hidden(has.get(each))]
    seen = tuple(each for each in names if each not in hidden and given.get(each) != has.get(each))
    return seen or tuple(hidden)


# --- what a server has, as a file has it -------------------------------------------------------------------


def stream_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of a stream; what is by default is left out, unless the settings say it."""
    found = {name: described.get(name) for name in ("iri", *_STAYING, *_STREAM_DEFAULTS)}
    return {
        name: value
        for name, value in found.items()
        if value is not None and value != _STREAM_DEFAULTS.get(name)
    }


def query_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the registration members of a query from its description."""
    return {**described["options"], "query": described["query"]}


def connector_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of a source or sink from its description, with hidden secrets."""
    return {name: value for name, value in described.items() if name not in _FIGURES and value is not None}


def with_references(
    section: str, name: str, members: Mapping[str, Any], taken: dict[str, str]
) -> dict[str, Any]:
    """Members as a file has them: a secret is a variable, which is added to ``taken`` with its place."""
    found = {}
    for member, value in members.items():
        if section in ("sources", "sinks") and _is_hidden(value):
            first, *others = _escaped(value).split(HIDDEN)
            for other in others:  # of an address there may be several
                words = "_".join(("quadrill", section.removesuffix("s"), name, member)).upper()
                variable = "".join(letter if letter.isalnum() else "_" for letter in words)
                while variable in taken:
                    variable += "_"
                taken[variable] = f"{section}.{name}: {member}"
                first += f"${{{variable}}}{other}"
            found[member] = first
        else:
            found[member] = _escaped(value)
    return found


def _is_hidden(value: Any) -> bool:
    """True of a secret, and of an address with secrets in its query part."""
    return isinstance(value, str) and (value == HIDDEN or f"={HIDDEN}" in value)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    return [_escaped(each) for each in value] if isinstance(value, list) else value


def _milliseconds(value: Any) -> Any:
    try:
        return duration_ms(value, "")
    except InputError:
        return value


def _mapping(value: Any) -> Any:
    """A mapping without what says the same as nothing."""
    if not isinstance(value, dict):
        return value
    return {
        name: each
        for name, each in value.items()
        if each is not None and not (name == "header" and each is True)
    }
