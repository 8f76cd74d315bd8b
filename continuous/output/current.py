"""The relation-to-stream operator of a query, and the answer that it shows now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..algebra.nodes import Var
from ..algebra.query import ContinuousQuery, Output
from ..algebra.reports import Evaluation
from ..algebra.rewrites import has_order
from ..remote.query import QuerySources
from .emission import (
    AskEmission,
    ChangedAnswer,
    Construct,
    ConstructEmission,
    EmitElement,
    EvaluationInfo,
    SelectEmission,
)
from .once import OnceEmission
from .quad_counts import QuadCounts

Emission: TypeAlias = SelectEmission | AskEmission | ConstructEmission | OnceEmission
"""The relation-to-stream operator of one query; ``empty`` is its answer before the first evaluation."""


@dataclass(slots=True)
class CurrentAnswer:
    """The answer after an evaluation at a version; called, in any thread, it gives its line, and keeps it.

    ``newer`` gives an evaluation that may be shown and its version, where one later than that with the
    ``number`` left the answer as it is without telling the query.
    """

    emission: Emission
    sources: QuerySources | None
    newer: Callable[[int], tuple[Evaluation, int] | None] | None
    number: int
    step: Evaluation | None
    version: int
    answer: ChangedAnswer
    made: tuple[tuple[Evaluation, int], str] | None = None

    def __call__(self) -> str | None:
        """The answer at the newest evaluation that left it as it is; None before the first."""
        newer = None if self.newer is None else self.newer(self.number)
        if newer is None:
            if self.step is None:
                return None
            newer = self.step, self.version
        made = self.made
        if made is None or made[0] != newer:
            step, version = newer
            marks = None if self.sources is None else self.sources.marks()
            moment = EvaluationInfo(step.at, version, step.window, None, marks)
            made = self.made = newer, self.emission.current(moment, self.answer)
        return made[1]


def emission_of(
    query: ContinuousQuery,
    output: Output,
    construct: Construct,
    quads: QuadCounts | None,
    non_empty: bool,
    emit_element: EmitElement | None,
    columns: Sequence[Var],
    most_kept: int,
) -> Emission:
    """The operator of a query with these columns; ``non_empty``: an empty answer is not told.

    ``most_kept`` is how many keys and rows ONCE PER may remember, 0 for any number.
    """
    ordered = has_order(query.root)
    inner: SelectEmission | ConstructEmission
    match query.form:
        case "ask":
            return AskEmission()
        case "construct":
            assert quads is not None
            inner = ConstructEmission(output, construct, quads, ordered, non_empty, emit_element)
        case _:
            names = tuple(each.name for each in query.columns)
            inner = SelectEmission(output, names, ordered, non_empty)
    once = query.emission.once_per
    if once is None:
        return inner
    places = tuple(columns.index(each) for each in once.variables)
    return OnceEmission(inner, places, once.every_ms, most_kept)
