"""A program: the compiled rules of one set, which find the heads that a changed fact can add or remove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..algebra import nodes as n
from ..algebra.variables import certain, in_scope
from .facts import Fact, Facts
from .heads import Bindings, HeadTemplate
from .interfaces import Evaluable, Premise
from .layout import Frame, Layout, Matcher
from .lists import FIRST, ListCells
from .matching import Compiler
from .rule import Rule
from .strata import strata
from .terms import Terms
from .trigger_index import Trigger, TriggerIndex, conjunction

_NO_VALUES: Bindings = {}


class Program:
    """The compiled rules of one set, by stratum.

    Attributes:
        rules: the compiled rules.
        strata: the rules of each stratum, lowest first.
        triggers: the patterns of each stratum that changed facts match.
        reads_graphs: True if a rule has a GRAPH pattern.
    """

    def __init__(
        self, rules: Sequence[Rule], terms: Terms, count: Callable[[int | None], int] | None = None
    ) -> None:
        """Compile rules; ``count`` estimates the number of facts of a predicate, for the order of joins."""
        self.terms = terms
        self.rules: list[Evaluable] = [
            CompiledRule(rule, terms, count) if rule.compile is None else rule.compile(rule, terms)
            for rule in rules
        ]
        self.strata = [[self.rules[number] for number in stratum] for stratum in strata(rules)]
        self.triggers = [TriggerIndex(stratum) for stratum in self.strata]
        self.reads_graphs = any(index.reads_graphs for index in self.triggers)


class CompiledRule:
    """One rule with its matchers."""

    def __init__(self, rule: Rule, terms: Terms, count: Callable[[int | None], int] | None) -> None:
        self.rule = rule
        self.terms = terms
        self.layout = Layout(terms)
        self.compiler = Compiler(self.layout, count) if count else Compiler(self.layout)
        self.scope = self.compiler.scope(in_scope(rule.body))
        self._matchers: dict[frozenset[str], Matcher] = {}
        sure = certain(rule.body)
        self.templates = [HeadTemplate(head, self.scope, self.layout, sure) for head in rule.head]

    def matcher(self, bound: frozenset[str]) -> Matcher:
        """Return the matcher of the body for frames in which ``bound`` variables are bound."""
        matcher = self._matchers.get(bound)
        if matcher is None:
            matcher = self._matchers[bound] = self.compiler.compile(self.rule.body, self.scope, bound)
        return matcher

    def heads(
        self, facts: Facts, bound: frozenset[str] = frozenset(), values: Bindings = _NO_VALUES
    ) -> Iterator[Fact]:
        """Yield the head triples of the solutions that agree with bound values; triples may repeat."""
        matcher = self.matcher(bound)
        frame = self._frame(values)
        templates = self.templates
        for _ in matcher(frame, facts):
            for template in templates:
                fact = template.fact(frame)
                if fact is not None:
                    yield fact

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if a solution of the body gives the fact."""
        return any(True for _ in self._solutions_for(fact, facts))

    def explain(self, fact: Fact, facts: Facts) -> Iterator[list[Premise]]:
        """Yield what the triple patterns of the body match in each solution that gives the fact."""
        for frame in self._solutions_for(fact, facts):
            premises = []
            for occurrence in self.rule.patterns:
                pattern = occurrence.pattern
                if occurrence.closed or isinstance(pattern, n.Path):
                    continue
                s, p, o = (
                    self._value(term, frame) for term in (pattern.subject, pattern.predicate, pattern.object)
                )
                named = occurrence.graph is not None
                graph = None if occurrence.graph is None else self._value(occurrence.graph, frame)
                premises.append(Premise((s, p, o), graph, named))
            yield premises

    def _solutions_for(self, fact: Fact, facts: Facts) -> Iterator[Frame]:
        """Yield a frame for each solution that gives the fact; the frame is valid until the next one."""
        for template in self.templates:
            found = template.bindings(fact)
            if found is None:
                continue
            bound, values = found
            matcher = self.matcher(bound)
            frame = self._frame(values)
            for _ in matcher(frame, facts):
                if template.fact(frame) == fact:
                    yield frame

    def _value(self, term: n.TermPattern, frame: Frame) -> int | None:
        if isinstance(term, n.Var):
            slot = self.scope.get(term.name)
            return None if slot is None else frame[slot]
        return None if isinstance(term, n.TripleTerm) else self.terms.id_of(term)

    def triggers(self) -> list[Trigger]:
        """Return triggers of the patterns of the body.

        A path over the cells of a list also finds the solutions that a changed value of a cell affects.
        """
        parts = conjunction(self.rule.body)
        cells = {
            each.object
            for each in parts or ()
            if isinstance(each, n.Path) and isinstance(each.path, ListCells)
        }
        return [
            Trigger(self, occurrence, parts)
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
