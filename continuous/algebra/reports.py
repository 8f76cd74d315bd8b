"""When a query is evaluated, and the evaluations that its timeline requests, in event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

from quadrill.store.documents.times import show_duration

ReportKind = OneOf["on-content-change", "on-window-close", "periodic"]
Cause = OneOf["elements", "time", "tick", "late"]


@dataclass(frozen=True, slots=True)
class Interval:
    """The bounds of one window of a grid, or of one session, in milliseconds of event time."""

    open: int
    close: int


@dataclass(frozen=True, slots=True)
class Report:
    """The report policy of a query: it says when the query is evaluated.

    Attributes:
        every_ms: the period of the kind ``periodic``, to which ``strict`` belongs, too.
        non_empty: True if reports are suppressed while every window is empty.
        after_ms: milliseconds after the first instant during which the query is not evaluated.
        repeats: True if rows are emitted again after some time, by ``ONCE PER … UNTIL GONE EVERY d``.
    """

    kind: ReportKind
    every_ms: int = 0
    t0_ms: int = 0
    strict: bool = False
    non_empty: bool = False
    after_ms: int | None = None
    repeats: bool = False


def show_report(report: Report) -> str | dict[str, str]:
    """Return a query's report policy as the member ``report`` of a registration has it."""
    return {"periodic": show_duration(report.every_ms)} if report.kind == "periodic" else report.kind


class Evaluation(NamedTuple):
    """A request to evaluate a query at instant ``at`` over the current contents of its windows.

    ``window`` has the bounds of the window that closed at the instant ``at``: the first one in text order.
    ``revises`` says that late elements changed window contents that the last evaluation used. ``skipped``
    says that the report belongs to a run of empty reports whose `EmptyReportRun` follows, so only rows that
    leave the answer are emitted.
    """

    at: int
    cause: Cause
    window: Interval | None = None
    revises: bool = False
    skipped: bool = False

    @property
    def end(self) -> int:
        """The instant ``at`` of the evaluation, under the name that the other kinds of steps use."""
        return self.at


@dataclass(frozen=True, slots=True)
class EmptyReportRun:
    """A run of ``skipped`` reports over empty windows, the first at ``start``, the last at ``end``."""

    start: int
    end: int
    skipped: int


@dataclass(frozen=True, slots=True)
class UnchangedRun:
    """A run of evaluations over unchanged contents, which are skipped because they would emit nothing.

    ``number`` is the number of skipped evaluations; the last is at or before ``end``.
    """

    end: int
    number: int


@dataclass(frozen=True, slots=True)
class Reminder:
    """An instant at which rows of the last answer are emitted again, without an evaluation."""

    end: int


Step: TypeAlias = Evaluation | EmptyReportRun | UnchangedRun | Reminder
