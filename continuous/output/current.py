"""The relation-to-stream operator of a query, and the query's current answer."""

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
from .until_gone import UntilGoneEmission

Emission: TypeAlias = SelectEmission | AskEmission | ConstructEmission | OnceEmission | UntilGoneEmission
"""The relation-to-stream operator of one query; ``empty`` is the answer before the first evaluation."""


@dataclass(slots=True)
class CurrentAnswer:
    """The answer after one evaluation; a call returns the answer as one line of JSON, and caches the line.

    The current answer may be read in any thread. The function ``newer`` returns the query's newest visible
    evaluation and its version, if that evaluation is later than evaluation ``number`` and left the answer
    unchanged without an event.
    """

    emission: Emission
    sources: QuerySources | None
    newer: Callable[[int], tuple[Evaluation, int] | None] | None
    number: int
    step: Evaluation | None
    version: int
    answer: ChangedAnswer
    cached: tuple[tuple[Evaluation, int], str] | None = None

    def __call__(self) -> str | None:
        """Return the JSON line of the answer's newest evaluation; None before the first evaluation."""
        newer = None if self.newer is None else self.newer(self.number)
        if newer is None:
            if self.step is None:
                return None
            newer = self.step, self.version
        cached = self.cached
        if cached is None or cached[0] != newer:
            step, version = newer
            marks = None if self.sources is None else self.sources.marks()
            moment = EvaluationInfo(step.at, version, step.window, None, marks)
            cached = self.cached = newer, self.emission.current(moment, self.answer)
        return cached[1]


def emission_of(
    query: ContinuousQuery,
    output: Output,
    construct: Construct,
    quads: QuadCounts | None,
    non_empty: bool,
    emit_element: EmitElement | None,
    columns: Sequence[Var],
    max_kept: int,
) -> Emission:
    """Return the relation-to-stream operator of a query.

    The flag ``non_empty`` suppresses events of empty answers. ``max_kept`` is the number of keys and rows
    that ONCE PER may remember, 0 for any number.
    """
    ordered = has_order(query.root)
    once = query.emission.once_per
    if once is not None and once.until_gone:
        output = "istream"
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
    if once is None:
        return inner
    places = tuple(columns.index(each) for each in once.variables)
    if once.until_gone:
        return UntilGoneEmission(inner, places, once.resolved, once.every_ms)
    return OnceEmission(inner, places, once.every_ms, max_kept)
