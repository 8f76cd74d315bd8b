"""The graphs that the rules of a query's entailment read, at the version that the query reflects.

    graphs as a query sees them  =  graphs in the store now  -  changes that the query has not applied

A commit adds its change to the waiting changes of each query that reads the graphs, before the engine
executes the task of the commit. The query applies the change when its static parts reach the version of the
commit. If the changed quads are unknown (a bulk load), the query reads a copy of the dataset before the load
until it applies the load.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyoxigraph import BlankNode, NamedNode, Quad, Store

from quadrill.store.changes.commit import Commit, GraphName, NetChange
from quadrill.store.changes.owners import Owners
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.quads.frozen import FrozenReader
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.terms import Term

from ..rules.definition import RuleSetDefinition
from ..rules.store_facts import InputGraphs

_MOST_UNDONE = 100_000
"""Maximum number of quads of a commit that are undone in memory; above it, a copy of the dataset is read."""


DefinitionOf: TypeAlias = Callable[[str], RuleSetDefinition | None]
"""Returns a rule set by its name; None for a set that derives nothing now."""


@dataclass(frozen=True, slots=True)
class NamedRules:
    """The rule set that a registration names.

    Attributes:
        name: the name of the set.
        into: the graph of the set.
        definition: the set at the registration; None if it derived nothing then.
    """

    name: str
    into: NamedNode
    definition: RuleSetDefinition | None


_MOST_DUE = 10_000
"""Maximum number of changed quads that wait for the next evaluation of a query; above it, the evaluation
derives all consequences again."""


class GraphsVersion(Protocol):
    """A version of the store; see `table.Frontier`."""

    version: int


class QuerySteps(Protocol):
    """The pending steps of one query; see `table.PendingSteps`."""

    @property
    def frontier(self) -> GraphsVersion:
        """The version that the query reflects."""
        ...

    def graphs_changed(self, version: int, at_ms: int) -> None:
        """Record that a commit changed graphs that the rules of the query's entailment read."""
        ...


@dataclass(frozen=True, slots=True)
class GraphsChange:
    """The change of one commit, as the rules of a query read it.

    Attributes:
        version: the version of the commit.
        at_ms: wall-clock time of the commit in milliseconds.
        change: the changed quads and graphs; None if they are unknown.
        before: a copy of the dataset before a commit whose quads are unknown.
        definition: the rule set after the commit; None if it derives nothing.
        owned: the owners of graphs after the commit.
    """

    version: int
    at_ms: int
    change: NetChange | None
    before: FrozenReader | None
    definition: RuleSetDefinition | None
    owned: Owners


class RuleGraphs:
    """The graphs that the rules of one query's entailment read, and the changes that wait for the query.

    Writers call `reads` and `committed` under the lock of commits; the engine's thread calls the rest.

    Attributes:
        name: the name of the rule set.
        into: the graph of the rule set.
        definition: the rule set as the query sees it; None if it derives nothing.
        newest: the rule set after all waiting changes.
        waiting: the changes that the query has not applied, oldest first.
        frozen: a copy of the dataset before a running bulk load; None if no bulk load is running.
        steps: the pending steps of the query, which announce changes; None before the query begins.
    """

    def __init__(
        self,
        name: str,
        into: NamedNode,
        definition: RuleSetDefinition | None,
        store: QuadStore,
        order: threading.RLock,
    ) -> None:
        """Read the graphs at the newest version; ``order`` is the lock under which commits become visible."""
        self.name = name
        self.into = into
        self.definition = self.newest = definition
        self.waiting: list[GraphsChange] = []
        self.frozen: FrozenReader | None = None
        self.steps: QuerySteps | None = None
        self._store = store
        self._order = order
        self._owned = self._newest_owned = store.queue.owned
        # The number of waiting changes for which the query has steps.
        self._announced = 0
        # The newest definition and owners for which the input graphs were asked, and these graphs.
        self._known: tuple[RuleSetDefinition | None, Owners | None, InputGraphs] = None, None, InputGraphs()

    # --- commits, in the threads of writers -------------------------------------------------------

    def reads(self, commit: Commit, definition: RuleSetDefinition | None) -> bool:
        """Return True if a commit may change consequences; ``definition`` is the rule set after it."""
        owned = self._store.queue.owned
        if definition != self.newest or (owned is not self._newest_owned and owned != self._newest_owned):
            return True
        if definition is None:
            return False
        if not commit.exact or commit.created or commit.dropped:
            return True
        inputs = self._inputs(definition, owned)
        return any(
            quad.graph_name == self.into or quad.graph_name in inputs
            for quads in (commit.added, commit.removed)
            for quad in quads
        )

    def committed(
        self, commit: Commit, definition: RuleSetDefinition | None, before: FrozenReader | None
    ) -> None:
        """Add the change of a commit; ``before`` is the dataset before a large or unknown change."""
        self._newest_owned, self.newest = self._store.queue.owned, definition
        change = commit.net() if commit.exact and before is None else None
        self.waiting.append(
            GraphsChange(
                commit.version, commit.at_ms, change, before or self.frozen, definition, self._newest_owned
            )
        )

    @staticmethod
    def is_large(commit: Commit) -> bool:
        """Return True if a commit has too many quads to undo them for each query."""
        return len(commit.added) + len(commit.removed) > _MOST_UNDONE

    def _inputs(self, definition: RuleSetDefinition, owned: Owners) -> InputGraphs:
        known = self._known
        if known[0] is not definition or known[1] is not owned:
            known = self._known = definition, owned, InputGraphs.of(definition.sources, self.into, owned)
        return known[2]

    # --- the query's steps, in the engine's thread ------------------------------------------------

    def attach(self, steps: QuerySteps, version: int) -> None:
        """From now on, add a step to the query for each change after a version."""
        if self.steps is not steps:
            self.steps = steps
            self._announced = sum(each.version <= version for each in self.waiting)

    def advance(self, version: int) -> list[GraphsChange]:
        """Add steps for the changes up to the version of the running task; return these changes."""
        self._merge_due()
        found = [each for each in self.waiting[self._announced :] if each.version <= version]
        self._announced += len(found)
        if self.steps is not None:
            for each in found:
                self.steps.graphs_changed(each.version, each.at_ms)
        return found

    def _merge_due(self) -> None:
        """Replace the due changes by one unknown change if they have more than `_MOST_DUE` quads.

        This bounds the memory for changes if a query is not evaluated for a long time.
        """
        due = self.due()
        size = sum(1 + len(each.change.added) + len(each.change.removed) for each in due if each.change)
        if size > _MOST_DUE:
            last = due[-1]
            merged = GraphsChange(last.version, last.at_ms, None, None, last.definition, last.owned)
            with self._order:
                self.waiting[: len(due)] = [merged]
                self._announced -= len(due) - 1

    def redefine(self, version: int, at_ms: int, definition: RuleSetDefinition | None) -> None:
        """Replace the rule set without a commit, at a version whose task the engine has executed.

        Waiting changes of later commits have the new rule set already.
        """
        version = max(version, self.version)
        with self._order:
            place = sum(each.version <= version for each in self.waiting)
            before = self.waiting[place - 1].definition if place else self.definition
            if before == definition:
                return
            owned = self.waiting[place - 1].owned if place else self._owned
            self.waiting.insert(place, GraphsChange(version, at_ms, NetChange(), None, definition, owned))
            if place == len(self.waiting) - 1:
                self.newest = definition
        self._announced += 1
        if self.steps is not None:
            self.steps.graphs_changed(version, at_ms)

    @property
    def newest_announced(self) -> RuleSetDefinition | None:
        """The rule set after the changes for which the query has steps."""
        return self.waiting[self._announced - 1].definition if self._announced else self.definition

    @property
    def version(self) -> int:
        """The version of the store that the query reflects."""
        return self._store.reader.version if self.steps is None else self.steps.frontier.version

    @property
    def have_moved(self) -> bool:
        """True if the query has not applied a change up to the version that it reflects."""
        return bool(self.waiting) and self.waiting[0].version <= self.version

    def due(self) -> list[GraphsChange]:
        """Return the changes that the query has to apply now, oldest first."""
        version = self.version
        found: list[GraphsChange] = []
        for each in self.waiting if self.have_moved else ():
            if each.version > version:
                break
            found.append(each)
        return found

    def apply(self, changes: list[GraphsChange]) -> None:
        """Remove the oldest changes, which the query has applied."""
        with self._order:
            del self.waiting[: len(changes)]
            self._announced = max(0, self._announced - len(changes))
        if changes:
            self.definition, self._owned = changes[-1].definition, changes[-1].owned

    # --- reading ----------------------------------------------------------------------------------

    def inputs(self, changes: list[GraphsChange]) -> InputGraphs:
        """Return the input graphs after the oldest ``changes``; the rule set must not be None then."""
        definition = changes[-1].definition if changes else self.definition
        assert definition is not None
        return self._inputs(definition, changes[-1].owned if changes else self._owned)

    def view(self, applied: int) -> GraphsView:
        """Return a view of the dataset after the oldest ``applied`` waiting changes."""
        return GraphsView(self._store, self._order, self, applied)


class GraphsView(StoreView):
    """A view of the dataset at the version that a query reflects.

    Attributes:
        applied: the number of the oldest waiting changes that the view includes.
    """

    def __init__(self, store: QuadStore, order: threading.RLock, graphs: RuleGraphs, applied: int) -> None:
        super().__init__(store.committer.store)
        self.applied = applied
        self._quads = store
        self._order = order
        self._graphs = graphs
        self._undone: tuple[Store, int, int, PendingChanges] | None = None

    def contains(self, quad: Quad) -> bool:
        """Return True if the dataset contains the quad."""
        with self._order:
            return self._view().contains(quad)

    def has_graph(self, name: NamedNode | BlankNode) -> bool:
        """Return True if the dataset has the graph name, even if the graph is empty."""
        with self._order:
            return self._view().has_graph(name)

    def graph_names(self) -> Iterator[NamedNode | BlankNode]:
        """Return the graph names of the dataset, those of empty graphs included."""
        with self._order:
            return iter(list(self._view().graph_names()))

    def quads_of(self, name: GraphName) -> Iterator[Quad]:
        """Iterate over the quads of one graph."""
        return iter(self.match(None, None, None, name))

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: GraphName | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern; None is a wildcard, also for the graph."""
        with self._order:
            return self._view().match(subject, predicate, object, graph)

    def _view(self) -> StoreView | PendingChanges:
        """Return the newest dataset, with the waiting changes after the first ``applied`` ones undone."""
        graphs, undone, base = self._graphs, list[NetChange](), None
        for each in graphs.waiting[self.applied :]:
            if each.change is None:
                base = None if each.before is None else each.before.database
                break
            if each.change:
                undone.append(each.change)
        if base is None:
            frozen = graphs.frozen
            base = self._quads.reader.database() if frozen is None else frozen.database
        if not undone:
            return StoreView(base)
        known = self._undone
        if known is None or known[0] is not base or known[1:3] != (self.applied, len(undone)):
            pending = PendingChanges(StoreView(base))
            for change in reversed(undone):
                pending.replay(change.inverse())
            known = self._undone = base, self.applied, len(undone), pending
        return known[3]
