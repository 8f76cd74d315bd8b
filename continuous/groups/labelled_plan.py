"""One plan for all members of a template; each step's change is split by member."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping

from pyoxigraph import Literal, NamedNode

from quadrill.store.dictionary import inline_id
from quadrill.store.terms import Term

from ..evaluate.answer import AnswerChange
from ..evaluate.native import NativeEvaluator, weakly
from ..expressions.oxigraph import canonical
from ..plan.plan_state import Encoded, PlanState
from ..plan.sources import StaticTable
from ..plan.template import MEMBER, PARAMETERS, lift
from ..rows import Delta, IdRow, merge, negate
from ..static.steps import Changes

_INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")


class MemberAnswer:
    """The answer of one member: rows of the common plan, which still bear the member's number."""

    def __init__(self, owner: LabelledPlan) -> None:
        self.vars = owner.vars
        self.rows: Delta = {}
        self._owner = owner
        self._newest: AnswerChange | None = None

    def change(self, delta: Delta) -> AnswerChange:
        """Take a change; called while nobody reads."""
        merge(self.rows, delta)
        come = {row: weight for row, weight in delta.items() if weight > 0}
        gone = {row: -weight for row, weight in delta.items() if weight < 0}
        ask = self._owner.form == "ask"
        change = AnswerChange(
            self,
            self._owner.decoded(gone) if gone else [],
            self._owner.decoded(come) if come else [],
            bool(self.rows) if ask else None,
            [] if ask else None,
        )
        if self._newest is not None:
            self._newest.later = change
        self._newest = change
        return change

    def rows_after(self, change: AnswerChange) -> list[tuple[Term | None, ...]]:
        """See `AnswerChange.rows`; called in any thread."""
        with self._owner.reading:
            return change.undone(self._owner.decoded(self.rows))


class LabelledPlan:
    """The common plan of queries that differ in constants and in rows of static parts.

    Its answer is the union of the members' answers, each row with the number of its member. Not thread-safe
    but for `reading`, which is held while answers change.
    """

    def __init__(self, sample: NativeEvaluator, varying: Collection[int], labelled: Collection[int]) -> None:
        """Make the plan; `begin` gives it its first rows.

        Args:
            sample: the evaluator of one of the members, which need not become one.
            varying: the places of the constants (see `planner.template.skeleton`) that differ.
            labelled: the places of the static parts that do.
        """
        self.form = sample.form
        self.vars = sample.vars
        self.varying = tuple(sorted(varying))
        self.labelled = frozenset(labelled)
        self.reading = threading.Lock()
        self.answers: dict[int, MemberAnswer] = {}
        self._terms = sample.terms
        self._constants: dict[int, IdRow] = {}
        self._columns = {
            place: tuple(sorted(var.name for var in part.vars))
            for place, part in enumerate(sample.statics.parts)
        }
        names = [part.name for part in sample.statics.parts]
        self._names = names
        lifted = lift(sample.rest, self.varying, [names[place] for place in labelled])
        columns = (MEMBER.name, *(var.name for var in lifted.parameters))
        tables = dict(sample.tables)
        tables[PARAMETERS] = StaticTable(PARAMETERS, columns, frozenset(columns))
        for place in labelled:
            table = tables[names[place]]
            own = (*self._columns[place], MEMBER.name)
            tables[names[place]] = StaticTable(table.name, own, table.certain | {MEMBER.name})
        with self._terms.planning:
            self.running = PlanState(lifted.root, sample.query, tables, sample.options, self._terms)
            release = self._terms.dictionary.hold(weakly(self._held_rows))
        self._places = self.running.places(self.vars)
        self._decode = self.running.decoder(self.vars)
        (self._member,) = self.running.places([MEMBER.name])
        self.close = weakref.finalize(self, _let_go, release, self.running.close)

    # --- members ----------------------------------------------------------------------------------

    def begin(self, at: int, contents: Encoded, sample: NativeEvaluator) -> None:
        """The first step: what windows held at the last evaluation, and the rows of common static parts."""
        for place, change in sample.statics.as_taken().items():
            if place not in self.labelled:
                self.running.take(self._names[place], change.delta)
        self._step(at, [(key, self.running.copy_of(content)) for key, content in contents])

    def add(self, at: int, members: Mapping[int, NativeEvaluator]) -> None:
        """Queries join under labels (see `label_of`); nobody is told the rows that they have."""
        rows: Delta = {}
        for label, evaluator in members.items():
            constants = [canonical(evaluator.skeleton.constants[place]) for place in self.varying]
            # While terms are looked up nobody sweeps: what has no holder yet would be forgotten.
            with self._terms.planning:
                ids = tuple(self._terms.dictionary.ids[term] for term in constants)
                self._constants[label] = ids
            self.answers[label] = MemberAnswer(self)
            rows[(label, *ids)] = 1
            for place, change in evaluator.statics.as_taken().items():
                if place in self.labelled:
                    self._take_labelled(place, label, evaluator, change.delta)
        self.running.take(PARAMETERS, rows)
        self._step(at, ())

    def remove(self, at: int, members: Mapping[int, NativeEvaluator]) -> None:
        """Members leave."""
        rows: Delta = {}
        for label, evaluator in members.items():
            rows[(label, *self._constants.pop(label))] = -1
            for place, change in evaluator.statics.as_taken().items():
                if place in self.labelled:
                    self._take_labelled(place, label, evaluator, negate(change.delta))
        self.running.take(PARAMETERS, rows)
        self._step(at, ())
        for label in members:
            del self.answers[label]

    def agrees(self, label: int, evaluator: NativeEvaluator) -> bool:
        """True when a new member's answer is the one that it had alone."""
        rows = self.answers[label].rows
        if self.form == "ask":
            return bool(rows) == bool(evaluator.answer_ids())
        found: Delta = {}
        for row, weight in rows.items():
            own = tuple([row[place] if place >= 0 else 0 for place in self._places])
            found[own] = found.get(own, 0) + weight
        return found == evaluator.answer_ids()

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
                found = self.running.take(self._names[place], change.delta)
            else:
                found = self.running.reads(self._names[place]) and bool(change.delta)
            changed = found or changed
        return changed

    def step(self, at: int, contents: Encoded) -> dict[int, AnswerChange]:
        """One transaction: what changed for whom, by the members' labels."""
        return self._step(at, contents)

    def _step(self, at: int, contents: Encoded) -> dict[int, AnswerChange]:
        given = self.running.gather(at, contents)
        with self.reading:
            delta = self.running.step(given)
            changes: dict[int, Delta] = {}
            place = self._member
            for row, weight in delta.items():
                label = row[place]
                mine = changes.get(label)
                if mine is None:
                    changes[label] = {row: weight}
                else:
                    mine[row] = weight
            told = {label: self.answers[label].change(mine) for label, mine in changes.items()}
        if self._terms.dictionary.due:
            self._terms.tidy()
        return told

    def unchanged(self, label: int) -> AnswerChange:
        """What a step that changes nothing does to the answer of a member."""
        with self.reading:
            return self.answers[label].change({})

    def decoded(self, rows: Mapping[IdRow, int]) -> list[tuple[Term | None, ...]]:
        """Rows of terms in the columns of the answer, as often as their weight."""
        decode = self._decode
        return [solution for row, weight in rows.items() for solution in [decode(row)] * weight]

    def _take_labelled(self, place: int, label: int, evaluator: NativeEvaluator, delta: Delta) -> bool:
        names = [var.name for var in evaluator.statics.parts[place].vars]
        columns = [names.index(name) for name in self._columns[place]]
        rows = {(*(row[each] for each in columns), label): weight for row, weight in delta.items()}
        return self.running.take(self._names[place], rows)

    def _held_rows(self) -> Iterator[IdRow]:
        """In the order in which rows are made from others (`quadrill.store.sweep`)."""
        yield from list(self._constants.values())
        yield from self.running.held()
        for answer in list(self.answers.values()):
            yield from list(answer.rows)


def label_of(number: int) -> int:
    """The id that stands for a member in rows: a number is held inside its id."""
    return inline_id(Literal(str(number), datatype=_INTEGER))


def _let_go(release: Callable[[], None], close: Callable[[], object]) -> None:
    release()
    close()
