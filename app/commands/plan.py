"""Computation of the steps of ``quadrill apply`` from declarations and descriptions, without requests."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
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
"""Members of a stream whose defaults only the server knows; a file without them leaves them unchanged."""
_STREAM_DEFAULTS: dict[str, Any] = {
    "late": "drop",
    "timestamp_property": "http://www.w3.org/ns/prov#generatedAtTime",
    "quoted_asserted": False,
    "clock": "event",
    "mapping": None,
    "shapes": None,
    "on_violation": None,
    "self_contained": False,
}
_RULES_DEFAULTS: dict[str, Any] = {
    "rules": [],
    "include": [],
    "from": None,
    "max_inferred": 10_000_000,
    "max_time": "10s",
    "on_budget": "reject",
}
_SHAPES_DEFAULTS: dict[str, Any] = {
    "mode": "watch",
    "data": None,
    "into": None,
    "graph": None,
    "max_time": "10s",
    "max_results": 100_000,
}
_FIGURES = frozenset(("name", "guarantee", "position", *Figures().to_json()))
"""Members of a source's or sink's description that are not part of its declaration."""


@dataclass(frozen=True, slots=True)
class MemberChange:
    """Change of one member of an object; a secret has `HIDDEN` before and after."""

    member: str
    old: Any
    new: Any

    def __str__(self) -> str:
        if HIDDEN in (self.old, self.new):
            return f"{self.member}: changed"
        old, new = _differing_words(self.old, self.new)
        return f"{self.member}: {old} → {new}"


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """The members in which a declaration differs from the server's object, and what the change costs.

    Each of the ``costs`` is a sentence without its final dot.
    """

    members: tuple[MemberChange, ...] = ()
    costs: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, names: Iterable[str], described: Mapping[str, Any], given: Mapping[str, Any]
    ) -> ObjectChanges:
        """Return the changes of the members ``names`` from a description to a declaration."""
        return cls(tuple(_change(name, described.get(name), given.get(name)) for name in names))

    @classmethod
    def of_query(cls, problem: Mapping[str, Any]) -> ObjectChanges:
        """Return the changes that a server's answer about a query of the same name has."""
        members = tuple(MemberChange(**each) for each in problem.get("differences", ()))
        return cls(members, tuple(each["text"] for each in problem.get("costs", ())))

    def lines(self) -> list[str]:
        """Return one line for each changed member, old → new, and one line for all costs."""
        costs = [f"costs: {'; '.join(self.costs)}"] if self.costs else []
        return [*map(str, self.members), *costs]


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """Step of ``quadrill apply``: the action for one object of a section; ``same`` means no action.

    ``place`` is the place of the declaration for messages.
    """

    action: Action
    section: str
    name: str
    members: Mapping[str, Any]
    changes: ObjectChanges = ObjectChanges()
    place: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the step as a JSON object; ``differs`` has the names of the changed members."""
        changes = asdict(self.changes)
        return {
            "action": self.action,
            "section": self.section,
            "name": self.name,
            "differs": [each.member for each in self.changes.members],
            "changes": changes["members"],
            "costs": changes["costs"],
            "place": self.place,
        }


def plan(
    declared: Iterable[Declared],
    present: Mapping[str, Collection[str]],
    differing: Mapping[tuple[str, str], ObjectChanges],
    removed: Mapping[str, Collection[str]],
) -> list[ApplyStep]:
    """Return the steps of an apply: removals in reverse order of creation, then the declared objects.

    Args:
        declared: declarations of the files.
        present: the names that the server has, by section.
        differing: changes of each object that is both declared and present.
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
        changes = differing.get((each.section, each.name), ObjectChanges())
        action: Action = "create"
        if each.name in present.get(each.section, ()):
            action = "change" if changes.members else "same"
        steps.append(ApplyStep(action, each.section, each.name, each.members, changes, each.place))
    return steps


def stream_differences(given: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which a declaration differs from the server's description of a stream.

    A stream that a push or a query created without a declaration always differs in the member ``declared``.
    An unknown member of a declaration always differs, so that the server gets the declaration and reports the
    error.
    """
    found = [] if described["declared"] else ["declared"]
    for name in dict.fromkeys((*given, *_STREAM_DEFAULTS)):
        default = _STREAM_DEFAULTS.get(name)
        has, wants = described.get(name, default), given.get(name, default)
        if name in _DURATIONS:
            has, wants = _milliseconds(has), _milliseconds(wants)
        elif name == "mapping":
            has, wants = _mapping(has), _mapping(wants)
        elif name == "timestamp_property":
            wants = wants or _STREAM_DEFAULTS[name]
        elif name == "on_violation" and has is not None:
            wants = wants or "dead-letter"
        if has != wants:
            found.append(name)
    return tuple(found)


def stream_declaration(given: Mapping[str, Any], described: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a stream's declaration with missing durations copied from the server's description.

    A new stream without an IRI gets an IRI that the server derives from the stream's name. A missing member
    ``stamping`` is not added, because the server derives it from the mapping and the stream's elements.
    """
    has = described or {}
    staying = {name: has[name] for name in _DURATIONS if has.get(name) is not None}
    return {**staying, **given}


def connector_differences(given: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which a declaration differs from the server's description of a source or sink.

    The comparison of a source or sink may be made only if the server has reported a change. If no visible
    member of a source or sink differs, the change is in a secret, which the description hides, so the result
    has all hidden members.
    """
    has = connector_members(described)
    names = dict.fromkeys((*given, *has))
    hidden = [each for each in names if _is_hidden(has.get(each))]
    seen = tuple(each for each in names if each not in hidden and given.get(each) != has.get(each))
    return seen or tuple(hidden)


def rules_differences(given: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which a declaration differs from the server's description of a rule set."""
    return _differing(dict.fromkeys(("into", *given, *_RULES_DEFAULTS)), _RULES_DEFAULTS, given, described)


def _differing(
    names: Iterable[str], defaults: Mapping[str, Any], given: Mapping[str, Any], described: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the members of these names that differ; a missing member has its default."""
    found = []
    for name in names:
        default = defaults.get(name)
        has, wants = described.get(name, default), given.get(name, default)
        if name == "max_time":
            has, wants = _milliseconds(has), _milliseconds(wants)
        if has != wants:
            found.append(name)
    return tuple(found)


def shapes_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a PUT of shapes from their declaration."""
    return {name: value for name, value in given.items() if name not in ("text", "type", "graph")}


def shapes_body(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a PUT of shapes from their declaration, as options of a request."""
    if "graph" in given:
        return {"json": {"graph": given["graph"]}}
    return {"content": given["text"], "headers": {"Content-Type": given["type"]}}


def shapes_differences(given: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members in which a declaration differs from the server's description of shapes.

    The comparison may be made only if the server has reported a change. If no parameter differs, the change
    is in the shapes graph, or the shapes have failed and are put again.
    """
    found = _differing(_SHAPES_DEFAULTS, _SHAPES_DEFAULTS, given, described)
    return found or ("text" if described["error"] is None else "error",)


def by_reading(described: Mapping[str, Mapping[str, Any]], member: str) -> list[str]:
    """Return the names of rule sets or shapes, each after those whose graphs it reads.

    The graphs that one reads are in ``member``, and the graph that it makes is in ``into``.
    """
    names = {each["into"]: name for name, each in described.items() if "into" in each}
    ordered: dict[str, None] = {}

    def place(name: str) -> None:
        for graph in described[name].get(member) or ():
            if graph in names and names[graph] not in ordered:
                place(names[graph])
        ordered[name] = None

    for name in described:
        place(name)
    return list(ordered)


# --- descriptions of a server as members of declaration files ----------------------------------------------


def stream_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stream's declaration from its description, without members that have the built-in default."""
    found = {name: described.get(name) for name in ("iri", *_STAYING, *_STREAM_DEFAULTS)}
    return {
        name: value
        for name, value in found.items()
        if value is not None and value != _STREAM_DEFAULTS.get(name)
    }


def query_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the registration members of a query from its description."""
    return {**described["options"], "query": described["query"]}


def rules_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of a rule set from its description, without members that have the default."""
    found = {name: described.get(name, default) for name, default in _RULES_DEFAULTS.items()}
    declared = {name: value for name, value in found.items() if value != _RULES_DEFAULTS[name]}
    return {"into": described["into"], **declared}


def shapes_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of shapes from their description, without members that have the default.

    The shapes graph is the member ``text``, or ``graph`` if the shapes were read from a graph of the store.
    """
    found = {name: described.get(name, default) for name, default in _SHAPES_DEFAULTS.items()}
    declared = {name: value for name, value in found.items() if value != _SHAPES_DEFAULTS[name]}
    return declared if "graph" in declared else {**declared, "text": described["text"]}


def connector_members(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of a source or sink from its description, with hidden secrets."""
    return {name: value for name, value in described.items() if name not in _FIGURES and value is not None}


def with_references(
    section: str, name: str, members: Mapping[str, Any], taken: dict[str, str]
) -> dict[str, Any]:
    """Return an object's members with escaped texts, and with a variable reference in place of each secret.

    Each new variable is added to ``taken``, with the place of the secret as its value.
    """
    found = {}
    for member, value in members.items():
        if section in ("sources", "sinks") and _is_hidden(value):
            first, *others = _escaped(value).split(HIDDEN)
            for other in others:  # the URL of a source or sink may contain several secrets
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


def _change(member: str, old: Any, new: Any) -> MemberChange:
    """Return the change of a member, with `HIDDEN` in place of both values if the member has a secret."""
    return MemberChange(member, HIDDEN, HIDDEN) if _is_hidden(old) else MemberChange(member, old, new)


def _differing_words(old: Any, new: Any) -> tuple[str, str]:
    """Return two values as texts; of texts with several words, only the words between equal ends.

    A text without a word in this range is shown as "nothing".
    """
    if not (isinstance(old, str) and isinstance(new, str)):
        shown = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (old, new)
        )
        return next(shown), next(shown)
    words, others = old.split(), new.split()
    while words and others and words[0] == others[0]:
        del words[0], others[0]
    while words and others and words[-1] == others[-1]:
        del words[-1], others[-1]
    return " ".join(words) or "nothing", " ".join(others) or "nothing"


def _is_hidden(value: Any) -> bool:
    """Return whether a value is a hidden secret, or an address with a hidden secret in its query string."""
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
    """Return a stream's mapping without members that are None or have their default."""
    if not isinstance(value, dict):
        return value
    return {
        name: each
        for name, each in value.items()
        if each is not None and not (name == "header" and each is True)
    }
