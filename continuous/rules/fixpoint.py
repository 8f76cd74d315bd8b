"""The least fixpoint of a program, from nothing or from the fixpoint before a change.

    changed facts of the input
        |  stratum by stratum:
        |    1. overdelete   every inferred triple that may depend on a lost fact or on a changed negation
        |    2. rederive     those of them that the remaining facts still derive
        |    3. insert       what new facts derive, until nothing is new
        v
    changed inferred triples

This is delete-and-rederive (Gupta, Mumick and Subrahmanian 1993, section 7) with semi-naive insertion. A
triple that an input graph asserts stays a fact when it is overdeleted, so nothing below it is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from .facts import Fact, Facts, MemoryFacts, RememberedFacts
from .interfaces import Evaluable
from .program import Program
from .trigger_index import BodyTriggers

_CHECK_EVERY = 256
"""Number of derived triples between two checks of the budget."""


class Inferred(Protocol):
    """The facts of a rule set before and after a change, and its inferred triples."""

    @property
    def before(self) -> Facts:
        """The facts before the change."""
        ...

    @property
    def now(self) -> Facts:
        """The facts after all changes so far."""
        ...

    @property
    def given(self) -> Facts:
        """The facts that input graphs assert after the change."""
        ...

    def asserted(self, fact: Fact) -> bool:
        """Return True if an input graph has the triple after the change."""
        ...

    def known(self, fact: Fact) -> bool:
        """Return True if the triple is a fact after all changes so far."""
        ...

    def inferred(self, fact: Fact) -> bool:
        """Return True if the triple is inferred after all changes so far."""
        ...

    def infer(self, fact: Fact) -> None:
        """Add an inferred triple."""
        ...

    def retract(self, fact: Fact) -> None:
        """Remove an inferred triple; it stays a fact if an input graph asserts it."""
        ...


@dataclass(slots=True)
class InputChange:
    """How the input graphs of a rule set changed.

    Attributes:
        added: facts that the change made true: an input graph has the triple, and before no input graph had
            it and it was not inferred.
        removed: facts that no input graph has any longer; they may have been inferred, too.
        quads: triples that a named input graph gained or lost, with the id of the graph.
    """

    added: list[Fact] = field(default_factory=list)
    removed: list[Fact] = field(default_factory=list)
    quads: list[tuple[int, Fact]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.quads)


def update(program: Program, state: Inferred, change: InputChange, check: Callable[[], None]) -> None:
    """Update the inferred triples of ``state`` after a change of the input.

    ``check`` is called regularly, and raises an error to give up.
    """
    _Update(program, state, change, check).run()


class _Update:
    def __init__(
        self, program: Program, state: Inferred, change: InputChange, check: Callable[[], None]
    ) -> None:
        self._program = program
        self._state = state
        self._change = change
        self._check = check
        self._before = RememberedFacts(state.before)
        self._now = RememberedFacts(state.now)
        self._given = RememberedFacts(state.given)
        self._steps = 0
        # Facts that changed so far, which start the work of the next stratum.
        self._gained: dict[Fact, None] = dict.fromkeys(change.added)
        self._lost: dict[Fact, None] = dict.fromkeys(change.removed)
        # Inferred triples that are retracted, and that no stratum has derived again.
        self._retracted: dict[Fact, None] = {}
        # The rules of this stratum and of lower ones, any of which may derive a retracted triple again.
        self._rules: list[Evaluable] = []
        # Rules of these in which a fact never removes a solution.
        self._monotone: list[Evaluable] = []

    def run(self) -> None:
        # A triple that lost its assertion may only support itself.
        first = [fact for fact in self._change.removed if self._state.inferred(fact)]
        for number, index in enumerate(self._program.triggers):
            self._rules += index.rules
            self._monotone += [
                rule for rule in index.rules if not any(each.closed for each in rule.rule.patterns)
            ]
            self._stratum(index, first if number == 0 else [])

    def _count(self) -> None:
        self._steps += 1
        if self._steps % _CHECK_EVERY == 0:
            self._check()

    def _stratum(self, index: BodyTriggers, first: Sequence[Fact]) -> None:
        state = self._state
        self._overdelete(index, first)
        queue = [fact for fact in self._gained if state.known(fact)]
        for fact in list(self._retracted):
            self._count()
            if any(rule.derives(fact, self._now) for rule in self._rules):
                self._infer(fact, queue)
        for head in self._closed_heads(index, self._now):
            self._infer(head, queue)
        while queue:
            new, queue = queue, []
            for trigger, changed in index.of(new):
                for head in trigger.heads(changed, None, self._now, (self._now,)):
                    self._infer(head, queue)
        for fact in self._retracted:
            if not state.known(fact):
                self._lost[fact] = None

    def _infer(self, fact: Fact, queue: list[Fact]) -> None:
        state = self._state
        if state.inferred(fact):
            return
        self._count()
        new = not state.known(fact)
        state.infer(fact)
        self._now.changed(fact)
        self._retracted.pop(fact, None)
        if new:
            self._gained[fact] = None
            queue.append(fact)

    def _overdelete(self, index: BodyTriggers, first: Sequence[Fact]) -> None:
        """Retract every inferred triple whose derivation may have used a lost fact.

        Triples that a rule derives from the input alone stay. So the loss of one instance of a class does not
        retract what many others support.
        """
        state = self._state
        queue = [fact for fact in self._lost if not state.known(fact)]
        queued = set(queue)
        kept: set[Fact] = set()

        def retract(fact: Fact) -> None:
            if fact in kept or not state.inferred(fact):
                return
            self._count()
            if any(rule.derives(fact, self._given) for rule in self._monotone):
                kept.add(fact)
                return
            state.retract(fact)
            self._now.changed(fact)
            self._retracted[fact] = None
            if not state.asserted(fact) and fact not in queued:
                queued.add(fact)
                queue.append(fact)

        for fact in first:
            retract(fact)
        for head in self._closed_heads(index, self._before):
            retract(head)
        while queue:
            lost, queue = queue, []
            for trigger, changed in index.of(lost):
                for head in trigger.heads(changed, None, self._before, (self._before,)):
                    retract(head)

    def _closed_heads(self, index: BodyTriggers, facts: Facts) -> Iterable[Fact]:
        """Return the heads, over facts before or after the change, that depend on changes in any direction.

        These are changes of GRAPH patterns, which no rule derives, and of patterns below a negation or an
        aggregate, which a lower stratum has finished.
        """
        states = (self._before, self._now)
        found: dict[Fact, None] = {}
        for graph, fact in self._change.quads:
            for trigger in index.in_graph(graph, fact):
                found.update(dict.fromkeys(trigger.heads((fact,), graph, facts, states)))
        for trigger, changed in index.of(chain(self._gained, self._lost)):
            if trigger.closed:
                found.update(dict.fromkeys(trigger.heads(changed, None, facts, states)))
        return found


def materialise(
    program: Program, facts: MemoryFacts, add: Callable[[Fact], None], check: Callable[[], None]
) -> None:
    """Compute the least fixpoint over ``facts``, which then hold it; call ``add`` with each inferred triple.

    ``add`` is called once for each inferred triple, also for one that an input graph asserts.
    """
    inferred: set[Fact] = set()
    steps = 0

    def infer(heads: Iterable[Fact]) -> dict[Fact, None]:
        """Add inferred triples; return those that were no facts."""
        nonlocal steps
        new: dict[Fact, None] = {}
        for head in heads:
            if head in inferred:
                continue
            inferred.add(head)
            add(head)
            steps += 1
            if steps % _CHECK_EVERY == 0:
                check()
            if head not in facts:
                new[head] = None
        return new

    for index in program.triggers:
        for rule in index.rules:
            new = infer(rule.heads(facts))
            while new:
                for fact in new:
                    facts.add(fact)
                found: dict[Fact, None] = {}
                for trigger, changed in index.of(new):
                    found.update(infer(trigger.heads(changed, None, facts, (facts,))))
                new = found
