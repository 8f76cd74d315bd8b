"""When something that happens in windows is an evaluation: one strategy for each kind of report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..algebra.reports import ReportKind


@dataclass(frozen=True, slots=True)
class ReportStrategy:
    """The decisions of one kind of report.

    Attributes:
        wants: (a content changed, a window closed, a periodic report is due) at one instant: evaluate then?
        corrects: (a content changed, a window closed) by late elements: evaluate at the current instant? If
            not, a change revises the last evaluation that saw it.
        at_changes: evaluated at each change of contents, over empty windows too; the first heartbeat counts.
        at_closes: evaluated at each close of a window, also at several closes of one instant.
    """

    wants: Callable[[bool, bool, bool], bool]
    corrects: Callable[[bool, bool], bool]
    at_changes: bool = False
    at_closes: bool = False


STRATEGIES: Mapping[ReportKind, ReportStrategy] = {
    "on-content-change": ReportStrategy(
        wants=lambda changed, closed, due: changed,
        corrects=lambda changed, closed: changed or closed,
        at_changes=True,
    ),
    "on-window-close": ReportStrategy(
        wants=lambda changed, closed, due: closed,
        corrects=lambda changed, closed: closed,
        at_closes=True,
    ),
    "periodic": ReportStrategy(
        wants=lambda changed, closed, due: due,
        corrects=lambda changed, closed: False,
    ),
}
