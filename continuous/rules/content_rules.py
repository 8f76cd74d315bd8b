"""Compiled rules that derive from the content of a window, together with the graphs of a rule set.

A rule derives its head here only if at least one triple pattern of its body matches the content. The triples
that follow from the graphs alone are in the graph of the rule set already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from ..algebra import nodes as n
from ..algebra.variables import in_scope
from .content_variants import CONTENT, has_variants, variants
from .facts import Fact, Facts
from .interfaces import Evaluable, Premise, TriggerLike
from .layout import Matcher
from .program import CompiledRule, Program
from .rule import Rule
from .terms import RuleTerms
from .trigger_index import BodyTriggers


class ContentTrigger:
    """The trigger of one pattern of a rule body, for contents of windows; see `interfaces.TriggerLike`.

    Attributes:
        heads: like `TriggerLike.heads`, but only for solutions that use the content.
        outside: the trigger for changed facts that may lie outside of the content.
    """

    def __init__(self, trigger: TriggerLike, rule: Evaluable, *, exact: bool) -> None:
        """Wrap a trigger; ``exact`` is True if each solution that it finds uses a changed fact."""
        self.closed = trigger.closed
        self.predicates, self.value, self.key = trigger.predicates, trigger.value, trigger.key
        self.together, self.selective, self.graph = trigger.together, trigger.selective, trigger.graph
        self.matches = trigger.matches
        self._trigger, self._rule = trigger, rule
        self.heads = trigger.heads if exact else self._using_content
        self.outside = ContentTrigger(trigger, rule, exact=False) if exact else self

    def _using_content(
        self, changed: Sequence[Fact], graph: int | None, facts: Facts, states: Sequence[Facts]
    ) -> Iterator[Fact]:
        for head in dict.fromkeys(self._trigger.heads(changed, graph, facts, states)):
            if self._rule.derives(head, facts):
                yield head


class ContentTriggers(BodyTriggers):
    """The triggers of one stratum of rules for contents of windows."""

    def outside(self, changed: Iterable[Fact]) -> Iterator[tuple[TriggerLike, list[Fact]]]:
        """Yield triggers with their facts, for facts that graphs gained or lost."""
        for trigger, facts in self.of(changed):
            yield trigger.outside if isinstance(trigger, ContentTrigger) else trigger, facts


class ContentRule:
    """A compiled rule with the variants of its body (`content_variants`); see `interfaces.Evaluable`."""

    def __init__(self, compiled: CompiledRule) -> None:
        self.rule = compiled.rule
        self._compiled = compiled
        self._variants = [_Variant(compiled, body) for body in variants(compiled.rule.body)]

    def heads(self, facts: Facts) -> Iterator[Fact]:
        """Yield the head triples of the solutions that use the content; triples may repeat."""
        for head in dict.fromkeys(self._compiled.heads(facts)):
            if self.derives(head, facts):
                yield head

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if a solution that uses the content gives the fact."""
        solutions = self._compiled.solutions_for
        return any(any(True for _ in solutions(fact, facts, each.matcher)) for each in self._variants)

    def explain(self, fact: Fact, facts: Facts) -> Iterator[Sequence[Premise]]:
        """Yield the premises of each solution that gives the fact, whether or not it uses the content."""
        return self._compiled.explain(fact, facts)

    def triggers(self) -> list[TriggerLike]:
        """Return a trigger for each triple pattern of the body."""
        return [
            ContentTrigger(each, self, exact=each.exact and not each.closed)
            for each in self._compiled.triggers()
        ]


class _Variant:
    """The matchers of one variant of a rule's body."""

    def __init__(self, compiled: CompiledRule, body: n.Algebra) -> None:
        self._compiler = compiled.compiler
        self._body = body
        self._scope = compiled.compiler.scope(in_scope(body), compiled.scope)
        self._matchers: dict[frozenset[str], Matcher] = {}

    def matcher(self, bound: frozenset[str]) -> Matcher:
        """Return the matcher for frames in which ``bound`` variables are bound."""
        matcher = self._matchers.get(bound)
        if matcher is None:
            matcher = self._compiler.compile(self._body, self._scope, bound)
            self._matchers[bound] = matcher
        return matcher


class ContentListRule:
    """A compiled rule over lists, which has no variants; see `interfaces.Evaluable`."""

    def __init__(self, compiled: Evaluable, content: int) -> None:
        """Wrap a rule; ``content`` is the id of the name of the content's graph."""
        self.rule = compiled.rule
        self._compiled = compiled
        self._content = content
        self._triggers = [each for each in compiled.triggers() if not each.closed and each.graph is None]

    def heads(self, facts: Facts) -> Iterator[Fact]:
        """Yield the head triples of the solutions that use the content; triples may repeat."""
        for trigger in self._triggers:
            changed = [
                fact
                for predicate in trigger.predicates or (None,)
                for _, fact in facts.match_in(self._content, None, predicate, trigger.value)
                if trigger.matches(fact)
            ]
            if trigger.key is None:
                yield from trigger.heads(changed, None, facts, (facts,)) if changed else ()
            else:
                by_key: dict[int, list[Fact]] = {}
                for fact in changed:
                    by_key.setdefault(fact[trigger.key], []).append(fact)
                for group in by_key.values():
                    yield from trigger.heads(group, None, facts, (facts,))

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if a solution that uses the content gives the fact.

        The answer is True if `explain` gives a solution with a premise in the content. Otherwise every
        solution that uses the content is computed.
        """
        found = False
        for premises in self._compiled.explain(fact, facts):
            found = True
            if any(self._in_content(each, facts) for each in premises):
                return True
        return found and fact in self.heads(facts)

    def _in_content(self, premise: Premise, facts: Facts) -> bool:
        return not premise.named and bool(facts.match_in(self._content, *premise.triple))

    def explain(self, fact: Fact, facts: Facts) -> Iterable[Sequence[Premise]]:
        """Return the premises of solutions that give the fact, whether or not they use the content."""
        return self._compiled.explain(fact, facts)

    def triggers(self) -> list[TriggerLike]:
        """Return a trigger for each triple pattern of the body."""
        return [
            ContentTrigger(each, self, exact=not each.closed and each.graph is None)
            for each in self._compiled.triggers()
        ]


class ContentProgram(Program):
    """The compiled rules of one set for the contents of windows.

    Attributes:
        content: the id of the name of the content's graph.
    """

    def __init__(self, rules: Sequence[Rule], terms: RuleTerms) -> None:
        super().__init__(rules, terms)
        self.content = terms.id_of(CONTENT)
        self.triggers = [
            ContentTriggers([self._over_content(each) for each in stratum]) for stratum in self.strata
        ]

    def _over_content(self, rule: Evaluable) -> Evaluable:
        if isinstance(rule, CompiledRule) and has_variants(rule.rule.body):
            return ContentRule(rule)
        return ContentListRule(rule, self.content)


def constants_of(rule: Rule) -> Iterator[NamedNode | BlankNode | Literal | Triple]:
    """Yield the terms in the head and the body of a rule."""
    waiting: list[object] = [rule.head, rule.body]
    while waiting:
        each = waiting.pop()
        if isinstance(each, NamedNode | BlankNode | Literal | Triple):
            yield each
        elif isinstance(each, tuple):
            waiting += each
        elif is_dataclass(each):
            waiting += [getattr(each, field.name) for field in fields(each)]
