"""Answers that list a whole window, written directly from the texts of the window's triples.

A query that reports all matches of one pattern each time a new window replaces the last one needs no operator
state between windows. For a query that lists a window's matches, the triples get no term ids, and no delta of
the answer is computed. The operators would give the same answers; they evaluate windows that contain more
than triples of the default graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from quadrill.store.documents.statements import term_of
from quadrill.store.documents.subject_columns import Statement
from quadrill.store.feeds.subscription import EventKind
from quadrill.store.results import columns_text

from ..algebra.reify import REIFIES
from ..inputs import Element
from ..operators.linear import Projection, Scan
from ..plan.plan_state import PlanState
from ..rows import Solution

_REIFIES = str(REIFIES)
Texts = Sequence[str | None]
"""A row of terms in N-Quads syntax; None for an unbound variable."""


@dataclass(eq=False)
class ListedAnswer:
    """The matches in one window as columns of N-Quads texts; None for a variable that no match binds."""

    names: Sequence[str]
    columns: Sequence[Sequence[str] | None]
    number: int
    boolean: bool | None = None

    @property
    def texts(self) -> Sequence[Texts]:
        """The matches as rows of N-Quads texts."""
        nothing = [None] * self.number
        return list(zip(*[nothing if each is None else each for each in self.columns], strict=True))

    @cached_property
    def rows(self) -> Sequence[Solution]:
        """The matches of a triple pattern in the window as rows of terms."""
        return [tuple([None if text is None else term_of(text) for text in row]) for row in self.texts]

    @property
    def inserted(self) -> Sequence[Solution]:
        """Not implemented, because a report of a whole window needs no difference from the last window."""
        raise NotImplementedError

    deleted = inserted

    def json_rows(self, kind: EventKind) -> tuple[int, str] | None:
        """Return the number of matches and the text of all matches as JSON objects.

        Returns None if the event does not contain the whole answer.
        """
        if kind != "answer":
            return None
        bound = {name: column for name, column in zip(self.names, self.columns, strict=True) if column}
        return self.number, f"{{{columns_text([*bound], [*bound.values()])}}}" if bound else ""

    def id_delta(self, *, whole: bool = False) -> None:
        """Return None, because the rows of the listed window are texts without term ids."""


@dataclass(frozen=True, slots=True)
class WindowListing:
    """A compiled triple pattern over one window: constants by position, and the position of each column."""

    names: Sequence[str]
    constants: Sequence[tuple[int, str]]
    places: Sequence[int | None]

    def answer(self, elements: Sequence[Element]) -> ListedAnswer | None:
        """Return the matches of the triple pattern in the elements.

        Returns None if any statement in the elements is not a plain triple of the default graph.
        """
        found: Sequence[Statement] = [*chain.from_iterable([each.statements for each in elements])]
        if any([each[3] or each[2][:2] == "<<" or each[1] == _REIFIES for each in found]):
            return None
        for place, text in self.constants:
            found = [each for each in found if each[place] == text]
        unique = [*dict.fromkeys(found)]
        columns = [None if place is None else [each[place] for each in unique] for place in self.places]
        return ListedAnswer(self.names, columns, len(unique))


def window_listing(state: PlanState, names: Sequence[str]) -> WindowListing | None:
    """Return the listing of a plan that only scans its one window; None for any other plan."""
    plan = state.plan
    if len(plan.nodes) < 2 or len(state.keys) != 1:
        return None  # For instance, a query may declare its one window without using it.
    source, scan, *rest = plan.nodes
    if not isinstance(scan.operator, Scan) or scan.operator.simple is None:
        return None
    ((triples, *_),) = state.keys.values()
    if source.source != triples or len(rest) > 1 or plan.sources != {triples}:
        return None
    if rest and not isinstance(rest[0].operator, Projection):
        return None
    places = dict(zip(scan.schema.vars, scan.operator.simple, strict=True))
    columns = [places.get(name) if name in plan.schema.vars else None for name in names]
    terms = state.terms.dictionary.terms
    constants = [(place, str(terms[each])) for place, each in scan.operator.constants]
    return WindowListing(names, constants, columns) if any(each is not None for each in columns) else None
