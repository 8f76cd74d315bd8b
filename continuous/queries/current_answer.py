"""The current answer of a query, written when somebody asks for it."""

from __future__ import annotations

from ..groups.membership import Seat
from ..output.emission import ChangedAnswer, Emission, Moment
from ..remote.query import QuerySources
from ..windows.reports import Evaluation


class CurrentAnswer:
    """The answer after one evaluation; its line is made when somebody asks, and kept."""

    def __init__(
        self,
        emission: Emission,
        sources: QuerySources | None,
        seat: Seat | None,
        step: Evaluation,
        version: int,
        answer: ChangedAnswer,
    ) -> None:
        self._emission = emission
        self._sources = sources
        self._told = step, version
        self._answer = answer
        self._seat = seat
        self._number = 0 if seat is None else seat.seen
        self._made: tuple[tuple[Evaluation, int], str] | None = None

    def line(self) -> str:
        """The answer, at the newest evaluation that left it as it is. Called in any thread."""
        told = self._told
        if self._seat is not None:
            # Evaluations of a common plan that gave this query no rows were not told here.
            told = self._seat.shown_after(self._number) or told
        made = self._made
        if made is None or made[0] != told:
            step, version = told
            marks = None if self._sources is None else self._sources.marks()
            moment = Moment(step.at, version, step.window, None, marks)
            made = self._made = told, self._emission.current(moment, self._answer)
        return made[1]
