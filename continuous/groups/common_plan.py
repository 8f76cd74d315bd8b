"""One plan for queries of a group that differ in constants alone: who is in it, and who is told what."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from ..evaluate.native import AnswerChange, NativeEvaluator
from ..output.feed import Outbox
from ..plan.plan_state import Encoded, PlanState
from ..queries.running import RunningQuery
from ..static.table import StaticStep
from ..windows.reports import Evaluation
from .labelled_plan import LabelledPlan, label_of

log = logging.getLogger("quadrill.continuous")

Failures = list[tuple[RunningQuery, Exception]]
"""The queries that failed in a group; whoever works with groups ends them."""


class Record(NamedTuple):
    """A plan's newest evaluation: how many there were, its step, and the version whose turn had come."""

    number: int
    step: Evaluation
    passed: int


class Seat:
    """A query in a common plan. Nothing is done for it at an evaluation that gives it no rows.

    Whatever the evaluation would have left behind is worked out by `settle`, when somebody asks or before
    anything that it depends on changes.
    """

    def __init__(self, plan: CommonPlan, label: int, running: RunningQuery) -> None:
        self.plan = plan
        self.label = label
        self.running = running
        self.native = native_of(running)
        self.seen = plan.record.number
        # The last evaluation here, once it is evaluated elsewhere.
        self._last: tuple[Evaluation, int] | None = None

    @property
    def state(self) -> PlanState:
        """The plan at work."""
        return self.plan.state

    def settle(self) -> None:
        """Bring the query's figures to the plan's newest evaluation."""
        record, running = self.plan.record, self.running
        if record.number > self.seen:
            running.evaluations += record.number - self.seen
            running.last_step, running.last_answer_id = record.step, None
            running.last_version = self.native.statics.steps.version_at(record.passed)
            self.seen = record.number

    def end(self) -> None:
        """The plan evaluates the query no longer."""
        self.settle()
        if self.running.last_step is not None:
            self._last = (self.running.last_step, self.running.last_version)

    def shown_after(self, number: int) -> tuple[Evaluation, int] | None:
        """The newest evaluation that may be shown and its version, if later than that of a number.

        Called in any thread.
        """
        if self._last is not None:
            return self._last
        record = self.plan.shown
        if record.number <= number:
            return None
        return record.step, self.native.statics.steps.version_at(record.passed)

    def describe(self) -> dict[str, Any]:
        """How many queries are evaluated together, and this one's constants where they differ."""
        constants = self.native.skeleton.constants
        return {
            "members": len(self.plan.seats),
            "constants": [str(constants[place]) for place in self.plan.varying],
        }


class CommonPlan:
    """Evaluates its members and tells those whose answers change.

    A constant that is the same for all members stays in the plan until somebody comes with another one.
    Static parts that are the same tables for the first members must be so for all later ones.

    Attributes:
        template: equal for all members.
        record: the newest evaluation of all members.
        shown: the newest one that is durable.
        seats: those of the members, by their labels.
    """

    def __init__(
        self,
        template: Hashable,
        members: Sequence[RunningQuery],
        contents: Encoded,
        outbox: Outbox,
        failures: Failures,
    ) -> None:
        """Make the plan for members that have been evaluated at the same instant; `add` lets them in.

        ``contents`` are the windows as they were then; ``failures`` takes the members that cannot be told
        what follows. Raises QuadrillError when it cannot be planned.
        """
        self.template = template
        self._sample = native_of(members[0])
        assert members[0].last_step is not None
        self.record = self.shown = Record(0, members[0].last_step, self._sample.statics.steps.turn.version)
        self.seats: dict[int, Seat] = {}
        self._count = count(1)
        self._everybody = members[0].prepared.output == "rstream"
        self._outbox = outbox
        self._failures = failures
        self._announced = False
        varying, at = self._differing(members), self.record.step.at
        self._plan = LabelledPlan(self._sample, varying, _labelled(members), at, contents)

    @property
    def varying(self) -> tuple[int, ...]:
        """The places of the constants in which members differ."""
        return self._plan.varying

    # --- members ----------------------------------------------------------------------------------

    def fits(self, running: RunningQuery) -> bool:
        """True when a query of the template was evaluated when these were and has the same common tables."""
        mine, theirs = self._sample.statics, native_of(running).statics
        return (
            running.last_step is not None
            and running.last_step.at == self.record.step.at
            and all(
                mine.tables[place] is theirs.tables[place]
                and mine.parts[place].vars == theirs.parts[place].vars
                for place in self._common
            )
        )

    def add(self, joining: Sequence[RunningQuery], contents: Encoded) -> Sequence[Seat]:
        """Queries that fit join; nobody does when their answers would not be those that they had alone."""
        varying = self._differing(joining)
        if not varying <= set(self.varying):
            self._widen(varying, contents)
        seats = [Seat(self, label_of(next(self._count)), running) for running in joining]
        natives = {seat.label: seat.native for seat in seats}
        self._plan.enter(self.record.step.at, natives)
        if not all(self._plan.answers[seat.label].equals(seat.native.answer) for seat in seats):
            log.error("queries that differ in constants stay alone: together they would answer otherwise")
            self._plan.leave(self.record.step.at, natives)
            return ()
        for seat in seats:
            self.seats[seat.label] = seat
            seat.running.seat = seat
            seat.native.sleep()
            seat.running.answered_by(self._plan.answer(seat.label))
        return seats

    def remove(self, seat: Seat) -> None:
        """A member leaves; when this fails the plan is of no use any more."""
        del self.seats[seat.label]
        seat.end()
        self._plan.leave(self.record.step.at, {seat.label: seat.native})
        # One stands for all: who ends lets go of its static parts.
        self._sample = next((other.native for other in self.seats.values()), self._sample)

    def behind(self) -> list[RunningQuery]:
        """The members that cannot take steps of common static parts when the others do.

        Where all wait alike, as queries do whose tables are read anew together, all take them together.
        """
        if not self._common:
            return []
        steps = {seat.running: seat.native.statics.steps for seat in self.seats.values()}
        found = [running for running, each in steps.items() if each.behind - self._common]
        return found if found and len({each.gaps for each in steps.values()}) > 1 else []

    def close(self) -> None:
        """Let go of the plan: its last member has left."""
        self._plan.close()

    @property
    def state(self) -> PlanState:
        """The plan at work."""
        return self._plan.state

    @property
    def _common(self) -> set[int]:
        """The places of static parts whose rows are there once for all members."""
        return set(range(len(self._sample.statics.parts))) - self._plan.labelled

    def _differing(self, members: Sequence[RunningQuery]) -> set[int]:
        """The places of constants in which some of these differ from those that are there."""
        mine = self._sample.skeleton.constants
        others = [native_of(running).skeleton.constants for running in members]
        return {place for place, term in enumerate(mine) if any(each[place] != term for each in others)}

    def _widen(self, more: Collection[int], contents: Encoded) -> None:
        """Constants that were the same so far differ: all members get a plan that knows."""
        old, at = self._plan, self.record.step.at
        self._plan = LabelledPlan(self._sample, {*old.varying, *more}, old.labelled, at, contents)
        self._plan.enter(at, {label: seat.native for label, seat in self.seats.items()})
        for label, seat in self.seats.items():
            seat.running.answered_by(self._plan.answer(label))
        old.end()

    # --- steps ------------------------------------------------------------------------------------

    def evaluate(self, step: Evaluation, now_ms: int, contents: Encoded) -> None:
        """One evaluation of all members; the plan is of no use any more when this fails."""
        told: Mapping[int, AnswerChange | None] = self._plan.step(step.at, contents)
        if self._everybody:
            told = {**dict.fromkeys(self.seats), **told}
        self._tell(told, step, now_ms, self.record.number + 1)
        self.record = Record(self.record.number + 1, step, self._sample.statics.steps.turn.version)
        if not self._announced:
            self._announced = True
            self._outbox.when_shown(self._show)

    def take_steps(self, steps: Mapping[Seat, StaticStep], at: int, now_ms: int) -> None:
        """Static parts of some members move to one version; no use any more when this fails."""
        changed: list[Seat] = []
        common = True
        for seat, step in steps.items():
            if self._plan.take(seat.label, seat.native, step.changes, common=common):
                changed.append(seat)
            common = False
        if not changed:
            return
        told = self._plan.step(at, ())
        for seat in changed:
            seat.running.static.note(now_ms, "trigger", changed=True)
        changes = {seat.label: told.get(seat.label) for seat in changed}
        self._tell(changes, Evaluation(at, "tick"), now_ms, self.record.number)

    def _tell(
        self, told: Mapping[int, AnswerChange | None], step: Evaluation, now_ms: int, number: int
    ) -> None:
        """Tell members of an evaluation: that of all with a number, or one of their own behind it."""
        for label, change in told.items():
            seat = self.seats[label]
            try:
                seat.settle()
                seat.seen = number
                seat.running.tell(step, self._plan.answer(label) if change is None else change, now_ms)
            except Exception as error:
                self._failures.append((seat.running, error))

    def _show(self) -> None:
        """Let members show what was evaluated, which is durable now."""
        self._announced = False
        self.shown = self.record


def native_of(running: RunningQuery) -> NativeEvaluator:
    """The evaluator of a query that is in a group, or may be."""
    assert isinstance(running.evaluator, NativeEvaluator)
    return running.evaluator


def _labelled(members: Sequence[RunningQuery]) -> set[int]:
    """The places of static parts that are not the same for all."""
    first, *others = (native_of(running).statics for running in members)
    return {
        place
        for place, table in enumerate(first.tables)
        if any(
            other.tables[place] is not table or other.parts[place].vars != first.parts[place].vars
            for other in others
        )
    }
