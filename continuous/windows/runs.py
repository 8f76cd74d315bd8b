"""Runs of closes and periodic reports that change nothing, computed without a loop over the instants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from ..algebra.reports import EmptyReportRun, Report
from .query_streams import QueryWindows

AskSilent: TypeAlias = Callable[[], bool]
"""A function that returns True if another evaluation over the same window contents would emit nothing."""


def never() -> bool:
    """Return False, because any evaluation over unchanged windows may emit an event."""
    return False


def always() -> bool:
    """Return True, because no evaluation over unchanged windows emits an event."""
    return True


@dataclass(slots=True, eq=False)
class ReportSchedule:
    """The future closes of a query's windows, and its future periodic reports.

    Attributes:
        next_report: the instant of the next periodic report; None for report policies that are not periodic,
            and before the start.
    """

    _windows: QueryWindows
    _report: Report
    next_report: int | None = None

    def start(self, origin: int) -> None:
        """Choose the first periodic report of a query: the first one after ``origin``."""
        if every := self._report.every_ms:
            t0 = self._report.t0_ms
            self.next_report = t0 + ((origin - t0) // every + 1) * every

    def take_report(self, at: int) -> bool:
        """Consume the periodic report that is due at an instant; return False if no report is due."""
        due = self.next_report is not None and self.next_report <= at
        if due:
            assert self.next_report is not None
            self.next_report += self._report.every_ms
        return due

    def skip_to(self, end: int) -> None:
        """Skip the closes and periodic reports until ``end``, before which no window's content changes."""
        for grid in self._windows.grids:
            grid.skip_to(end)
        if self.next_report is not None:
            every = self._report.every_ms
            self.next_report += len(range(self.next_report, end + 1, every)) * every

    def empty_run(self, at: int, until: int, most: int) -> EmptyReportRun | None:
        """Return the run of empty reports from ``at`` on; None if it has fewer than ``most`` further reports.

        All reports of the run are equal, because all windows are empty and get no element before the run's
        end. A month of silence under a slide of one second is therefore one run of empty reports instead of
        millions of evaluations.
        """
        due = self._due_by(self._windows.empty_until(until))
        number = sum(map(len, due))
        return EmptyReportRun(at, _last(due, at), number + 1) if number >= most else None

    def unchanged_run(self, until: int) -> tuple[int | None, int, int]:
        """Return the future closes and reports up to ``until`` at which no content changes.

        Returns:
            The last close before the next periodic report, since a query with periodic reports does not
            evaluate closes; an instant right before the last evaluation; the number of evaluations up to that
            instant.
        """
        windows, report = self._windows, self.next_report
        if report is None and not any(windows.closes_by(until)):
            return None, until, 0
        end = windows.unchanged_until(until)
        closes = [] if report is None else windows.closes_by(min(end, report - 1))
        before = _last(self._due_by(end), end + 1) - 1
        unreported = _last(closes, end) if any(closes) else None
        return unreported, before, number_of_instants(self._due_by(before)) if before < end else 0

    def _due_by(self, end: int) -> list[range]:
        """Return the instants up to ``end`` at which evaluations by closes or periodic reports are due."""
        if self.next_report is None:
            return self._windows.closes_by(end)
        return [range(self.next_report, end + 1, self._report.every_ms)]


def _last(runs: Sequence[range], default: int) -> int:
    """Return the last instant in some ranges of instants; ``default`` if all ranges are empty."""
    return max((run[-1] for run in runs if run), default=default)


def number_of_instants(runs: Sequence[range]) -> int:
    """Return the number of different instants in some ranges, without a loop.

    Different instants are counted by inclusion and exclusion, so the cost depends on the number of ranges,
    not on their lengths.
    """
    kept: list[range] = []
    for run in sorted(filter(None, runs), key=lambda run: (run.step, -len(run))):
        if not any(_contains(other, run) for other in kept):
            kept.append(run)
    return sum(
        len(run) - number_of_instants([_common(run, other) for other in kept[place + 1 :]])
        for place, run in enumerate(kept)
    )


def _contains(outer: range, inner: range) -> bool:
    """Return True if each instant of range ``inner`` is in range ``outer``."""
    return inner[0] in outer and inner[-1] in outer and (len(inner) == 1 or inner.step % outer.step == 0)


def _common(one: range, other: range) -> range:
    """Return the instants that are in both ranges, which form a range again."""
    divisor = gcd(one.step, other.step)
    distance, remainder = divmod(other.start - one.start, divisor)
    if remainder:
        return range(0)
    period = other.step // divisor
    step = one.step * period
    first = one.start + one.step * (distance * pow(one.step // divisor, -1, period) % period)
    begin = max(one.start, other.start)
    return range(first + -((first - begin) // step) * step, min(one[-1], other[-1]) + 1, step)
