"""The records of rule sets in the registry."""

from __future__ import annotations

import logging

from quadrill.store.registry import Registry, RuleSetRecord, RuleSetState

from ..rules.rule_set import RuleSet

log = logging.getLogger("quadrill.continuous")


class RuleRecords:
    """The records of rule sets in the registry; without a registry, nothing is stored.

    Attributes:
        registry: the registry, or None.
        created_ms: the time of the first PUT of each set, by name, in milliseconds since 1970.
    """

    def __init__(self, registry: Registry | None) -> None:
        self.registry = registry
        self.created_ms: dict[str, int] = {}

    def all(self) -> list[RuleSetRecord]:
        """Return all records."""
        return [] if self.registry is None else list(self.registry.rule_sets.all())

    def note(self, rule_set: RuleSet, state: RuleSetState, error: str | None) -> None:
        """Store a set's definition, its state, and the reason of a suspension or failure."""
        created_ms = self.created_ms.get(rule_set.name, 0)
        self.put(RuleSetRecord(rule_set.name, rule_set.definition.members(), None, state, error, created_ms))

    def restore(self, rule_set: RuleSet) -> bool:
        """Store the state that a set had before a failed change; return False if this fails, too."""
        try:
            self.note(rule_set, "suspended" if rule_set.suspended else "ready", rule_set.error)
        except Exception:
            log.exception("the record of the rule set %s could not be restored", rule_set.name)
            return False
        return True

    def put(self, record: RuleSetRecord) -> None:
        """Store a record."""
        if self.registry is not None:
            self.registry.rule_sets.put(record)

    def remove(self, name: str) -> None:
        """Remove the record of a set."""
        if self.registry is not None:
            self.registry.rule_sets.remove(name)
        self.created_ms.pop(name, None)
