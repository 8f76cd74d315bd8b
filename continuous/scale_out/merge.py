"""The second stage of a job: the operators above the groups' rows, and the events of the whole query.

    groups    (10_000, group 3, "insert", [["<urn:s7>", "4"]]), (10_000, group 9, "insert", ...)
    merged    Project(?n, Extend(?n := ?c, Group(rows, (), COUNT)))
    events    10000-0-0  answer  ?n = 2

An answer is emitted at the instants at which the single engine evaluates the query.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from quadrill.store.documents.statements import term_of, to_lines
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.logs.packing import pack, unpack
from quadrill.store.terms import Term

from ..algebra.build import with_children
from ..algebra.nodes import Algebra, TableNode
from ..algebra.reports import Evaluation
from ..algebra.variables import certain
from ..evaluate.evaluator import weak_holder
from ..evaluate.native import IncrementalAnswer
from ..expressions.construct import Template
from ..expressions.quad_keys import QuadKeys
from ..inputs import Advance, Arrival, Element, StreamTime
from ..language.analysis import Analysis
from ..output.current import emission_of
from ..output.emission import AskEmission, ConstructEmission, EvaluationInfo
from ..output.quad_counts import QuadCounts
from ..plan.plan_state import PlanState
from ..queries.prepare import new_timeline
from ..queries.snapshot import RECORDS
from ..rows import Budget, Delta, IdRow
from ..windows.encoded import EngineTerms
from ..windows.runs import always, never
from .group import GroupEvent
from .program import Program

_TABLE = "rows"
_FORMAT = 1
_MARK = "<urn:quadrill:instant>"
_SHADOW = ((_MARK, _MARK, _MARK, ""),)
"""The statements of an element of which only the event time matters."""
_EMPTY = ('"bindings":[]}}', '"quads":""}')

Rows = Counter[tuple[str | None, ...]]


class Merger:
    """The second stage of one job, which lives in the driver.

    ``timed`` jobs emit whole answers at the instants of the query's timeline, which gets an element without
    content for each instant of each stream. Other jobs emit at the instants at which a row changes.
    """

    def __init__(self, program: Program) -> None:
        prepared = program.prepared
        query, split = prepared.query, program.split
        names = [var.name for var in program.row_columns]
        root: Algebra = TableNode(_TABLE, program.row_columns, certain(split.grouped))
        for each in split.merged:
            root = with_children(each, [root])
        columns = prepared.analysis.columns
        analysis = Analysis.of_steps(None, query, {"root": root, "columns": columns, "split": (root, ())})
        self._prepared, self._timed = prepared, split.timed
        self._streams = program.order.streams
        self._terms = terms = EngineTerms()
        ordered = prepared.analysis.is_ordered
        ask = query.form == "ask"
        options = prepared.options(frozenset())
        budget = Budget(prepared.limits)
        with terms.planning:
            self._plan = PlanState(
                analysis.clocked, query, {_TABLE: names}, options, terms, budget, ordered=ordered
            )
        shown = [] if ask else [var.name for var in columns]
        self._answer = IncrementalAnswer(self._plan, shown, budget, ask=ask, ordered=ordered)
        template = Template(query.template, columns, prepared.name or "")
        quads = None
        if query.form == "construct":
            quads = QuadCounts(QuadKeys(template, columns, terms.dictionary), terms.dictionary)
        self._emission = emission_of(
            query, prepared.output, template.quads, quads, prepared.report.non_empty, None, columns,
            prepared.limits.kept,
        )  # fmt: skip
        terms.dictionary.hold(weak_holder(self._referenced_rows))
        self._timeline = new_timeline(prepared, program.settings.max_empty_windows)
        self._timeline.inputs.takes_whole_instants = True
        for view in self._timeline.inputs.views.values():
            view.lateness = 0
        for iri in self._streams:
            self._timeline.add_stream(iri)
        self._rows: Rows = Counter()
        self._last: tuple[int, int] = (0, 0)
        self._seq = 0
        self._at: int | None = None
        self._instants: dict[int, set[int]] = {}

    # --- one batch --------------------------------------------------------------------------------

    def process(
        self,
        events: Sequence[GroupEvent],
        instants: Mapping[int, Sequence[int]],
        until: int | None,
        origin: int | None,
    ) -> list[GroupEvent]:
        """Return the events of the whole query up to ``until``.

        Args:
            events: the changed rows of the groups, in any order.
            instants: for each stream by its place, the instants of new elements; only timed jobs need them.
            until: the last instant that the groups have evaluated; None for none.
            origin: the first instant of the query; None before there is one.
        """
        for place, new in instants.items():
            self._instants.setdefault(place, set()).update(new)
        if until is None or origin is None or origin > until:
            return []
        changes: dict[int, list[tuple[str, list[list[str | None]]]]] = {}
        for event in sorted(events):
            changes.setdefault(event.at, []).append((event.kind, orjson.loads(event.data)["rows"]))
        found: list[GroupEvent] = []
        if not self._timed:
            ats = {*changes, *((origin,) if self._at is None else ())}
            for at in sorted(ats):
                found += self._evaluate(Evaluation(at, "elements"), changes.pop(at, ()))
            return found
        waiting = sorted(changes)
        for step in self._steps(until):
            due: list[Any] = []
            while waiting and waiting[0] <= step.at:
                due += changes[waiting.pop(0)]
            found += self._evaluate(step, due)
        for at in waiting:
            self._apply(changes[at], at)
        return found

    def _steps(self, until: int) -> Iterator[Evaluation]:
        """Yield the evaluations of the query's timeline up to ``until``."""
        timeline = self._timeline
        inputs = timeline.inputs
        events: list[Arrival | Advance] = []
        for place, waiting in sorted(self._instants.items()):
            iri = self._streams[place]
            ats = sorted(at for at in waiting if at <= until)
            waiting.difference_update(ats)
            if ats and iri in inputs.views:
                elements = tuple(Element(_SHADOW, at, self._seq + n) for n, at in enumerate(ats, 1))
                self._seq += len(ats)
                events.append(Arrival(iri, elements, StreamTime(), StreamTime()))
        if inputs.streams and (events or timeline.instant is not None):
            events.append(Advance(inputs.streams[0], StreamTime(floor=until)))
        silent = never if self._prepared.repeats else always
        for event in events:
            for step in timeline.handle(event, silent):
                if isinstance(step, Evaluation):
                    yield step

    def _evaluate(self, step: Evaluation, changes: Sequence[tuple[str, Any]]) -> list[GroupEvent]:
        answer = self._apply(changes, step.at)
        moment = EvaluationInfo(step.at, 0, step.window, skipped=step.skipped)
        found: list[GroupEvent] = []
        at, number = self._last
        for kind, line in self._emission.events(moment, answer):
            if not line.endswith(_EMPTY):
                number = number + 1 if at == step.at else 1
                at = step.at
                found.append(GroupEvent(at, 0, number - 1, kind, line))
        self._last = at, number
        self._terms.tidy()
        return found

    def _apply(self, changes: Sequence[tuple[str, Any]], at: int) -> Any:
        """Apply changed rows, and return the change of the answer."""
        delta: Delta = {}
        encode = self._terms.dictionary.encode
        for kind, rows in changes:
            weight = 1 if kind == "insert" else -1
            for texts in rows:
                row = tuple(texts)
                self._rows[row] += weight
                if not self._rows[row]:
                    del self._rows[row]
                ids = tuple([0 if text is None else encode(_term(text)) for text in row])
                total = delta.get(ids, 0) + weight
                if total:
                    delta[ids] = total
                else:
                    del delta[ids]
        self._plan.take(_TABLE, delta)
        self._at = at
        return self._answer.step(self._plan.step(self._plan.gather(at, ())))

    def _referenced_rows(self) -> Iterator[IdRow]:
        yield from self._plan.referenced_rows()
        yield from self._answer.referenced_rows()
        emission = self._emission
        if isinstance(emission, ConstructEmission):
            yield from emission.quads.referenced_rows()

    # --- checkpoints ------------------------------------------------------------------------------

    def state(self) -> bytes:
        """Return the state of the second stage between two batches."""
        emitted = self._emission.emitted if isinstance(self._emission, AskEmission) else None
        packed, quads = pack(self._timeline.snapshot(), RECORDS)
        instants = {place: sorted(ats) for place, ats in self._instants.items()}
        rows = list(self._rows.items())
        figures = (self._last, self._seq, self._at, emitted, instants)
        return marshal.dumps((_FORMAT, rows, figures, packed, to_lines(quads)))

    def restore(self, data: bytes) -> None:
        """Bring a new second stage to a state that `state` returned."""
        version, rows, figures, packed, lines = marshal.loads(data)
        if version != _FORMAT:
            raise ValueError(f"a state of format {version} where {_FORMAT} is known")
        self._last, self._seq, at, emitted, instants = figures
        self._instants = {place: set(ats) for place, ats in instants.items()}
        self._timeline.restore(unpack(packed, parse_stored_quads(lines), RECORDS))
        if at is not None:
            answer = self._apply([("insert", [row for row, weight in rows for _ in range(weight)])], at)
            if isinstance(self._emission, ConstructEmission):
                self._emission.resume(answer)
        if isinstance(self._emission, AskEmission):
            self._emission.emitted = emitted


@lru_cache(maxsize=65_536)
def _term(text: str) -> Term:
    return term_of(text)
