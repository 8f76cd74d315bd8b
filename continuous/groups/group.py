"""Queries with the same windows on a stream: one timeline, one content of each window, few plans."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias

from quadrill.store.errors import ReportedError
from quadrill.store.feeds.feed import Outbox

from ..algebra.reports import EmptyReportRun, Evaluation, Step, UnchangedRun
from ..inputs import StreamInput
from ..queries.running import RunningQuery, is_silent
from ..rows import IdRow
from ..slices import RUN, pause
from ..windows.encoded import EncodedContent
from ..windows.query_streams import Transaction
from ..windows.window_delta import NOTHING, WindowDelta, WindowKey
from .members import Failures, in_common, native_of, template_of
from .shared_plan import MemberSlot, SharedPlan
from .steps import DeferredStep, MemberWork, Shares, count_silent, tell_skipped, windows_once

log = logging.getLogger("quadrill.continuous")


class QueryGroup:
    """Takes the inputs of a stream for all its members. Used in the loop only.

    A member has a plan of its own, or a seat in that of members that differ from it in constants alone.

    Attributes:
        timeline: the time of all members.
        inputs: counts the elements taken.
        evaluated_at: the instant of the last evaluation; None before the first.
        members: who is in it, in the order of joining, with the seats of those that have one.
        spent: seconds of the engine's time that it has taken.
        leaving: members that have ended while it was suspended: they leave at the next step.
    """

    level = 1

    def __init__(
        self,
        lead: RunningQuery,
        outbox: Outbox,
        failures: Failures,
        shares: Shares | None,
        *,
        common_plans: bool,
    ) -> None:
        """A group with one member, whose timeline it takes over.

        ``failures`` takes the members that fail, which are none any more; with ``common_plans`` members that
        differ in constants alone have one plan. ``shares`` lets the others go on while one is slow.
        """
        self._work = MemberWork(shares, self._fail)
        self._outbox = outbox
        self._failures = failures
        self._common_plans = common_plans
        self.timeline = lead.timeline
        self.timeline.windows.detach()
        self.inputs = lead.inputs
        self.evaluated_at = lead.evaluated_at
        self.spent = 0.0
        self.leaving: list[RunningQuery] = []
        self._input: StreamInput | None = None
        self._windows: list[tuple[WindowKey, EncodedContent]] = self.timeline.windows.contents
        # What is being evaluated: the changes of the windows, taken once for all plans.
        self._taken: Sequence[WindowDelta] = [NOTHING] * len(self._windows)
        self.members: dict[RunningQuery, MemberSlot | None] = {}
        # Those without a seat, and their templates.
        self._alone: dict[RunningQuery, Hashable | None] = {}
        # Those that may emit something at an evaluation that changes nothing.
        self._repeating: dict[RunningQuery, None] = {}
        self._plans: list[SharedPlan] = []
        # Templates whose common plan failed, or would answer otherwise.
        self._banned: set[Hashable] = set()
        native_of(lead).terms.coder.keep(self)
        self._enter(lead)

    @property
    def stream(self) -> str:
        """The IRI of the one stream that it reads."""
        return self.timeline.inputs.streams[0]

    def referenced_rows(self) -> Iterable[IdRow]:
        """The keys that left a window in the evaluation at work: not all plans have taken them yet."""
        return [key for taken in self._taken for key in taken.keys]

    # --- members ----------------------------------------------------------------------------------

    def add(self, joining: Sequence[Cohort]) -> None:
        """Queries join, and whole groups, whose timelines have become the same as this one's."""
        for cohort in joining:
            if isinstance(cohort, RunningQuery):
                self._enter(cohort)
                continue
            self._plans += cohort._plans
            self._banned |= cohort._banned
            for running, seat in cohort.members.items():
                self._enter(running, seat)
        self._unite()

    def remove(self, running: RunningQuery, *, ended: bool = False) -> None:
        """A member goes on with a timeline of its own that holds the same, unless nobody asks for one."""
        self._leave_plan(running)
        self._alone.pop(running, None)
        self._repeating.pop(running, None)
        del self.members[running]
        running.leave_group(self.timeline if ended else self.timeline.fork(*running.counts()))

    def set_apart(self, running: RunningQuery) -> None:
        """A member gets a plan of its own, for something that is not for others."""
        if self._leave_plan(running):
            self._wake(running)

    def _enter(self, running: RunningQuery, seat: MemberSlot | None = None) -> None:
        self.members[running] = seat
        if running.prepared.repeats:
            self._repeating[running] = None
        if seat is None:
            self._alone[running] = template_of(running) if self._common_plans else None
        running.enter_group(self.members, self.timeline, self.inputs)

    def _unite(self) -> None:
        """Members of a template get into common plans, those that can just now."""
        plans: dict[Hashable, list[SharedPlan]] = {}
        for plan in self._plans:
            plans.setdefault(plan.template, []).append(plan)
        for template, found in plans.items():
            for other in found[1:] if template not in self._banned else ():
                members = [seat.running for seat in other.seats.values()]
                if found[0] in self._plans and all(map(found[0].fits, members)):
                    self._join(found[0], members)
        alike: dict[Hashable, list[RunningQuery]] = {}
        for running, template in self._alone.items():
            if template is not None and template not in self._banned:
                alike.setdefault(template, []).append(running)
        for template, members in alike.items():
            self._seat(template, members, plans.get(template, ()))

    def _seat(self, template: Hashable, members: Iterable[RunningQuery], plans: Iterable[SharedPlan]) -> None:
        """Those of a template that have plans of their own get into common ones, of which there are some."""
        # Whose end is known already comes to it by itself.
        ready = [
            each
            for each in members
            if each.static.is_complete and each.failure.expected is None and not each.group.barred
        ]
        for plan in plans:
            fitting = [running for running in ready if plan in self._plans and plan.fits(running)]
            if fitting:
                self._join(plan, fitting)
                ready = [running for running in ready if running in self._alone]
        alike: dict[Hashable, list[RunningQuery]] = {}
        for running in ready:
            alike.setdefault(in_common(running), []).append(running)
        for members in alike.values():
            if len(members) == 1 or template in self._banned:
                continue
            try:
                plan = SharedPlan(
                    template, members, windows_once(self._windows, self._taken), self._outbox, self._failures
                )
            except Exception as error:
                if not isinstance(error, ReportedError):
                    log.exception("queries that differ in constants stay alone")
                self._banned.add(template)
                continue
            self._plans.append(plan)
            self._join(plan, members)

    def _join(self, plan: SharedPlan, joining: Sequence[RunningQuery]) -> None:
        try:
            seats = plan.add(joining, windows_once(self._windows, self._taken))
        except Exception:
            log.exception("queries that differ in constants stay alone")
            seats = ()
        if not seats:
            self._break_up(plan)
        for seat in seats:
            before = self.members[seat.running]
            if before is None:
                self._alone.pop(seat.running, None)
            elif not before.plan.seats and before.plan in self._plans:
                self._plans.remove(before.plan)
                before.plan.close()
            self.members[seat.running] = seat

    def _leave_plan(self, running: RunningQuery) -> bool:
        """A member is in no common plan any more, and has none of its own yet; False when it was in none.

        When the plan fails, all have plans of their own again but this one.
        """
        seat = self.members.get(running)
        if seat is None:
            return False
        self.members[running] = None
        try:
            seat.plan.remove(seat)
        except Exception as error:
            self._fails(seat.plan, error)
        else:
            if not seat.plan.seats:
                self._plans.remove(seat.plan)
                seat.plan.close()
        return True

    def _fails(self, plan: SharedPlan, error: Exception) -> None:
        if isinstance(error, ReportedError):  # what it may cost is no fault of the program
            log.info("%d queries of a common plan go on by themselves: %s", len(plan.seats), error)
        else:
            log.error("the common plan of %d queries failed: %s", len(plan.seats), error, exc_info=error)
        self._break_up(plan)

    def _break_up(self, plan: SharedPlan) -> None:
        """A plan is of no use any more: its members get plans of their own that stand where it stood."""
        seats = list(plan.seats.values())
        plan.seats.clear()
        self._plans.remove(plan)
        self._banned.add(plan.template)
        plan.close()
        for seat in seats:
            seat.end()
            self.members[seat.running] = None
            self._wake(seat.running)

    def _wake(self, running: RunningQuery) -> None:
        """Evaluate a member by its own plan again, from the last evaluation."""
        self._alone[running] = template_of(running) if self._common_plans else None
        self._alone_does(running, self._go_on)

    def _go_on(self, running: RunningQuery) -> None:
        native, last, seat = native_of(running), running.last.step, running.group.plan_slot
        running.group.plan_slot = None
        native.wake()
        if last is not None:
            running.set_answer(native.resume(last.at, windows_once(self._windows, self._taken)))
        if isinstance(seat, MemberSlot) and seat.unseen:
            seat.unseen.clear()
            running.static.catch_up(on_request=False)

    def _alone_does(self, running: RunningQuery, work: Callable[[RunningQuery], None]) -> None:
        """Something is done for one member; nothing when it is none any more."""
        if running in self.members:
            try:
                work(running)
            except Exception as error:
                self._fail(running, error)

    # --- inputs -----------------------------------------------------------------------------------

    def handle(self, events: Sequence[StreamInput], now_ms: int) -> None:
        """Take inputs of the stream that are in line, for all members; when that fails, all do."""
        before, last = self.timeline.inputs.taken, events[-1]
        try:
            while events:
                self._input = events[0]
                place, (given, ends) = 0, self.timeline.gather(events)
                for step in () if ends else self.timeline.handle(events[0], self._is_silent):
                    self._evaluate(step, now_ms)
                _failed_at(events[0], self._failures)
                while place < len(given):
                    done, entering = self._run(given[place : place + RUN], now_ms)
                    self._stand()
                    place += done
                    # At an instant before elements enter, those that wait are not among the ones done.
                    failed = min(place - entering, len(given) - 1)
                    _failed_at(events[bisect_right(ends, failed)], self._failures)
                    # What a run stops at is worked off by itself.
                    for step in self.timeline.slide(given[place : place + 1]) if done < RUN else ():
                        self._evaluate(step, now_ms)
                    place += done < RUN
                    _failed_at(events[bisect_left(ends, min(place, len(given)))], self._failures)
                events = events[len(ends) or 1 :]
            if self.inputs.second != now_ms // 1000:
                self._work.check_costs(self.members, self.spent, now_ms)
                _failed_at(last, self._failures)
            self.inputs.add(now_ms, self.timeline.inputs.taken - before)
        except Exception as error:
            log.exception("%d queries with the same windows failed together", len(self.members))
            self._failures += [(running, error) for running in self.members]
            _failed_at(events[0], self._failures)

    def _stand(self) -> None:
        """Between two steps: others may go on, and members that have ended leave."""
        pause()
        while self.leaving:
            running = self.leaving.pop()
            if running in self.members:
                self.remove(running, ended=True)

    def _run(self, given: Sequence[Transaction], now_ms: int) -> tuple[int, bool]:
        """Work off the first of some transactions at once, where one plan is for all.

        How many they were, and whether elements entered at the last instant.
        """
        if self._alone or len(self._plans) != 1:
            return 0, False
        plan, before = self._plans[0], len(self._failures)
        ran = plan.run(given, self.timeline, now_ms)
        if ran is None:
            return 0, False
        if ran.instants:
            self.evaluated_at = ran.at
        self._remove_since(before)
        if ran.error is not None:
            self._fails(plan, ran.error)
            assert self.timeline.instant is not None
            self._evaluate(Evaluation(self.timeline.instant, "elements" if ran.entering else "time"), now_ms)
        return ran.done, ran.entering

    def _evaluate(self, step: Step, now_ms: int) -> None:
        self._stand()
        if isinstance(step, EmptyReportRun):
            self._work.each(self.members, tell_skipped, step)
            return
        if isinstance(step, UnchangedRun):
            for plan in self._plans:
                plan.count_silent(step.number)
            self._work.each(self._alone, count_silent, step)
            return
        self._taken = [content.take() for _, content in self._windows]
        for plan in list(self._plans):
            before = len(self._failures)
            try:
                plan.evaluate(step, now_ms, windows_once(self._windows, self._taken))
            except Exception as error:
                self._fails(plan, error)
            else:
                self._remove_since(before)
        given = DeferredStep(step, self._windows, self._taken, self._input)
        self._work.evaluate(list(self._alone), given, now_ms, others=len(self._plans))
        self._taken = [NOTHING] * len(self._windows)
        self.evaluated_at = step.at
        if any(template is not None for template in self._alone.values()):
            # What kept them from a common plan may be over.
            self._unite()

    def _is_silent(self) -> bool:
        """True when one more evaluation over the same contents would emit nothing for any member."""
        behind = self._work.behind
        return not self._repeating or not any(
            each in behind or not is_silent(each) for each in self._repeating
        )

    def _fail(self, running: RunningQuery, error: Exception) -> None:
        """A query that is a member, or was one when it took its last step, fails."""
        self._failures.append((running, error))
        if running in self.members:
            self.remove(running)

    def _remove_since(self, before: int) -> None:
        """The members that failed since there were so many failures are none any more."""
        for running, _ in self._failures[before:]:
            self.remove(running)

    # --- static parts -----------------------------------------------------------------------------

    def take_steps(self, moved: Sequence[RunningQuery], now_ms: int) -> None:
        """Static parts of members of common plans have moved on: each version is a transaction of its own.

        The rows of a part that all have in common are there once, so who cannot take them when the others do
        gets a plan of its own first.
        """
        for running in moved:
            # Evaluations so far had not seen these steps.
            running.bring_up_to_date()
        seats = [seat for running in moved if (seat := self.members.get(running)) is not None]
        for plan in dict.fromkeys(seat.plan for seat in seats):
            for running in plan.behind():
                self.set_apart(running)
            self._take_steps(plan, [seat for seat in seats if plan.seats.get(seat.label) is seat], now_ms)
        for running in moved:
            if running in self._alone:
                self._alone_does(running, lambda each: each.apply_static_steps(now_ms))

    def _take_steps(self, plan: SharedPlan, seats: Sequence[MemberSlot], now_ms: int) -> None:
        left = {seat: seat.native.statics.steps.ready() for seat in seats}
        heads = {seat: step for seat, steps in left.items() if (step := next(steps, None)) is not None}
        while heads:
            version = min(step.version for step in heads.values())
            now = {seat: step for seat, step in heads.items() if step.version == version}
            before = len(self._failures)
            try:
                # A commit happens at the current instant.
                plan.take_steps(now, self.timeline.instant, now_ms)
            except Exception as error:
                left.clear()
                for seat, step in heads.items():
                    seat.native.statics.steps.put_back(step)
                return self._fails(plan, error)
            self._remove_since(before)
            for seat in now:
                following = next(left[seat], None) if seat.running.group.plan_slot is seat else None
                if following is None:
                    del heads[seat]
                else:
                    heads[seat] = following


Cohort: TypeAlias = RunningQuery | QueryGroup
"""Those that one timeline is for."""


def _failed_at(event: StreamInput, failures: Failures) -> None:
    """Who failed since somebody asked did so at an input."""
    for running, _ in failures:
        running.failure.at = running.failure.at or event
