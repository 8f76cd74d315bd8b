"""Loads the registered rule sets at a start, and completes what a crash has interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.changes.owners import Owner
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.errors import ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import RuleSetRecord

from ..rules.rule_set import RuleBudgetError, RuleSet
from .derived_graphs import own_reports, own_views
from .rule_consequences import RuleConsequences
from .rule_records import RuleRecords

log = logging.getLogger("quadrill.continuous")


class RuleStart:
    """Loads the rule sets of a registry.

    Attributes:
        failed: by name, the records of sets that could not be loaded or completed; their graphs stay reserved
            until a PUT or DELETE of the set.
    """

    def __init__(
        self,
        store: QuadStore,
        records: RuleRecords,
        consequences: RuleConsequences,
        parse_set: Callable[[str, Mapping[str, Any]], RuleSet],
        drop: Callable[[RuleSet], object],
    ) -> None:
        """Prepare the load; `run` does it.

        Args:
            store: the store.
            records: the records of the sets.
            consequences: the active sets, to which `run` adds the loaded ones.
            parse_set: returns a set, given its name and the members of its PUT.
            drop: completes the DELETE of a set.
        """
        self.failed: dict[str, RuleSetRecord] = {}
        self._store = store
        self._records = records
        self._consequences = consequences
        self._parse = parse_set
        self._drop = drop

    def run(self) -> None:
        """Load all sets, and complete those that a crash or an interrupted bulk load has left incomplete."""
        records = self._records.all()
        if records and self._records.registry is not None:
            own_views(self._store, self._records.registry)
            own_reports(self._store, self._records.registry)
        loaded = []
        for record in records:
            self._records.created_ms[record.name] = record.created_ms
            self._own_graphs(record)
            try:
                rule_set = self._parse(record.name, record.following or record.definition)
            except ReportedError as error:
                log.error("the rule set %s cannot be loaded: %s", record.name, error.message)
                self.failed[record.name] = replace(record, error=error.message)
                continue
            rule_set.suspended = record.state == "suspended" and record.following is None
            rule_set.error = record.error
            loaded.append((record, rule_set))
        for _, rule_set in loaded:
            self._consequences.install(rule_set)
        # After a bulk load that a crash has interrupted, consequences of its quads may be missing.
        again = self._store.committer.recovered_bulk
        owners, owned = self._consequences.owners, self._store.queue.owned
        regrouped = owners.differ(owned, self._store.committer.counts)
        for record, rule_set in loaded:
            stale = again or (regrouped and rule_set.definition.sources is None)
            if stale or record.state != "ready" or record.following is not None:
                self._complete(record, rule_set)
        owners.note(owned)

    def _own_graphs(self, record: RuleSetRecord) -> None:
        for members in (record.definition, record.following or {}):
            with suppress(KeyError, TypeError, ValueError):
                self._store.queue.own(NamedNode(members["into"]), Owner("rules", record.name))

    def _complete(self, record: RuleSetRecord, rule_set: RuleSet) -> None:
        """Complete an interrupted PUT, DELETE or suspension, or compute a set from its input alone."""
        into = rule_set.into
        if record.state == "dropping":
            self._drop(rule_set)
            return
        if rule_set.suspended:
            if self._consequences.count(into):
                self._consequences.submit(rule_set, lambda pending: pending.clear(into))
            return
        former = NamedNode(record.definition["into"])
        try:
            self._consequences.submit(rule_set, lambda pending: _rebuild(pending, rule_set, former))
        except RuleBudgetError as error:
            self._give_up(record, rule_set, former, error)
            return
        self._records.note(rule_set, "ready", None)
        self._disown_unless(former, rule_set)

    def _disown_unless(self, graph: NamedNode, rule_set: RuleSet) -> None:
        if graph != rule_set.into:
            self._store.queue.disown(graph, rule_set.owner)

    def _give_up(
        self, record: RuleSetRecord, rule_set: RuleSet, former: NamedNode, error: RuleBudgetError
    ) -> None:
        """Handle a set that exceeds a budget while it is completed.

        The set is suspended if its definition says so. Otherwise a set that the PUT replaced is restored,
        and any other set is marked as failed, with an empty graph.
        """
        into = rule_set.into
        if exceeds_own_budget(rule_set, error):
            rule_set.suspended, rule_set.error = True, error.message
            self._consequences.submit(rule_set, lambda pending: empty(pending, into, former))
            self._records.note(rule_set, "suspended", error.message)
            self._disown_unless(former, rule_set)
        elif record.following is not None:
            old = self._parse(record.name, record.definition)
            old.suspended, old.error = record.state == "suspended", record.error
            self._consequences.install(old)
            self._complete(replace(record, following=None), old)
            if old.suspended:
                self._records.note(old, "suspended", old.error)
            self._disown_unless(into, old)
        else:
            self._consequences.commit(rule_set, lambda pending: pending.clear(into))
            self._consequences.remove(record.name)
            failed = replace(record, state="failed", error=error.message)
            self._records.put(failed)
            self.failed[record.name] = failed


def exceeds_own_budget(rule_set: RuleSet, error: RuleBudgetError) -> bool:
    """Return True if an error is about the budget of this set, and its definition says to suspend it."""
    return rule_set.definition.suspend and error.details.get("rules") == rule_set.name


def empty(pending: PendingChanges, into: NamedNode, former: NamedNode) -> None:
    """Empty the graph ``into`` of a suspended set, and drop the graph ``former`` if it is another one."""
    if former != into:
        pending.drop(former)
    pending.create(into)
    pending.clear(into)


def _rebuild(pending: PendingChanges, rule_set: RuleSet, former: NamedNode) -> None:
    if former != rule_set.into:
        pending.drop(former)
    rule_set.derive_all(pending, rule_set.budget(0, timed=False))
