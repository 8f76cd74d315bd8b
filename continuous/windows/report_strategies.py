"""The kinds of report policies: each decides which events in windows cause an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..algebra.reports import ReportKind


@dataclass(frozen=True, slots=True)
class ReportStrategy:
    """The decisions of one kind of report policy.

    Attributes:
        wants: decides whether to evaluate at an instant, from three facts: a content changed, a window
            closed, a periodic report is due.
        corrects: decides whether late elements cause an evaluation at the current instant, from two facts: a
            content changed, a window closed. If late elements cause no evaluation, a change by them revises
            the last evaluation of the changed content.
        at_changes: True if each change of a content is evaluated, also over empty windows, and the first
            heartbeat too.
        at_closes: True if each close of a window is evaluated, also several closes at one instant.
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
