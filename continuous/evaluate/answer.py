"""The answer of a query at an instant, and what a step changes in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ..element import Solution
from ..output.emission import difference


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer at one instant.

    ``rows`` are in ORDER BY order when ``ordered``; otherwise their order means nothing. ``boolean`` is
    ASK's answer. For CONSTRUCT the rows are the solutions over all visible variables of the WHERE clause.
    """

    vars: tuple[str, ...]
    rows: list[Solution] = field(default_factory=list)
    ordered: bool = False
    boolean: bool | None = None


class Answering(Protocol):
    """Who knows the answer after the newest change."""

    vars: tuple[str, ...]

    def rows_after(self, change: AnswerChange) -> list[Solution]:
        """The whole answer after a step that may not be the last; called in any thread."""
        ...


class AnswerChange:
    """What one step did to the answer, and the answer after it.

    ``deleted`` and ``inserted`` hold each row as often as it came or went, in the answer's order. ``rows`` is
    the whole answer after this step, also when it is read after later ones and in another thread: it is then
    made from the newest answer and the changes since.
    """

    def __init__(
        self,
        evaluator: Answering,
        deleted: list[Solution],
        inserted: list[Solution],
        boolean: bool | None,
        rows: list[Solution] | None,
    ) -> None:
        self.vars = evaluator.vars
        self.deleted = deleted
        self.inserted = inserted
        self.boolean = boolean
        self.later: AnswerChange | None = None
        self._evaluator = evaluator
        self._rows = rows

    @property
    def rows(self) -> list[Solution]:
        """The whole answer after this step."""
        if self._rows is None:
            self._rows = self._evaluator.rows_after(self)
        return self._rows

    def settle(self) -> None:
        """Make the rows now: whoever knows the answer is about to forget it."""
        self._rows = self.rows

    def known_later(self) -> list[Solution] | None:
        """The whole answer after the last of the changes since, where somebody made it; see `undone`."""
        last = self
        while last.later is not None:
            last = last.later
        return last._rows

    def undone(self, rows: list[Solution]) -> list[Solution]:
        """The answer after this step, made from the newest answer and the changes since."""
        later = self.later
        if later is None:
            return rows
        counted = Counter(rows)
        while later is not None:
            counted.subtract(later.inserted)
            counted.update(later.deleted)
            later = later.later
        return list(counted.elements())


class RecomputedAnswer:
    """An answer that was computed anew, and the one before; what changed is worked out when asked for."""

    def __init__(
        self,
        names: tuple[str, ...],
        before: Sequence[Solution],
        rows: Sequence[Solution],
        boolean: bool | None,
    ) -> None:
        self.vars = names
        self.rows = rows
        self.boolean = boolean
        self._before = before

    @cached_property
    def deleted(self) -> list[Solution]:
        """The rows that are not there any more."""
        return difference(self._before, self.rows)

    @cached_property
    def inserted(self) -> list[Solution]:
        """The rows that are new."""
        return difference(self.rows, self._before)
