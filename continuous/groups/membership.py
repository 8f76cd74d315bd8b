"""The membership of a query in a group and in its common plan, and what these ask of a query."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from ..evaluate.answer import AnswerChange
from ..evaluate.evaluator import Explained, Windows
from ..evaluate.native import NativeEvaluator
from ..meters import Meter
from ..windows.reports import Evaluation, Skipped
from ..windows.timeline import QueryTimeline


class Member(Protocol):
    """A running query, as groups see it."""

    name: str
    timeline: QueryTimeline
    membership: Membership | None
    seat: Seat | None
    inputs: Meter
    last_step: Evaluation | None
    last_version: int

    @property
    def native(self) -> NativeEvaluator:
        """The native evaluator of the query."""
        ...

    @property
    def output(self) -> str:
        """The emission of the query: relation to stream."""
        ...

    @property
    def shape(self) -> Hashable | None:
        """Equal for queries whose timelines can be one; None for one that stays alone."""
        ...

    @property
    def template(self) -> Hashable | None:
        """Equal for queries that differ in constants alone; None for one that needs a plan of its own."""
        ...

    @property
    def is_settled(self) -> bool:
        """True when nothing is in hand that a common plan would not know of."""
        ...

    def enter_group(self, membership: Membership) -> None:
        """Its timeline is that of the group from now on."""
        ...

    def leave_group(self, timeline: QueryTimeline) -> None:
        """Give the query a timeline of its own from now on."""
        ...

    def evaluate(self, step: Evaluation, now_ms: int, windows: Windows) -> None:
        """Evaluate it by its own plan and tell what follows."""
        ...

    def sleep(self, seat: Seat, answer: AnswerChange) -> None:
        """A common plan evaluates it from now on; ``answer`` is the present one, as that has it."""
        ...

    def wake(self, windows: Windows) -> None:
        """Evaluate it by its own plan again, from the last evaluation."""
        ...

    def answered_by(self, answer: AnswerChange) -> None:
        """The answer is the same as it was, and known here from now on."""
        ...

    def settle(self, told: int | None = None) -> None:
        """Bring its figures to the newest evaluation; the one numbered ``told`` is told next."""
        ...

    def settled(self, evaluations: int, step: Evaluation, version: int) -> None:
        """Count evaluations that gave the query no rows, the last one at this step and version."""
        ...

    def tell(self, step: Evaluation, answer: AnswerChange, now_ms: int) -> None:
        """Publish what follows from an answer."""
        ...

    def tell_skipped(self, step: Skipped) -> None:
        """A run of empty reports."""
        ...

    def note_step(self, now_ms: int) -> None:
        """The rows of static parts have changed with a commit."""
        ...

    def take_steps(self, now_ms: int) -> None:
        """Static parts take the steps that there are."""
        ...


Failures = list[tuple[Member, Exception]]
"""The members that failed; they are none any more."""


class SharedTime(Protocol):
    """A group, as its members see it."""

    timeline: QueryTimeline
    inputs: Meter

    def names(self, most: int | None) -> list[str]:
        """The names of members, at most so many, in order."""
        ...

    def set_apart(self, running: Member) -> Failures:
        """A member gets a plan of its own, for something that is not for others."""
        ...

    def take_steps(self, moved: Sequence[Member], now_ms: int) -> Failures:
        """Static parts of members of common plans have moved on."""
        ...


class Membership:
    """A query in a group, whose timeline it shares."""

    def __init__(self, group: SharedTime, running: Member) -> None:
        self.group = group
        self._running = running
        timeline, own = group.timeline.inputs, running.timeline.inputs
        self._before = (own.taken - timeline.taken, own.late - timeline.late, own.behind - timeline.behind)
        self._inputs = group.inputs.total

    def counts(self) -> tuple[int, int, int]:
        """Elements taken, late, and behind other streams, since the query began."""
        timeline = self.group.timeline.inputs
        taken, late, behind = self._before
        return timeline.taken + taken, timeline.late + late, timeline.behind + behind

    def settle(self) -> None:
        """Let the query's rates follow the group's."""
        more = self.group.inputs.total - self._inputs
        self._inputs += more
        self._running.inputs.follow(self.group.inputs, more)


class Record(NamedTuple):
    """A plan's newest evaluation: how many there were, its step, and the version whose turn had come."""

    number: int
    step: Evaluation
    passed: int


class SharedPlan(Explained, Protocol):
    """A common plan, as its members see it: the newest evaluation, and the newest one that is durable."""

    record: Record
    shown: Record

    def describe(self, running: Member) -> dict[str, Any]:
        """How many queries are evaluated together, and a member's constants where they differ."""
        ...


class Seat:
    """A query in a common plan. Nothing is done for it at an evaluation that gives it no rows.

    Whatever the evaluation would have left behind is worked out by `settle`, when somebody asks or before
    anything that it depends on changes.
    """

    def __init__(self, plan: SharedPlan, label: int, running: Member) -> None:
        self.plan = plan
        self.label = label
        self._running = running
        self.seen = plan.record.number
        # The last evaluation here, once it is evaluated elsewhere.
        self._last: tuple[Evaluation, int] | None = None

    def settle(self) -> None:
        """Bring the query's figures to the plan's newest evaluation."""
        record = self.plan.record
        if record.number > self.seen:
            version = self._running.native.statics.version_when(record.passed)
            self._running.settled(record.number - self.seen, record.step, version)
            self.seen = record.number

    def end(self) -> None:
        """The plan evaluates the query no longer."""
        self.settle()
        if self._running.last_step is not None:
            self._last = (self._running.last_step, self._running.last_version)

    def shown_after(self, number: int) -> tuple[Evaluation, int] | None:
        """The newest evaluation that may be shown and its version, if later than that of a number.

        Called in any thread.
        """
        if self._last is not None:
            return self._last
        record = self.plan.shown
        if record.number <= number:
            return None
        return record.step, self._running.native.statics.version_when(record.passed)
