"""One plan for queries of a group that differ in constants alone: who is in it, and who is told what."""

from __future__ import annotations

import logging
import sys
import time
import weakref
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from quadrill.store.dictionary import integer_id
from quadrill.store.feeds.feed import Outbox

from ..algebra.reports import Evaluation
from ..algebra.template import MEMBER, PARAMETERS, lift
from ..evaluate.evaluator import release_holder, weak_holder
from ..evaluate.native import AnswerChange, IncrementalAnswer
from ..expressions.oxigraph import canonical
from ..plan.plan_state import Encoded, PlanState
from ..plan.run_loop import RunLoop, RunResult, run_loop
from ..queries.running import RunningQuery
from ..rows import Budget, Delta, IdRow, negate
from ..static.table import Changes, StaticStep
from ..windows.query_streams import Transaction
from ..windows.timeline import QueryTimeline
from .answers import GroupMember, MemberAnswers, MembersByLabel
from .members import EvaluationRecord, Failures, MemberParts, SharedBudget, differing, native_of, tables_of

log = logging.getLogger("quadrill.continuous")


class MemberSlot(GroupMember):
    """A query in a common plan. Nothing is done for it at an evaluation that gives it no rows.

    Whatever the evaluation would have left behind is worked out by `settle`, when somebody asks or before
    anything that it depends on changes.

    Attributes:
        unseen: the steps of static parts that the plan takes with the next evaluation.
    """

    def __init__(self, plan: SharedPlan, label: int, running: RunningQuery) -> None:
        super().__init__(running, plan.record.number)
        self.plan = plan
        self.unseen: list[StaticStep] = []
        self.budget: Budget = plan.budget
        self.label = label
        self.native = native_of(running)
        # The last evaluation here, if any, once it is evaluated elsewhere.
        self._ended = False
        self._last: tuple[Evaluation, int] | None = None

    @property
    def state(self) -> PlanState:
        """The plan at work."""
        return self.plan.state

    def settle(self) -> None:
        """Bring the query's figures to the plan's newest evaluation."""
        self.follow(self.plan.record)

    def end(self) -> None:
        """The plan evaluates the query no longer; what it has not seen is to be taken once more."""
        self.settle()
        if self.running.last.step is not None:
            self._last = (self.running.last.step, self.running.last.version)
        self._ended = True
        for step in reversed(self.unseen):
            self.steps.put_back(step)

    def visible_after(self, number: int) -> tuple[Evaluation, int] | None:
        """The newest evaluation that may be shown and its version, if later than that of a number.

        Called in any thread.
        """
        if self._ended:
            return self._last
        record = self.plan.shown
        if record.number <= number or record.step is None:
            return None
        return record.step, self.steps.version_at(record.passed)

    def describe(self) -> dict[str, Any]:
        """How many queries are evaluated together, and this one's constants where they differ."""
        constants = self.native.analysis.skeleton.constants
        return {
            "members": len(self.plan.seats),
            "constants": [str(constants[place]) for place in self.plan.varying],
        }


@dataclass(slots=True)
class UnappliedChanges:
    """Changes of static parts that a common plan takes with its next evaluation.

    Attributes:
        common: changes of the parts that all members have in common, oldest first; empty with ``behind``.
        behind: the members with steps that they have not seen.
    """

    common: list[Changes] = field(default_factory=list)
    behind: dict[MemberSlot, None] = field(default_factory=dict)

    def add(self, common: Changes, steps: Mapping[MemberSlot, StaticStep]) -> None:
        """Keep what one commit changes in the common parts, and a step of each member that it changes."""
        self.common.append(common)
        for seat, step in steps.items():
            seat.unseen.append(step)
            self.behind[seat] = None

    def clear(self) -> None:
        """Forget the changes, which the plan has taken."""
        self.common.clear()
        for seat in self.behind:
            seat.unseen.clear()
            seat.running.static.unseen_from = None
        self.behind.clear()


class SharedPlan:
    """Evaluates its members and tells those whose answers change.

    Its answer is the union of the members' answers, each row with the label of its member. A constant that
    is the same for all members stays in the plan until somebody comes with another one. Static parts that
    are the same tables for the first members must be so for all later ones. Answers are read in any thread.

    Attributes:
        template: equal for all members.
        record: the newest evaluation of all members.
        shown: the newest one that is durable.
        seats: those of the members, by their labels.
        varying: the places of the constants (see `algebra.template.skeleton`) in which members differ.
        state: the plan at work.
        budget: what one evaluation of all members may cost; over it each is evaluated by itself.
        close: lets go of it; more than once does no harm.
    """

    def __init__(
        self,
        template: Hashable,
        members: Sequence[RunningQuery],
        contents: Encoded,
        outbox: Outbox,
        failures: Failures,
    ) -> None:
        """Make the plan for members evaluated last at the same instant, or never; `add` lets them in.

        ``contents`` are the windows as they were then; ``failures`` takes the members that cannot be told
        what follows. Raises ReportedError when it cannot be planned.
        """
        self.template = template
        self._sample = sample = native_of(members[0])
        self.record = self.shown = EvaluationRecord(0, members[0].last.step, sample.statics.steps.own.version)
        self.seats: dict[int, MemberSlot] = {}
        self._count = count(1)
        self._prepared = members[0].prepared
        self._unseen = UnappliedChanges()
        self._outbox = outbox
        self._failures = failures
        self._announced = False
        self._terms = sample.terms
        self._loop: tuple[PlanState, QueryTimeline, RunLoop | None] | None = None
        self.budget = SharedBudget(sample.budget.limits)
        # By label: the constants.
        self._constants: dict[int, IdRow] = {}
        self._parts = MemberParts.of([native_of(running) for running in members])
        self._plan(differing(sample, members), contents)

    def _plan(self, varying: Collection[int], contents: Encoded) -> None:
        """Make the plan anew, with places of constants that may differ, and let it take its first step."""
        sample, parts = self._sample, self._parts
        self.varying = tuple(sorted(varying))
        lifted = lift(sample.rest, self.varying, [parts.names[place] for place in parts.labelled])
        tables = dict(sample.tables)
        tables[PARAMETERS] = [MEMBER.name, *(var.name for var in lifted.parameters)]
        for place in parts.labelled:
            tables[parts.names[place]] = [*parts.columns[place], MEMBER.name]
        with self._terms.planning:
            self.state = PlanState(
                lifted.root, sample.query, tables, sample.options, self._terms, self.budget
            )
            release = self._terms.dictionary.hold(weak_holder(self._referenced_rows))
        self.close = weakref.finalize(self, release_holder, release, self.state.close)
        kept = self._sample.budget.limits.kept or sys.maxsize
        label_at = self.state.plan.schema.position(MEMBER.name)
        self._answers = MemberAnswers(label_at, kept, whole=self._prepared.output == "rstream")
        for place, change in sample.statics.as_taken().items():
            if place in parts.common:
                self.state.take(parts.names[place], change.delta)
        if self.record.step is not None:
            held = [(key, self.state.copy_of(content)) for key, content in contents]
            self.step(self.record.step.at, held)

    # --- members ----------------------------------------------------------------------------------

    def fits(self, running: RunningQuery) -> bool:
        """True when a query of the template was evaluated when these were and has the same common tables."""
        running.bring_up_to_date()
        mine, theirs = tables_of(self._sample), tables_of(native_of(running))
        seats = [running.group.plan_slot] if isinstance(running.group.plan_slot, MemberSlot) else []
        return (
            running.evaluated_at == (None if self.record.step is None else self.record.step.at)
            and all(mine[place] == theirs[place] for place in self._parts.common)
            and not any(plan.has_unseen for plan in (self, *(each.plan for each in seats)))
        )

    def add(self, joining: Sequence[RunningQuery], contents: Encoded) -> Sequence[MemberSlot]:
        """Queries that fit join; nobody does when their answers would not be those that they had alone."""
        varying = differing(self._sample, joining)
        if not varying <= set(self.varying):
            self._widen(varying, contents)
        answers = [_answer_of(running) for running in joining]
        # The id that stands for a member in rows: a number is held inside its id.
        seats = [MemberSlot(self, integer_id(next(self._count)), running) for running in joining]
        self._enter(seats)
        pairs = zip(seats, answers, strict=True) if self.record.step is not None else ()
        if not all(self._answers[seat.label].equals(answer) for seat, answer in pairs):
            log.error("queries that differ in constants stay alone: together they would answer otherwise")
            self._leave(seats)
            return ()
        for seat, answer in zip(seats, answers, strict=True):
            before = seat.running.group.plan_slot
            if isinstance(before, MemberSlot):
                before.end()
                answer.decode_all()
                del before.plan.seats[before.label]
            else:
                seat.native.sleep()
            self.seats[seat.label] = seat
            seat.running.group.plan_slot = seat
            seat.running.set_answer(self._answers.change(seat.label))
        return seats

    def remove(self, seat: MemberSlot) -> None:
        """A member leaves; when this fails the plan is of no use any more."""
        del self.seats[seat.label]
        self._unseen.behind.pop(seat, None)
        seat.end()
        self._leave([seat])
        # One stands for all: who ends lets go of its static parts.
        self._sample = next((other.native for other in self.seats.values()), self._sample)

    def behind(self) -> list[RunningQuery]:
        """The members that cannot take steps of common static parts when the others do.

        Where all wait alike, as queries do whose tables are read anew together, all take them together.
        """
        if not self._parts.common:
            return []
        steps = {seat.running: seat.native.statics.steps for seat in self.seats.values()}
        found = [running for running, each in steps.items() if each.behind - self._parts.common]
        return found if found and len({each.gaps for each in steps.values()}) > 1 else []

    def _widen(self, more: Collection[int], contents: Encoded) -> None:
        """Constants that were the same so far differ: all members get a plan that knows."""
        for answer in self._answers.values():
            answer.decode_all()
        self.close()
        self._plan({*self.varying, *more}, contents)
        self._enter(self.seats.values())
        for label, seat in self.seats.items():
            seat.running.set_answer(self._answers.change(label))

    def _enter(self, seats: Collection[MemberSlot]) -> None:
        """Queries join; nobody is told the rows that they have."""
        for seat in seats:
            native = seat.native
            constants = [canonical(native.analysis.skeleton.constants[place]) for place in self.varying]
            # While terms are looked up nobody sweeps: what has no holder yet would be forgotten.
            with self._terms.planning:
                self._constants[seat.label] = tuple(self._terms.dictionary.ids[term] for term in constants)
            ask = native.query.form == "ask"
            self._answers[seat.label] = IncrementalAnswer(
                self.state, native.vars, native.budget, ask=ask, ordered=False
            )
        self._take_members(seats, 1)

    def _leave(self, seats: Collection[MemberSlot]) -> None:
        self._take_members(seats, -1)
        for seat in seats:
            self._answers.pop(seat.label).decode_all()
            del self._constants[seat.label]

    def _take_members(self, seats: Collection[MemberSlot], weight: int) -> None:
        """A step in which the rows of members come or go."""
        taken: dict[int, Delta] = {place: {} for place in self._parts.labelled}
        for seat in seats:
            for place, change in seat.native.statics.as_taken(but=self._parts.common).items():
                delta = change.delta if weight > 0 else negate(change.delta)
                # No two members have a row in common: each has its label.
                taken[place].update(self._parts.rows_of(seat.native, seat.label, place, delta))
        for place, found in taken.items():
            self.state.take(self._parts.names[place], found)
        rows = {(seat.label, *self._constants[seat.label]): weight for seat in seats}
        self.state.take(PARAMETERS, rows)
        if self.record.step is not None:
            self.step(self.record.step.at, ())

    @property
    def has_unseen(self) -> bool:
        """True when changes of static parts wait for the next evaluation."""
        return bool(self._unseen.common)

    # --- steps ------------------------------------------------------------------------------------

    def evaluate(self, step: Evaluation, now_ms: int, contents: Encoded) -> None:
        """One evaluation of all members; the plan is of no use any more when this fails."""
        if self._unseen.common:
            self._take_unseen()
        told: Mapping[int, AnswerChange | None] = self.step(step.at, contents)
        if self._unseen.common:
            self._unseen.clear()
        if self._prepared.output == "rstream":
            told = {
                **dict.fromkeys(self._answers.filled if self._prepared.report.non_empty else self.seats),
                **told,
            }
        elif self.record.step is None and self._sample.query.form == "ask":
            told = {**dict.fromkeys(self.seats), **told}  # also the first answer
        self._tell(told, step, now_ms, self.record.number + 1)
        self._note(self.record.number + 1, step)

    def run(self, given: Sequence[Transaction], timeline: QueryTimeline, now_ms: int) -> RunResult | None:
        """Work off the first of some transactions as if by `evaluate`; None where none can be at once."""
        if self._unseen.common or self.record.step is None:
            return None
        state, made = self.state, self._loop
        if made is None or made[0] is not state or made[1] is not timeline:
            emission, answers = next(iter(self.seats.values())).running.emission, self._answers
            loop = run_loop(state, timeline, emission, answers.check, answers.label_at)
            made = self._loop = state, timeline, loop
        if (loop := made[2]) is None:
            return None
        self.budget.share(self._sample.budget.limits, len(self._answers) or 1)
        told = MembersByLabel(self.seats, loop.emission.head)
        try:
            ran = loop.run(given, told, self._answers.most)
        finally:
            self.budget.since, self.budget.stop = 0.0, ""
        if ran is None or not ran.instants:
            return ran
        told.tell(self._answers, ran, self.record, now_ms, self._failures)
        number = self.record.number + ran.instants
        self._note(number, Evaluation(ran.at, "elements" if ran.entered else "time"))
        self._terms.tidy()
        return ran

    def count_silent(self, number: int) -> None:
        """Count evaluations that were skipped because they would have emitted nothing to anybody."""
        self.record = self.record._replace(number=self.record.number + number)

    def _note(self, number: int, step: Evaluation) -> None:
        """Evaluations up to a number have been worked off."""
        corrected = self.record.told if step.revises else number
        self.record = EvaluationRecord(number, step, self._sample.statics.steps.own.version, corrected)
        if not self._announced:
            self._announced = True
            self._outbox.when_shown(self._show)

    def take_steps(self, steps: Mapping[MemberSlot, StaticStep], at: int | None, now_ms: int) -> None:
        """Static parts of some members move to one version; no use any more when this fails."""
        read = [self.state.reads(name) for name in self._parts.names]
        changed = [
            seat
            for seat, step in steps.items()
            if any([change.delta and read[place] for place, change in step.changes.items()])
        ]
        if not changed:
            return
        self._unseen.add(next(iter(steps.values())).changes, {seat: steps[seat] for seat in changed})
        begun, told = self.record.step is not None, None
        if not begun or (self._prepared.on_commit and at is not None):
            self._take_unseen()
            try:
                told = self.step(at, ()) if begun and at is not None else None
            finally:
                # When it fails, whoever gave the steps puts them back.
                self._unseen.clear()
        for seat in changed:
            static = seat.running.static
            static.note(now_ms, "trigger", changed=True)
            if seat.unseen and static.unseen_from is None:
                static.unseen_from = steps[seat].before
        if told is not None and at is not None:
            changes = {seat.label: told.get(seat.label) for seat in changed}
            self._tell(changes, Evaluation(at, "tick"), now_ms, self.record.number)

    def step(self, at: int, contents: Encoded) -> dict[int, AnswerChange]:
        """One transaction, which has the members' limits: what changed for whom, by their labels."""
        self.budget.share(self._sample.budget.limits, len(self._answers) or 1)
        self.budget.since = time.monotonic()
        try:
            delta = self.state.step(self.state.gather(at, contents))
        finally:
            # Who called it off meant this step.
            self.budget.since, self.budget.stop = 0.0, ""
        told = self._answers.step(delta)
        self._terms.tidy()
        return told

    def _take_unseen(self) -> None:
        """Take what has changed in static parts into the next step."""
        parts = self._parts
        for changes in self._unseen.common:
            for place in parts.common & changes.keys():
                self.state.take(parts.names[place], changes[place].delta)
        for seat in self._unseen.behind:
            for step in seat.unseen:
                for place in parts.labelled & step.changes.keys():
                    rows = parts.rows_of(seat.native, seat.label, place, step.changes[place].delta)
                    self.state.take(parts.names[place], rows)

    def _referenced_rows(self) -> Iterator[IdRow]:
        """In the order in which rows are made from others (`quadrill.store.sweep`)."""
        yield from list(self._constants.values())
        yield from self.state.referenced_rows()
        yield from self._answers.referenced_rows()

    def _tell(
        self, told: Mapping[int, AnswerChange | None], step: Evaluation, now_ms: int, number: int
    ) -> None:
        """Tell members of an evaluation: that of all with a number, or one of their own behind it."""
        for label, change in told.items():
            seat = self.seats[label]
            try:
                seat.follow(self.record, number)
                seat.running.emit(step, self._answers.change(label) if change is None else change, now_ms)
            except Exception as error:
                self._failures.append((seat.running, error))

    def _show(self) -> None:
        """Let members show what was evaluated, which is durable now."""
        self._announced = False
        self.shown = self.record


def _answer_of(running: RunningQuery) -> IncrementalAnswer:
    """What answers a query now."""
    seat = running.group.plan_slot
    return seat.plan._answers[seat.label] if isinstance(seat, MemberSlot) else native_of(running).answer
