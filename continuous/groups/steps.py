"""Evaluation of a group's members with private plans, which all apply the same window changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..algebra.reports import EmptyReportRun, Evaluation, Step, UnchangedRun
from ..errors import BudgetError
from ..inputs import StreamInput
from ..queries.costs import check_costs
from ..queries.running import RunningQuery
from ..rows import Delta, IdRow
from ..slices import pause
from ..windows.encoded import EncodedContent
from ..windows.window_delta import NOTHING, WindowDelta, WindowKey
from .members import native_of


class Shares(Protocol):
    """Runs the work of members in time slices; see `scheduler/shares.py`."""

    @property
    def backlogs(self) -> Mapping[Any, Any]:
        """The backlogs of all lagging readers of the engine (queries, or groups of queries), by reader."""
        ...

    def run_member_work(
        self, work: Callable[[Any, Any, int], None], given: Sequence[tuple[Any, Any]], now: int
    ) -> None:
        """Call ``work`` for each member and argument; a slow member continues later from its backlog."""
        ...


class DeferredStep:
    """A step of a group with its window changes, for members that may evaluate the step later.

    The terms of the changed quads must not be swept before all members have evaluated the step.
    """

    level = 1

    def __init__(
        self,
        step: Evaluation,
        windows: Sequence[tuple[WindowKey, EncodedContent]],
        taken: Sequence[WindowDelta],
        event: StreamInput | None,
    ) -> None:
        self.step = step
        self.input = event
        self._windows = windows
        self._taken = taken

    def contents(self) -> list[tuple[WindowKey, WindowOnce]]:
        """Return the group's windows with the changes of this step, for one plan."""
        return windows_once(self._windows, self._taken)

    def referenced_rows(self) -> Iterable[IdRow]:
        """The keys of quads that entered or left a window in this step."""
        return [key for taken in self._taken for key in taken.keys]


def windows_once(
    windows: Sequence[tuple[WindowKey, EncodedContent]], taken: Sequence[WindowDelta]
) -> list[tuple[WindowKey, WindowOnce]]:
    """Return the group's windows together with the changes taken from them, for one plan."""
    return [(key, WindowOnce(content, each)) for (key, content), each in zip(windows, taken, strict=True)]


_TOGETHER = 8
"""Number of group members that are evaluated between two points at which the group may be suspended."""
_CHECKED = 256
"""Approximate number of group members whose costs are compared with their limits in one second."""


class MemberWork:
    """Runs work for the members of a group one by one; a slow member continues from its backlog."""

    def __init__(self, shares: Shares | None, fail: Callable[[RunningQuery, Exception], None]) -> None:
        self._shares = shares
        self._fail = fail
        self._counted = 0.0

    @property
    def behind(self) -> Mapping[Any, Any]:
        """The backlogs of the engine's lagging readers (queries, groups), by reader; empty if not used."""
        return {} if self._shares is None else self._shares.backlogs

    def each(
        self, members: Iterable[RunningQuery], work: Callable[[RunningQuery, Any, int], None], step: Step
    ) -> None:
        """Call ``work`` for each member of the group; append the call to the backlog of a lagging member."""
        behind = self.behind
        late = [(each, step) for each in members if each in behind]
        if late and self._shares is not None:
            self._shares.run_member_work(work, late, 0)
        for running in members:
            if running not in behind:
                work(running, step, 0)

    def evaluate(
        self, alone: Sequence[RunningQuery], given: DeferredStep, now_ms: int, *, others: int
    ) -> None:
        """Evaluate the members with private plans; ``others`` is the number of the group's shared plans."""
        shares = self._shares
        if shares is None or len(alone) + others < 2 or native_of(alone[0]).terms.coder.met_reifier:
            for running in alone:
                self._evaluate_one(running, given, now_ms)
            return
        for start in range(0, len(alone), _TOGETHER):
            some = [(each, given) for each in alone[start : start + _TOGETHER]]
            shares.run_member_work(self._evaluate_one, some, now_ms)
            pause()
        if shares.backlogs and alone:
            native_of(alone[0]).terms.coder.keep(given)

    def _evaluate_one(self, running: RunningQuery, given: DeferredStep, now_ms: int) -> None:
        """Evaluate one member at a step of the group, or of its former group if the member lagged."""
        if running.state == "failed":
            return
        try:
            running.evaluate(given.step, now_ms, given.contents())
        except Exception as error:
            running.failure.at = given.input
            self._fail(running, error)

    def check_costs(self, members: Iterable[RunningQuery], spent: float, now_ms: int) -> None:
        """Divide the group's time among members and check their limits; members over a limit fail."""
        found = list(members)
        portions = 1 + len(found) // _CHECKED
        share, self._counted = (spent - self._counted) / max(1, len(found)), spent
        for running in found:
            running.spent += share
        for running in found[now_ms // 1000 % portions :: portions]:
            try:
                check_costs(running, now_ms)
            except BudgetError as error:
                self._fail(running, error)


def tell_skipped(running: RunningQuery, step: EmptyReportRun, _: int) -> None:
    """Emit a run of empty reports for a member of the group."""
    running.emit_skipped(step)


def count_silent(running: RunningQuery, step: UnchangedRun, _: int) -> None:
    """Count a member's skipped evaluations, which would have emitted nothing."""
    running.last.evaluations += step.number


class WindowOnce:
    """A window for one plan of a group, together with the change that was already taken from the window."""

    def __init__(self, content: EncodedContent, taken: WindowDelta) -> None:
        self._content = content
        self._taken = taken

    def take(self) -> WindowDelta:
        """Return the window's change at the first call, and no change afterwards; see `HeldWindow.take`."""
        taken, self._taken = self._taken, NOTHING
        return taken

    def before(self, taken: Delta | None = None) -> list[IdRow]:
        """Return the window's rows before a change; see `HeldWindow.before`."""
        if taken is None:
            # Between two evaluations the newest change is still in the window and has not been taken.
            taken = self._taken.keys or self._content.changes
        return self._content.before(taken)
