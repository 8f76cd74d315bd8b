"""The definition of a rule set: the checked members of the PUT request that registers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode

from quadrill.store.changes.commit import GraphName, graph_key
from quadrill.store.documents.times import duration_ms, show_duration
from quadrill.store.errors import InputError

BUILT_IN = ("rdfs", "owl2-rl")
_MEMBERS = frozenset(("rules", "include", "into", "from", "max_inferred", "max_time", "on_budget"))
_MAX_RULES = 10_000
"""Maximum number of rules of one set; `strata` also limits the pairs of heads and patterns to compare."""


def cause_of(name: str) -> str:
    """Return the `cause` of commits that put, replace or remove the rule set with a name."""
    return f"rules {name}"


@dataclass(frozen=True, slots=True)
class RuleSetDefinition:
    """A rule set as a client defines it.

    Attributes:
        into: the graph that holds the inferred triples.
        rules: the rules, as texts of CONSTRUCT queries.
        include: the names of the built-in sets whose rules belong to the set.
        sources: the input graphs; None for the default graph and every named graph without an owner.
        max_inferred: maximum number of inferred triples.
        max_time_ms: maximum time, in milliseconds, that the consequences of one commit may take.
        suspend: True if a commit over a budget suspends the set; False if the commit is refused.
    """

    into: NamedNode
    rules: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    sources: tuple[GraphName, ...] | None = None
    max_inferred: int = 10_000_000
    max_time_ms: int = 10_000
    suspend: bool = False

    def members(self) -> dict[str, Any]:
        """Return the definition as the JSON members of a PUT request."""
        found: dict[str, Any] = {"into": self.into.value, "rules": list(self.rules)}
        if self.include:
            found["include"] = list(self.include)
        if self.sources is not None:
            found["from"] = list(map(graph_key, self.sources))
        return found | {
            "max_inferred": self.max_inferred,
            "max_time": show_duration(self.max_time_ms),
            "on_budget": "suspend" if self.suspend else "reject",
        }


def read_definition(members: Mapping[str, Any]) -> RuleSetDefinition:
    """Return the definition that the JSON members of a PUT request describe.

    Raises:
        InputError: a member is missing, unknown or malformed; the code is ``cycle`` if ``from`` has ``into``.
    """
    unknown = sorted(members.keys() - _MEMBERS)
    if unknown:
        raise InputError(
            f"a rule set has no member {unknown[0]!r}", hint=f"its members are {', '.join(sorted(_MEMBERS))}"
        )
    rules = _strings(members, "rules")
    include = _strings(members, "include")
    for name in include:
        if name not in BUILT_IN:
            raise InputError(
                f"there is no built-in rule set {name!r}", hint=f"include takes {' and '.join(BUILT_IN)}"
            )
    if not rules and not include:
        raise InputError(
            "a rule set needs rules, or include", hint='for instance {"include": ["rdfs"], "into": "…"}'
        )
    if len(rules) > _MAX_RULES:
        raise InputError(f"a rule set has at most {_MAX_RULES} rules, this one has {len(rules)}")
    into = _iri(members.get("into"), "into")
    sources = None
    if members.get("from") is not None:
        names = _strings(members, "from")
        sources = tuple(
            dict.fromkeys(DefaultGraph() if name == "default" else _iri(name, "from") for name in names)
        )
        if into in sources:
            raise InputError(
                f"the rule set reads its own graph {into}",
                code="cycle",
                hint="leave it out of from: rules always see it",
            )
    max_inferred = members.get("max_inferred", 10_000_000)
    if type(max_inferred) is not int or max_inferred < 0:
        raise InputError("max_inferred must be a number of triples, 0 or more")
    on_budget = members.get("on_budget", "reject")
    if on_budget not in ("reject", "suspend"):
        raise InputError("on_budget must be reject or suspend")
    max_time = duration_ms(members.get("max_time", "10s"), "max_time", positive=True)
    return RuleSetDefinition(
        into, rules, tuple(dict.fromkeys(include)), sources, max_inferred, max_time, on_budget == "suspend"
    )


def _strings(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = members.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"{name} must be a list of texts")
    return tuple(value)


def _iri(value: object, name: str) -> NamedNode:
    if not isinstance(value, str):
        raise InputError(
            f"{name} must be an IRI" if value is not None else f"{name} is missing: it must be an IRI"
        )
    try:
        iri = NamedNode(value)
    except ValueError as error:
        raise InputError(f"{name}: {value!r} is not an absolute IRI") from error
    return iri
