"""Groups: queries with the same windows on one stream share a timeline and window contents."""

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
    """A group: queries with the same windows, which process the inputs of one stream together.

    A member of a group has a private plan, or a plan slot in the shared plan of members that differ only in
    constants. Only the engine's thread uses a group.

    Attributes:
        timeline: the timeline that all members share.
        inputs: counts the elements that the group has processed.
        evaluated_at: the instant of the last evaluation; None before the first evaluation.
        members: the member queries in the order of joining, each with its plan slot or None.
        spent: CPU seconds of the engine's thread that the group has used.
        leaving: members that ended while the group was suspended; they are removed at the next step.
    """

    level = 1

    def __init__(
        self,
        lead: RunningQuery,
        outbox: Outbox,
        failures: Failures,
        shares: Shares | None,
        *,
        shared_plans: bool,
    ) -> None:
        """Create a group with one member, whose timeline becomes the group's.

        Args:
            lead: the first member.
            outbox: publishes the members' events once they are durable.
            failures: the list to which members that fail are added; they are removed from the group.
            shares: gives slow members a backlog, so that other members do not wait; None for no backlogs.
            shared_plans: members that differ only in constants have one shared plan.
        """
        self._work = MemberWork(shares, self._fail)
        self._outbox = outbox
        self._failures = failures
        self._shared_plans = shared_plans
        self.timeline = lead.timeline
        self.timeline.windows.detach()
        self.inputs = lead.inputs
        self.evaluated_at = lead.evaluated_at
        self.spent = 0.0
        self.leaving: list[RunningQuery] = []
        self._input: StreamInput | None = None
        self._windows: list[tuple[WindowKey, EncodedContent]] = self.timeline.windows.contents
        # The changes of the windows in the running evaluation, read once for all plans of the group.
        self._taken: Sequence[WindowDelta] = [NOTHING] * len(self._windows)
        self.members: dict[RunningQuery, MemberSlot | None] = {}
        # The members with private plans, each with its template (the key of a shared plan) or None.
        self._alone: dict[RunningQuery, Hashable | None] = {}
        # Members that may emit rows at an evaluation that changes nothing (Rstream).
        self._repeating: dict[RunningQuery, None] = {}
        self._plans: list[SharedPlan] = []
        # Templates (keys of shared plans) whose shared plan failed or gave answers that differ from private
        # plans.
        self._banned: set[Hashable] = set()
        native_of(lead).terms.coder.keep(self)
        self._enter(lead)

    @property
    def stream(self) -> str:
        """The IRI of the one stream that the group reads."""
        return self.timeline.inputs.streams[0]

    def referenced_rows(self) -> Iterable[IdRow]:
        """The keys of quads in the evaluation's window changes that not all plans have applied yet."""
        return [key for taken in self._taken for key in taken.keys]

    # --- members ----------------------------------------------------------------------------------

    def add(self, joining: Sequence[Cohort]) -> None:
        """Add queries, or all members of other groups, whose timelines now equal the group's timeline."""
        for cohort in joining:
            if isinstance(cohort, RunningQuery):
                self._enter(cohort)
                continue
            self._plans += cohort._plans
            self._banned |= cohort._banned
            for running, slot in cohort.members.items():
                self._enter(running, slot)
        self._unite()

    def remove(self, running: RunningQuery, *, ended: bool = False) -> None:
        """Remove a member from the group; unless ``ended``, it gets a private copy of the timeline."""
        self._leave_plan(running)
        self._alone.pop(running, None)
        self._repeating.pop(running, None)
        del self.members[running]
        running.leave_group(self.timeline if ended else self.timeline.fork(*running.counts()))

    def set_apart(self, running: RunningQuery) -> None:
        """Move a member from its shared plan to a private plan, for work on this member only."""
        if self._leave_plan(running):
            self._wake(running)

    def _enter(self, running: RunningQuery, slot: MemberSlot | None = None) -> None:
        self.members[running] = slot
        if running.prepared.repeats:
            self._repeating[running] = None
        if slot is None:
            self._alone[running] = template_of(running) if self._shared_plans else None
        running.enter_group(self.members, self.timeline, self.inputs)

    def _unite(self) -> None:
        """Move members with equal templates into shared plans, as far as their present states allow."""
        plans: dict[Hashable, list[SharedPlan]] = {}
        for plan in self._plans:
            plans.setdefault(plan.template, []).append(plan)
        for template, found in plans.items():
            for other in found[1:] if template not in self._banned else ():
                members = [slot.running for slot in other.slots.values()]
                if found[0] in self._plans and all(map(found[0].fits, members)):
                    self._join(found[0], members)
        alike: dict[Hashable, list[RunningQuery]] = {}
        for running, template in self._alone.items():
            if template is not None and template not in self._banned:
                alike.setdefault(template, []).append(running)
        for template, members in alike.items():
            self._assign_slots(template, members, plans.get(template, ()))

    def _assign_slots(
        self, template: Hashable, members: Iterable[RunningQuery], plans: Iterable[SharedPlan]
    ) -> None:
        """Move members with private plans and one template into existing shared plans or into new ones."""
        # A member that is known to fail at a later input (in a replay) keeps its private plan.
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
            slots = plan.add(joining, windows_once(self._windows, self._taken))
        except Exception:
            log.exception("queries that differ in constants stay alone")
            slots = ()
        if not slots:
            self._break_up(plan)
        for slot in slots:
            before = self.members[slot.running]
            if before is None:
                self._alone.pop(slot.running, None)
            elif not before.plan.slots and before.plan in self._plans:
                self._plans.remove(before.plan)
                before.plan.close()
            self.members[slot.running] = slot

    def _leave_plan(self, running: RunningQuery) -> bool:
        """Remove a member from its shared plan without giving it a private plan; False if it had none.

        If the removal of a member fails, all other members of the shared plan get private plans.
        """
        slot = self.members.get(running)
        if slot is None:
            return False
        self.members[running] = None
        try:
            slot.plan.remove(slot)
        except Exception as error:
            self._fails(slot.plan, error)
        else:
            if not slot.plan.slots:
                self._plans.remove(slot.plan)
                slot.plan.close()
        return True

    def _fails(self, plan: SharedPlan, error: Exception) -> None:
        # An exceeded budget is no fault of the program, so it is not logged as one.
        if isinstance(error, ReportedError):
            log.info("%d queries of a shared plan continue with private plans: %s", len(plan.slots), error)
        else:
            log.error("the shared plan of %d queries failed: %s", len(plan.slots), error, exc_info=error)
        self._break_up(plan)

    def _break_up(self, plan: SharedPlan) -> None:
        """Close an unusable shared plan; its members get private plans that continue at the same instant."""
        slots = list(plan.slots.values())
        plan.slots.clear()
        self._plans.remove(plan)
        self._banned.add(plan.template)
        plan.close()
        for slot in slots:
            slot.end()
            self.members[slot.running] = None
            self._wake(slot.running)

    def _wake(self, running: RunningQuery) -> None:
        """Evaluate a member by a private plan again, starting from the last evaluation of the group."""
        self._alone[running] = template_of(running) if self._shared_plans else None
        self._alone_does(running, self._go_on)

    def _go_on(self, running: RunningQuery) -> None:
        native, last, slot = native_of(running), running.last.step, running.group.plan_slot
        running.group.plan_slot = None
        native.wake()
        if last is not None:
            running.set_answer(native.resume(last.at, windows_once(self._windows, self._taken)))
        if isinstance(slot, MemberSlot) and slot.unseen:
            slot.unseen.clear()
            running.static.catch_up(on_request=False)

    def _alone_does(self, running: RunningQuery, work: Callable[[RunningQuery], None]) -> None:
        """Call ``work`` for a member of the group; the member fails if ``work`` raises an error.

        The function ``work`` is not called for former members of the group.
        """
        if running in self.members:
            try:
                work(running)
            except Exception as error:
                self._fail(running, error)

    # --- inputs -----------------------------------------------------------------------------------

    def handle(self, events: Sequence[StreamInput], now_ms: int) -> None:
        """Process queued inputs of the group's stream for all members; if this fails, all members fail."""
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
                    # If elements entered at the last instant of a run, the transaction that failed is the
                    # last one done, otherwise the next one.
                    failed = min(place - entering, len(given) - 1)
                    _failed_at(events[bisect_right(ends, failed)], self._failures)
                    # The transaction at which a run stopped is processed step by step.
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
        """Between two steps, suspend the group if its time slice is over; remove members that have ended."""
        pause()
        while self.leaving:
            running = self.leaving.pop()
            if running in self.members:
                self.remove(running, ended=True)

    def _run(self, given: Sequence[Transaction], now_ms: int) -> tuple[int, bool]:
        """Process the first transactions of a list in one run, if all members are in one shared plan.

        Returns:
            The number of transactions that the run has processed, and True if elements entered at the last
            instant.
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
        # A query that emits rows again, at instants without an evaluation, has no group.
        assert isinstance(step, Evaluation)
        self.timeline.windows.move_ends(step.at)
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
            # Members with private plans may fit into a shared plan after this evaluation.
            self._unite()

    def _is_silent(self) -> bool:
        """Return True if another evaluation over the same windows would emit nothing for any member."""
        behind = self._work.behind
        return not self._repeating or not any(
            each in behind or not is_silent(each) for each in self._repeating
        )

    def _fail(self, running: RunningQuery, error: Exception) -> None:
        """Record the failure of a current or former member, and remove the query from the group."""
        self._failures.append((running, error))
        if running in self.members:
            self.remove(running)

    def _remove_since(self, before: int) -> None:
        """Remove the failed members of the group after the first ``before`` failures in the list."""
        for running, _ in self._failures[before:]:
            self.remove(running)

    # --- static parts -----------------------------------------------------------------------------

    def take_steps(self, moved: Sequence[RunningQuery], now_ms: int) -> None:
        """Apply new versions of static parts to the members in ``moved``; each version is one transaction.

        A shared plan stores the rows of a common static part once, so a member that cannot apply a step of
        static rows together with the other members gets a private plan first.
        """
        for running in moved:
            # Past evaluations did not include the new steps of static rows, so the figures are updated before
            # the steps.
            running.bring_up_to_date()
        slots = [slot for running in moved if (slot := self.members.get(running)) is not None]
        for plan in dict.fromkeys(slot.plan for slot in slots):
            for running in plan.behind():
                self.set_apart(running)
            self._take_steps(plan, [slot for slot in slots if plan.slots.get(slot.label) is slot], now_ms)
        for running in moved:
            if running in self._alone:
                self._alone_does(running, lambda each: each.apply_static_steps(now_ms))

    def _take_steps(self, plan: SharedPlan, slots: Sequence[MemberSlot], now_ms: int) -> None:
        left = {slot: slot.native.statics.steps.ready() for slot in slots}
        heads = {slot: step for slot, steps in left.items() if (step := next(steps, None)) is not None}
        while heads:
            version = min(step.version for step in heads.values())
            now = {slot: step for slot, step in heads.items() if step.version == version}
            before = len(self._failures)
            try:
                # A commit is evaluated at the group's current instant.
                plan.take_steps(now, self.timeline.instant, now_ms)
            except Exception as error:
                left.clear()
                for slot, step in heads.items():
                    slot.native.statics.steps.put_back(step)
                return self._fails(plan, error)
            self._remove_since(before)
            for slot in now:
                following = next(left[slot], None) if slot.running.group.plan_slot is slot else None
                if following is None:
                    del heads[slot]
                else:
                    heads[slot] = following


Cohort: TypeAlias = RunningQuery | QueryGroup
"""The users of one timeline: a single query, or a group of queries."""


def _failed_at(event: StreamInput, failures: Failures) -> None:
    """Set `event` as the input of all failures that have no input yet."""
    for running, _ in failures:
        running.failure.at = running.failure.at or event
