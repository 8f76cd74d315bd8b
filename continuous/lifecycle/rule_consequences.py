"""The rule sets at work: they derive the consequences of every commit under the writer lock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quadrill.store.changes.commit import Commit, GraphName, NetChange
from quadrill.store.changes.owners import Owners
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.errors import ReportedError
from quadrill.store.quads.committer import ApplyError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest

from ..rules.order import in_order
from ..rules.rule_set import RuleBudgetError, RuleSet
from .rule_records import RuleRecords

log = logging.getLogger("quadrill.continuous")


class RuleConsequences:
    """The rule sets of one store at work; see `quadrill.store.quads.consequences`.

    The sets are replaced as a whole under the writer lock, so that a commit sees either the sets before a PUT
    or those after it.

    Attributes:
        sets: the sets by name.
        ordered: the sets, each after the sets whose graphs it reads.
    """

    def __init__(self, store: QuadStore, records: RuleRecords) -> None:
        self.sets: dict[str, RuleSet] = {}
        self.ordered: tuple[RuleSet, ...] = ()
        self._store = store
        self._records = records
        # The pending changes of the request that replaces or removes a set, with its name.
        self._leaving: tuple[PendingChanges, str] | None = None
        # Of the group of requests that is being committed: suspended sets with the reason, and numbers of
        # inferred triples.
        self._suspending: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    # --- the sets -----------------------------------------------------------------------------

    def install(self, rule_set: RuleSet) -> None:
        """Add or replace a set."""
        self._use({**self.sets, rule_set.name: rule_set})

    def remove(self, name: str) -> None:
        """Remove a set."""
        self._use({other: each for other, each in self.sets.items() if other != name})

    def _use(self, sets: dict[str, RuleSet]) -> None:
        self.sets = sets
        self.ordered = tuple(in_order(list(sets.values())))
        self._store.queue.consequences = self if sets else None

    def count(self, graph: GraphName) -> int:
        """Return the number of quads in a graph."""
        return self._store.committer.counts.get(graph, 0)

    # --- commits of sets ----------------------------------------------------------------------

    def submit(self, rule_set: RuleSet, derive: Callable[[PendingChanges], None]) -> Commit:
        """Commit a change of a set's graph, and make the set visible with the commit."""
        owners: list[Owners] = []

        def make(pending: PendingChanges) -> None:
            owners.append(pending.owned)
            derive(pending)

        def committed(_: Commit) -> None:
            rule_set.note_owners(owners[-1])
            self.install(rule_set)

        started = time.perf_counter()
        commit = self.commit(rule_set, make, committed)
        rule_set.cost_ms = (time.perf_counter() - started) * 1000
        return commit

    def commit(
        self,
        rule_set: RuleSet,
        make: Callable[[PendingChanges], None],
        committed: Callable[[Commit], None] | None = None,
    ) -> Commit:
        """Commit the replacement or the removal of a set, whose own consequences are left out."""
        name = rule_set.name

        def derive(pending: PendingChanges) -> None:
            self._leaving = pending, name
            make(pending)

        request = WriteRequest(
            derive, f"rules {name}", owner=rule_set.owner, alone=True, committed=committed, timed=False
        )
        try:
            return self._store.queue.submit(request)
        finally:
            if self._leaving is not None and self._leaving[1] == name:
                self._leaving = None

    # --- consequences (store.quads.consequences) ----------------------------------------------

    def begin_group(self) -> None:
        """Begin a group of requests; see `Consequences.begin_group`."""
        self._suspending, self._counts = {}, {}

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> None:
        """Add the consequences of a change, set by set; see `Consequences.derive`.

        A set that the change itself replaces or removes is left out: it would derive its quads again.
        """
        leaving = self._leaving[1] if self._leaving is not None and self._leaving[0] is pending else None
        suspending, counts = dict(self._suspending), dict(self._counts)
        for rule_set in self.ordered:
            name = rule_set.name
            if rule_set.suspended or name in suspending or name == leaving:
                continue
            if not rule_set.affected(below, pending, change):
                continue
            started = time.perf_counter()
            before = counts.get(name)
            budget = rule_set.budget(self.count(rule_set.into) if before is None else before, timed=timed)
            try:
                rule_set.derive(below, pending, change, budget, lambda: self._store.reader.quad_count)
                counts[name] = budget.inferred
            except RuleBudgetError as error:
                suspending[name] = _suspended(rule_set, pending, error)
            rule_set.cost_ms = (time.perf_counter() - started) * 1000
            if len(self.ordered) > 1:
                change = pending.net()
        # A request that fails suspends nothing.
        self._suspending, self._counts = suspending, counts

    def derive_all(self, pending: PendingChanges) -> None:
        """Compute every set again; see `Consequences.derive_all`."""
        suspending = dict(self._suspending)
        for rule_set in self.ordered:
            if not rule_set.suspended and rule_set.name not in suspending:
                try:
                    rule_set.derive_all(pending, rule_set.budget(0, timed=False))
                except RuleBudgetError as error:
                    suspending[rule_set.name] = _suspended(rule_set, pending, error)
        self._suspending = suspending

    @contextmanager
    def committing(self, owned: Owners) -> Iterator[None]:
        """Suspend sets together with the commit; see `Consequences.committing`.

        The registry knows of a suspension before the commit, so that a crash between them leaves a suspended
        set, whose graph the next start empties.
        """
        sets = {name: self.sets[name] for name in self._suspending}
        try:
            for name, rule_set in sets.items():
                self._records.note(rule_set, "suspended", self._suspending[name])
            yield
        except ApplyError:  # the commit is durable
            self._note_owners(owned)
            raise
        except BaseException:
            for rule_set in sets.values():
                self._records.restore(rule_set)
            raise
        self._note_owners(owned)

    def _note_owners(self, owned: Owners) -> None:
        for name, error in self._suspending.items():
            rule_set = self.sets[name]
            rule_set.suspended, rule_set.error = True, error
            log.warning("the rule set %s is suspended: %s", name, error)
        for rule_set in self.ordered:
            rule_set.note_owners(owned)

    # --- owners -------------------------------------------------------------------------------

    def follow_owners(self) -> None:
        """From now on, update sets with a default input when a graph joins or leaves this input."""
        for rule_set in self.ordered:
            rule_set.note_owners(self._store.queue.owned)
        self._store.queue.owners_changed = self._owners_changed

    def _owners_changed(self, graph: GraphName) -> None:
        if graph in self._store.committer.counts and any(
            rule_set.definition.sources is None for rule_set in self.ordered
        ):
            threading.Thread(target=self._regroup, name="quadrill-rules", daemon=True).start()

    def _regroup(self) -> None:
        request = WriteRequest(lambda _: None, "rules", alone=True, timed=False, rederive=True)
        try:
            self._store.queue.submit(request)
        except ReportedError as error:  # the next commit tries again
            log.warning("rule sets could not be updated after a graph changed its owner: %s", error.message)


def _suspended(rule_set: RuleSet, pending: PendingChanges, error: RuleBudgetError) -> str:
    """Empty the graph of a set that exceeds a budget; return the reason. Raise ``error`` if it must not."""
    if not rule_set.definition.suspend:
        raise error
    pending.clear(rule_set.into)
    return error.message
