"""A rule set at work: its compiled program, and the changes of its graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.changes.commit import GraphName, NetChange
from quadrill.store.changes.owners import Owner, Owners
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.errors import ReportedError

from ..language.context import LanguageLimits
from .built_in import built_in_rules
from .definition import RuleSetDefinition
from .facts import Fact, MemoryFacts
from .fixpoint import materialise, update
from .inconsistencies import InconsistencyFinder
from .program import Program
from .rule import Rule, parse_rules
from .store_facts import InputGraphs, MatchCache, StoreFacts, StoreState
from .terms import RuleTerms
from .why import RuleDerivation, derivations

_MOST_TERMS = 200_000
"""Number of terms in a set's dictionary from which the program is compiled again with an empty one."""
_FEW_CHANGES = 5_000
"""Number of changed quads up to which a change is always computed incrementally."""


class _ManyChangesError(Exception):
    """A change of few quads changes so many inferred triples that computing all of them again is faster."""


class RuleBudgetError(ReportedError):
    """The consequences of a commit exceed a budget of a rule set: HTTP 422."""

    code = "rule-budget"


@dataclass(slots=True)
class RuleBudget:
    """The limits of one computation.

    Attributes:
        name: the name of the rule set.
        inferred: number of inferred triples so far.
        max_inferred: maximum number of inferred triples.
        until: the monotonic time at which the computation must end; None for no limit.
        max_time_ms: the limit of time, for the message.
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
                f"{self.max_time_ms} ms (max_time)",
                hint="raise max_time, or change less in one commit",
                rules=self.name,
            )


class RuleSet:
    """One rule set. Methods that take pending changes run under the writer lock.

    Attributes:
        name: the name of the set.
        definition: what the client asked for.
        rules: the parsed rules, those of built-in sets after the client's.
        suspended: True if the set exceeded a budget; its graph is empty until the next PUT.
        cost_ms: time that the last change of the graph took.
        error: the reason of a suspension.
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
        self.rules: list[Rule] = [
            *parse_rules(definition.rules, base_iri=base_iri, limits=limits),
            *built_in_rules(definition.include),
        ]
        self.owner = Owner("rules", name)
        self.suspended = False
        self.cost_ms = 0.0
        self.error: str | None = None
        self._base_iri = base_iri
        # The owners of graphs that the committed graph of the set reflects; None at first.
        self._reflected: Owners | None = None
        # The newest owners and the inputs that follow from them; owners are replaced as a whole.
        self._inputs: tuple[Owners | None, InputGraphs] = (None, InputGraphs())
        self._compile()

    def _compile(self) -> None:
        self._terms = RuleTerms(self._base_iri)
        self._cache = MatchCache()
        self.program = Program(self.rules, self._terms)

    @property
    def into(self) -> NamedNode:
        """The graph of the inferred triples."""
        return self.definition.into

    def inputs(self, owned: Owners) -> InputGraphs:
        """Return the input graphs, given the owners of graphs, which must not change later."""
        known, inputs = self._inputs
        if known is not owned:
            sources = self.definition.sources
            excluded = frozenset((*owned, self.into)) if sources is None else frozenset()
            inputs = InputGraphs(sources, excluded)
            self._inputs = owned, inputs
        return inputs

    def note_owners(self, owned: Owners) -> None:
        """Note the owners of graphs at a version that the graph of the set reflects."""
        self._reflected = owned

    def regrouped(self, below: StoreView | PendingChanges, pending: PendingChanges) -> bool:
        """Return True if graphs with another owner than before join the input or leave it.

        Args:
            below: the dataset that the graph of the set reflects.
            pending: the dataset now.
        """
        before, now = self._reflected, pending.owned
        if self.definition.sources is not None or before is None or before is now:
            return False
        left, joined = now.keys() - before.keys() - {self.into}, before.keys() - now.keys() - {self.into}
        return _any_listed(below, left) or _any_listed(pending, joined)

    def strata(self) -> list[list[int | str]]:
        """Return the rules of each stratum: numbers of the client's rules, W3C names of built-in ones."""
        own = len(self.definition.rules)
        numbers = {id(rule): number if number < own else rule.text for number, rule in enumerate(self.rules)}
        return [[numbers[id(each.rule)] for each in stratum] for stratum in self.program.strata]

    def budget(self, inferred: int, *, timed: bool) -> RuleBudget:
        """Return the budget of one computation that starts with a number of inferred triples."""
        limit = self.definition.max_time_ms
        until = time.monotonic() + limit / 1000 if timed else None
        return RuleBudget(self.name, inferred, self.definition.max_inferred, until, limit)

    # --- changes ------------------------------------------------------------------------------

    def derive(
        self,
        below: PendingChanges,
        pending: PendingChanges,
        change: NetChange,
        budget: RuleBudget,
        size: Callable[[], int],
    ) -> None:
        """Update the inferred triples after a change; ``size`` returns the number of quads in the dataset.

        Raises:
            RuleBudgetError: a budget is exceeded; ``pending`` then has a part of the consequences.
        """
        changed = len(change.added) + len(change.removed)
        if self.regrouped(below, pending):
            budget.until = None  # the change has not caused the work
            self.derive_all(pending, budget)
            return
        inputs = self.inputs(pending.owned)
        if (changed > _FEW_CHANGES and changed > size() // 4) or self._lists_other_graphs(inputs, change):
            self.derive_all(pending, budget)
            return
        if not self._may_match(change):
            return
        # Earlier requests of a group are not committed yet, and may never be.
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
        """Return True if a changed quad may match a pattern of a rule."""
        read = self.program.predicates
        return read is None or any(
            quad.predicate in read for quads in (change.added, change.removed) for quad in quads
        )

    def _lists_other_graphs(self, inputs: InputGraphs, change: NetChange) -> bool:
        """Return True if a rule enumerates the input graphs, and a change adds or removes one."""
        return self.program.lists_graphs and any(
            name in inputs and name != self.into for name in (*change.created, *change.dropped)
        )

    def _update(
        self, state: StoreState, change: NetChange, budget: RuleBudget, size: Callable[[], int]
    ) -> None:
        facts = state.input_change(change, quads=self.program.reads_graphs)
        if not facts:
            return
        before = budget.inferred

        def check() -> None:
            budget.inferred = before + state.added
            budget.check()
            if state.changes > _FEW_CHANGES and state.changes > size() // 8:
                raise _ManyChangesError

        update(self.program, state, facts, check)
        check()

    def derive_all(self, pending: PendingChanges, budget: RuleBudget) -> None:
        """Make the graph equal to the fixpoint of the pending dataset.

        Raises:
            RuleBudgetError: a budget is exceeded; ``pending`` is unchanged.
        """
        self._cache.clear()
        snapshot = self.snapshot(pending)
        self.replace(pending, set(snapshot.materialise(budget)))

    def replace(self, pending: PendingChanges, wanted: set[Quad]) -> None:
        """Make the content of the graph equal to ``wanted``, and list the graph."""
        for quad in list(pending.quads_of(self.into)):
            if quad in wanted:
                wanted.discard(quad)
            else:
                pending.remove(quad)
        pending.create(self.into)
        for quad in wanted:
            pending.add(quad)

    def _facts(self, view: StoreView) -> tuple[RuleTerms, StoreFacts]:
        """Return a new dictionary of terms, and the facts in a view of the dataset."""
        terms = RuleTerms(self._base_iri)
        return terms, StoreFacts(view, terms, self.inputs(view.owned), self.into)

    def why(self, view: StoreView, quad: Quad) -> tuple[bool, list[RuleDerivation]]:
        """Return whether an input graph has the triple of an inferred quad, and how rules derive it."""
        terms, facts = self._facts(view)
        ids = terms.dictionary.ids
        fact = ids[quad.subject], ids[quad.predicate], ids[quad.object]
        return facts.asserted(fact), derivations(Program(self.rules, terms), fact, facts)

    def inconsistencies(self, view: StoreView, most: int) -> list[tuple[str, list[Quad]]]:
        """Return matches of rules that conclude ``false``: the name of the rule and the matched quads."""
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
        """Return a snapshot of the input graphs, which is read later in any thread that calls this method."""
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
    ) -> set[Quad]:
        """Return the inferred quads now, from those of an earlier version and the changes since then.

        Args:
            pending: the dataset now.
            inferred: the inferred quads of the earlier version.
            missed: the changes since that version, oldest first.
            budget: the limits.
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
        return set(now.quads_of(self.into))

    def _without_own(self, change: NetChange) -> NetChange:
        return NetChange(
            tuple(quad for quad in change.added if quad.graph_name != self.into),
            tuple(quad for quad in change.removed if quad.graph_name != self.into),
            tuple(name for name in change.created if name != self.into),
            tuple(name for name in change.dropped if name != self.into),
        )


class Snapshot:
    """The input graphs of a rule set at one version, as iterators that are not yet read."""

    def __init__(self, rule_set: RuleSet, graphs: list[tuple[GraphName, Iterator[Quad]]]) -> None:
        self._set = rule_set
        self._graphs = graphs

    def materialise(self, budget: RuleBudget, report: Callable[[int], None] = lambda _: None) -> list[Quad]:
        """Return the inferred quads; ``report`` is called with their number from time to time.

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
