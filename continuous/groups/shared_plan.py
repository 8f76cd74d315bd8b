"""Shared plan: one plan that evaluates all queries of a group that differ only in constants."""

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
    """The plan slot of one query in a shared plan.

    An evaluation of a shared plan without rows for a member does no work for the member. The method
    `bring_up_to_date` computes a member's figures when a caller reads them, and before the values change that
    the figures depend on.

    Attributes:
        plan: the shared plan.
        unseen: the steps of static parts that the plan applies in the next evaluation.
        budget: the budget of the shared plan.
        label: the id that marks the query's rows in the plan.
        native: the query's evaluator.
    """

    def __init__(self, plan: SharedPlan, label: int, running: RunningQuery) -> None:
        super().__init__(running, plan.record.number)
        self.plan = plan
        self.unseen: list[StaticStep] = []
        self.budget: Budget = plan.budget
        self.label = label
        self.native = native_of(running)
        # After the query has left the shared plan: True, and the query's last evaluation in the plan, if any.
        self._ended = False
        self._last: tuple[Evaluation, int] | None = None

    @property
    def state(self) -> PlanState:
        """The state of the operators of the shared plan."""
        return self.plan.state

    def bring_up_to_date(self) -> None:
        """Update the query's figures to the shared plan's newest evaluation."""
        self.follow(self.plan.record)

    def end(self) -> None:
        """End the query's evaluation by the shared plan; unapplied static steps become pending again."""
        self.bring_up_to_date()
        if self.running.last.step is not None:
            self._last = (self.running.last.step, self.running.last.version)
        self._ended = True
        for step in reversed(self.unseen):
            self.steps.put_back(step)

    def visible_after(self, number: int) -> tuple[Evaluation, int] | None:
        """Return the shared plan's newest durable evaluation and its version if later than ``number``.

        Any thread may read the newest durable evaluation.
        """
        if self._ended:
            return self._last
        record = self.plan.shown
        if record.number <= number or record.step is None:
            return None
        return record.step, self.steps.version_at(record.passed)

    def describe(self) -> dict[str, Any]:
        """Return the shared plan's number of members and this query's differing constants, as JSON."""
        constants = self.native.analysis.skeleton.constants
        return {
            "members": len(self.plan.slots),
            "constants": [str(constants[place]) for place in self.plan.varying],
        }


@dataclass(slots=True)
class UnappliedChanges:
    """Changes of static parts that a shared plan applies in its next evaluation.

    Attributes:
        common: changes of the parts that all members have in common, oldest first; empty if ``behind`` is.
        behind: the members with steps that the plan has not applied.
    """

    common: list[Changes] = field(default_factory=list)
    behind: dict[MemberSlot, None] = field(default_factory=dict)

    def add(self, common: Changes, steps: Mapping[MemberSlot, StaticStep]) -> None:
        """Add one commit's change of the common static parts, and the steps of members that it changes."""
        self.common.append(common)
        for slot, step in steps.items():
            slot.unseen.append(step)
            self.behind[slot] = None

    def clear(self) -> None:
        """Discard the changes of static parts, because the shared plan has applied them."""
        self.common.clear()
        for slot in self.behind:
            slot.unseen.clear()
            slot.running.static.unseen_from = None
        self.behind.clear()


class SharedPlan:
    """Evaluates all members of a shared plan together, and emits events for members whose answers change.

    The answer of a shared plan is the union of the members' answers, each row with the label of its member. A
    constant that is the same for all members stays a constant of the shared plan until a member with another
    constant joins. Static parts that use the same tables for the first members of a shared plan must use them
    for all later members. The answers of a shared plan's members may be read in any thread.

    Attributes:
        template: the key that is equal for all members; see `template_of`.
        record: the newest evaluation of all members.
        shown: the newest evaluation that is durable.
        slots: the plan slots of the members by label.
        varying: the positions of the constants (see `algebra.template.skeleton`) in which members differ.
        state: the state of the plan's operators.
        budget: the budget of one evaluation of all members; if exceeded, each member is evaluated alone.
        close: releases the plan's state; may be called several times.
    """

    def __init__(
        self,
        template: Hashable,
        members: Sequence[RunningQuery],
        contents: Encoded,
        outbox: Outbox,
        failures: Failures,
    ) -> None:
        """Create the shared plan for members with the same last evaluation; `add` then adds them.

        Args:
            template: the key that is equal for all members.
            members: the first members, all evaluated last at the same instant, or never.
            contents: the window contents at the members' last evaluation.
            outbox: publishes events once they are durable.
            failures: the list to which members are added whose events cannot be published.

        Raises:
            ReportedError: the plan cannot be created.
        """
        self.template = template
        self._sample = sample = native_of(members[0])
        self.record = self.shown = EvaluationRecord(0, members[0].last.step, sample.statics.steps.own.version)
        self.slots: dict[int, MemberSlot] = {}
        self._count = count(1)
        self._prepared = members[0].prepared
        self._unseen = UnappliedChanges()
        self._outbox = outbox
        self._failures = failures
        self._announced = False
        self._terms = sample.terms
        self._loop: tuple[PlanState, QueryTimeline, RunLoop | None] | None = None
        self.budget = SharedBudget(sample.budget.limits)
        # The varying constants of each member of the shared plan as term ids, by label.
        self._constants: dict[int, IdRow] = {}
        self._parts = MemberParts.of([native_of(running) for running in members])
        self._plan(differing(sample, members), contents)

    def _plan(self, varying: Collection[int], contents: Encoded) -> None:
        """Build the shared plan with varying constants at these positions; run its first step, if any."""
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
        """Return True if a query was evaluated at the plan's last instant and has the same common tables."""
        running.bring_up_to_date()
        mine, theirs = tables_of(self._sample), tables_of(native_of(running))
        slots = [running.group.plan_slot] if isinstance(running.group.plan_slot, MemberSlot) else []
        return (
            running.evaluated_at == (None if self.record.step is None else self.record.step.at)
            and all(mine[place] == theirs[place] for place in self._parts.common)
            and not any(plan.has_unseen for plan in (self, *(each.plan for each in slots)))
        )

    def add(self, joining: Sequence[RunningQuery], contents: Encoded) -> Sequence[MemberSlot]:
        """Add queries that fit; if an answer in this shared plan differs from the former one, add none.

        Returns:
            The plan slots of the new members; empty if no query was added.
        """
        varying = differing(self._sample, joining)
        if not varying <= set(self.varying):
            self._widen(varying, contents)
        answers = [_answer_of(running) for running in joining]
        # The label of a member is an integer term id, which needs no dictionary entry.
        slots = [MemberSlot(self, integer_id(next(self._count)), running) for running in joining]
        self._enter(slots)
        pairs = zip(slots, answers, strict=True) if self.record.step is not None else ()
        if not all(self._answers[slot.label].equals(answer) for slot, answer in pairs):
            log.error("queries that differ in constants stay alone: together they would answer otherwise")
            self._leave(slots)
            return ()
        for slot, answer in zip(slots, answers, strict=True):
            before = slot.running.group.plan_slot
            if isinstance(before, MemberSlot):
                before.end()
                answer.decode_all()
                del before.plan.slots[before.label]
            else:
                slot.native.sleep()
            self.slots[slot.label] = slot
            slot.running.group.plan_slot = slot
            slot.running.set_answer(self._answers.change(slot.label))
        return slots

    def remove(self, slot: MemberSlot) -> None:
        """Remove a member of the shared plan; if this raises, the plan is unusable and must be closed."""
        del self.slots[slot.label]
        self._unseen.behind.pop(slot, None)
        slot.end()
        self._leave([slot])
        # The shared plan uses one member's evaluator as a sample. If the removed member is the sample,
        # another member must become the sample, because static parts are released.
        self._sample = next((other.native for other in self.slots.values()), self._sample)

    def behind(self) -> list[RunningQuery]:
        """Return the members that cannot apply steps of common static parts together with the others.

        If all members of a shared plan wait for the same store versions, as after a reload of their tables,
        the list is empty.
        """
        if not self._parts.common:
            return []
        steps = {slot.running: slot.native.statics.steps for slot in self.slots.values()}
        found = [running for running, each in steps.items() if each.behind - self._parts.common]
        return found if found and len({each.gaps for each in steps.values()}) > 1 else []

    def _widen(self, more: Collection[int], contents: Encoded) -> None:
        """Rebuild the shared plan for all members, because constants at further positions differ."""
        for answer in self._answers.values():
            answer.decode_all()
        self.close()
        self._plan({*self.varying, *more}, contents)
        self._enter(self.slots.values())
        for label, slot in self.slots.items():
            slot.running.set_answer(self._answers.change(label))

    def _enter(self, slots: Collection[MemberSlot]) -> None:
        """Add the rows of new members to the shared plan, without events for these rows."""
        for slot in slots:
            native = slot.native
            constants = [canonical(native.analysis.skeleton.constants[place]) for place in self.varying]
            # No sweep may run during the look-up of the members' constants, because it would delete ids
            # without a holder.
            with self._terms.planning:
                self._constants[slot.label] = tuple(self._terms.dictionary.ids[term] for term in constants)
            ask = native.query.form == "ask"
            self._answers[slot.label] = IncrementalAnswer(
                self.state, native.vars, native.budget, ask=ask, ordered=False
            )
        self._take_members(slots, 1)

    def _leave(self, slots: Collection[MemberSlot]) -> None:
        self._take_members(slots, -1)
        for slot in slots:
            self._answers.pop(slot.label).decode_all()
            del self._constants[slot.label]

    def _take_members(self, slots: Collection[MemberSlot], weight: int) -> None:
        """Evaluate a step that adds (weight 1) or removes (weight -1) the rows of members."""
        taken: dict[int, Delta] = {place: {} for place in self._parts.labelled}
        for slot in slots:
            for place, change in slot.native.statics.as_taken(but=self._parts.common).items():
                delta = change.delta if weight > 0 else negate(change.delta)
                # Each row has the label of its member, so no two members have a row in common.
                taken[place].update(self._parts.rows_of(slot.native, slot.label, place, delta))
        for place, found in taken.items():
            self.state.take(self._parts.names[place], found)
        rows = {(slot.label, *self._constants[slot.label]): weight for slot in slots}
        self.state.take(PARAMETERS, rows)
        if self.record.step is not None:
            self.step(self.record.step.at, ())

    @property
    def has_unseen(self) -> bool:
        """True if changes of static parts wait for the shared plan's next evaluation."""
        return bool(self._unseen.common)

    # --- steps ------------------------------------------------------------------------------------

    def evaluate(self, step: Evaluation, now_ms: int, contents: Encoded) -> None:
        """Evaluate all members once and emit their events; if this raises, the plan is unusable."""
        if self._unseen.common:
            self._take_unseen()
        changes: Mapping[int, AnswerChange | None] = self.step(step.at, contents)
        if self._unseen.common:
            self._unseen.clear()
        if self._prepared.output == "rstream":
            changes = {
                **dict.fromkeys(self._answers.filled if self._prepared.report.non_empty else self.slots),
                **changes,
            }
        elif self.record.step is None and self._sample.query.form == "ask":
            changes = {
                **dict.fromkeys(self.slots),
                **changes,
            }  # An ASK query emits its first answer even if it is false.
        self._emit(changes, step, now_ms, self.record.number + 1)
        self._note(self.record.number + 1, step)

    def run(self, given: Sequence[Transaction], timeline: QueryTimeline, now_ms: int) -> RunResult | None:
        """Process the first transactions of a list in one run, with the same results as `evaluate`.

        Returns None if the plan cannot process transactions in a run.
        """
        if self._unseen.common or self.record.step is None:
            return None
        state, made = self.state, self._loop
        if made is None or made[0] is not state or made[1] is not timeline:
            emission, answers = next(iter(self.slots.values())).running.emission, self._answers
            loop = run_loop(state, timeline, emission, answers.check, answers.label_at)
            made = self._loop = state, timeline, loop
        if (loop := made[2]) is None:
            return None
        self.budget.share(self._sample.budget.limits, len(self._answers) or 1)
        outputs = MembersByLabel(self.slots, loop.emission.head)
        try:
            ran = loop.run(given, outputs, self._answers.most)
        finally:
            self.budget.since, self.budget.stop = 0.0, ""
        if ran is None or not ran.instants:
            return ran
        outputs.emit(self._answers, ran, self.record, now_ms, self._failures)
        number = self.record.number + ran.instants
        self._note(number, Evaluation(ran.at, "elements" if ran.entered else "time"))
        self._terms.tidy()
        return ran

    def count_silent(self, number: int) -> None:
        """Count evaluations that were skipped because they would have emitted nothing for any member."""
        self.record = self.record._replace(number=self.record.number + number)

    def _note(self, number: int, step: Evaluation) -> None:
        """Record that the shared plan's evaluations up to ``number`` are complete."""
        corrected = self.record.reported if step.revises else number
        self.record = EvaluationRecord(number, step, self._sample.statics.steps.own.version, corrected)
        if not self._announced:
            self._announced = True
            self._outbox.when_shown(self._show)

    def take_steps(self, steps: Mapping[MemberSlot, StaticStep], at: int | None, now_ms: int) -> None:
        """Apply members' steps of static parts up to one version; if this raises, the plan is unusable."""
        read = [self.state.reads(name) for name in self._parts.names]
        changed = [
            slot
            for slot, step in steps.items()
            if any([change.delta and read[place] for place, change in step.changes.items()])
        ]
        if not changed:
            return
        self._unseen.add(next(iter(steps.values())).changes, {slot: steps[slot] for slot in changed})
        begun, answers = self.record.step is not None, None
        if not begun or (self._prepared.on_commit and at is not None):
            self._take_unseen()
            try:
                answers = self.step(at, ()) if begun and at is not None else None
            finally:
                # If the evaluation raises an error, the caller puts the static steps back, so the plan
                # discards them in any case.
                self._unseen.clear()
        for slot in changed:
            static = slot.running.static
            static.note(now_ms, "trigger", changed=True)
            if slot.unseen and static.unseen_from is None:
                static.unseen_from = steps[slot].before
        if answers is not None and at is not None:
            changes = {slot.label: answers.get(slot.label) for slot in changed}
            self._emit(changes, Evaluation(at, "tick"), now_ms, self.record.number)

    def step(self, at: int, contents: Encoded) -> dict[int, AnswerChange]:
        """Evaluate one transaction within the shared budget; return the changed answers by label."""
        self.budget.share(self._sample.budget.limits, len(self._answers) or 1)
        self.budget.since = time.monotonic()
        try:
            delta = self.state.step(self.state.gather(at, contents))
        finally:
            # A request to cancel the evaluation concerned this step only.
            self.budget.since, self.budget.stop = 0.0, ""
        changes = self._answers.step(delta)
        self._terms.tidy()
        return changes

    def _take_unseen(self) -> None:
        """Apply the pending changes of static parts to the shared plan's inputs for the next step."""
        parts = self._parts
        for changes in self._unseen.common:
            for place in parts.common & changes.keys():
                self.state.take(parts.names[place], changes[place].delta)
        for slot in self._unseen.behind:
            for step in slot.unseen:
                for place in parts.labelled & step.changes.keys():
                    rows = parts.rows_of(slot.native, slot.label, place, step.changes[place].delta)
                    self.state.take(parts.names[place], rows)

    def _referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows whose ids a sweep must not delete; ids move only to later rows of this order."""
        yield from list(self._constants.values())
        yield from self.state.referenced_rows()
        yield from self._answers.referenced_rows()

    def _emit(
        self, changes: Mapping[int, AnswerChange | None], step: Evaluation, now_ms: int, number: int
    ) -> None:
        """Emit the events of evaluation ``number`` of the shared plan to the members in ``changes``.

        Members whose events cannot be emitted are added to the failures.
        """
        for label, change in changes.items():
            slot = self.slots[label]
            try:
                slot.follow(self.record, number)
                slot.running.emit(step, self._answers.change(label) if change is None else change, now_ms)
            except Exception as error:
                self._failures.append((slot.running, error))

    def _show(self) -> None:
        """Make the newest evaluation visible to readers, because its events are durable now."""
        self._announced = False
        self.shown = self.record


def _answer_of(running: RunningQuery) -> IncrementalAnswer:
    """Return the answer that currently belongs to a query: in its shared plan, or in its own evaluator."""
    slot = running.group.plan_slot
    return slot.plan._answers[slot.label] if isinstance(slot, MemberSlot) else native_of(running).answer
