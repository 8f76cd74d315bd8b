"""Derives the consequences of every commit with the registered rule sets, under the writer lock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from quadrill.store.changes.commit import Commit, GraphName, NetChange
from quadrill.store.changes.owners import Owners
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.quads.committer import ApplyError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest

from ..rules.definition import RuleSetDefinition, cause_of
from ..rules.order import in_order
from ..rules.rule_set import RuleBudgetError, RuleSet
from .rule_owners import ReflectedOwners
from .rule_records import RuleRecords

log = logging.getLogger("quadrill.continuous")


class RuleConsequences:
    """The rule sets of one store, which derive consequences; see `quadrill.store.quads.consequences`.

    The mapping of sets is replaced as a whole under the writer lock, so a commit sees either the sets before
    a PUT or those after it.

    Attributes:
        sets: the sets by name.
        ordered: the sets in an order in which each comes after the sets whose graphs it reads.
        owners: the owners of graphs that the sets reflect.
    """

    def __init__(self, store: QuadStore, records: RuleRecords) -> None:
        self.sets: dict[str, RuleSet] = {}
        self.ordered: tuple[RuleSet, ...] = ()
        self.owners = ReflectedOwners(records.registry)
        self._store = store
        self._records = records
        # The names of sets that requests of the queue replace or remove.
        self._changing: set[str] = set()
        # While a request replaces or removes a set: its pending changes, and the name of the set.
        self._leaving: tuple[PendingChanges, str] | None = None
        # For the current group of requests, by name of a set: why a request suspends the set, and the number
        # of inferred triples of the set.
        self._suspending: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        # The set that the running request adds or replaces.
        self._installing: RuleSet | None = None

    # --- the sets -----------------------------------------------------------------------------

    def install(self, rule_set: RuleSet) -> None:
        """Add a set, or replace the set with its name."""
        self._use({**self.sets, rule_set.name: rule_set})

    def remove(self, name: str) -> None:
        """Remove a set."""
        self._use({other: each for other, each in self.sets.items() if other != name})

    def _use(self, sets: dict[str, RuleSet]) -> None:
        self.sets = sets
        self.ordered = tuple(in_order(list(sets.values())))

    def definition_of(self, name: str) -> RuleSetDefinition | None:
        """Return the definition of a set after the commit in progress; None if the set derives nothing."""
        found = self._installing
        rule_set = found if found is not None and found.name == name else self.sets.get(name)
        suspended = rule_set is None or rule_set.suspended or name in self._suspending
        return None if suspended or rule_set is None else rule_set.definition

    def count(self, graph: GraphName) -> int:
        """Return the number of quads in a graph."""
        return self._store.committer.counts.get(graph, 0)

    # --- commits of sets ----------------------------------------------------------------------

    def submit(self, rule_set: RuleSet, derive: Callable[[PendingChanges], None]) -> Commit:
        """Commit the change that ``derive`` makes to a set's graph, and install the set with this commit."""
        owners: list[Owners] = []

        def make(pending: PendingChanges) -> None:
            owners.append(pending.owned)
            self._installing = rule_set
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
        """Commit the change that ``make`` makes, which replaces or removes a set.

        The other sets derive consequences of the change, the set with the name of ``rule_set`` does not.
        ``committed`` is called under the writer lock after the commit.
        """
        name = rule_set.name

        def derive(pending: PendingChanges) -> None:
            self._leaving = pending, name
            make(pending)

        request = WriteRequest(
            derive, cause_of(name), owner=rule_set.owner, alone=True, committed=committed, timed=False
        )
        self._changing.add(name)
        try:
            return self._store.queue.submit(request)
        finally:
            self._changing.discard(name)
            if self._leaving is not None and self._leaving[1] == name:
                self._leaving = None
            if self._installing is rule_set:
                self._installing = None

    # --- consequences (store.quads.consequences) ----------------------------------------------

    @property
    def active(self) -> bool:
        """True if there are rule sets, or a commit adds the first one."""
        return bool(self.sets or self._changing)

    @contextmanager
    def undone_by_errors(self) -> Iterator[None]:
        """Undo the notes that `derive` has made about a request if the block raises an error."""
        noted = self._suspending, self._counts
        try:
            yield
        except BaseException:
            self._suspending, self._counts = noted
            raise

    def begin_group(self) -> None:
        """Begin a group of requests; see `Consequences.begin_group`."""
        self._suspending, self._counts = {}, {}

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> None:
        """Add the consequences of a change, set by set; see `Consequences.derive`.

        A set that the change replaces or removes derives nothing: its rules would bring its old quads back.
        If there is no change, because graphs have joined or left the input of sets, a set over a budget is
        suspended. Otherwise no later commit could be made.
        """
        regrouping = not change
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
                suspending[name] = _suspended(rule_set, pending, error, always=regrouping)
            rule_set.cost_ms = (time.perf_counter() - started) * 1000
            if len(self.ordered) > 1:
                change = pending.net()
        # Assigned last, so that a request that fails suspends no set.
        self._suspending, self._counts = suspending, counts

    def derive_all(self, pending: PendingChanges) -> None:
        """Compute every set that is not suspended from its input alone; see `Consequences.derive_all`."""
        suspending = dict(self._suspending)
        for rule_set in self.ordered:
            if not rule_set.suspended and rule_set.name not in suspending:
                try:
                    rule_set.derive_all(pending, rule_set.budget(0, timed=False))
                except RuleBudgetError as error:
                    suspending[rule_set.name] = _suspended(rule_set, pending, error)
        self._suspending = suspending

    def committing(self, owned: Owners) -> AbstractContextManager[None]:
        """Return the context that notes suspensions and new owners; see `Consequences.committing`."""
        if not self._suspending and self.owners.has(owned):
            return nullcontext()
        return self._noting(owned)

    @contextmanager
    def _noting(self, owned: Owners) -> Iterator[None]:
        """Suspend sets together with the commit; see `Consequences.committing`.

        The registry stores a suspension before the commit. After a crash between the two, the next start
        finds the set suspended, and empties its graph.
        """
        sets = {name: self.sets[name] for name in self._suspending}
        try:
            for name, rule_set in sets.items():
                self._records.note(rule_set, "suspended", self._suspending[name])
            with self.owners.committing(owned):
                yield
        except ApplyError:  # the commit is durable
            self._take(owned)
            raise
        except BaseException:
            for rule_set in sets.values():
                self._records.restore(rule_set)
            raise
        self._take(owned)

    def _take(self, owned: Owners) -> None:
        for name, error in self._suspending.items():
            rule_set = self.sets[name]
            rule_set.suspended, rule_set.error = True, error
            log.warning("the rule set %s is suspended: %s", name, error)
        self.note_owners(owned)

    # --- owners -------------------------------------------------------------------------------

    @property
    def follows_owners(self) -> bool:
        """True if a set reads all graphs without an owner."""
        return any(rule_set.definition.sources is None for rule_set in self.ordered)

    def note_owners(self, owned: Owners) -> None:
        """Note the owners of graphs that the graphs of the sets reflect."""
        for rule_set in self.ordered:
            rule_set.note_owners(owned)


def _suspended(
    rule_set: RuleSet, pending: PendingChanges, error: RuleBudgetError, *, always: bool = False
) -> str:
    """Empty the graph of a set that exceeds a budget, and return the reason of its suspension.

    Raises:
        RuleBudgetError: the given ``error``, if the definition of the set refuses commits over a budget
            instead, unless ``always`` is True.
    """
    if not always and not rule_set.definition.suspend:
        raise error
    pending.clear(rule_set.into)
    return error.message
