"""The windows of one query with the consequences of their contents by the rules of its entailment."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence

from pyoxigraph import DefaultGraph, Quad, Triple

from ..algebra.nodes import Term
from ..errors import BudgetError
from ..expressions.values import ValueTable
from ..language.context import LanguageLimits
from ..rows import Budget, Delta, IdRow, PinnedIds, difference, merge
from ..rules.built_in import rules_of
from ..rules.content_rules import ContentProgram, constants_of
from ..rules.definition import RuleSetDefinition
from ..rules.facts import Fact, RememberedFacts
from ..rules.fixpoint import InputChange
from ..rules.rule import Rule
from ..rules.store_facts import InputGraphs, StoreFacts
from ..rules.terms import RuleTerms
from ..rules.window_content import WindowContent
from ..windows.encoded import EngineTerms
from ..windows.window_delta import WindowKey
from .rule_graphs import GraphsChange, RuleGraphs

_NO_GRAPHS = InputGraphs(())
_FEW_CHANGES = 1_000
"""Number of changed quads of graphs up to which consequences always follow the change, quad by quad."""


class _PinnedTerms(RuleTerms):
    """The terms of an engine; a sweep keeps the terms of rules until their pins are released."""

    def __init__(self, values: ValueTable, base_iri: str | None, pins: PinnedIds) -> None:
        super().__init__(base_iri, values)
        self._pins = pins
        # False once the rules are compiled, because only the terms of rules are pinned, not those of
        # solutions.
        self.compiling = True

    def id_of(self, term: Term) -> int:
        """Return the id of a term in the form in which the store keeps it."""
        found = super().id_of(term)
        if self.compiling:
            self._pins.pin((found,))
        return found

    def program(self, rules: Sequence[Rule]) -> ContentProgram:
        """Compile rules."""
        for rule in rules:
            for term in constants_of(rule):
                self.id_of(term)
        program = ContentProgram(rules, self)
        self.compiling = False
        return program


class EntailedWindows:
    """The contents of one plan's windows with their consequences.

    Used by one evaluation at a time: `begin`, `extended` for each window, `end`.
    """

    def __init__(self, graphs: RuleGraphs, terms: EngineTerms, budget: Budget, base_iri: str | None) -> None:
        """Create the windows without contents; ``budget`` bounds the work of each evaluation."""
        self._graphs = graphs
        self._terms = terms
        self._budget = budget
        self._base_iri = base_iri
        self._windows: dict[WindowKey, WindowContent] = {}
        self._pins = PinnedIds(terms.dictionary)
        self._changes: list[GraphsChange] = []
        self._change: InputChange | None = None
        self._stamp: object = None
        weakref.finalize(self, self._pins.release)
        self._compile(graphs.definition)
        self._facts = RememberedFacts(self._facts_at(0))

    def _compile(self, definition: RuleSetDefinition | None) -> None:
        self._pins.release()
        terms = self._rule_terms = _PinnedTerms(self._terms.values, self._base_iri, self._pins)
        rules = [] if definition is None else rules_of(definition, self._base_iri or "", LanguageLimits())
        self._program = terms.program(rules)
        self._definition = definition

    def _facts_at(self, applied: int) -> StoreFacts:
        graphs = self._graphs
        view = graphs.view(applied)
        changes = self._changes[:applied]
        definition = changes[-1].definition if changes else graphs.definition
        if definition is None:
            return StoreFacts(view, self._rule_terms, _NO_GRAPHS, graphs.into)
        return StoreFacts(view, self._rule_terms, graphs.inputs(changes), graphs.into)

    # --- one evaluation -------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin an evaluation at the version that the query reflects now."""
        coder = self._terms.coder
        if self._stamp is not coder.stamp or self._terms.dictionary.sweeping:
            # A sweep may delete term ids that only cached matches have.
            self._facts.clear()
            self._forget_single_facts()
            self._stamp = None if self._terms.dictionary.sweeping else coder.stamp
        self._changes = self._graphs.due()
        if not self._changes:
            return
        definition = self._changes[-1].definition
        before, inputs = self._definition, self._graphs
        whole = (
            definition != before
            or definition is None
            or inputs.inputs(self._changes) != inputs.inputs([])
            or any(each.change is None for each in self._changes)
        )
        self._before = self._facts_at(0)
        if definition != before:
            self._compile(definition)
        number = len(self._changes)
        self._change = None if whole else self._input_change()
        if self._change is None:
            self._facts = RememberedFacts(self._facts_at(number))
            self._forget_single_facts()
            return
        for fact in self._change.background:
            self._facts.changed(fact)
        # Empty windows have no consequences to derive again, but later triples look the cache up.
        if self._program.single is not None:
            self._program.single.changed(fact[1] for fact in self._change.background)
        self._facts.read_from(self._facts_at(number))

    def _forget_single_facts(self) -> None:
        if self._program.single is not None:
            self._program.single.clear()

    def _input_change(self) -> InputChange | None:
        """Return the facts that graphs gained or lost; None if all consequences are to be derived again."""
        found = InputChange()
        size = sum(len(each.own) for each in self._windows.values())
        inputs = self._graphs.inputs(self._changes)
        predicates, reads = self._program.predicates, self._program.reads_graphs
        ids, into = self._terms.dictionary.ids, self._graphs.into
        for each in self._changes:
            assert each.change is not None
            if self._program.lists_graphs and (each.change.created or each.change.dropped):
                return None
            for quad in (*each.change.added, *each.change.removed):
                graph = quad.graph_name
                if (graph != into and graph not in inputs) or (
                    predicates is not None and quad.predicate not in predicates
                ):
                    continue
                fact = ids[quad.subject], ids[quad.predicate], ids[quad.object]
                found.background.append(fact)
                if reads and graph != into and not isinstance(graph, DefaultGraph):
                    found.quads.append((ids[graph], fact))
        if len(found.background) > max(_FEW_CHANGES, size):
            return None
        found.background = list(dict.fromkeys(found.background))
        return found

    def extended(self, key: WindowKey, triples: Delta) -> Delta:
        """Return the delta of a window's content with its consequences.

        Args:
            key: the window.
            triples: the delta of the triples of the window's elements.
        """
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = WindowContent(self._program, self._check)
        change: Delta = {}
        if self._changes:
            if self._change is None:
                change.update(window.replace(self._program, list(window.own), self._facts))
            elif self._change:
                change.update(window.change_graphs(self._change, self._before, self._facts))
        if not triples:
            return change if change else triples
        added: list[Fact] = [row for row, weight in triples.items() if weight > 0]  # type: ignore[misc]
        removed: list[Fact] = [row for row, weight in triples.items() if weight < 0]  # type: ignore[misc]
        later = window.change(added, removed, self._facts)
        return merge(change, later)

    def derived(self, key: WindowKey, triples: Iterable[Triple]) -> list[Quad]:
        """Set the triples of a window's elements; return the new result of `consequences`."""
        ids = self._terms.dictionary.ids
        now: Delta = {(ids[each.subject], ids[each.predicate], ids[each.object]): 1 for each in triples}
        window = self._windows.get(key)
        before: Delta = {} if window is None else dict.fromkeys(window.own, 1)
        self.extended(key, difference(now, before))
        return self.consequences(key)

    def end(self) -> None:
        """End an evaluation that has updated all windows to the newest state of the graphs."""
        if self._changes:
            self._graphs.apply(self._changes)
            self._changes = []
            self._facts.read_from(self._facts_at(0))

    def _check(self, inferred: int, steps: int) -> None:
        definition = self._definition
        if definition is not None and inferred > definition.max_inferred:
            raise BudgetError(
                f"the rule set {self._graphs.name} would infer more than {definition.max_inferred} triples "
                "from a window (max_inferred)",
                limit=definition.max_inferred,
                hint="raise max_inferred of the rule set, or make the window smaller",
            )
        self._budget.check(steps, None)

    @property
    def size(self) -> int:
        """The number of inferred triples of all windows."""
        return sum(len(window.inferred) for window in self._windows.values())

    # --- elsewhere ------------------------------------------------------------------------------

    def consequences(self, key: WindowKey) -> list[Quad]:
        """Return the triples that follow from a window and that no element of it has."""
        window, terms = self._windows.get(key), self._terms.dictionary.terms
        found = () if window is None else window.consequences()
        return [Quad(terms[s], terms[p], terms[o]) for s, p, o in found]  # type: ignore[arg-type]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the triples of all contents, whose term ids a sweep must not delete."""
        for window in list(self._windows.values()):
            yield from window.referenced_rows()
