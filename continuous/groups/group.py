"""A template group: one timeline, one plan and one window for queries that differ in constants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from pyoxigraph import NamedNode

from ..evaluate.answer import AnswerChange
from ..evaluate.native import NativeEvaluator
from ..inputs import StreamInput
from ..meters import Meter
from ..rows import IdRow
from ..static.steps import StaticStep
from ..windows.encoded import NOTHING, Taken, WindowKey
from ..windows.reports import Evaluation, Skipped
from ..windows.shared_window import SharedContent
from ..windows.sharing import WindowSharing
from .evaluator import TemplateEvaluator, label_of
from .membership import Membership, Record

if TYPE_CHECKING:
    from ..queries.running import RunningQuery

log = logging.getLogger("quadrill.continuous")

Failed = Callable[["RunningQuery", Exception, StreamInput | None], None]
"""Told about a member that failed, and at which input."""


class TemplateGroup:
    """Takes inputs for all its members and tells those whose answers change. Used in the loop only.

    Attributes:
        timeline: the time of all members.
        record: the newest evaluation.
        shown: the newest one that is durable.
        inputs: counts the elements taken.
        broken: its plan has failed; its members go on alone.
        parted: queries that had to leave and get no inputs yet.
    """

    def __init__(
        self, lead: RunningQuery, failed: Failed, when_shown: Callable[[Callable[[], None]], None]
    ) -> None:
        """A group without members that stands where ``lead`` stands; `plan` gives it its evaluator."""
        self._failed = failed
        self._when_shown = when_shown
        self._announced = False
        sample = evaluator_of(lead)
        self._sample = sample
        self.timeline = lead.new_timeline()
        self.timeline.restore(lead.timeline.fork(lead.name))
        self.sharing = WindowSharing(sample.pool, self.timeline, lead.name)
        self._windows = [
            ((NamedNode(name), None), cast(SharedContent, operator.live))
            for (name, _), operator in self.timeline.operators.items()
        ]
        assert lead.last_step is not None
        self.record = self.shown = Record(0, lead.last_step, sample.statics.passed)
        self.inputs = Meter()
        self.inputs.follow(lead.inputs, 0)
        self.broken = False
        self.parted: list[RunningQuery] = []
        # By their labels.
        self.members: dict[int, RunningQuery] = {}
        self._count = count(1)
        self._everybody = lead.prepared.output == "rstream"
        self._evaluator: TemplateEvaluator

    @property
    def stream(self) -> str:
        """The IRI of the one stream that it reads."""
        return self.timeline.streams[0]

    def names(self, most: int) -> list[str]:
        """The names of members, in the order in which they joined."""
        return [running.name for _, running in zip(range(most), self.members.values(), strict=False)]

    def constants_of(self, running: RunningQuery) -> list[str]:
        """The constants of a member where members differ, but for those in static parts."""
        constants = evaluator_of(running).skeleton.constants
        return [str(constants[place]) for place in self._evaluator.varying]

    # --- members ----------------------------------------------------------------------------------

    def plan(self, members: Sequence[RunningQuery], labelled: Collection[int]) -> None:
        """Make the plan for these first members.

        Raises:
            QuadrillError: it cannot be planned.
        """
        varying = {place for running in members for place in self._differing(running)}
        self._evaluator = self._planned(varying, labelled)

    def fits(self, running: RunningQuery) -> bool:
        """True when a query stands where the group stands and reads the same common static parts."""
        mine, theirs = self._sample.statics, evaluator_of(running).statics
        return (
            self.timeline.shared_windows() == running.timeline.shared_windows()
            and self.timeline.is_like(running.timeline)
            and all(
                mine.tables[place] is theirs.tables[place]
                and mine.parts[place].vars == theirs.parts[place].vars
                for place in self._common
            )
        )

    def add(self, joining: Sequence[RunningQuery]) -> bool:
        """Queries that fit join; False when their answers are not those that they had alone."""
        varying = {place for running in joining for place in self._differing(running)}
        varying -= set(self._evaluator.varying)
        if varying:
            self._widen(varying)
        new = {label_of(next(self._count)): running for running in joining}
        self._evaluator.add(self._at, {label: evaluator_of(running) for label, running in new.items()})
        if not all(self._evaluator.agrees(label, evaluator_of(running)) for label, running in new.items()):
            log.error("queries that differ in constants stay alone: together they would answer otherwise")
            self._evaluator.remove(self._at, {label: evaluator_of(each) for label, each in new.items()})
            return False
        for label, running in new.items():
            self.members[label] = running
            running.join(Membership(self, label, running), self._evaluator.unchanged(label))
        return True

    def part(self, running: RunningQuery) -> None:
        """A member goes on alone."""
        self._forget(running)
        running.go_alone()
        self.parted.append(running)

    def discard(self, running: RunningQuery) -> None:
        """A member ends."""
        self._forget(running)
        running.end_membership()
        running.timeline.leave_windows()

    def explain(self, *, analyze: bool = False) -> str:
        """The common plan."""
        return self._evaluator.running.plan.explain(analyze=analyze)

    def measured(self) -> dict[str, Any]:
        """Live figures of the common plan."""
        return self._evaluator.running.measured()

    @property
    def code(self) -> str | None:
        """The generated function of the common plan."""
        return self._evaluator.running.code

    @property
    def _at(self) -> int:
        """The instant of the last evaluation."""
        assert self.record.step is not None
        return self.record.step.at

    @property
    def _common(self) -> set[int]:
        """The places of static parts whose rows are there once for all members."""
        return set(range(len(self._sample.statics.parts))) - self._evaluator.labelled

    def _forget(self, running: RunningQuery) -> None:
        membership = running.membership
        assert membership is not None
        if self.members.pop(membership.label, None) is None or self.broken:
            return
        try:
            self._evaluator.remove(self._at, {membership.label: evaluator_of(running)})
        except Exception:
            log.exception("the common plan of %d queries failed", len(self.members) + 1)
            self.dissolve()
        if self.members:
            # It stands for all: what ends lets go of its static parts.
            other = next(iter(self.members.values()))
            self._sample = evaluator_of(other)
            self.sharing.rename(other.name)

    def end(self) -> None:
        """Nobody is left."""
        self.sharing.leave()
        self.timeline.let_go()
        self._evaluator.close()

    def _differing(self, running: RunningQuery) -> list[int]:
        """The places of constants in which a query differs from one of the members."""
        mine, theirs = self._sample.skeleton.constants, evaluator_of(running).skeleton.constants
        return [place for place, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]

    def _widen(self, more: Collection[int]) -> None:
        """Constants that were the same so far differ: all members get a plan that knows."""
        old = self._evaluator
        self._evaluator = self._planned({*old.varying, *more}, old.labelled)
        self._evaluator.add(
            self._at, {label: evaluator_of(running) for label, running in self.members.items()}
        )
        # Ids in the old plan's rows are held by nobody any more.
        for label, running in self.members.items():
            running.answered_by(self._evaluator.unchanged(label))
        old.close()

    def _planned(self, varying: Collection[int], labelled: Collection[int]) -> TemplateEvaluator:
        evaluator = TemplateEvaluator(self._sample, varying, labelled)
        evaluator.begin(self._at, self._windows, self._sample)
        return evaluator

    # --- inputs -----------------------------------------------------------------------------------

    def handle(self, event: StreamInput, now_ms: int) -> None:
        """Take one input of the stream for all members."""
        before = self.timeline.taken
        alone: _Alone | None = None
        for step in self.timeline.handle(event):
            if isinstance(step, Skipped):
                for running in [*self.members.values(), *(() if alone is None else alone)]:
                    running.tell_skipped(step)
                continue
            given = self._take()
            if alone is None:
                alone = self._evaluate(step, given, now_ms, event)
            if alone is not None:
                self._each(alone, step, given, now_ms, event)
        self.inputs.add(now_ms, self.timeline.taken - before)
        if alone is None:
            self.sharing.meet(event)
        else:
            self._part(alone)

    def _evaluate(
        self, step: Evaluation, given: Sequence[_Given], now_ms: int, event: StreamInput
    ) -> _Alone | None:
        """One evaluation of all members; when it fails the members, each with a plan of its own."""
        try:
            told = self._evaluator.step(step.at, [(each.key, each.once()) for each in given])
        except Exception:
            log.exception("the common plan of %d queries failed", len(self.members))
            return self._break_up(given, {}, event)
        everybody = dict.fromkeys(self.members) if self._everybody else {}
        for label, change in (everybody | told).items():
            self._tell(label, step, change, now_ms, event, number=self.record.number + 1)
        self.record = Record(self.record.number + 1, step, self._sample.statics.passed)
        if not self._announced:
            self._announced = True
            self._when_shown(self._show)
        return None

    def _tell(
        self,
        label: int,
        step: Evaluation,
        change: AnswerChange | None,
        now_ms: int,
        event: StreamInput | None,
        *,
        number: int,
    ) -> None:
        """Tell one member of an evaluation of the group, or with the number of the last one of its own."""
        running = self.members[label]
        try:
            running.settle(number)
            running.tell(step, self._evaluator.unchanged(label) if change is None else change, now_ms)
        except Exception as error:
            self._failed(running, error, event)

    def _show(self) -> None:
        """What was evaluated is durable."""
        self._announced = False
        self.shown = self.record

    def _take(self) -> list[_Given]:
        """The changes of the windows, taken once for all who need them."""
        return [_Given(key, content, content.take()) for key, content in self._windows]

    # --- static parts -----------------------------------------------------------------------------

    def take_steps(self, moved: Sequence[RunningQuery], now_ms: int) -> None:
        """The static parts of some members have moved on: each version is a transaction of its own.

        The rows of a part that all have in common are there once, so who cannot take them when the others do
        goes on alone first. Where all wait alike, as members of one `BaseTable` do, all take them together.
        """
        common = self._common
        if common:
            statics = {running: evaluator_of(running).statics for running in self.members.values()}
            behind = [running for running, each in statics.items() if each.behind - common]
            if behind and len({each.gaps for each in statics.values()}) > 1:
                for running in behind:
                    self.part(running)
        heads = [_Head(running) for running in moved if running.membership is not None]
        heads = [each for each in heads if each.next()]
        while heads := [each for each in heads if each.running.membership is not None]:
            version = min(each.step.version for each in heads)
            now = [each for each in heads if each.step.version == version]
            if not self._step(now, now_ms):
                alone = self._break_up(self._take(), {each.running: each.step for each in heads}, None)
                self._part(alone)
                for each in heads:
                    each.go_on_alone(now_ms)
                break
            heads = [each for each in heads if each not in now or each.next()]
        for running in moved:
            if running in self.parted and not self.broken:
                running.take_steps(now_ms)

    def _step(self, heads: Sequence[_Head], now_ms: int) -> bool:
        """Some members take the step to the same version; False when the plan fails."""
        changed: list[RunningQuery] = []
        for place, each in enumerate(heads):
            running = each.running
            membership = running.membership
            assert membership is not None
            evaluator, changes = evaluator_of(running), each.step.changes
            if self._evaluator.take(membership.label, evaluator, changes, common=not place):
                changed.append(running)
        if not changed:
            return True
        # A commit happens at the query's current instant.
        assert self.timeline.instant is not None
        step = Evaluation(self.timeline.instant, "tick")
        try:
            told = self._evaluator.step(step.at, ())
        except Exception:
            log.exception("the common plan of %d queries failed", len(self.members))
            return False
        for running in changed:
            membership = running.membership
            assert membership is not None
            running.note_step(now_ms)
            change = told.get(membership.label)
            self._tell(membership.label, step, change, now_ms, None, number=self.record.number)
        return True

    # --- when the plan fails ----------------------------------------------------------------------

    def dissolve(self) -> None:
        """Its plan is of no use any more: between inputs all members go on alone."""
        self._part(self._break_up(self._take(), {}, None))

    def _break_up(
        self, given: Sequence[_Given], undone: Mapping[RunningQuery, StaticStep], event: StreamInput | None
    ) -> _Alone:
        """Each member gets a plan of its own that stands where the last evaluation was."""
        self.broken = True
        alone: _Alone = {}
        before = [(each.key, each.once()) for each in given]
        members, self.members = self.members, {}
        for running in members.values():
            membership = running.membership
            assert membership is not None
            try:
                running.go_alone(before, undone.get(running))
                alone[running] = membership
            except Exception as error:
                self._failed(running, error, event)
        return alone

    def _each(
        self, alone: _Alone, step: Evaluation, given: Sequence[_Given], now_ms: int, event: StreamInput
    ) -> None:
        """The same evaluation for each query by itself."""
        for running in list(alone):
            try:
                change = evaluator_of(running).advance(step.at, [(each.key, each.once()) for each in given])
                running.tell(step, change, now_ms)
            except Exception as error:
                del alone[running]
                self._failed(running, error, event)

    def _part(self, alone: _Alone) -> None:
        """The input is over: each has a timeline of its own from now on."""
        for running, membership in alone.items():
            running.stand(membership.timeline_state())
            self.parted.append(running)
        self.end()


class _Head:
    """A member, the step that its static parts take next, and those behind it."""

    def __init__(self, running: RunningQuery) -> None:
        self.running = running
        self._steps = evaluator_of(running).statics.ready()
        self.step: StaticStep

    def next(self) -> bool:
        """Go to the next step; False when there is none."""
        step = next(self._steps, None)
        if step is not None:
            self.step = step
        return step is not None

    def go_on_alone(self, now_ms: int) -> None:
        """The member takes its steps by itself."""
        self.running.take_step(self.step, now_ms)
        for step in self._steps:
            self.running.take_step(step, now_ms)


class _Given:
    """The change of a window, taken once for several plans."""

    def __init__(self, key: WindowKey, content: SharedContent, taken: Taken) -> None:
        self.key = key
        self._content = content
        self._taken = taken

    def once(self) -> _Once:
        """The window for one plan."""
        return _Once(self._content, self._taken)


class _Once:
    """A shared window whose change has been taken from it, for one plan."""

    def __init__(self, content: SharedContent, taken: Taken) -> None:
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


_Alone = dict["RunningQuery", Membership]
"""Queries that have left a group whose plan failed, with what they were in it."""


def evaluator_of(running: RunningQuery) -> NativeEvaluator:
    """The evaluator of a query that a template may be made of."""
    return cast(NativeEvaluator, running.evaluator)
