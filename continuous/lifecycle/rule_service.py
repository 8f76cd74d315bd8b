"""Registers, removes and describes the rule sets of one store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.commit import GraphName
from quadrill.store.changes.owners import Owner
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.errors import ConflictError, NotFoundError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest
from quadrill.store.registry import Registry, RuleSetRecord, RuleSetState

from ..algebra.flows import FlowEdge
from ..language.context import LanguageLimits
from ..rules.definition import RuleSetDefinition, cause_of, read_definition
from ..rules.order import flows_of, require_no_cycle, require_no_report, require_no_view_cycle
from ..rules.rule_set import RuleBudgetError, RuleSet
from ..rules.strata import require_for_windows
from .commit_consequences import CommitConsequences
from .derived_graphs import claim, missed_changes, require_free
from .rule_consequences import RuleConsequences
from .rule_descriptions import describe_set
from .rule_put import RulePut
from .rule_records import RuleRecords
from .rule_start import RuleStart, empty, exceeds_own_budget
from .rule_why import why_of
from .shape_consequences import ShapeConsequences
from .shape_feeds import ShapeFeeds
from .shape_records import ShapeRecords

log = logging.getLogger("quadrill.continuous")


@dataclass(frozen=True, slots=True)
class QueriesOfSets:
    """The registered queries, as far as rule sets depend on them.

    Attributes:
        lock: held while a query is registered or dropped.
        names: returns the names of the queries whose registration names the given rule set.
        flows: returns the inputs and outputs of each query.
        with_windows: returns the names of the queries with windows that name the given rule set.
        replaced: called with the name of a set after its replacement.
    """

    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    names: Callable[[str], list[str]] = lambda name: []
    flows: Callable[[], list[FlowEdge]] = list
    with_windows: Callable[[str], list[str]] = lambda name: []
    replaced: Callable[[str], None] = lambda name: None


class RuleService:
    """Registers, removes and describes rule sets; `RuleConsequences` then derives what follows from commits.

    Any thread may call the methods. The service's lock guards the tables of PUTs and DELETEs under way. No
    thread acquires this lock while it holds the writer lock, and no thread commits while it holds this lock.

    Attributes:
        definition_of: returns a set by its name; see `RuleConsequences.definition_of`.
        queries: the registered queries, which may name rule sets.
        all_consequences: computes the inferred triples and the results of shapes for each commit.
    """

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        *,
        base_iri: str,
        limits: LanguageLimits | None = None,
        clock_ms: Callable[[], int],
        shapes: ShapeConsequences | None = None,
    ) -> None:
        """Create the service; `start` loads the rule sets.

        Args:
            store: the store.
            registry: keeps the rule sets; None keeps them in memory.
            base_iri: the base of relative IRIs in rules.
            limits: the limits of the text of a rule.
            clock_ms: the wall clock in milliseconds.
            shapes: the shapes that check commits; None for none.
        """
        self.queries = QueriesOfSets()
        self._store = store
        self._records = RuleRecords(registry)
        self._consequences = RuleConsequences(store, self._records)
        self._shapes = shapes or ShapeConsequences(store, ShapeRecords(None), ShapeFeeds(store))
        self.all_consequences = CommitConsequences(store, self._consequences, self._shapes)
        self.definition_of = self._consequences.definition_of
        self._parse: Callable[[str, Mapping[str, Any]], RuleSet] = lambda name, members: _parsed(
            base_iri, limits, name, members
        )
        self._clock_ms = clock_ms
        self._lock = threading.RLock()
        self._under_way: dict[str, RulePut] = {}
        self._candidates: dict[str, RuleSet] = {}
        self._dropping: set[str] = set()
        self._failed: dict[str, RuleSetRecord] = {}

    @property
    def _sets(self) -> dict[str, RuleSet]:
        return self._consequences.sets

    # --- start --------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the registered sets, and complete the PUTs and DELETEs that a crash has interrupted.

        The caller must call it before any client can read, so that no reader sees a version without its
        consequences.
        """
        start = RuleStart(self._store, self._records, self._consequences, self._parse, self._drop)
        start.run()
        self._failed = start.failed
        self.all_consequences.follow_owners()

    # --- registration -------------------------------------------------------------------------

    def put(self, name: str, members: Mapping[str, Any]) -> RulePut:
        """Check a rule set and reserve its graph; the caller then calls ``run`` of the result.

        Raises:
            InputError, QueryTextError, UnsupportedError: the definition is refused.
            ConflictError: the graph is not empty or belongs to another owner, a PUT or DELETE of the set is
                under way, or the set would get another graph while a set reads its graph or a query names it.
            RuleBudgetError: raised by ``run``: this set, or a set that reads its graph, exceeds a budget.
        """
        candidate = self._parse(name, members)
        # Until the set is among the candidates, no query may be registered: neither check would see that its
        # view closes a cycle, or that its windows cannot have the consequences of the set.
        with self._lock, self.queries.lock:
            self._require_idle(name)
            old = self._sets.get(name)
            if old is not None and not old.suspended and old.definition == candidate.definition:
                return RulePut(name, False, False, lambda: None, candidate.definition)
            self._require_possible(candidate, old)
            claim(self._store, candidate.into, candidate.owner)
            put = RulePut(
                name, old is None, True, lambda: self._run(put, candidate, old), candidate.definition
            )
            self._under_way[name] = put
            self._candidates[name] = candidate
            created_ms = self._records.created_ms.get(name, self._clock_ms())
            try:
                self._records.put(
                    RuleSetRecord(
                        name,
                        candidate.definition.members() if old is None else old.definition.members(),
                        None if old is None else candidate.definition.members(),
                        "materialising" if old is None else "suspended" if old.suspended else "ready",
                        created_ms=created_ms,
                    )
                )
            except BaseException:
                _unclaim(self._store, candidate, old)
                self._end(name)
                raise
            self._records.created_ms[name] = created_ms
            self._failed.pop(name, None)
            return put

    def flows(self, without: str | None = None) -> list[FlowEdge]:
        """Return the graphs of ``from`` and the own graph of each set, except of the set ``without``."""
        sets = (*self._sets.copy().values(), *self._candidates.copy().values())
        return [flows_of(each) for each in sets if each.name != without]

    def _require_possible(self, candidate: RuleSet, old: RuleSet | None) -> None:
        """Raise the errors of `put` about sets, queries and shapes that a new definition does not fit."""
        name = candidate.name
        require_no_cycle((*self._sets.values(), *self._candidates.values()), candidate)
        require_no_view_cycle(candidate, [*self.flows(name), *self.queries.flows()])
        require_no_report(candidate, self._store.queue.owned)
        if old is not None and old.into != candidate.into and (readers := self.readers_of(old)):
            raise _in_use(name, readers)
        if self.queries.with_windows(name):
            require_for_windows(name, candidate.rules)

    def _require_idle(self, name: str) -> None:
        if name in self._under_way or name in self._dropping:
            raise _in_progress(name)

    def _end(self, name: str) -> None:
        """End a PUT, so that the next PUT or DELETE of the set is accepted."""
        with self._lock:
            self._under_way.pop(name, None)
            self._candidates.pop(name, None)

    def compare(self, name: str, members: Mapping[str, Any]) -> Literal["create", "change", "same"]:
        """Return what a PUT would do, without doing it; raises the errors of `put`, except of its run."""
        candidate = self._parse(name, members)
        with self._lock, self.queries.lock:
            old = self._sets.get(name)
            if old is not None and not old.suspended and old.definition == candidate.definition:
                return "same"
            self._require_possible(candidate, old)
            require_free(self._store, candidate.into, candidate.owner)
        return "create" if old is None else "change"

    def _run(self, put: RulePut, candidate: RuleSet, old: RuleSet | None) -> None:
        state: RuleSetState = "ready"
        error = None
        try:
            try:
                self._materialise(put, candidate, old)
            except RuleBudgetError as refused:
                if not exceeds_own_budget(candidate, refused):
                    raise
                state, error = "suspended", refused.message
                candidate.suspended, candidate.error = True, error
                former = candidate.into if old is None else old.into
                commit = self._consequences.submit(
                    candidate, lambda pending: empty(pending, candidate.into, former)
                )
                put.progress.violations = commit.violations
        except BaseException:
            # After an ApplyError, the commit of the set is durable, and the set is installed.
            if self._sets.get(candidate.name) is candidate:
                self._finish(candidate, old, state, error)
            else:
                self._abandon(candidate, old)
            raise
        self._finish(candidate, old, state, error)
        self.queries.replaced(candidate.name)

    def _finish(
        self, candidate: RuleSet, old: RuleSet | None, state: RuleSetState, error: str | None
    ) -> None:
        try:
            self._records.note(candidate, state, error)
            if old is not None and old.into != candidate.into:
                # The stored record no longer has the former graph, so the next start does not change it:
                # clients may write it.
                self._store.queue.disown(old.into, candidate.owner)
        finally:
            self._end(candidate.name)

    def _materialise(self, put: RulePut, candidate: RuleSet, old: RuleSet | None) -> None:
        """Compute the fixpoint of a version without the writer lock, then update it for later commits."""
        store = self._store
        with store.reader.snapshot_read() as snapshot:
            version = snapshot.version
            owned = store.queue.owned
            inputs = candidate.snapshot(StoreView(snapshot.database(), owned))
            candidate.note_owners(owned)
        budget = candidate.budget(0, timed=False)

        def report(count: int) -> None:
            put.progress.inferred = count

        inferred = inputs.materialise(budget, report)

        def derive(pending: PendingChanges) -> None:
            if old is not None and old.into != candidate.into:
                pending.drop(old.into)
            missed = missed_changes(store, version)
            if missed is None or candidate.regrouped(pending, pending) or _reads_former(candidate, old):
                candidate.derive_all(pending, budget)
            elif missed:
                pending.replace(candidate.into, candidate.catch_up(pending, inferred, missed, budget))
            else:
                pending.replace(candidate.into, inferred)

        put.progress.violations = self._consequences.submit(candidate, derive).violations

    def delete(self, name: str) -> int:
        """Remove a set and its quads; return how many violations this adds to shapes with mode warn.

        Raises:
            ViolationError, ValidationStoppedError: shapes with mode reject refuse the commit.
            NotFoundError: there is no such set.
            ConflictError: another set reads the graph of this one, a query names the set, or a PUT or DELETE
                of the set is under way.
        """
        with ExitStack() as stack:
            with self._lock:
                # No query that names the set is registered until the set is gone.
                stack.enter_context(self.queries.lock)
                self._require_idle(name)
                rule_set, failed = self._sets.get(name), self._failed.get(name)
                if rule_set is None and failed is None:
                    raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")
                if rule_set is not None and (readers := self.readers_of(rule_set)):
                    raise _in_use(name, readers)
                self._dropping.add(name)
            try:
                if rule_set is not None:
                    return self._drop(rule_set)
                return 0 if failed is None else self._drop_failed(failed)
            finally:
                # The service's lock is not acquired here: another thread may hold it while it waits for the
                # lock of the queries, which this thread still holds.
                self._dropping.discard(name)

    def _drop(self, rule_set: RuleSet) -> int:
        """Remove a loaded set; return the number of violations that this adds."""
        name, into = rule_set.name, rule_set.into

        self._records.note(rule_set, "dropping", None)
        try:
            commit = self._consequences.commit(
                rule_set, lambda pending: pending.drop(into), lambda _: self._consequences.remove(name)
            )
        except BaseException:
            if name in self._sets:
                self._records.restore(rule_set)
            else:  # after an ApplyError the removal is durable
                self._forget(name, into, rule_set.owner)
            raise
        self._forget(name, into, rule_set.owner)
        return commit.violations

    def _drop_failed(self, record: RuleSetRecord) -> int:
        """Remove a set that could not be loaded; return the number of violations that this adds."""
        owner = Owner("rules", record.name)
        graphs = [graph for graph, other in self._store.queue.owned.items() if other == owner]

        def derive(pending: PendingChanges) -> None:
            for graph in graphs:
                if isinstance(graph, NamedNode):
                    pending.drop(graph)

        request = WriteRequest(derive, cause_of(record.name), owner=owner, alone=True, timed=False)
        commit = self._store.queue.submit(request)
        for graph in graphs:
            self._forget(record.name, graph, owner)
        self._failed.pop(record.name, None)
        return commit.violations

    def _forget(self, name: str, into: GraphName, owner: Owner) -> None:
        """Remove the record of a deleted set, and then allow clients to write its former graph."""
        self._records.remove(name)
        self._store.queue.disown(into, owner)

    def readers_of(self, rule_set: RuleSet) -> list[str]:
        """Return the sets whose ``from`` has the graph of a set, and the queries that name it, as phrases."""
        readers = [
            other.name
            for other in (*self._sets.values(), *self._candidates.values())
            if other.name != rule_set.name and rule_set.into in (other.definition.sources or ())
        ]
        sets = [f"the rule set {name}" for name in dict.fromkeys(readers)]
        sets += [f"the shapes {name}" for name in self._shapes.names_reading(rule_set.into)]
        return sets + [f"the query {query}" for query in self.queries.names(rule_set.name)]

    # --- reading ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all sets, oldest first, including sets that are not loaded."""
        with self._lock:
            names = {*self._sets, *self._under_way, *self._failed}
            return sorted(names, key=lambda name: (self._records.created_ms.get(name, 0), name))

    def describe_all(self) -> list[dict[str, Any]]:
        """Return all sets as JSON members, oldest first."""
        found = []
        for name in self.names():
            with suppress(NotFoundError):  # removed in the meantime
                found.append(self.describe(name, listed=True))
        return found

    def graph_of(self, name: str) -> NamedNode:
        """Return the name of the graph of a set; during the first PUT, the graph may not exist yet.

        Raises:
            NotFoundError: there is no such set, or it could not be loaded.
        """
        rule_set, put = self._sets.get(name), self._under_way.get(name)
        if rule_set is None and put is not None:
            return put.definition.into
        if rule_set is None:
            raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")
        return rule_set.into

    def candidate_of(self, name: str) -> RuleSetDefinition | None:
        """Return the definition of a set in its PUT under way; None if no PUT of the set is under way."""
        candidate = self._candidates.get(name)
        return None if candidate is None else candidate.definition

    def graphs(self) -> tuple[NamedNode, ...]:
        """Return the graphs of all loaded sets."""
        return tuple(rule_set.into for rule_set in self._consequences.ordered)

    def describe(self, name: str, *, listed: bool = False) -> dict[str, Any]:
        """Return a set as JSON members; ``listed`` leaves out its inconsistencies, which need a search.

        Raises:
            NotFoundError: there is no such set.
        """
        with self._lock:
            put = self._under_way.get(name)
            rule_set = self._sets.get(name)
            failed = self._failed.get(name)
        if rule_set is None and put is None and failed is None:
            raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")
        created_ms = self._records.created_ms.get(name, 0)
        return describe_set(self._store, name, rule_set, put, failed, created_ms, listed=listed)

    def why(self, quad: Quad) -> dict[str, Any]:
        """Return why a quad is in the store, as JSON members: whether it is asserted, and derivations.

        Raises:
            NotFoundError: the store does not have the quad.
            LimitError: the search takes too long; code ``query-timeout``.
        """
        return why_of(self._store, self._consequences.ordered, quad)

    # --- helpers ------------------------------------------------------------------------------

    def _abandon(self, candidate: RuleSet, old: RuleSet | None) -> None:
        """Undo a PUT that failed, so that the set is as it was before."""
        name = candidate.name
        try:
            if old is not None:
                restored = self._records.restore(old)
            else:
                self._records.remove(name)
                restored = True
        except Exception:
            log.exception("the record of the rule set %s could not be removed", name)
            restored = False
        if restored:
            _unclaim(self._store, candidate, old)
        elif old is None:
            # The record remains, so the next start can write to the graph: the graph keeps its owner.
            members = candidate.definition.members()
            with self._lock:
                self._failed[name] = RuleSetRecord(name, members, None, "failed", "the PUT failed")
        self._end(name)


def _parsed(base_iri: str, limits: LanguageLimits | None, name: str, members: Mapping[str, Any]) -> RuleSet:
    return RuleSet(name, read_definition(members), base_iri, limits)


def _reads_former(candidate: RuleSet, old: RuleSet | None) -> bool:
    return old is not None and old.into != candidate.into and old.into in (candidate.definition.sources or ())


def _in_use(name: str, readers: list[str]) -> ConflictError:
    return ConflictError(
        f"the rule set {name} is in use by {', '.join(readers)}",
        code="in-use",
        hint="drop or change these first",
        used_by=readers,
    )


def _in_progress(name: str) -> ConflictError:
    return ConflictError(
        f"a change of the rule set {name} is under way",
        code="in-progress",
        hint="wait for its end, then repeat the request; GET /rules shows the state",
    )


def _unclaim(store: QuadStore, candidate: RuleSet, old: RuleSet | None) -> None:
    if old is None or old.into != candidate.into:
        store.queue.disown(candidate.into, candidate.owner)
