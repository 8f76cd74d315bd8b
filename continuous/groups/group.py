"""Queries with the same windows on a stream: one timeline, one content of each window, few plans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice

from quadrill.store.errors import QuadrillError

from ..inputs import StreamInput
from ..meters import Meter
from ..output.feed import Outbox
from ..rows import IdRow
from ..windows.encoded import NOTHING, EncodedContent, Taken, WindowKey
from ..windows.reports import Evaluation, Skipped
from .common_plan import CommonPlan
from .membership import Failures, Member, Membership

log = logging.getLogger("quadrill.continuous")


class Group:
    """Takes the inputs of a stream for all its members. Used in the loop only.

    A member has a plan of its own, or a place in that of members that differ from it in constants alone.

    Attributes:
        timeline: the time of all members.
        inputs: counts the elements taken.
    """

    level = 1

    def __init__(self, lead: Member, outbox: Outbox | None, *, common_plans: bool) -> None:
        """A group with one member, whose timeline it takes over.

        Args:
            lead: the member.
            outbox: where results wait until they are durable; None where they need not be.
            common_plans: members that differ in constants alone are to have one plan.
        """
        self._outbox = outbox
        self._common_plans = common_plans
        self.timeline = lead.timeline
        self.timeline.windows.detach()
        self.inputs = Meter()
        self.inputs.follow(lead.inputs, 0)
        self._windows: list[tuple[WindowKey, EncodedContent]] = self.timeline.windows.contents
        # What is being evaluated: the changes of the windows, taken once for all plans.
        self._taken: Sequence[Taken] = [NOTHING] * len(self._windows)
        # With their common plans, those that have one.
        self._members: dict[Member, CommonPlan | None] = {}
        # The others, and their templates.
        self._alone: dict[Member, Hashable | None] = {}
        self._plans: dict[Hashable, list[CommonPlan]] = {}
        # A common plan of theirs failed, or would answer otherwise.
        self._banned: set[Hashable] = set()
        lead.native.terms.coder.keep(self)
        self._enter(lead)

    @property
    def stream(self) -> str:
        """The IRI of the one stream that it reads."""
        return self.timeline.inputs.streams[0]

    @property
    def members(self) -> list[Member]:
        """Who is in it, in the order of joining. May be called in any thread."""
        return list(self._members)

    def names(self, most: int | None) -> list[str]:
        """The names of members, at most so many, in order."""
        return sorted(running.name for running in islice(self.members, most))

    def held(self) -> Iterable[IdRow]:
        """The keys that left a window in the evaluation at work: not all plans have taken them yet."""
        return [key for taken in self._taken for key in taken.keys]

    # --- members ----------------------------------------------------------------------------------

    def add(self, joining: Sequence[Member]) -> Failures:
        """Queries join whose timelines have become the same as the group's."""
        for running in joining:
            self._enter(running)
        templates = dict.fromkeys(self._alone[running] for running in joining)
        failures: Failures = []
        for template in templates:
            if template is not None and template not in self._banned:
                failures += self._unite(template)
        return failures

    def remove(self, running: Member, *, ended: bool = False) -> Failures:
        """A member goes on with a timeline of its own that holds the same, unless nobody asks for one.

        Who goes on with a common plan is to be `set_apart` first.
        """
        failures = self._leave_plan(running)
        self._alone.pop(running, None)
        del self._members[running]
        membership = running.membership
        assert membership is not None
        membership.settle()
        running.leave_group(self.timeline if ended else self.timeline.fork(*membership.counts()))
        return failures

    def set_apart(self, running: Member) -> Failures:
        """A member gets a plan of its own, for something that is not for others."""
        if self._members.get(running) is None:
            return []
        failures = self._leave_plan(running)
        return failures + self._wake([running])

    def _enter(self, running: Member) -> None:
        self._members[running] = None
        self._alone[running] = running.template if self._common_plans else None
        running.enter_group(Membership(self, running))

    def _unite(self, template: Hashable) -> Failures:
        """Members of a template get into common plans, those that can just now."""
        failures: Failures = []
        ready = [running for running, own in self._alone.items() if own == template and running.is_settled]
        for plan in list(self._plans.get(template, ())):
            fitting = [running for running in ready if plan.fits(running)]
            if fitting:
                failures += self._join(template, plan, fitting)
                ready = [running for running in ready if self._members[running] is None]
        alike: dict[Hashable, list[Member]] = {}
        for running in ready:
            alike.setdefault(_in_common(running), []).append(running)
        for members in alike.values():
            if len(members) > 1 and template not in self._banned:
                failures += self._make_plan(template, members)
        return failures

    def _make_plan(self, template: Hashable, members: Sequence[Member]) -> Failures:
        try:
            plan = CommonPlan(members, self._contents(), self._outbox)
        except Exception as error:
            if not isinstance(error, QuadrillError):
                log.exception("queries that differ in constants stay alone")
            self._banned.add(template)
            return []
        self._plans.setdefault(template, []).append(plan)
        return self._join(template, plan, members)

    def _join(self, template: Hashable, plan: CommonPlan, joining: Sequence[Member]) -> Failures:
        try:
            joined = plan.add(joining, self._contents())
        except Exception:
            log.exception("queries that differ in constants stay alone")
            joined = False
        if not joined:
            self._banned.add(template)
            return self._break_up(plan)
        for running in joining:
            del self._alone[running]
            self._members[running] = plan
        return []

    def _leave_plan(self, running: Member) -> Failures:
        """A member is in no common plan any more, and has none of its own yet."""
        plan = self._members[running]
        if plan is None:
            return []
        self._members[running] = None
        try:
            plan.remove(running)
        except Exception:
            log.exception("the common plan of %d queries failed", len(plan.members) + 1)
            return self._break_up(plan)
        if not plan.members:
            self._forget(plan)
        return []

    def _break_up(self, plan: CommonPlan) -> Failures:
        """A plan is of no use any more: its members get plans of their own that stand where it stood."""
        members = list(plan.members.values())
        plan.members.clear()
        self._forget(plan, ban=True)
        for running in members:
            assert running.seat is not None
            running.seat.end()
            self._members[running] = None
        return self._wake(members)

    def _forget(self, plan: CommonPlan, *, ban: bool = False) -> None:
        for template, plans in list(self._plans.items()):
            if plan in plans:
                plans.remove(plan)
                if ban:
                    self._banned.add(template)
                if not plans:
                    del self._plans[template]
        plan.close()

    def _wake(self, members: Sequence[Member]) -> Failures:
        failures: Failures = []
        for running in members:
            self._alone[running] = running.template
            failures += self._alone_does(running, lambda each: each.wake(self._contents()))
        return failures

    def _alone_does(self, running: Member, work: Callable[[Member], None]) -> Failures:
        """Something is done for one member; nothing when it is none any more."""
        if running not in self._members:
            return []
        try:
            work(running)
        except Exception as error:
            return [(running, error), *self.remove(running)]
        return []

    # --- inputs -----------------------------------------------------------------------------------

    def handle(self, event: StreamInput, now_ms: int) -> Failures:
        """Take one input of the stream for all members."""
        failures: Failures = []
        before = self.timeline.inputs.taken
        for step in self.timeline.handle(event):
            if isinstance(step, Skipped):
                for running in self._members:
                    running.tell_skipped(step)
            else:
                failures += self._evaluate(step, now_ms)
        self.inputs.add(now_ms, self.timeline.inputs.taken - before)
        return failures

    def _evaluate(self, step: Evaluation, now_ms: int) -> Failures:
        failures: Failures = []
        self._taken = [content.take() for _, content in self._windows]
        for plan in [plan for plans in self._plans.values() for plan in plans]:
            try:
                failed = plan.evaluate(step, now_ms, self._contents())
            except Exception:
                log.exception("the common plan of %d queries failed", len(plan.members))
                failures += self._break_up(plan)
            else:
                failures += failed + self._remove_all(failed)
        for running in list(self._alone):
            failures += self._alone_does(running, lambda each: each.evaluate(step, now_ms, self._contents()))
        self._taken = [NOTHING] * len(self._windows)
        return failures

    def _remove_all(self, failed: Failures) -> Failures:
        return [more for running, _ in failed for more in self.remove(running)]

    def _contents(self) -> list[tuple[WindowKey, _Once]]:
        """The windows for one plan, as they were at the last evaluation and with what has changed since."""
        return [
            (key, _Once(content, taken))
            for (key, content), taken in zip(self._windows, self._taken, strict=True)
        ]

    # --- static parts -----------------------------------------------------------------------------

    def take_steps(self, moved: Sequence[Member], now_ms: int) -> Failures:
        """Static parts of members of common plans have moved on: each version is a transaction of its own.

        The rows of a part that all have in common are there once, so who cannot take them when the others do
        gets a plan of its own first.
        """
        failures: Failures = []
        for running in moved:
            # Evaluations so far had not seen these steps.
            running.settle()
        for plan in dict.fromkeys(self._members[running] for running in moved):
            if plan is not None:
                for running in plan.behind():
                    failures += self.set_apart(running)
                members = [running for running in moved if self._members.get(running) is plan]
                failures += self._take_steps(plan, members, now_ms)
        for running in moved:
            if self._members.get(running) is None:
                failures += self._alone_does(running, lambda each: each.take_steps(now_ms))
        return failures

    def _take_steps(self, plan: CommonPlan, members: Sequence[Member], now_ms: int) -> Failures:
        failures: Failures = []
        assert self.timeline.instant is not None
        left = {running: running.native.statics.ready() for running in members}
        heads = {running: step for running, steps in left.items() if (step := next(steps, None)) is not None}
        while heads:
            version = min(step.version for step in heads.values())
            now = {running: step for running, step in heads.items() if step.version == version}
            try:
                # A commit happens at the current instant.
                failed = plan.take_steps(now, self.timeline.instant, now_ms)
            except Exception:
                log.exception("the common plan of %d queries failed", len(plan.members))
                left.clear()
                for running, step in heads.items():
                    running.native.statics.steps.put_back(step)
                return failures + self._break_up(plan)
            failures += failed + self._remove_all(failed)
            for running in now:
                following = next(left[running], None) if self._members.get(running) is plan else None
                if following is None:
                    del heads[running]
                else:
                    heads[running] = following
        return failures


class _Once:
    """A window whose change has been taken from it, for one plan."""

    def __init__(self, content: EncodedContent, taken: Taken) -> None:
        self.inputs = content.inputs
        self._content = content
        self._taken = taken

    def take(self) -> Taken:
        """See `HeldWindow.take`."""
        taken, self._taken = self._taken, NOTHING
        return taken

    def before(self) -> list[IdRow]:
        """See `HeldWindow.before`."""
        return self._content.before_change(self._taken)

    def before_change(self, taken: Taken) -> list[IdRow]:
        """See `HeldWindow.before_change`."""
        return self._content.before_change(taken)


def _in_common(running: Member) -> Hashable:
    """Equal for queries of a template that one plan can be made for just now."""
    native = running.native
    assert running.last_step is not None
    # The static parts whose rows may not differ between members, and their columns.
    parts = [
        (table, part.vars)
        for part, table in zip(native.statics.parts, native.statics.tables, strict=True)
        if part.name not in native.skeleton.tables
    ]
    return running.last_step.at, tuple(parts)
