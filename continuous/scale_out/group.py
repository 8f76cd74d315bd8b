"""One key group of a job: a query core with the elements that wait, the ids of events, and its state."""

from __future__ import annotations

import marshal
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from quadrill.store.documents.subject_columns import Statements, SubjectColumns, as_columns, predicates_of
from quadrill.store.feeds.subscription import EventKind
from quadrill.store.results import one_line
from quadrill.store.terms import term_text

from ..inputs import Element
from ..output.emission import ChangedAnswer, EmissionCounts, EvaluationInfo, Event
from .core import CoreState, QueryCore
from .program import Program

_FORMAT = 1
_EMPTY = ('"bindings":[]}}', '"quads":""}')


class Row(NamedTuple):
    """One element on its way to a key group, sorted by instant, stream, file and line.

    ``file`` is the name of a file, or the number of a partition of a topic, where the line is the offset.
    """

    at: int
    stream: int
    file: str | int
    line: int
    statements: Statements


_BEGINNING = -(1 << 62)
"""An instant in milliseconds that is before every other one."""


class GroupEvent(NamedTuple):
    """One event of a key group; its id is ``AT-GROUP-N``."""

    at: int
    group: int
    number: int
    kind: EventKind
    data: str

    @property
    def id(self) -> str:
        """The id of the event, which depends on the input alone."""
        return f"{self.at}-{self.group}-{self.number}"


def packed_rows(rows: Sequence[Row]) -> bytes:
    """Return rows as bytes; elements in columns stay in columns."""
    return marshal.dumps([(*row[:4], _plain(row.statements)) for row in rows])


def unpacked_rows(data: bytes) -> list[Row]:
    """Return the rows that `packed_rows` wrote."""
    return [
        Row(at, stream, file, line, _statements(given))
        for at, stream, file, line, given in marshal.loads(data)
    ]


def _plain(statements: Statements) -> Any:
    if type(statements) is SubjectColumns:
        return (statements.subject, statements.predicates.texts, statements.objects, statements.characters)
    return tuple(statements)


def _statements(given: Any) -> Statements:
    if given and type(given[0]) is str:
        subject, predicates, objects, characters = given
        known = predicates_of(predicates)
        if known is not None:
            return SubjectColumns(subject, known, objects, characters)
        return as_columns(tuple((subject, p, o, "") for p, o in zip(predicates, objects, strict=True)))
    return given  # type: ignore[no-any-return]


class RowChanges:
    """The emission of a key group whose rows a second stage merges: rows as lists of N-Triples texts."""

    def __init__(self) -> None:
        self.counts = EmissionCounts()
        self.empty: dict[str, Any] = {}

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """Return an event for the deleted and one for the inserted rows of an evaluation."""
        found: list[Event] = []
        for kind, rows in (("delete", answer.deleted), ("insert", answer.inserted)):
            if rows:
                texts = [[None if term is None else term_text(term) for term in row] for row in rows]
                found.append((kind, f'{{"at":{moment.at},"rows":{one_line(texts)}}}'))  # type: ignore[arg-type]
        return found

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """Return an empty text, because nobody reads the current answer of a group."""
        return ""


@dataclass(slots=True)
class KeyGroup:
    """One key group of a job.

    Attributes:
        program: the prepared query.
        number: the number of the group.
        pending: the elements after the last evaluated instant, sorted.
        due: the next instant at which an element or time changes something; None for never.
    """

    program: Program
    number: int
    pending: list[Row] = field(default_factory=list)
    _core: QueryCore | None = None
    _seqs: dict[int, int] = field(default_factory=dict)
    _last: tuple[int, int] = (0, 0)

    def process(self, rows: Sequence[Row], until: int | None, origin: int | None) -> list[GroupEvent]:
        """Add elements, and evaluate all instants up to and including ``until``.

        Args:
            rows: new elements in any order.
            until: the last instant to evaluate; None to evaluate nothing.
            origin: the first instant of the whole query; None before there is one.
        """
        if rows:
            self.pending = sorted([*self.pending, *rows], key=_order)
        if until is None or origin is None or origin > until:
            return []
        place = bisect_right(self.pending, until, key=_at)
        ready, self.pending = self.pending[:place], self.pending[place:]
        everywhere = self.program.order.groups > 1 and self.program.split.everywhere
        core = self._core
        if core is None:
            if not ready and not everywhere:
                return []
            core = self._core = self._made(None)
            if not ready or ready[0].at > origin:
                self._begin(core, origin, everywhere=everywhere)
        core.take(self._elements(core, ready), until)
        return self._numbered(core)

    @property
    def due(self) -> int | None:
        """The next instant at which a waiting element or time changes something; None for never."""
        if self._core is None and self.program.order.groups > 1 and self.program.split.everywhere:
            return _BEGINNING  # The group emits its static rows when the query begins, also without elements.
        dues = [self.pending[0].at] if self.pending else []
        if self._core is not None and (due := self._core.query.timeline.next_due()) is not None:
            dues.append(due)
        return min(dues, default=None)

    def _begin(self, core: QueryCore, origin: int, *, everywhere: bool) -> None:
        if everywhere and self.program.prepared.report.kind == "on-content-change":
            # An element without triples begins the query, which then emits its static rows.
            stream = core.streams[0]
            core.take({stream: [Element((), origin, self._next(0))]}, origin)
        else:
            core.start(origin)

    def _made(self, state: CoreState | None) -> QueryCore:
        program = self.program
        core = QueryCore(program.of_group(self.number), program.store, program.settings, state=state)
        if program.merges:
            core.query.emission = RowChanges()  # type: ignore[assignment]
        for iri in program.order.streams:
            core.add_stream(iri)
        return core

    def _next(self, stream: int) -> int:
        self._seqs[stream] = seq = self._seqs.get(stream, 0) + 1
        return seq

    def _elements(self, core: QueryCore, rows: Sequence[Row]) -> Mapping[str, Sequence[Element]]:
        found: dict[str, list[Element]] = {iri: [] for iri in core.streams}
        streams = self.program.order.streams
        for row in rows:
            elements = found.get(streams[row.stream])
            if elements is not None:
                elements.append(Element(row.statements, row.at, self._next(row.stream)))
        return found

    def _numbered(self, core: QueryCore) -> list[GroupEvent]:
        """Return the events of the core with their numbers; empty answers and progress are left out."""
        found: list[GroupEvent] = []
        at, number = self._last
        for kind, line in core.events:
            if kind not in ("insert", "delete", "answer", "resolved") or line.endswith(_EMPTY):
                continue
            instant = int(line[6 : line.index(",")])
            number = number + 1 if instant == at and (found or self._last[1]) else 1
            at = instant
            found.append(GroupEvent(at, self.number, number - 1, kind, line))
        core.events.clear()
        self._last = at, number
        return found

    def state(self) -> bytes:
        """Return the state of the group between two batches."""
        core = None if self._core is None else tuple(self._core.state())
        pending = [(*row[:4], _plain(row.statements)) for row in self.pending]
        return marshal.dumps((_FORMAT, core, pending, self._seqs, self._last))

    @classmethod
    def restored(cls, program: Program, number: int, data: bytes) -> KeyGroup:
        """Return the group with a state that `state` returned."""
        version, core, pending, seqs, last = marshal.loads(data)
        if version != _FORMAT:
            raise ValueError(f"a state of format {version} where {_FORMAT} is known")
        rows = [Row(at, stream, file, line, _statements(given)) for at, stream, file, line, given in pending]
        found = cls(program, number, rows, None, seqs, last)
        if core is not None:
            found._core = found._made(CoreState(*core))
        return found

    def close(self) -> None:
        """Release the tables and terms of the group."""
        if self._core is not None:
            self._core.close()


def _order(row: Row) -> tuple[int, int, Any, int]:
    return row[:4]


def _at(row: Row) -> int:
    return row.at
