"""One plan for all members of a template; each step's change is split by member."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping

from pyoxigraph import Literal, NamedNode

from quadrill.store.dictionary import inline_id

from ..algebra.template import MEMBER, PARAMETERS, lift
from ..evaluate.evaluator import weakly
from ..evaluate.native import AnswerChange, IncrementalAnswer, NativeEvaluator
from ..expressions.oxigraph import canonical
from ..plan.plan_state import Encoded, PlanState
from ..rows import EMPTY, Delta, IdRow, negate
from ..static.table import Changes

_INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")


class LabelledPlan:
    """The common plan of queries that differ in constants and in rows of static parts.

    Its answer is the union of the members' answers, each row with the number of its member. Not thread-safe,
    but answers are read in other threads.
    """

    def __init__(
        self,
        sample: NativeEvaluator,
        varying: Collection[int],
        labelled: Collection[int],
        at: int,
        contents: Encoded,
    ) -> None:
        """Make the plan and let it take its first step.

        Args:
            sample: the evaluator of one of the members, which need not become one.
            varying: the places of the constants (see `algebra.template.skeleton`) that differ.
            labelled: the places of the static parts that do.
            at: the last evaluation.
            contents: the windows as they were then.
        """
        self._ask, self._vars = sample.query.form == "ask", sample.vars
        self.varying = tuple(sorted(varying))
        self.labelled = frozenset(labelled)
        # Rows of the plan, which bear the members' labels, by label.
        self.answers: dict[int, IncrementalAnswer] = {}
        self._terms = sample.terms
        self._constants: dict[int, IdRow] = {}
        parts = sample.statics.parts
        self._columns = [tuple(sorted(var.name for var in part.vars)) for part in parts]
        self._names = names = [part.name for part in parts]
        lifted = lift(sample.rest, self.varying, [names[place] for place in labelled])
        tables = dict(sample.tables)
        tables[PARAMETERS] = [MEMBER.name, *(var.name for var in lifted.parameters)]
        for place in labelled:
            tables[names[place]] = [*self._columns[place], MEMBER.name]
        with self._terms.planning:
            self.state = PlanState(lifted.root, sample.query, tables, sample.options, self._terms)
            release = self._terms.dictionary.hold(weakly(self._held_rows))
        self._member = self.state.plan.schema.position(MEMBER.name)
        self.close = weakref.finalize(self, _let_go, release, self.state.close)
        for place, change in sample.statics.as_taken().items():
            if place not in self.labelled:
                self.state.take(names[place], change.delta)
        self.step(at, [(key, self.state.copy_of(content)) for key, content in contents])

    # --- members ----------------------------------------------------------------------------------

    def enter(self, at: int, members: Mapping[int, NativeEvaluator]) -> None:
        """Queries join under labels (see `label_of`); nobody is told the rows that they have."""
        for label, evaluator in members.items():
            constants = [canonical(evaluator.skeleton.constants[place]) for place in self.varying]
            # While terms are looked up nobody sweeps: what has no holder yet would be forgotten.
            with self._terms.planning:
                self._constants[label] = tuple(self._terms.dictionary.ids[term] for term in constants)
            self.answers[label] = IncrementalAnswer(self.state, self._vars, ask=self._ask, ordered=False)
        self._take_members(at, members, 1)

    def leave(self, at: int, members: Mapping[int, NativeEvaluator]) -> None:
        """Take members out of the plan."""
        self._take_members(at, members, -1)
        for label in members:
            del self.answers[label], self._constants[label]

    def _take_members(self, at: int, members: Mapping[int, NativeEvaluator], weight: int) -> None:
        """A step in which the rows of members come or go."""
        for label, evaluator in members.items():
            for place, change in evaluator.statics.as_taken().items():
                if place in self.labelled:
                    delta = change.delta if weight > 0 else negate(change.delta)
                    self._take_labelled(place, label, evaluator, delta)
        self.state.take(PARAMETERS, {(label, *self._constants[label]): weight for label in members})
        self.step(at, ())

    # --- steps ------------------------------------------------------------------------------------

    def take(self, label: int, evaluator: NativeEvaluator, changes: Changes, *, common: bool) -> bool:
        """Take changes of a member's static parts into the next step; True when they can make a difference.

        With ``common`` those of parts that are the same for all members too.
        """
        changed = False
        for place, change in changes.items():
            if place in self.labelled:
                found = self._take_labelled(place, label, evaluator, change.delta)
            elif common:
                found = self.state.take(self._names[place], change.delta)
            else:
                found = self.state.reads(self._names[place]) and bool(change.delta)
            changed = found or changed
        return changed

    def step(self, at: int, contents: Encoded) -> dict[int, AnswerChange]:
        """One transaction: what changed for whom, by the members' labels."""
        delta = self.state.step(self.state.gather(at, contents))
        changes: dict[int, Delta] = {}
        place = self._member
        for row, weight in delta.items():
            changes.setdefault(row[place], {})[row] = weight
        told = {label: self.answer(label, mine) for label, mine in changes.items()}
        if self._terms.dictionary.due:
            self._terms.tidy()
        return told

    def answer(self, label: int, delta: Delta = EMPTY) -> AnswerChange:
        """The answer of a member, behind a step that changed it so."""
        return self.answers[label].step(delta)

    def end(self) -> None:
        """Detach the answers that were given out: the plan takes no more steps."""
        for answer in self.answers.values():
            answer.settle()
        self.close()

    def _take_labelled(self, place: int, label: int, evaluator: NativeEvaluator, delta: Delta) -> bool:
        names = [var.name for var in evaluator.statics.parts[place].vars]
        columns = [names.index(name) for name in self._columns[place]]
        rows = {(*(row[each] for each in columns), label): weight for row, weight in delta.items()}
        return self.state.take(self._names[place], rows)

    def _held_rows(self) -> Iterator[IdRow]:
        """In the order in which rows are made from others (`quadrill.store.sweep`)."""
        yield from list(self._constants.values())
        yield from self.state.held()
        for answer in list(self.answers.values()):
            yield from list(answer.rows)


def label_of(number: int) -> int:
    """The id that stands for a member in rows: a number is held inside its id."""
    return inline_id(Literal(str(number), datatype=_INTEGER))


def _let_go(release: Callable[[], None], close: Callable[[], object]) -> None:
    release()
    close()
