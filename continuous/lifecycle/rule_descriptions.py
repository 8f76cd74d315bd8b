"""Rule sets as JSON members, for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import RuleSetRecord

from ..rules.rule_set import RuleSet
from .rule_inconsistencies import inconsistencies
from .rule_put import RulePut


def describe_set(
    store: QuadStore,
    name: str,
    rule_set: RuleSet | None,
    put: RulePut | None,
    failed: RuleSetRecord | None,
    created_ms: int,
    *,
    listed: bool,
) -> dict[str, Any]:
    """Return a set as JSON members.

    Args:
        store: the store.
        name: the name of the set.
        rule_set: the set that derives consequences; None before the first PUT has ended and for a failed set.
        put: the PUT under way; None without one.
        failed: the record of a set that could not be loaded; None for other sets.
        created_ms: the time of the first PUT in milliseconds since 1970.
        listed: True to leave out the inconsistencies, which need a search.
    """
    definition: Mapping[str, Any] = {}
    if rule_set is not None:
        definition = rule_set.definition.members()
    elif put is not None:
        definition = put.definition.members()
    elif failed is not None:
        definition = failed.definition
    state, error = "ready", None if rule_set is None else rule_set.error
    if put is not None:
        state = "materialising"
    elif failed is not None:
        state, error = "failed", failed.error
    elif rule_set is not None and rule_set.suspended:
        state = "suspended"
    return {
        "name": name,
        **definition,
        "state": state,
        "version": None if rule_set is None else store.reader.version,
        "inferred": 0 if rule_set is None else store.committer.counts.get(rule_set.into, 0),
        "materialised": None if put is None else put.progress.inferred,
        "strata": [] if rule_set is None else rule_set.strata(),
        **({} if listed else {"inconsistencies": inconsistencies(store, rule_set)}),
        "cost_ms": 0.0 if rule_set is None else round(rule_set.cost_ms, 3),
        "error": error,
        "created": created_ms,
    }
