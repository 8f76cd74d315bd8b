"""One plan for queries of a group that differ in constants alone: who is in it, and who is told what."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

from ..evaluate.answer import AnswerChange
from ..output.feed import Outbox
from ..plan.plan_state import Encoded
from ..static.steps import StaticStep
from ..windows.reports import Evaluation
from .labelled_plan import LabelledPlan, label_of
from .membership import Failures, Member, Record, Seat

log = logging.getLogger("quadrill.continuous")


class CommonPlan:
    """Evaluates its members and tells those whose answers change.

    A constant that is the same for all members stays in the plan until somebody comes with another one.
    Static parts that are the same tables for the first members must be so for all later ones.

    Attributes:
        record: the newest evaluation of all members.
        shown: the newest one that is durable.
        members: by their labels.
    """

    def __init__(self, members: Sequence[Member], contents: Encoded, outbox: Outbox | None) -> None:
        """Make the plan for these, who have all been evaluated at the same instant; `add` lets them in.

        Args:
            members: two or more that differ in constants alone.
            contents: the windows as they were then.
            outbox: where results wait until they are durable; None where they need not be.

        Raises:
            QuadrillError: it cannot be planned.
        """
        self._sample = members[0].native
        assert members[0].last_step is not None
        self.record = self.shown = Record(0, members[0].last_step, self._sample.statics.passed)
        self.members: dict[int, Member] = {}
        self._count = count(1)
        self._everybody = members[0].output == "rstream"
        self._outbox = outbox
        self._announced = False
        self._plan = self._planned(self._differing(members), _labelled(members), contents)

    # --- members ----------------------------------------------------------------------------------

    def fits(self, running: Member) -> bool:
        """True when a query of the template was evaluated when these were and has the same common tables."""
        mine, theirs = self._sample.statics, running.native.statics
        return (
            running.last_step is not None
            and running.last_step.at == self.record.step.at
            and all(
                mine.tables[place] is theirs.tables[place]
                and mine.parts[place].vars == theirs.parts[place].vars
                for place in self._common
            )
        )

    def add(self, joining: Sequence[Member], contents: Encoded) -> bool:
        """Queries that fit join; False when their answers would not be those that they had alone."""
        varying = self._differing(joining)
        if not varying <= set(self._plan.varying):
            self._widen(varying, contents)
        new = {label_of(next(self._count)): running for running in joining}
        natives = {label: running.native for label, running in new.items()}
        self._plan.add(self.record.step.at, natives)
        if not all(self._plan.agrees(label, native) for label, native in natives.items()):
            log.error("queries that differ in constants stay alone: together they would answer otherwise")
            self._plan.remove(self.record.step.at, natives)
            return False
        for label, running in new.items():
            self.members[label] = running
            running.sleep(Seat(self, label, running), self._plan.unchanged(label))
        return True

    def remove(self, running: Member) -> None:
        """A member leaves; when this fails the plan is of no use any more."""
        seat = running.seat
        assert seat is not None
        del self.members[seat.label]
        seat.end()
        self._plan.remove(self.record.step.at, {seat.label: running.native})
        # One stands for all: who ends lets go of its static parts.
        self._sample = next((other.native for other in self.members.values()), self._sample)

    def behind(self) -> list[Member]:
        """The members that cannot take steps of common static parts when the others do.

        Where all wait alike, as queries do whose tables are read anew together, all take them together.
        """
        if not self._common:
            return []
        statics = {running: running.native.statics for running in self.members.values()}
        found = [running for running, each in statics.items() if each.behind - self._common]
        return found if found and len({each.steps.gaps for each in statics.values()}) > 1 else []

    def close(self) -> None:
        """Let go of the plan: its last member has left."""
        self._plan.close()

    def describe(self, running: Member) -> dict[str, Any]:
        """How many queries are evaluated together, and a member's constants where they differ."""
        constants = running.native.skeleton.constants
        own = [str(constants[place]) for place in self._plan.varying]
        return {"members": len(self.members), "constants": own}

    def explain(self, *, analyze: bool = False) -> str:
        """The operators, as text."""
        return self._plan.running.plan.explain(analyze=analyze)

    def measured(self) -> dict[str, Any]:
        """Live figures of the operators."""
        return self._plan.running.measured()

    @property
    def code(self) -> str | None:
        """The generated function."""
        return self._plan.running.code

    @property
    def _common(self) -> set[int]:
        """The places of static parts whose rows are there once for all members."""
        return set(range(len(self._sample.statics.parts))) - self._plan.labelled

    def _differing(self, members: Sequence[Member]) -> set[int]:
        """The places of constants in which some of these differ from those that are there."""
        mine = self._sample.skeleton.constants
        others = [running.native.skeleton.constants for running in members]
        return {place for place, term in enumerate(mine) if any(each[place] != term for each in others)}

    def _widen(self, more: Collection[int], contents: Encoded) -> None:
        """Constants that were the same so far differ: all members get a plan that knows."""
        old = self._plan
        self._plan = self._planned({*old.varying, *more}, old.labelled, contents)
        self._plan.add(
            self.record.step.at, {label: running.native for label, running in self.members.items()}
        )
        for label, running in self.members.items():
            running.answered_by(self._plan.unchanged(label))
        old.end()

    def _planned(
        self, varying: Collection[int], labelled: Collection[int], contents: Encoded
    ) -> LabelledPlan:
        plan = LabelledPlan(self._sample, varying, labelled)
        plan.begin(self.record.step.at, contents, self._sample)
        return plan

    # --- steps ------------------------------------------------------------------------------------

    def evaluate(self, step: Evaluation, now_ms: int, contents: Encoded) -> Failures:
        """One evaluation of all members; the plan is of no use any more when this fails."""
        told: Mapping[int, AnswerChange | None] = self._plan.step(step.at, contents)
        if self._everybody:
            told = {**dict.fromkeys(self.members), **told}
        failures = self._tell(told, step, now_ms, self.record.number + 1)
        self.record = Record(self.record.number + 1, step, self._sample.statics.passed)
        if not self._announced:
            self._announced = True
            if self._outbox is None:
                self._show()
            else:
                self._outbox.when_shown(self._show)
        return failures

    def take_steps(self, steps: Mapping[Member, StaticStep], at: int, now_ms: int) -> Failures:
        """Static parts of some members move to one version; no use any more when this fails."""
        changed: list[tuple[int, Member]] = []
        common = True
        for running, step in steps.items():
            assert running.seat is not None
            label = running.seat.label
            if self._plan.take(label, running.native, step.changes, common=common):
                changed.append((label, running))
            common = False
        if not changed:
            return []
        told = self._plan.step(at, ())
        for _, running in changed:
            running.note_step(now_ms)
        changes = {label: told.get(label) for label, _ in changed}
        return self._tell(changes, Evaluation(at, "tick"), now_ms, self.record.number)

    def _tell(
        self, told: Mapping[int, AnswerChange | None], step: Evaluation, now_ms: int, number: int
    ) -> Failures:
        """Tell members of an evaluation: that of all with a number, or one of their own behind it."""
        failures: Failures = []
        for label, change in told.items():
            running = self.members[label]
            try:
                running.settle(number)
                running.tell(step, self._plan.unchanged(label) if change is None else change, now_ms)
            except Exception as error:
                failures.append((running, error))
        return failures

    def _show(self) -> None:
        """Let members show what was evaluated, which is durable now."""
        self._announced = False
        self.shown = self.record


def _labelled(members: Sequence[Member]) -> set[int]:
    """The places of static parts that are not the same for all."""
    first, *others = (running.native.statics for running in members)
    return {
        place
        for place, table in enumerate(first.tables)
        if any(
            other.tables[place] is not table or other.parts[place].vars != first.parts[place].vars
            for other in others
        )
    }
