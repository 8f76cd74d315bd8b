"""The search for matches of a SEQ block in stored elements, from the last step or from the first step."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from quadrill.store.sparql.workspace import Workspace
from quadrill.store.terms import Term

from ..algebra import nodes as n
from ..algebra.corrections import corrected
from ..algebra.nodes import Algebra, Var
from ..algebra.query import SequenceElement
from ..algebra.query import SequencePattern as SequenceOf
from ..algebra.text import SparqlText
from ..errors import BudgetError
from ..expressions.choices import Functions, instant_literal
from ..inputs import Element
from ..slices import CHUNK, chunks, pause
from ..uncertainty import custom_functions

Order = tuple[int, int, int]
"""The place of an element in a search for SEQ matches: event time, index of the stream in the text, seq."""
Bindings = dict[str, Term]
Match = tuple[tuple[Order, int], ...]
"""A match of SEQ: the chosen elements, each with the index of the chosen solution of its step's pattern."""
_NUMBER = Var("_:number")


@dataclass(slots=True, frozen=True, eq=False)
class ElementMatches:
    """An element of a SEQ block, with the solutions of each step's pattern over the element."""

    order: Order
    element: Element
    solutions: tuple[Sequence[Bindings], ...]


_ORDER = attrgetter("order")


class SequenceMatches:
    """The elements that future matches of SEQ may contain, and the search for matches in these elements.

    ``most`` bounds the partial SEQ matches that one search may examine.
    """

    def __init__(self, sequence: SequenceOf, most: int = 1_000_000) -> None:
        self.sequence = sequence
        self.within = sequence.within_ms
        self.waits = sequence.steps[-1].negated
        self.held: list[ElementMatches] = []
        self._by_step: list[list[ElementMatches]] = [[] for _ in sequence.steps]
        self._slots = [
            number
            for number, step in enumerate(sequence.steps)
            if not step.negated
            for _ in range(step.repeat)
        ]
        self.last = self._slots[-1]
        names = [
            step.variables if step.at is None else step.variables | {step.at.name} for step in sequence.steps
        ]
        positive = [own for own, step in zip(names, sequence.steps, strict=True) if not step.negated]
        self._key = sorted(frozenset.intersection(*positive))
        # The variables that the FILTER conditions of each SEQ step may read.
        self._seen = [
            sorted(names[number].union(*(names[k] for k in range(number) if not sequence.steps[k].negated)))
            for number in range(len(names))
        ]
        self._functions = Functions("", custom_functions())
        self._workspace = Workspace()
        self._most, self._looked = most, 0

    # --- elements -------------------------------------------------------------------------------

    def hold(self, place: int, element: Element) -> ElementMatches | None:
        """Store an element of stream number ``place``; return None if no SEQ step's pattern matches it."""
        stream = self.sequence.streams[place]
        steps = self.sequence.steps
        self._workspace.add(weights := {Quad(*quad.triple): 1 for quad in element.quads})
        found = [self._solutions(each, element) if each.stream == stream else () for each in steps]
        self._workspace.add(dict.fromkeys(weights, -1))
        if not any(found):
            return None
        held = ElementMatches((element.event_time, place, element.seq), element, tuple(found))
        insort(self.held, held, key=_ORDER)
        for number, solutions in enumerate(found):
            if solutions:
                insort(self._by_step[number], held, key=_ORDER)
        return held

    def forget_before(self, at: int) -> None:
        """Remove stored elements of a SEQ block that are older than the instant ``at``."""
        for entries in (self.held, *self._by_step):
            del entries[: bisect_left(entries, (at, -1, 0), key=_ORDER)]

    def next_completion(self, after: int) -> int | None:
        """Return when time alone may next complete a SEQ match: a first element's time + d."""
        if not self.waits:
            return None
        firsts = self._by_step[0]
        place = bisect_left(firsts, (after - self.within + 1, -1, 0), key=_ORDER)
        return firsts[place].order[0] + self.within if place < len(firsts) else None

    def key_of(self, bindings: Bindings) -> tuple[Term | None, ...]:
        """Return the values of the variables that all positive steps of the SEQ block share."""
        return tuple(bindings.get(name) for name in self._key)

    def _solutions(self, step: SequenceElement, element: Element) -> list[Bindings]:
        names = sorted(step.variables)
        found = self._query(self._text(step.pattern).select(names), len(names))
        rows = [
            {name: term for name, term in zip(names, row, strict=True) if term is not None} for row in found
        ]
        if step.at is not None:
            time = instant_literal(element.event_time)
            rows = [merged for row in rows if (merged := _merged(row, {step.at.name: time})) is not None]
        # The solutions of a step's pattern are sorted, because a match identifies its solutions by their
        # indexes.
        return sorted(rows, key=lambda row: [(name, str(row[name])) for name in sorted(row)])

    def _text(self, pattern: Algebra) -> SparqlText:
        return SparqlText(
            corrected(pattern, replaces=False)[0], choices=self._functions, base_iri=self.sequence.base_iri
        )

    def _query(self, text: str, width: int) -> list[tuple[Term | None, ...]]:
        functions = self._functions
        found = self._workspace.query(text, width, functions.functions, functions.aggregates)
        functions.limited.check()
        assert not isinstance(found, bool)
        return found

    # --- the search -----------------------------------------------------------------------------

    def completed_at(self, at: int) -> dict[Match, Bindings]:
        """Return the SEQ matches that complete at an instant."""
        firsts = self._by_step[self._slots[0] if self.waits else self._slots[-1]]
        time = at - self.within if self.waits else at
        since = bisect_left(firsts, (time, -1, 0), key=_ORDER)
        return self.of(firsts[since : bisect_left(firsts, (time + 1, -1, 0), key=_ORDER)])

    def of(self, begins: Sequence[ElementMatches]) -> dict[Match, Bindings]:
        """Return the SEQ matches that end in one of the elements, or begin there if the last step is NOT."""
        self._looked = 0
        found = [each for begin in begins for each in self._extended(begin, {}, [])]
        return {match: bindings for match, bindings, _ in self._without_forbidden(self._passing(found))}

    def _extended(
        self, held: ElementMatches, bindings: Bindings, chosen: list[tuple[ElementMatches, int]]
    ) -> Iterator[tuple[Match, Bindings, tuple[ElementMatches, ...]]]:
        slots, number = self._slots, len(chosen)
        step = slots[number if self.waits else -1 - number]
        for place, solution in enumerate(held.solutions[step]):
            self._looked += 1
            if not self._looked % CHUNK:
                self._look()
            merged = _merged(bindings, solution)
            if merged is None:
                continue
            chain = [*chosen, (held, place)]
            if len(chain) == len(slots):
                ordered = chain if self.waits else chain[::-1]
                match = tuple((each.order, index) for each, index in ordered)
                yield match, merged, tuple(each for each, _ in ordered)
                continue
            for other in self._neighbours(held, chain[0][0], len(chain)):
                yield from self._extended(other, merged, chain)

    def _look(self) -> None:
        """Check the number of partial SEQ matches against the limit, and pause so that other queries run."""
        if self._looked > self._most:
            raise BudgetError(
                f"SEQ looked at {self._most} partial matches at one instant; make WITHIN shorter, or let "
                "its steps share variables",
                limit=self._most,
            )
        pause()

    def _neighbours(self, held: ElementMatches, begin: ElementMatches, number: int) -> list[ElementMatches]:
        """Return the elements by which a partial SEQ match can be extended, within the time d."""
        entries = self._by_step[self._slots[number if self.waits else -1 - number]]
        time = begin.order[0]
        if self.waits:
            until = bisect_left(entries, (time + self.within + 1, -1, 0), key=_ORDER)
            return entries[bisect_right(entries, held.order, key=_ORDER) : until]
        since = bisect_left(entries, (time - self.within, -1, 0), key=_ORDER)
        return entries[since : bisect_left(entries, held.order, key=_ORDER)]

    def _passing(
        self, found: list[tuple[Match, Bindings, tuple[ElementMatches, ...]]]
    ) -> list[tuple[Match, Bindings, tuple[ElementMatches, ...]]]:
        """Return the SEQ matches for which the conditions of all positive steps are true."""
        for number, step in enumerate(self.sequence.steps):
            if step.conditions and not step.negated:
                seen = [
                    self._until(number, match, chosen) for some in chunks(found) for match, _, chosen in some
                ]
                found = [found[place] for place in sorted(self._true(number, seen))]
        return found

    def _until(self, number: int, match: Match, chosen: tuple[ElementMatches, ...]) -> Bindings:
        """Return the bindings of a SEQ match up to a step, because conditions cannot read later steps."""
        seen: Bindings = {}
        for slot, held, (_, place) in zip(self._slots, chosen, match, strict=True):
            if slot <= number:
                seen |= held.solutions[slot][place]
        return seen

    def _without_forbidden(
        self, found: list[tuple[Match, Bindings, tuple[ElementMatches, ...]]]
    ) -> list[tuple[Match, Bindings, tuple[ElementMatches, ...]]]:
        """Return the SEQ matches without a compatible solution of a NOT step between their elements."""
        before = 0
        for number, step in enumerate(self.sequence.steps):
            if not step.negated:
                before += step.repeat
                continue
            entries, asked = self._by_step[number], []
            for place, (_, bindings, chosen) in enumerate(found):
                last = before == len(self._slots)
                until = (chosen[0].order[0] + self.within + 1, -1, 0) if last else chosen[before].order
                begin = bisect_right(entries, chosen[before - 1].order, key=_ORDER)
                for held in entries[begin : bisect_left(entries, until, key=_ORDER)]:
                    for solution in held.solutions[number]:
                        self._looked += 1
                        if not self._looked % CHUNK:
                            self._look()
                        if (merged := _merged(bindings, solution)) is not None:
                            asked.append((place, merged))
            dead = {asked[place][0] for place in self._true(number, [merged for _, merged in asked])}
            found = [each for place, each in enumerate(found) if place not in dead]
        return found

    def _true(self, number: int, rows: list[Bindings]) -> set[int]:
        """Return the indexes of the rows for which the conditions of a SEQ step are true."""
        conditions = self.sequence.steps[number].conditions
        if not rows or not conditions:
            return set(range(len(rows)))
        names, true = self._seen[number], set[int]()
        for some in chunks(list(enumerate(rows))):
            listed = tuple(
                (Literal(place), *(_named(row.get(name)) for name in names)) for place, row in some
            )
            passing: Algebra = n.Values((_NUMBER, *map(Var, names)), listed)
            for condition in conditions:
                passing = n.Filter(condition, passing)
            text = self._text(passing).select([_NUMBER.name])
            true |= {int(row[0].value) for row in self._query(text, 1)}  # type: ignore[union-attr]
        return true


def _merged(left: Bindings, right: Bindings) -> Bindings | None:
    """Return the union of two solutions; None if they are incompatible."""
    for name, term in right.items():
        if left.get(name, term) != term:
            return None
    return {**left, **right}


def _named(term: Term | None) -> Term | None:
    """Return a term that VALUES can contain: an IRI in place of a blank node."""
    return NamedNode(f"urn:quadrill:blank:{term.value}") if isinstance(term, BlankNode) else term
