"""A store with one rule set, for tests that compare its inferred triples with an oracle."""

from __future__ import annotations

from collections.abc import Sequence

from pyoxigraph import NamedNode, Quad, Store, Triple

from quadrill.continuous.rules.definition import RuleSetDefinition
from quadrill.continuous.rules.fixpoint import update
from quadrill.continuous.rules.program import Program
from quadrill.continuous.rules.rule import Rule
from quadrill.continuous.rules.rule_set import RuleSet
from quadrill.continuous.rules.store_facts import InputGraphs, StoreFacts, StoreState
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.store.changes.pending import PendingChanges, StoreView

INTO = NamedNode("http://e/into")


class RuleStore:
    """A store with one rule set; each commit updates the inferred triples in the same change."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.store = Store()
        self.terms = RuleTerms()
        self.program = Program(rules, self.terms)
        self.commit([], [])

    def commit(self, add: Sequence[Quad], remove: Sequence[Quad]) -> None:
        view = StoreView(self.store)
        pending = PendingChanges(view)
        for quad in remove:
            pending.remove(quad)
        for quad in add:
            pending.add(quad)
        state = StoreState(view, pending, self.terms, InputGraphs(), INTO)
        update(self.program, state, state.input_change(pending.net(), quads=True), lambda: None)
        change = pending.net()
        for quad in change.removed:
            self.store.remove(quad)
        self.store.extend(change.added)
        for name in change.created:
            self.store.add_graph(name)

    def asserted(self) -> list[Quad]:
        return [quad for quad in self.store if quad.graph_name != INTO]

    def inferred(self) -> set[Triple]:
        return {quad.triple for quad in self.store.quads_for_pattern(None, None, None, INTO)}

    def facts(self) -> StoreFacts:
        return StoreFacts(StoreView(self.store), self.terms, InputGraphs(), INTO)

    def recomputed(self) -> set[Triple]:
        """Return the inferred triples, computed again from the input graphs alone."""
        rule_set = RuleSet("test", RuleSetDefinition(INTO), "http://e/", None)
        rule_set.rules = list(self.rules)
        snapshot = rule_set.snapshot(StoreView(self.store))
        return {quad.triple for quad in snapshot.materialise(rule_set.budget(0, timed=False))}
