"""When a query is evaluated, and what its timeline says then: values of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

ReportKind = OneOf["on-content-change", "on-window-close", "periodic"]
Cause = OneOf["elements", "time", "tick", "late"]


@dataclass(frozen=True, slots=True)
class Interval:
    """The bounds of one window of a grid, in milliseconds of event time."""

    open: int
    close: int


@dataclass(frozen=True, slots=True)
class Report:
    """When a query is evaluated.

    Attributes:
        every_ms: the period of periodic; ``strict`` belongs to it, too.
        non_empty: no report while every window is empty.
        after_ms: how long after its first instant the query is not evaluated.
    """

    kind: ReportKind
    every_ms: int = 0
    t0_ms: int = 0
    strict: bool = False
    non_empty: bool = False
    after_ms: int | None = None


class Evaluation(NamedTuple):
    """The query is to be evaluated now, at instant ``at``, over the timeline's contents.

    ``window`` holds the bounds of the (first, in text order) window that closed here. ``revises`` says
    that late elements corrected what the last evaluation saw, ``skipped`` that the report belongs to a run
    of empty ones whose `EmptyReportRun` follows: only what leaves the answer here is news.
    """

    at: int
    cause: Cause
    window: Interval | None = None
    revises: bool = False
    skipped: bool = False

    @property
    def end(self) -> int:
        """The instant, which is the last of them."""
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

    ``number`` is how many they are; the last is at or before ``end``.
    """

    end: int
    number: int


Step: TypeAlias = Evaluation | EmptyReportRun | UnchangedRun
