"""Programs: the compiled rules of a rule set, with triggers for the heads that a changed fact can affect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..algebra import nodes as n
from ..algebra.variables import certain, in_scope
from .facts import Fact, Facts
from .graph_names import lists_graphs
from .heads import Bindings, HeadTemplate
from .interfaces import Evaluable, Premise
from .join_split import conjunction
from .layout import Frame, Layout, Matcher
from .lists import FIRST, ListCells
from .matching import BodyCompiler
from .rule import Rule
from .single_facts import SingleFacts, schema_of
from .strata import strata
from .terms import RuleTerms
from .trace import Trace
from .trigger_index import BodyTrigger, BodyTriggers

_NO_VALUES: Bindings = {}


class Program:
    """The compiled rules of one set, by stratum.

    Attributes:
        rules: the compiled rules in the order of the set.
        strata: the compiled rules of each stratum, lowest stratum first.
        triggers: for each stratum, the index from changed facts to the triggers of its rules.
        reads_graphs: True if a rule has a GRAPH pattern.
        predicates: the predicates that the patterns of all rules match; None if a pattern matches any one.
        schema: the predicates of the facts that `idle` looks up.
        single: the consequences of single facts; None if rules may join two facts of the data.
        lists_graphs: True if a solution may depend on a graph in which it matches no triple, as GRAPH ?g {}.
    """

    def __init__(
        self, rules: Sequence[Rule], terms: RuleTerms, count: Callable[[int | None], int] | None = None
    ) -> None:
        """Compile rules; ``count`` estimates the number of facts of a predicate, for the order of joins."""
        self.terms = terms
        self.rules: list[Evaluable] = [
            CompiledRule(rule, terms, count) if rule.compile is None else rule.compile(rule, terms)
            for rule in rules
        ]
        self.strata = [[self.rules[number] for number in stratum] for stratum in strata(rules)]
        self.triggers = [BodyTriggers(stratum) for stratum in self.strata]
        self.reads_graphs = any(index.reads_graphs for index in self.triggers)
        read = [index.predicates() for index in self.triggers]
        ids = frozenset().union(*(found for found in read if found is not None))
        self.predicates = None if None in read else frozenset(map(terms.term, ids))
        self.schema = frozenset().union(*(index.schema for index in self.triggers))
        data_schema = schema_of(rules)
        self.single = None if data_schema is None else SingleFacts(data_schema, terms, self.triggers)
        self.lists_graphs = any(lists_graphs(rule.body) for rule in rules)

    def idle(self, predicate: int, facts: Facts) -> bool:
        """Return True if facts with a predicate affect nothing while the schema does not change."""
        return all(index.idle(predicate, facts) for index in self.triggers)


class CompiledRule:
    """A rule with matchers of its body and templates of its head; see `interfaces.Evaluable`."""

    def __init__(self, rule: Rule, terms: RuleTerms, count: Callable[[int | None], int] | None) -> None:
        self.rule = rule
        self.terms = terms
        self.layout = Layout(terms)
        self.compiler = BodyCompiler(self.layout, count) if count else BodyCompiler(self.layout)
        self.scope = self.compiler.scope(in_scope(rule.body))
        self._matchers: dict[frozenset[str], Matcher] = {}
        sure = certain(rule.body)
        self.templates = [HeadTemplate(head, self.scope, self.layout, sure) for head in rule.head]

    def matcher(self, bound: frozenset[str]) -> Matcher:
        """Return the matcher of the body for frames in which the variables ``bound`` are bound."""
        matcher = self._matchers.get(bound)
        if matcher is None:
            matcher = self._matchers[bound] = self.compiler.compile(self.rule.body, self.scope, bound)
        return matcher

    def heads(
        self, facts: Facts, bound: frozenset[str] = frozenset(), values: Bindings = _NO_VALUES
    ) -> Iterator[Fact]:
        """Yield the head triples of the solutions that are compatible with bound values; triples may repeat.

        ``values`` has the values of the variables ``bound``, by slot.
        """
        matcher = self.matcher(bound)
        frame = self._frame(values)
        templates = self.templates
        for _ in matcher(frame, facts):
            for template in templates:
                fact = template.fact(frame)
                if fact is not None:
                    yield fact

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if a solution of the body derives the fact."""
        return any(True for _ in self.solutions_for(fact, facts, self.matcher))

    def explain(self, fact: Fact, facts: Facts) -> Iterator[list[Premise]]:
        """Yield the premises of each solution that derives the fact, in the order of the rule's patterns."""
        trace = Trace([each.pattern for each in self.rule.patterns])
        compiler = BodyCompiler(self.layout, trace=trace)

        def traced(bound: frozenset[str]) -> Matcher:
            return compiler.compile(self.rule.body, self.scope, bound)

        for _ in self.solutions_for(fact, facts, traced):
            yield trace.premises()

    def solutions_for(
        self, fact: Fact, facts: Facts, compiled: Callable[[frozenset[str]], Matcher]
    ) -> Iterator[None]:
        """Yield once for each solution that derives the fact.

        ``compiled`` returns the matcher of the body, given the variables that are bound before it runs.
        """
        for template in self.templates:
            found = template.bindings(fact)
            if found is None:
                continue
            bound, values = found
            matcher = compiled(bound)
            frame = self._frame(values)
            for _ in matcher(frame, facts):
                if template.fact(frame) == fact:
                    yield

    def triggers(self) -> list[BodyTrigger]:
        """Return the triggers of the patterns and paths of the body.

        An ``rdf:first`` pattern of a cell that a list path reaches has no trigger: the trigger of the path
        finds the solutions that a changed value of the cell affects.
        """
        parts = conjunction(self.rule.body)
        cells = {
            each.object
            for each in parts or ()
            if isinstance(each, n.Path) and isinstance(each.path, ListCells)
        }
        return [
            BodyTrigger(self, occurrence, parts)
            for occurrence in self.rule.patterns
            if not (
                isinstance(occurrence.pattern, n.TriplePattern)
                and occurrence.pattern.predicate == FIRST
                and occurrence.pattern.subject in cells
            )
        ]

    def _frame(self, values: Bindings) -> Frame:
        frame = self.layout.frame()
        for slot, value in values.items():
            frame[slot] = value
        return frame
