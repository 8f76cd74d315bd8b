"""Step 6 of 8: relation to stream: the events that a query emits for each evaluation, and its current answer.

    istream  inserted rows      dstream  deleted rows      changes  both      rstream  all rows

The rows of an answer are a multiset: duplicates count. Rows without ORDER BY are emitted in a fixed order,
because the order in which joins find rows depends on earlier inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pyoxigraph import Quad

from quadrill.store.feeds.subscription import EventKind
from quadrill.store.results import in_fixed_order, one_line, quads_text, rows_text

from ..algebra.query import Output
from ..algebra.reports import Interval
from ..errors import BudgetError
from ..rows import Delta, Solution
from ..slices import PAUSE
from .quad_counts import QuadCounts

T = TypeVar("T", bound=Hashable)
_KINDS: Mapping[Output, Sequence[EventKind]] = {
    "rstream": ("answer",),
    "istream": ("insert",),
    "dstream": ("delete",),
    "changes": ("delete", "insert"),
}
Event: TypeAlias = tuple[EventKind, str]
Construct: TypeAlias = Callable[[Sequence[Solution], int], list[Quad]]
EmitElement: TypeAlias = Callable[[int, list[Quad], bool], None]


class ChangedAnswer(Protocol):
    """An answer with the rows that the last evaluation deleted and inserted, each as often as it was changed.

    ``rows`` are all rows of the answer after the evaluation, ``boolean`` is the answer of an ASK query.
    """

    @property
    def deleted(self) -> Sequence[Solution]: ...  # noqa: D102
    @property
    def inserted(self) -> Sequence[Solution]: ...  # noqa: D102
    @property
    def rows(self) -> Sequence[Solution]: ...  # noqa: D102
    @property
    def boolean(self) -> bool | None: ...  # noqa: D102

    def json_rows(self, kind: EventKind) -> tuple[int, str] | None:
        """Return number and JSON text of an event's rows; None if the caller must format terms."""
        ...

    def id_delta(self, *, whole: bool = False) -> Delta | None:
        """Return the answer's delta, or all rows if ``whole``, as term ids; None if the rows are terms."""
        ...


class EvaluationInfo(NamedTuple):
    """The members of an event about its evaluation: instant, dataset version, window, revised event, sources.

    ``skipped`` is True for a report of a run of empty windows, which emits only deletions. ``repeats`` is
    True if retained elements are evaluated a second time.
    """

    at: int
    version: int
    window: Interval | None = None
    revises: int | None = None
    sources: Any = None
    skipped: bool = False
    repeats: bool = False

    def head(self) -> str:
        """Return the members with which the JSON object of every event of an evaluation begins."""
        text = f'{{"at":{self.at},"version":{self.version}'
        if self.window is not None:
            text += f',"window":{{"open":{self.window.open},"close":{self.window.close}}}'
        if self.revises is not None:
            text += f',"revises":{self.revises}'
        return text if self.sources is None else f'{text},"sources":{one_line(self.sources)}'


@dataclass(slots=True)
class EmissionCounts:
    """Counts of the rows that a query has emitted as inserted, and as deleted or resolved; of its answers."""

    rows_inserted: int = 0
    rows_deleted: int = 0
    answers: int = 0

    def add(self, kind: EventKind, rows: int) -> None:
        """Count one emitted event of kind ``kind`` with ``rows`` rows."""
        if kind == "insert":
            self.rows_inserted += rows
        elif kind in ("delete", "resolved"):
            self.rows_deleted += rows
        else:
            self.answers += 1


def difference(rows: Sequence[T], minus: Sequence[T]) -> list[T]:
    """Return the multiset difference ``rows`` minus ``minus``, in the order of ``rows``.

    >>> difference(["a", "b", "a"], ["a", "c"])
    ['b', 'a']
    """
    counts = Counter(minus)
    left = []
    for row in rows:
        if counts.get(row, 0):
            counts[row] -= 1
        else:
            left.append(row)
    return left


def raise_too_large(size: int, most: int) -> None:
    """Raise BudgetError, because the events of one evaluation exceed their limit in bytes."""
    message = f"one evaluation tells {size} bytes, the limit is {most} (max_evaluation_bytes)"
    raise BudgetError(message, limit=most)


def _rows_of(kind: EventKind, answer: ChangedAnswer) -> Sequence[Solution]:
    if kind == "answer":
        return answer.rows
    return answer.inserted if kind == "insert" else answer.deleted


@dataclass(slots=True)
class SelectEmission:
    """Emits the rows of a SELECT as SPARQL Results JSON; ``ordered`` is True for a query with ORDER BY.

    ``head`` is an event's JSON text between the evaluation's members and the rows.
    """

    output: Output
    names: tuple[str, ...]
    ordered: bool
    non_empty: bool = False
    counts: EmissionCounts = field(default_factory=EmissionCounts)
    empty: dict[str, Any] = field(init=False)
    head: str = field(init=False)
    # The ordered rows that were written last, with their text: an unchanged answer needs no new text.
    _last_text: tuple[Sequence[Solution], str] = ((), "")

    def __post_init__(self) -> None:
        self.empty = {"head": {"vars": list(self.names)}, "results": {"bindings": []}}
        self.head = f',"head":{one_line(self.empty["head"])},"results":{{"bindings":['

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """Return one event for each kind of change with rows; RSTREAM also emits an empty answer."""
        found: list[Event] = []
        for kind in _KINDS[self.output]:
            # Rows without ORDER BY are written directly from term ids if the answer supports that.
            direct = None if self.ordered else answer.json_rows(kind)
            number, listed = direct or self._json_of_terms(_rows_of(kind, answer))
            if number or (kind == "answer" and not (moment.skipped or self.non_empty)):
                self.counts.add(kind, number)
                found.append((kind, self._line(moment, listed)))
        return found

    def written(
        self, moment: EvaluationInfo, changes: Sequence[tuple[EventKind, Sequence[Solution]]]
    ) -> list[Event]:
        """Return one event for each kind that has rows, in the order of ``changes``."""
        found: list[Event] = []
        for kind, rows in changes:
            if rows:
                self.counts.add(kind, len(rows))
                found.append((kind, self._line(moment, self._json_of_terms(rows)[1])))
        return found

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """Return all rows of the answer with the evaluation's members, as one line of JSON."""
        return self._line(moment, self._json_of_terms(answer.rows)[1])

    def _line(self, moment: EvaluationInfo, listed: str) -> str:
        return f"{moment.head()}{self.head}{listed}]}}}}"

    def _json_of_terms(self, rows: Sequence[Solution]) -> tuple[int, str]:
        if not self.ordered:
            rows = in_fixed_order(rows, PAUSE)
        elif self._last_text[0] == rows:
            return len(rows), self._last_text[1]
        listed = rows_text(self.names, rows)
        if self.ordered:
            self._last_text = rows, listed
        return len(rows), listed


@dataclass(slots=True)
class AskEmission:
    """Emits the boolean of an ASK at each change; ``emitted`` is the last emitted boolean."""

    emitted: bool | None = None
    counts: EmissionCounts = field(default_factory=EmissionCounts)
    empty: dict[str, Any] = field(default_factory=lambda: {"head": {}, "boolean": False})

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """Return one answer event if the boolean of ASK has changed since the last event."""
        if answer.boolean == self.emitted:
            return []
        self.emitted = answer.boolean
        self.counts.answers += 1
        return [("answer", self.current(moment, answer))]

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """Return the boolean of the answer with the evaluation's members, as one line of JSON."""
        return f'{moment.head()},"head":{{}},"boolean":{one_line(answer.boolean)}}}'


@dataclass(slots=True)
class ConstructEmission:
    """Emits the quads of a CONSTRUCT as N-Quads, and as elements of the query's output stream.

    With ISTREAM and RSTREAM, a CONSTRUCT instantiates its template with the emitted rows. Outputs that delete
    quads count the solutions of each quad, because a quad is deleted only when no solution yields it any
    longer. ``head`` is an event's JSON text between the evaluation's members and the quads.
    """

    output: Output
    construct: Construct
    quads: QuadCounts
    ordered: bool
    non_empty: bool = False
    emit_element: EmitElement | None = None
    counts: EmissionCounts = field(default_factory=EmissionCounts)
    empty: dict[str, Any] = field(default_factory=lambda: {"quads": ""})
    head: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the CONSTRUCT query's solutions."""
        return self.quads.names

    @property
    def counts_quads(self) -> bool:
        """True if the query's output mode deletes quads."""
        return "delete" in _KINDS[self.output]

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """Return one event for each kind of change with quads; RSTREAM also emits an empty answer."""
        at, skipped, repeats = moment.at, moment.skipped, moment.repeats
        if self.counts_quads:
            delta = answer.id_delta()
            if delta is None:
                delta = self.quads.coded(answer.deleted, answer.inserted)
            return self.changed(at, moment.head(), delta, skipped=skipped, repeats=repeats)
        kind: EventKind = "insert" if self.output == "istream" else "answer"
        quads = self._quads(_rows_of(kind, answer), at)
        return self._emit(at, moment.head(), [(kind, quads)], skipped=skipped, repeats=repeats)

    def written(
        self, moment: EvaluationInfo, changes: Sequence[tuple[EventKind, Sequence[Solution]]]
    ) -> list[Event]:
        """Return one event for each kind that has quads; the query's stream gets those of the last kind."""
        signs = [(kind, self._quads(rows, moment.at)) for kind, rows in changes]
        skipped, repeats = moment.skipped, moment.repeats
        return self._emit(moment.at, moment.head(), signs, skipped=skipped, repeats=repeats)

    def changed(
        self, at: int, head: str, delta: Delta, *, skipped: bool = False, repeats: bool = False
    ) -> list[Event]:
        """Return the events for a delta of id rows; ``head`` comes from `EvaluationInfo.head`."""
        deleted, inserted = self.quads.change(delta, ordered=self.ordered)
        signs: list[tuple[EventKind, list[Quad]]] = [("delete", deleted)]
        if self.output == "changes":
            signs.append(("insert", inserted))
        return self._emit(at, head, signs, skipped=skipped, repeats=repeats)

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """Return the quads of all rows with the evaluation's members, as one line of JSON."""
        return self._line(moment.head(), self._quads(answer.rows, moment.at))

    def resume(self, answer: ChangedAnswer) -> None:
        """Count the quads of an answer that was emitted before a restart."""
        if self.counts_quads:
            delta = answer.id_delta(whole=True)
            self.quads.change(self.quads.coded((), answer.rows) if delta is None else delta, ordered=True)

    def _emit(
        self,
        at: int,
        head: str,
        signs: Sequence[tuple[EventKind, list[Quad]]],
        *,
        skipped: bool,
        repeats: bool,
    ) -> list[Event]:
        """Return the events for some quads; pass the quads of the last kind to the query's output stream."""
        events: list[Event] = []
        for kind, quads in signs:
            if quads or (kind == "answer" and not (skipped or self.non_empty)):
                self.counts.add(kind, len(quads))
                events.append((kind, self._line(head, quads)))
        if self.emit_element is not None and not skipped:
            # The output stream receives inserted quads or whole answers; a DSTREAM query streams deleted
            # quads.
            streamed = dict.fromkeys(signs[-1][1])
            if streamed:
                self.emit_element(at, list(streamed), repeats)
        return events

    def _quads(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        return self.construct(rows if self.ordered else in_fixed_order(rows, PAUSE), at)

    @staticmethod
    def _line(head: str, quads: Sequence[Quad]) -> str:
        return f'{head},"quads":{one_line(quads_text(quads, PAUSE))}}}'
