"""The least fixpoint of a program, computed from the input alone or from the fixpoint before a change.

`materialise` does the first, `update` the second:

    changed facts of the input
        |  stratum by stratum:
        |    1. overdelete   retract inferred triples that may depend on a lost fact or a changed negation
        |    2. rederive     insert the retracted triples again that the remaining facts still derive
        |    3. insert       insert the triples that new facts derive, until there are no new facts
        v
    changed inferred triples

This is delete-and-rederive (Gupta, Mumick and Subrahmanian 1993, section 7) with semi-naive insertion. An
inferred triple that an input graph asserts, too, remains a fact when it is retracted. So the triples that
follow from it are not retracted.
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
"""Number of steps, such as derivations and retractions of triples, between two checks of the budget."""


class Inferred(Protocol):
    """The facts of a rule set before and after a change, and its inferred triples."""

    @property
    def before(self) -> Facts:
        """The facts before the change."""
        ...

    @property
    def now(self) -> Facts:
        """The facts after the change of the input and the changes of inferred triples so far."""
        ...

    @property
    def given(self) -> Facts:
        """The triples of the input graphs after the change, without inferred ones."""
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
        added: new facts: an input graph gained the triple, no input graph had it before, and it was not
            inferred before.
        removed: facts that no input graph has any longer; they may be inferred as well.
        quads: triples that a named input graph gained or lost, with the id of the graph.
        background: facts that graphs gained or lost to which no rule adds: those behind the content of a
            window.
    """

    added: list[Fact] = field(default_factory=list)
    removed: list[Fact] = field(default_factory=list)
    quads: list[tuple[int, Fact]] = field(default_factory=list)
    background: list[Fact] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.quads or self.background)


def update(program: Program, state: Inferred, change: InputChange, check: Callable[[], None]) -> None:
    """Update the inferred triples of ``state`` after a change of the input.

    ``check`` is called every 256 steps; it stops the update by raising an error.
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
        # Facts that the input and lower strata have gained and lost: the next stratum starts from them.
        self._gained: dict[Fact, None] = dict.fromkeys(change.added)
        self._lost: dict[Fact, None] = dict.fromkeys(change.removed)
        # Triples that have been retracted, and that no stratum has derived again so far. The value is True if
        # an input graph asserts the triple.
        self._retracted: dict[Fact, bool] = {}
        # Triples that this update has inferred, and not retracted since.
        self._inferred: set[Fact] = set()
        # The rules of this stratum and of lower ones, any of which may derive a retracted triple again.
        self._rules: list[Evaluable] = []
        # The rules among them without a negation, an aggregate or an OPTIONAL: new facts remove no solutions.
        self._monotone: list[Evaluable] = []

    def run(self) -> None:
        # An inferred triple that no input graph asserts any longer may follow only from itself. It is
        # retracted, and then derived again if other facts support it.
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
        earlier = list(self._retracted)  # by rules of lower strata; a rule of this one may derive them
        doubtful = self._overdelete(index, first)
        queue = [fact for fact in self._gained if self._retracted.get(fact, True)]
        for fact in (*earlier, *doubtful):
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
        for fact, asserted in self._retracted.items():
            if not asserted:
                self._lost[fact] = None

    def _infer(self, fact: Fact, queue: list[Fact]) -> None:
        state = self._state
        if fact in self._inferred or state.inferred(fact):
            return
        self._count()
        new = not state.known(fact)
        state.infer(fact)
        self._inferred.add(fact)
        self._retracted.pop(fact, None)
        if new:
            self._now.added(fact)
            self._gained[fact] = None
            queue.append(fact)

    def _overdelete(self, index: BodyTriggers, first: Sequence[Fact]) -> list[Fact]:
        """Retract every inferred triple whose derivation may have used a lost fact.

        A triple that a rule derives from the input graphs alone is not retracted. So the loss of one instance
        of a class does not retract the triples that other instances support.

        Returns:
            The retracted triples that the facts at the time of the retraction derived. Facts of the stratum
            only become fewer here, so of the other ones only facts that are inserted later can derive one,
            and the insertion of such a fact derives it.
        """
        state = self._state
        queue = [fact for fact in self._lost if not state.known(fact)]
        queued = set(queue)
        checked: set[Fact] = set()  # many derivations have the same head
        doubtful: list[Fact] = []

        def retract(fact: Fact) -> None:
            if fact in checked:
                return
            checked.add(fact)
            if not state.inferred(fact):
                return
            self._count()
            if any(rule.derives(fact, self._now) for rule in self._rules):
                if any(rule.derives(fact, self._given) for rule in self._monotone):
                    return
                doubtful.append(fact)
            state.retract(fact)
            self._inferred.discard(fact)
            self._retracted[fact] = state.asserted(fact)
            if not self._retracted[fact]:
                self._now.removed(fact)
                if fact not in queued:
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
        return doubtful

    def _closed_heads(self, index: BodyTriggers, facts: Facts) -> Iterable[Fact]:
        """Return the heads over ``facts`` that an inserted fact may remove, or that a deleted fact may add.

        They come from rules with a changed GRAPH pattern or changed background facts, which no rule derives,
        and from rules with a changed pattern below a negation or an aggregate, whose triples the lower strata
        have completed.
        """
        states = (self._before, self._now)
        found: dict[Fact, None] = {}
        for graph, fact in self._change.quads:
            for trigger in index.in_graph(graph, fact):
                found.update(dict.fromkeys(trigger.heads((fact,), graph, facts, states)))
        for trigger, changed in index.outside(self._change.background):
            found.update(dict.fromkeys(trigger.heads(changed, None, facts, states)))
        for trigger, changed in index.of(chain(self._gained, self._lost)) if index.closed else ():
            if trigger.closed:
                found.update(dict.fromkeys(trigger.heads(changed, None, facts, states)))
        return found


def materialise(
    program: Program, facts: MemoryFacts, add: Callable[[Fact], None], check: Callable[[], None]
) -> None:
    """Compute the least fixpoint of a program, and add its triples to ``facts``.

    ``add`` is called once for each inferred triple, even if an input graph asserts it. ``check`` is called
    after every 256 inferred triples; it stops the computation by raising an error.
    """
    inferred: set[Fact] = set()
    steps = 0

    def infer(heads: Iterable[Fact]) -> dict[Fact, None]:
        """Report head triples that were not inferred before; return those that are not facts yet."""
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
