"""Step 6 of 8: relation to stream. What a query's feed is told of each evaluation, and its current answer.

    istream  the rows that came      dstream  the rows that went      changes  both      rstream  all rows

Rows are a multiset: duplicates count. Rows without an order of their own are told in a fixed one, since how
they were found depends on the past.
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
    """An answer that knows which rows went and came at the last evaluation, each as often as it did.

    ``rows`` are all rows after the evaluation, ``boolean`` is the answer of ASK.
    """

    @property
    def deleted(self) -> Sequence[Solution]: ...  # noqa: D102
    @property
    def inserted(self) -> Sequence[Solution]: ...  # noqa: D102
    @property
    def rows(self) -> Sequence[Solution]: ...  # noqa: D102
    @property
    def boolean(self) -> bool | None: ...  # noqa: D102

    def listed(self, kind: EventKind) -> tuple[int, str] | None:
        """How many rows an event tells, and they as objects of JSON; None where they are made of terms."""
        ...

    def coded(self, *, whole: bool = False) -> Delta | None:
        """The change of the rows, or all of them, as ids in the order of the columns; None for terms."""
        ...


class EvaluationInfo(NamedTuple):
    """What an event says of its evaluation: instant, version of the dataset, window, revised event, sources.

    ``skipped``: the report is of a run of empty ones, in which only what leaves is news. ``repeats``:
    retained elements are evaluated once more.
    """

    at: int
    version: int
    window: Interval | None = None
    revises: int | None = None
    sources: Any = None
    skipped: bool = False
    repeats: bool = False

    def head(self) -> str:
        """The members that every event begins with, as the beginning of a JSON object."""
        text = f'{{"at":{self.at},"version":{self.version}'
        if self.window is not None:
            text += f',"window":{{"open":{self.window.open},"close":{self.window.close}}}'
        if self.revises is not None:
            text += f',"revises":{self.revises}'
        return text if self.sources is None else f'{text},"sources":{one_line(self.sources)}'


@dataclass(slots=True)
class EmissionCounts:
    """How many rows were told as new and as gone, and how many whole answers."""

    rows_inserted: int = 0
    rows_deleted: int = 0
    answers: int = 0

    def add(self, kind: EventKind, rows: int) -> None:
        """An event of this kind tells so many rows."""
        if kind == "insert":
            self.rows_inserted += rows
        elif kind == "delete":
            self.rows_deleted += rows
        else:
            self.answers += 1


def difference(rows: Sequence[T], minus: Sequence[T]) -> list[T]:
    """Multiset difference, in the order of ``rows``: without as many copies of each row as ``minus`` has.

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


def refuse(size: int, most: int) -> None:
    """Raise BudgetError: one evaluation tells too much."""
    message = f"one evaluation tells {size} bytes, the limit is {most} (max_evaluation_bytes)"
    raise BudgetError(message, limit=most)


def _rows_of(kind: EventKind, answer: ChangedAnswer) -> Sequence[Solution]:
    if kind == "answer":
        return answer.rows
    return answer.inserted if kind == "insert" else answer.deleted


@dataclass(slots=True)
class SelectEmission:
    """Rows as SPARQL Results JSON; ``ordered``: they have an order of their own.

    ``head`` is what stands between the moment and the rows.
    """

    output: Output
    names: tuple[str, ...]
    ordered: bool
    non_empty: bool = False
    counts: EmissionCounts = field(default_factory=EmissionCounts)
    empty: dict[str, Any] = field(init=False)
    head: str = field(init=False)
    # What was told of the first rows last: they are often the same again.
    _told: tuple[Sequence[Solution], str] = ((), "")

    def __post_init__(self) -> None:
        self.empty = {"head": {"vars": list(self.names)}, "results": {"bindings": []}}
        self.head = f',"head":{one_line(self.empty["head"])},"results":{{"bindings":['

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """One event for each sign that has rows; RSTREAM tells an empty answer too."""
        found: list[Event] = []
        for kind in _KINDS[self.output]:
            # Rows without an order of their own are written straight from ids where the answer has them.
            told = None if self.ordered else answer.listed(kind)
            number, listed = told or self._of_terms(_rows_of(kind, answer))
            if number or (kind == "answer" and not (moment.skipped or self.non_empty)):
                self.counts.add(kind, number)
                found.append((kind, self._around(moment, listed)))
        return found

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """All rows of the answer, behind the moment on one line: `one_line` of `solutions`."""
        return self._around(moment, self._of_terms(answer.rows)[1])

    def _around(self, moment: EvaluationInfo, listed: str) -> str:
        return f"{moment.head()}{self.head}{listed}]}}}}"

    def _of_terms(self, rows: Sequence[Solution]) -> tuple[int, str]:
        if not self.ordered:
            rows = in_fixed_order(rows, PAUSE)
        elif self._told[0] == rows:
            return len(rows), self._told[1]
        listed = rows_text(self.names, rows)
        if self.ordered:
            self._told = rows, listed
        return len(rows), listed


@dataclass(slots=True)
class AskEmission:
    """The boolean whenever it changes; ``told`` is the one told last."""

    told: bool | None = None
    counts: EmissionCounts = field(default_factory=EmissionCounts)
    empty: dict[str, Any] = field(default_factory=lambda: {"head": {}, "boolean": False})

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """One answer event where the boolean is another."""
        if answer.boolean == self.told:
            return []
        self.told = answer.boolean
        self.counts.answers += 1
        return [("answer", self.current(moment, answer))]

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """The boolean of the answer."""
        return f'{moment.head()},"head":{{}},"boolean":{one_line(answer.boolean)}}}'


@dataclass(slots=True)
class ConstructEmission:
    """Quads of the template as N-Quads; also the elements of the stream that the query makes.

    ISTREAM and RSTREAM instantiate the rows emitted; where quads can be deleted they are counted, so that one
    goes only when no solution yields it any more. ``head`` is what stands between the moment and the quads.
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
        """The columns of solutions."""
        return self.quads.names

    @property
    def counts_quads(self) -> bool:
        """True where quads can be deleted."""
        return "delete" in _KINDS[self.output]

    def events(self, moment: EvaluationInfo, answer: ChangedAnswer) -> list[Event]:
        """One event for each sign that has quads; RSTREAM tells an empty answer too."""
        at, skipped, repeats = moment.at, moment.skipped, moment.repeats
        if self.counts_quads:
            delta = answer.coded()
            if delta is None:
                delta = self.quads.coded(answer.deleted, answer.inserted)
            return self.changed(at, moment.head(), delta, skipped=skipped, repeats=repeats)
        kind: EventKind = "insert" if self.output == "istream" else "answer"
        quads = self._quads(_rows_of(kind, answer), at)
        return self._told(at, moment.head(), [(kind, quads)], skipped=skipped, repeats=repeats)

    def changed(
        self, at: int, head: str, delta: Delta, *, skipped: bool = False, repeats: bool = False
    ) -> list[Event]:
        """The events of a change of solutions as ids, where quads are counted; ``head`` is the moment's."""
        deleted, inserted = self.quads.change(delta, ordered=self.ordered)
        signs: list[tuple[EventKind, list[Quad]]] = [("delete", deleted)]
        if self.output == "changes":
            signs.append(("insert", inserted))
        return self._told(at, head, signs, skipped=skipped, repeats=repeats)

    def current(self, moment: EvaluationInfo, answer: ChangedAnswer) -> str:
        """The quads of all rows."""
        return self._line(moment.head(), self._quads(answer.rows, moment.at))

    def go_on(self, answer: ChangedAnswer) -> None:
        """Count the quads of an answer that was emitted before a restart."""
        if self.counts_quads:
            delta = answer.coded(whole=True)
            self.quads.change(self.quads.coded((), answer.rows) if delta is None else delta, ordered=True)

    def _told(
        self,
        at: int,
        head: str,
        signs: Sequence[tuple[EventKind, list[Quad]]],
        *,
        skipped: bool,
        repeats: bool,
    ) -> list[Event]:
        """The events of some quads, which are also an element of the stream that the query makes."""
        events: list[Event] = []
        for kind, quads in signs:
            if quads or (kind == "answer" and not (skipped or self.non_empty)):
                self.counts.add(kind, len(quads))
                events.append((kind, self._line(head, quads)))
        if self.emit_element is not None and not skipped:
            # What is new or all there is; of DSTREAM what went.
            streamed = dict.fromkeys(signs[-1][1])
            if streamed:
                self.emit_element(at, list(streamed), repeats)
        return events

    def _quads(self, rows: Sequence[Solution], at: int) -> list[Quad]:
        return self.construct(rows if self.ordered else in_fixed_order(rows, PAUSE), at)

    @staticmethod
    def _line(head: str, quads: Sequence[Quad]) -> str:
        return f'{head},"quads":{one_line(quads_text(quads, PAUSE))}}}'
