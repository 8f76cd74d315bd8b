"""The rule sets of one store: registration, and the consequences of every commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.commit import Commit, GraphName, NetChange, graph_key
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.errors import ConflictError, GoneError, NotFoundError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import WriteRequest
from quadrill.store.registry import Registry, RuleSetRecord, RuleSetState

from ..language.context import LanguageLimits
from ..rules.definition import RuleSetDefinition, read_definition
from ..rules.order import in_order, require_no_cycle
from ..rules.rule_set import RuleBudgetError, RuleSet
from ..rules.why import Derivation
from .rule_inconsistencies import inconsistencies

log = logging.getLogger("quadrill.continuous")


@dataclass(slots=True)
class Progress:
    """The progress of a materialisation; ``inferred`` is the number of triples so far."""

    inferred: int = 0


@dataclass(slots=True)
class RulePut:
    """One PUT of a rule set that was accepted and is not complete.

    Attributes:
        name: the name of the set.
        created: True if the set is new.
        changed: False if the set is registered with the same definition; `run` then does nothing.
        run: materialises the set and makes it visible; raises the errors of `RuleService.put`.
        definition: the definition of the set.
        progress: shows how far `run` is.
    """

    name: str
    created: bool
    changed: bool
    run: Callable[[], None]
    definition: RuleSetDefinition
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True)
class QueriesOfSets:
    """The registered queries that name rule sets.

    Attributes:
        lock: held while queries are registered and dropped, one at a time.
        names: returns the names of the queries whose registration names a rule set.
    """

    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    names: Callable[[str], list[str]] = lambda name: []


class RuleService:
    """Registers rule sets, and derives the consequences of each change under the writer lock.

    Any thread may call the methods. The sets are replaced as a whole under the writer lock, so that a
    commit sees either the sets before a PUT or those after it.

    Attributes:
        queries: the queries that name rule sets.
    """

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        *,
        base_iri: str,
        limits: LanguageLimits | None = None,
        clock_ms: Callable[[], int],
    ) -> None:
        self.queries = QueriesOfSets()
        self._store = store
        self._records = _Records(registry)
        self._registry = registry
        self._base_iri = base_iri
        self._limits = limits
        self._clock_ms = clock_ms
        self._sets: dict[str, RuleSet] = {}
        self._ordered: tuple[RuleSet, ...] = ()
        self._lock = threading.RLock()
        self._under_way: dict[str, RulePut] = {}
        self._failed: dict[str, RuleSetRecord] = {}
        self._leaving: tuple[PendingChanges, str] | None = None

    # --- start --------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the registered sets, and complete what a crash has interrupted.

        Called before any client can read, so that no reader sees a version without its consequences.
        """
        if self._registry is None:
            return
        unknown = self._store.committer.recovered_bulk
        incomplete = []
        for record in self._registry.rule_sets.all():
            definition = record.following or record.definition
            try:
                rule_set = self._parse(record.name, definition)
            except ReportedError as error:
                log.error("the rule set %s cannot be loaded: %s", record.name, error.message)
                self._failed[record.name] = replace(record, error=error.message)
                continue
            self._records.created_ms[record.name] = record.created_ms
            self._store.queue.owned[rule_set.into] = rule_set.owner
            rule_set.suspended = record.state == "suspended"
            rule_set.error = record.error
            self._sets[record.name] = rule_set
            if unknown or record.state != "ready" or record.following is not None:
                incomplete.append((record, rule_set))
        self._order()
        for record, rule_set in incomplete:
            self._complete(record, rule_set)

    def _complete(self, record: RuleSetRecord, rule_set: RuleSet) -> None:
        """Complete a PUT, a DELETE, a suspension or a bulk load that a crash has interrupted."""
        if record.state == "dropping":
            self.delete(record.name)
            return
        if rule_set.suspended:
            if self._count(rule_set.into):
                self._submit(rule_set, lambda pending: pending.clear(rule_set.into))
            return
        old = read_definition(record.definition).into
        try:
            self._submit(rule_set, lambda pending: _rebuild(pending, rule_set, old))
        except RuleBudgetError as error:
            self._records.note(rule_set, "failed", error.message)
            return
        self._records.note(rule_set, "ready", None)

    # --- registration -------------------------------------------------------------------------

    def put(self, name: str, members: Mapping[str, Any]) -> RulePut:
        """Check a rule set and reserve its graph; the caller then calls ``run`` of the result.

        Raises:
            InputError, QueryTextError, UnsupportedError: the definition is refused.
            ConflictError: the graph is not empty or belongs to another owner, or a PUT is under way.
            RuleBudgetError: raised by ``run``: the set infers more than its maximum.
        """
        candidate = self._parse(name, members)
        with self._lock:
            if name in self._under_way:
                raise _in_progress(name)
            old = self._sets.get(name)
            if old is not None and not old.suspended and old.definition == candidate.definition:
                return RulePut(name, False, False, lambda: None, candidate.definition)
            require_no_cycle(self._sets.values(), candidate)
            if old is not None and old.into != candidate.into and (queries := self.queries.names(name)):
                raise _in_use(name, [f"the query {query}" for query in queries])
            _claim(self._store, candidate)
            put = RulePut(
                name, old is None, True, lambda: self._run(put, candidate, old), candidate.definition
            )
            self._under_way[name] = put
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
                del self._under_way[name]
                raise
            self._records.created_ms[name] = created_ms
            return put

    def compare(self, name: str, members: Mapping[str, Any]) -> Literal["create", "change", "same"]:
        """Return what a PUT would do, and do nothing; raises the errors of `put` about the definition."""
        candidate = self._parse(name, members)
        with self._lock:
            old = self._sets.get(name)
        if old is None:
            return "create"
        return "same" if not old.suspended and old.definition == candidate.definition else "change"

    def _run(self, put: RulePut, candidate: RuleSet, old: RuleSet | None) -> None:
        state: RuleSetState = "ready"
        error = None
        try:
            self._materialise(put, candidate, old)
        except RuleBudgetError as refused:
            if not candidate.definition.suspend:
                self._abandon(candidate, old)
                raise
            state, error = "suspended", refused.message
            self._install(candidate, old, suspended=refused.message)
        except BaseException:
            self._abandon(candidate, old)
            raise
        self._records.note(candidate, state, error)
        with self._lock:
            self._under_way.pop(candidate.name, None)

    def _materialise(self, put: RulePut, candidate: RuleSet, old: RuleSet | None) -> None:
        """Compute the fixpoint of a version without the writer lock, then what later commits change."""
        store = self._store
        with store.reader.snapshot_read() as snapshot:
            version = snapshot.version
            inputs = candidate.snapshot(StoreView(snapshot.database(), store.queue.owned))
        budget = candidate.budget(0, timed=False)

        def report(count: int) -> None:
            put.progress.inferred = count

        inferred = inputs.materialise(budget, report)

        def derive(pending: PendingChanges) -> None:
            if old is not None and old.into != candidate.into:
                pending.drop(old.into)
            missed = _missed(store, version)
            if missed is None:
                candidate.derive_all(pending, budget)
            elif missed:
                candidate.replace(pending, candidate.catch_up(pending, inferred, missed, budget))
            else:
                candidate.replace(pending, set(inferred))

        self._submit(candidate, derive, old=old)

    def _install(self, candidate: RuleSet, old: RuleSet | None, *, suspended: str) -> None:
        """Make a suspended set visible: its graph is empty."""
        candidate.suspended, candidate.error = True, suspended

        def derive(pending: PendingChanges) -> None:
            if old is not None and old.into != candidate.into:
                pending.drop(old.into)
            pending.create(candidate.into)
            pending.clear(candidate.into)

        self._submit(candidate, derive, old=old)

    def _submit(
        self, rule_set: RuleSet, derive: Callable[[PendingChanges], None], *, old: RuleSet | None = None
    ) -> Commit:
        """Commit a change of a set's graph, and make the set visible with the commit."""

        def committed(_: Commit) -> None:
            if old is not None and old.into != rule_set.into:
                self._store.queue.owned.pop(old.into, None)
            self._sets = {**self._sets, rule_set.name: rule_set}
            self._order()

        owner = rule_set.owner
        request = WriteRequest(
            derive, f"rules {rule_set.name}", owner=owner, alone=True, committed=committed, timed=False
        )
        started = time.perf_counter()
        commit = self._commit(request, rule_set.name)
        rule_set.cost_ms = (time.perf_counter() - started) * 1000
        return commit

    def _commit(self, request: WriteRequest, name: str) -> Commit:
        """Commit the replacement or the removal of a set, whose own consequences are left out."""
        make = request.derive

        def derive(pending: PendingChanges) -> None:
            self._leaving = pending, name
            make(pending)

        request.derive = derive
        try:
            return self._store.queue.submit(request)
        finally:
            if self._leaving is not None and self._leaving[1] == name:
                self._leaving = None

    def delete(self, name: str) -> None:
        """Remove a set and its quads.

        Raises:
            NotFoundError: there is no such set.
            ConflictError: another set or a query reads the graph of this one, or a PUT is under way.
        """
        with self._lock, self.queries.lock:
            if name in self._under_way:
                raise _in_progress(name)
            rule_set = self._sets.get(name)
            if rule_set is None:
                if name in self._failed:
                    del self._failed[name]
                    self._records.remove(name)
                    return
                raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")
            readers = self.readers_of(rule_set)
            if readers:
                raise _in_use(name, readers)
            self._records.note(rule_set, "dropping", None)
            into = rule_set.into

            def removed(_: Commit) -> None:
                self._sets = {other: each for other, each in self._sets.items() if other != name}
                self._store.queue.owned.pop(into, None)
                self._order()

            request = WriteRequest(
                lambda pending: pending.drop(into),
                f"rules {name}",
                owner=rule_set.owner,
                alone=True,
                committed=removed,
            )
            self._commit(request, name)
            self._records.created_ms.pop(name, None)
            self._records.remove(name)

    def readers_of(self, rule_set: RuleSet) -> list[str]:
        """Return the rule sets that read the graph of a set, and the queries that name the set."""
        sets = [
            f"the rule set {other.name}"
            for other in self._sets.values()
            if other is not rule_set and rule_set.into in (other.definition.sources or ())
        ]
        return sets + [f"the query {query}" for query in self.queries.names(rule_set.name)]

    # --- reading ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all sets, oldest first."""
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
        """Return the graph of a set; during its first PUT, the graph is not there yet.

        Raises:
            NotFoundError: there is no such set.
        """
        rule_set, put = self._sets.get(name), self._under_way.get(name)
        if rule_set is None and put is not None:
            return put.definition.into
        if rule_set is None:
            raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")
        return rule_set.into

    def graphs(self) -> tuple[NamedNode, ...]:
        """Return the graphs of all sets."""
        return tuple(rule_set.into for rule_set in self._ordered)

    def describe(self, name: str, *, listed: bool = False) -> dict[str, Any]:
        """Return a set as JSON members; ``listed`` leaves out its inconsistencies, which take a search.

        Raises:
            NotFoundError: there is no such set.
        """
        with self._lock:
            put = self._under_way.get(name)
            rule_set = self._sets.get(name)
            failed = self._failed.get(name)
        if rule_set is None and put is None and failed is None:
            raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")
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
            "version": None if rule_set is None else self._store.reader.version,
            "inferred": 0 if rule_set is None else self._count(rule_set.into),
            "materialised": None if put is None else put.progress.inferred,
            "strata": [] if rule_set is None else rule_set.strata(),
            **({} if listed else {"inconsistencies": inconsistencies(self._store, rule_set)}),
            "cost_ms": 0.0 if rule_set is None else round(rule_set.cost_ms, 3),
            "error": error,
            "created": self._records.created_ms.get(name, 0),
        }

    def why(self, quad: Quad) -> dict[str, Any]:
        """Return why a quad is in the store, as JSON members: whether it is asserted, and its derivations.

        Raises:
            NotFoundError: the store does not have the quad.
        """
        with self._store.reader.snapshot_read() as snapshot:
            view = StoreView(snapshot.database(), dict(self._store.queue.owned))
            if not view.contains(quad):
                raise NotFoundError(f"the store does not have the quad {quad}", code="unknown-quad")
            asserted = True
            found: list[Derivation] = []
            rule_set = next((each for each in self._ordered if each.into == quad.graph_name), None)
            if rule_set is not None:
                asserted, found = rule_set.why(view, quad)
            return {
                "version": snapshot.version,
                "asserted": asserted,
                "derivations": [
                    {
                        "set": rule_set.name,
                        "rule": each.rule,
                        "premises": [f"{premise} ." for premise in each.premises],
                    }
                    for each in found
                    if rule_set is not None
                ],
            }

    # --- consequences (store.quads.consequences) ----------------------------------------------

    def derive(
        self, below: PendingChanges, pending: PendingChanges, change: NetChange, *, timed: bool
    ) -> None:
        """Add the consequences of a change, set by set; see `Consequences.derive`.

        A set that the change itself replaces or removes is left out: it would derive its quads again.
        """
        size = self._store.reader.quad_count
        leaving = self._leaving[1] if self._leaving is not None and self._leaving[0] is pending else None
        for rule_set in self._ordered:
            if rule_set.suspended or rule_set.name == leaving:
                continue
            started = time.perf_counter()
            budget = rule_set.budget(self._count(rule_set.into), timed=timed)
            with self._suspending(rule_set, pending):
                rule_set.derive(below, pending, change, budget, size)
            rule_set.cost_ms = (time.perf_counter() - started) * 1000
            if len(self._ordered) > 1:
                change = pending.net()

    def derive_all(self, pending: PendingChanges) -> None:
        """Compute every set again; see `Consequences.derive_all`."""
        for rule_set in self._ordered:
            if not rule_set.suspended:
                with self._suspending(rule_set, pending):
                    rule_set.derive_all(pending, rule_set.budget(0, timed=False))

    @contextmanager
    def _suspending(self, rule_set: RuleSet, pending: PendingChanges) -> Iterator[None]:
        """Suspend a set that exceeds a budget inside the block, if its definition says so.

        The graph is emptied by the same commit. The registry knows of the suspension before the commit, so
        that a crash between them leaves a suspended set, whose graph the next start empties.
        """
        try:
            yield
        except RuleBudgetError as error:
            if not rule_set.definition.suspend:
                raise
            pending.clear(rule_set.into)
            rule_set.suspended, rule_set.error = True, error.message
            self._records.note(rule_set, "suspended", error.message)
            log.warning("the rule set %s is suspended: %s", rule_set.name, error.message)

    # --- helpers ------------------------------------------------------------------------------

    def _parse(self, name: str, members: Mapping[str, Any]) -> RuleSet:
        return RuleSet(name, read_definition(members), self._base_iri, self._limits)

    def _count(self, graph: GraphName) -> int:
        return self._store.committer.counts.get(graph, 0)

    def _order(self) -> None:
        """Order the sets so that each comes after the sets whose graphs it reads; called under a lock."""
        self._ordered = tuple(in_order(list(self._sets.values())))
        self._store.queue.consequences = self if self._ordered else None

    def _abandon(self, candidate: RuleSet, old: RuleSet | None) -> None:
        """Undo a PUT that failed: the set is as it was before."""
        _unclaim(self._store, candidate, old)
        with self._lock:
            self._under_way.pop(candidate.name, None)
        if old is None:
            self._records.created_ms.pop(candidate.name, None)
            self._records.remove(candidate.name)
        else:
            self._records.note(old, "suspended" if old.suspended else "ready", old.error)


def _in_use(name: str, readers: list[str]) -> ConflictError:
    return ConflictError(
        f"the rule set {name} is in use by {', '.join(readers)}",
        code="in-use",
        hint="drop or change these first",
        used_by=readers,
    )


def _in_progress(name: str) -> ConflictError:
    return ConflictError(
        f"a PUT of the rule set {name} is under way",
        code="in-progress",
        hint="wait for its end, then repeat the request; GET /rules shows the state",
    )


class _Records:
    """The records of rule sets in the registry; without a registry nothing is stored.

    Attributes:
        created_ms: the time of the first PUT of each set.
    """

    def __init__(self, registry: Registry | None) -> None:
        self._registry = registry
        self.created_ms: dict[str, int] = {}

    def note(self, rule_set: RuleSet, state: RuleSetState, error: str | None) -> None:
        """Store the state of a set."""
        created_ms = self.created_ms.get(rule_set.name, 0)
        self.put(RuleSetRecord(rule_set.name, rule_set.definition.members(), None, state, error, created_ms))

    def put(self, record: RuleSetRecord) -> None:
        """Store a record."""
        if self._registry is not None:
            self._registry.rule_sets.put(record)

    def remove(self, name: str) -> None:
        """Remove the record of a set."""
        if self._registry is not None:
            self._registry.rule_sets.remove(name)


def _claim(store: QuadStore, candidate: RuleSet) -> None:
    """Reserve the graph of a set.

    Raises:
        ConflictError: the graph has quads, or belongs to another owner.
    """
    into = candidate.into
    with store.committer.lock:
        owner = store.queue.owned.get(into)
        if owner is not None and owner != candidate.owner:
            raise owner.refusal(into)
        if owner is None and store.committer.counts.get(into, 0):
            raise ConflictError(
                f"the graph {into} has quads already; a rule set needs a graph of its own",
                code="graph-not-empty",
                hint="drop the graph first, or choose another one for into",
                graph=graph_key(into),
            )
        store.queue.owned[into] = candidate.owner


def _unclaim(store: QuadStore, candidate: RuleSet, old: RuleSet | None) -> None:
    if old is None or old.into != candidate.into:
        store.queue.owned.pop(candidate.into, None)


def _missed(store: QuadStore, version: int) -> list[NetChange] | None:
    """Return the changes since a version; None if they are unknown."""
    if version == store.committer.version:
        return []
    try:
        commits = list(store.commits_after(version))
    except GoneError:
        return None
    return [commit.net() for commit in commits] if all(commit.exact for commit in commits) else None


def _rebuild(pending: PendingChanges, rule_set: RuleSet, old: NamedNode) -> None:
    if old != rule_set.into and pending.has_graph(old):
        pending.drop(old)
    rule_set.derive_all(pending, rule_set.budget(0, timed=False))
