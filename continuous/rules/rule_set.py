"""Rule sets: the compiled program of a set, and the updates of its graph after changes of the dataset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.changes.commit import GraphName, NetChange
from quadrill.store.changes.owners import Owner, Owners
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.documents.times import readable_duration
from quadrill.store.errors import RefusedChangeError

from ..language.context import LanguageLimits
from .built_in import rules_of
from .definition import RuleSetDefinition
from .facts import Fact, MemoryFacts
from .fixpoint import materialise, update
from .inconsistencies import InconsistencyFinder
from .match_cache import MatchCache
from .program import Program
from .rule import Rule
from .single_facts import instances
from .store_facts import CheckedFacts, InputGraphs, StoreFacts, StoreState
from .terms import RuleTerms
from .why import RuleDerivation, derivations

_MOST_TERMS = 200_000
"""Maximum number of terms in a set's dictionary; above it, the set is compiled with a new dictionary."""
_FEW_CHANGES = 5_000
"""Number of changed quads up to which their number is no reason to compute a set from its input alone.

The same number holds for the inferred triples that a change adds or removes.
"""


class _ManyChangesError(Exception):
    """A change affects so many inferred triples that computing all of them from the input alone is faster."""


class RuleBudgetError(RefusedChangeError):
    """The consequences of a commit exceed a budget of a rule set: HTTP 422."""

    code = "rule-budget"


@dataclass(slots=True)
class RuleBudget:
    """The limits of one computation of inferred triples.

    Attributes:
        name: the name of the rule set.
        inferred: number of inferred triples so far.
        max_inferred: maximum number of inferred triples.
        until: the end of the allowed time, in seconds of ``time.monotonic()``; None for no limit.
        max_time_ms: the limit of time in milliseconds, for the error message.
    """

    name: str
    inferred: int
    max_inferred: int
    until: float | None = None
    max_time_ms: int = 0

    def check(self) -> None:
        """Raise RuleBudgetError if a limit is exceeded."""
        if self.inferred > self.max_inferred:
            raise RuleBudgetError(
                f"the rule set {self.name} would infer more than {self.max_inferred} triples (max_inferred)",
                hint="raise max_inferred, or make the rules more selective",
                rules=self.name,
            )
        if self.until is not None and time.monotonic() > self.until:
            raise RuleBudgetError(
                f"the consequences of the commit in the rule set {self.name} take longer than "
                f"{readable_duration(self.max_time_ms)} (max_time)",
                hint="raise max_time, or change less in one commit",
                rules=self.name,
            )


class RuleSet:
    """One rule set. Methods that take pending changes run under the writer lock.

    Attributes:
        name: the name of the set.
        definition: the definition from the client's PUT.
        rules: the parsed rules: those of the client, then those of built-in sets.
        owner: the set as the owner of its graph.
        suspended: True if the set exceeded a budget; its graph is empty until the next PUT.
        cost_ms: milliseconds that the last PUT's commit took, or the set's consequences of a later commit.
        error: the reason of a suspension; None if there was none.
        program: the compiled rules.
    """

    def __init__(
        self, name: str, definition: RuleSetDefinition, base_iri: str, limits: LanguageLimits | None
    ) -> None:
        """Parse and compile a rule set.

        Raises:
            QueryTextError, UnsupportedError: a rule is refused.
        """
        self.name = name
        self.definition = definition
        self.rules: list[Rule] = rules_of(definition, base_iri, limits)
        self.owner = Owner("rules", name)
        self.suspended = False
        self.cost_ms = 0.0
        self.error: str | None = None
        self._base_iri = base_iri
        # The owners of graphs at the version that the committed graph of the set reflects; None if unknown.
        self._reflected: Owners | None = None
        # The owners of the last call of `inputs`, and its result. A change of owners makes a new mapping.
        self._inputs: tuple[Owners | None, InputGraphs] = (None, InputGraphs())
        self._compile()

    def _compile(self) -> None:
        self._terms = RuleTerms(self._base_iri)
        self.program = Program(self.rules, self._terms)
        self._cache = MatchCache(self.program.schema, self.program.single)

    @property
    def into(self) -> NamedNode:
        """The graph that holds the inferred triples."""
        return self.definition.into

    def inputs(self, owned: Owners) -> InputGraphs:
        """Return the input graphs, given the owners of graphs; the mapping must not change later."""
        known, inputs = self._inputs
        if known is not owned:
            inputs = InputGraphs.of(self.definition.sources, self.into, owned)
            self._inputs = owned, inputs
        return inputs

    def note_owners(self, owned: Owners) -> None:
        """Record the owners of graphs at the version that the graph of the set now reflects."""
        self._reflected = owned

    def regrouped(self, below: StoreView | PendingChanges, pending: PendingChanges) -> bool:
        """Return True if a graph of the dataset has joined or left the input because its owner changed.

        Args:
            below: the dataset that the graph of the set reflects.
            pending: the dataset with the pending changes.
        """
        before, now = self._reflected, pending.owned
        if self.definition.sources is not None or before is None or before is now:
            return False
        left, joined = now.keys() - before.keys() - {self.into}, before.keys() - now.keys() - {self.into}
        return _any_listed(below, left) or _any_listed(pending, joined)

    def strata(self) -> list[list[int | str]]:
        """Return the rules of each stratum: the client's rules as numbers from 0, others as W3C names."""
        own = len(self.definition.rules)
        numbers = {id(rule): number if number < own else rule.text for number, rule in enumerate(self.rules)}
        return [[numbers[id(each.rule)] for each in stratum] for stratum in self.program.strata]

    def budget(self, inferred: int, *, timed: bool) -> RuleBudget:
        """Return the budget of a computation that starts with ``inferred`` triples now.

        The maximum time applies only if ``timed`` is True.
        """
        limit = self.definition.max_time_ms
        until = time.monotonic() + limit / 1000 if timed else None
        return RuleBudget(self.name, inferred, self.definition.max_inferred, until, limit)

    # --- changes ------------------------------------------------------------------------------

    def affected(self, below: PendingChanges, pending: PendingChanges, change: NetChange) -> bool:
        """Return False if a change certainly affects no inferred triple; see `derive` for the arguments."""
        return (
            self._may_match(change)
            or self.regrouped(below, pending)
            or self._lists_other_graphs(self.inputs(pending.owned), change)
        )

    def derive(
        self,
        below: PendingChanges,
        pending: PendingChanges,
        change: NetChange,
        budget: RuleBudget,
        size: Callable[[], int],
    ) -> None:
        """Update the inferred triples in ``pending`` after a change that may affect them.

        Args:
            below: the dataset before the change, whose inferred triples are complete.
            pending: the dataset with the change.
            change: the change.
            budget: the limits.
            size: returns the number of quads in the dataset.

        Raises:
            RuleBudgetError: a budget is exceeded; ``pending`` may then have a part of the consequences.
        """
        changed = len(change.added) + len(change.removed)
        if self.regrouped(below, pending):
            budget.until = None  # a change of owners causes this work, not the client's commit
            self.derive_all(pending, budget)
            return
        inputs = self.inputs(pending.owned)
        if (changed > _FEW_CHANGES and changed > size() // 4) or self._lists_other_graphs(inputs, change):
            self.derive_all(pending, budget)
            return
        # The cache must reflect committed quads only. Changes in ``below`` belong to earlier requests of the
        # same group, which may still fail.
        self._cache.begin(usable=not len(below))
        state = StoreState(below, pending, self._terms, inputs, self.into, self._cache)
        try:
            self._update(state, change, budget, size)
        except _ManyChangesError:
            self.derive_all(pending, budget)
        finally:
            self._cache.end()
        if len(self._terms.dictionary) > _MOST_TERMS:
            self._compile()

    def _may_match(self, change: NetChange) -> bool:
        """Return True if a pattern of a rule, and the schema that it needs, may match a changed quad."""
        quads = (*change.added, *change.removed)
        if self.program.predicates is not None:
            return any(quad.predicate in self.program.predicates for quad in quads)
        return not all(quad.predicate in self._cache.idle for quad in quads)

    def _lists_other_graphs(self, inputs: InputGraphs, change: NetChange) -> bool:
        """Return True if a rule enumerates the input graphs, and the change creates or drops one of them."""
        return self.program.lists_graphs and any(
            name in inputs and name != self.into for name in (*change.created, *change.dropped)
        )

    def _idle(self, change: NetChange, state: StoreState) -> Set[NamedNode]:
        """Return the predicates of quads that affect nothing, because the schema has no match for them.

        Later commits of such quads only are skipped; see `affected`.
        """
        cache, ids = self._cache, self._terms.dictionary.ids
        if not cache.usable or self.program.predicates is not None:
            return frozenset()
        predicates = {quad.predicate for quads in (change.added, change.removed) for quad in quads}
        cache.changed.update(ids[predicate] for predicate in predicates)
        if not self.program.schema.isdisjoint(cache.changed):
            return frozenset()
        for predicate in predicates - cache.idle:
            if self.program.idle(ids[predicate], state.now):
                cache.add_idle(predicate, ids[predicate])
        return cache.idle

    def _update(
        self, state: StoreState, change: NetChange, budget: RuleBudget, size: Callable[[], int]
    ) -> None:
        idle = self._idle(change, state)
        before = budget.inferred

        def check() -> None:
            budget.inferred = before + state.added
            budget.check()
            if state.changes > _FEW_CHANGES and state.changes > size() // 8:
                raise _ManyChangesError

        if not self._insert(state, change, idle, check):
            facts = state.input_change(change, quads=self.program.reads_graphs, idle=idle)
            if facts:
                update(self.program, state, facts, check)
        check()

    def _insert(
        self, state: StoreState, change: NetChange, idle: Set[NamedNode], check: Callable[[], None]
    ) -> bool:
        """Insert what follows from a change that only adds data, from each triple by itself.

        Return False, and insert nothing, for any other change.
        """
        single = self.program.single
        if single is None or change.removed or not self._cache.usable:
            return False
        found = []
        for fact in state.entering(change.added, idle):
            templates = single.templates(fact, state.before, lambda _: check())
            if templates is None:
                return False
            if templates:
                found.append((fact, templates))
        for fact, templates in found:
            check()
            state.insert(instances(templates, fact))
        return True

    def derive_all(self, pending: PendingChanges, budget: RuleBudget) -> None:
        """Make the set's graph equal to the fixpoint, computed from the input graphs in ``pending`` alone.

        Raises:
            RuleBudgetError: a budget is exceeded; ``pending`` is unchanged.
        """
        self._cache.clear()
        snapshot = self.snapshot(pending)
        pending.replace(self.into, snapshot.materialise(budget))

    def _facts(self, view: StoreView) -> tuple[RuleTerms, StoreFacts]:
        """Return the facts in a view of the dataset, with a new dictionary of terms for them."""
        terms = RuleTerms(self._base_iri)
        return terms, StoreFacts(view, terms, self.inputs(view.owned), self.into)

    def why(
        self, view: StoreView, quad: Quad, check: Callable[[], None] = lambda: None
    ) -> tuple[bool, list[RuleDerivation]]:
        """Return whether an input graph has the triple of an inferred quad, and derivations of the quad.

        ``check`` is called before each read of the store, and raises an error to end the search.
        """
        terms = RuleTerms(self._base_iri)
        facts = CheckedFacts(view, terms, self.inputs(view.owned), self.into, check)
        ids = terms.dictionary.ids
        fact = ids[quad.subject], ids[quad.predicate], ids[quad.object]
        return facts.asserted(fact), derivations(Program(self.rules, terms), fact, facts)

    def inconsistencies(self, view: StoreView, most: int) -> list[tuple[str, list[Quad]]]:
        """Return up to ``most`` matches of rules that conclude ``false``: rule name and matched quads."""
        terms, facts = self._facts(view)
        ids = terms.dictionary.ids
        return [
            (
                each.rule,
                [
                    quad
                    for s, p, o in each.triples
                    for quad in facts.quads((ids[s], ids[p], ids[o]), None, named=False)[:1]
                ],
            )
            for each in InconsistencyFinder(terms).find(facts, most)
        ]

    def snapshot(self, view: StoreView | PendingChanges) -> Snapshot:
        """Return a snapshot of the input graphs; the thread that calls this method must also read it."""
        inputs = self.inputs(view.owned)
        names: Iterable[GraphName]
        if inputs.listed is not None:
            names = inputs.listed
        else:
            names = (DefaultGraph(), *(name for name in view.graph_names() if name in inputs))
        return Snapshot(self, [(name, view.quads_of(name)) for name in names])

    def catch_up(
        self,
        pending: PendingChanges,
        inferred: Iterable[Quad],
        missed: Iterable[NetChange],
        budget: RuleBudget,
    ) -> list[Quad]:
        """Return the inferred quads of ``pending``, updated from those of an earlier version.

        Args:
            pending: the dataset with the pending changes.
            inferred: the inferred quads of the earlier version.
            missed: the changes since that version, oldest first.
            budget: the limits.

        Raises:
            RuleBudgetError: a budget is exceeded.
        """
        changes = [self._without_own(change) for change in missed]
        earlier = PendingChanges(pending)
        for change in reversed(changes):
            earlier.replay(change.inverse())
        earlier.clear(self.into)
        for quad in inferred:
            earlier.add(quad)
        now = PendingChanges(earlier)
        for change in changes:
            now.replay(change)
        self.derive(earlier, now, now.net(), budget, lambda: 1 << 60)
        return list(now.quads_of(self.into))

    def _without_own(self, change: NetChange) -> NetChange:
        return NetChange(
            tuple(quad for quad in change.added if quad.graph_name != self.into),
            tuple(quad for quad in change.removed if quad.graph_name != self.into),
            tuple(name for name in change.created if name != self.into),
            tuple(name for name in change.dropped if name != self.into),
        )


class Snapshot:
    """The input graphs of a rule set at one version. They can be read once, by the thread that made them."""

    def __init__(self, rule_set: RuleSet, graphs: list[tuple[GraphName, Iterator[Quad]]]) -> None:
        self._set = rule_set
        self._graphs = graphs

    def materialise(self, budget: RuleBudget, report: Callable[[int], None] = lambda _: None) -> list[Quad]:
        """Compute and return the inferred quads.

        ``report`` is called with the number of inferred quads so far, after every 256 of them and at the end.

        Raises:
            RuleBudgetError: the budget is exceeded.
        """
        terms = RuleTerms(self._set.program.terms.context.base_iri)
        facts = self._facts(terms, budget)
        program = Program(self._set.rules, terms, facts.count)
        found: list[Fact] = []
        budget.inferred = 0

        def check() -> None:
            budget.inferred = len(found)
            budget.check()
            report(len(found))

        materialise(program, facts, found.append, check)
        check()
        term, into = terms.dictionary.terms, self._set.into
        return [Quad(term[s], term[p], term[o], into) for s, p, o in found]  # type: ignore[arg-type]

    def _facts(self, terms: RuleTerms, budget: RuleBudget) -> MemoryFacts:
        facts = MemoryFacts()
        ids = terms.dictionary.ids
        read = 0
        for graph, quads in self._graphs:
            named = None if isinstance(graph, DefaultGraph) else ids[graph]
            if named is not None:
                facts.name_graph(named)
            for quad in quads:
                fact = ids[quad.subject], ids[quad.predicate], ids[quad.object]
                facts.add(fact)
                if named is not None:
                    facts.add_in(named, fact)
                read += 1
                if read % 10_000 == 0:
                    budget.check()
        return facts


def _any_listed(view: StoreView | PendingChanges, graphs: Iterable[GraphName]) -> bool:
    return any(not isinstance(name, DefaultGraph) and view.has_graph(name) for name in graphs)
