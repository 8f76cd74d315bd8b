"""A query's part in a template group: what evaluations that it was not told of mean for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..windows.reports import Evaluation

if TYPE_CHECKING:
    from ..queries.running import RunningQuery
    from .group import TemplateGroup


class Record(NamedTuple):
    """A group's newest evaluation: how many there were, its step, and the version whose turn had come."""

    number: int
    step: Evaluation | None
    passed: int


class Membership:
    """One member of a group. Nothing is done for it at an evaluation that gives it no rows.

    Whatever the evaluation would have left behind is worked out by `settle`, when somebody asks or before
    anything that it depends on changes.
    """

    def __init__(self, group: TemplateGroup, label: int, running: RunningQuery) -> None:
        self.group = group
        self.label = label
        self._running = running
        self.seen = group.record.number
        timeline, own = group.timeline, running.timeline
        self._before = (own.taken - timeline.taken, own.late - timeline.late, own.behind - timeline.behind)
        self._inputs = group.inputs.total
        # The last evaluation as a member, once it is none any more.
        self._last: tuple[Evaluation, int] | None = None

    def counts(self) -> tuple[int, int, int]:
        """Elements taken, late, and behind other streams, since the query began."""
        timeline = self.group.timeline
        taken, late, behind = self._before
        return timeline.taken + taken, timeline.late + late, timeline.behind + behind

    def settle(self) -> None:
        """Bring the query's figures to the group's newest evaluation."""
        record, running = self.group.record, self._running
        more = self.group.inputs.total - self._inputs
        self._inputs += more
        running.inputs.follow(self.group.inputs, more)
        if record.number > self.seen and record.step is not None and running.statics is not None:
            running.settled(
                record.number - self.seen, record.step, running.statics.version_when(record.passed)
            )
            self.seen = record.number

    def describe(self) -> dict[str, Any]:
        """How many queries are evaluated together, and this one's constants where they differ."""
        return {"members": len(self.group.members), "constants": self.group.constants_of(self._running)}

    def timeline_state(self) -> dict[str, Any]:
        """The group's time as the query's own."""
        taken, late, behind = self.counts()
        state = self.group.timeline.fork(self._running.name)
        return state | {"taken": taken, "late": late, "behind": behind}

    def end(self) -> None:
        """The query is no member any more."""
        self.settle()
        if self._running.last_step is not None:
            self._last = (self._running.last_step, self._running.last_version)

    def shown_after(self, number: int) -> tuple[Evaluation, int] | None:
        """The newest evaluation that may be shown and its version, if later than that of a number.

        Called in any thread.
        """
        if self._last is not None:
            return self._last
        record, statics = self.group.shown, self._running.statics
        if record.number <= number or record.step is None or statics is None:
            return None
        return record.step, statics.version_when(record.passed)
