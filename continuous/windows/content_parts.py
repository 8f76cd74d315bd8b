"""The forms in which a query reads the content of one window.

whole      the RDF merge of the elements
elements   for AT: a graph for each element, and the event time of each graph
ends       for BOUNDS: two triples with the instants at which the window begins and ends
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

from pyoxigraph import NamedNode

from quadrill.store.terms import term_text

from ..algebra.query import elements_of, ends_of
from ..algebra.reports import Interval
from ..algebra.window_times import CLOSE, ENDS, OPEN, TIME, TIMES
from ..expressions.choices import instant_literal
from ..inputs import Element
from .encoded import EncodedContent
from .live import ContentSnapshot, LiveQuads

_ELEMENT = "urn:quadrill:element:"
_TIME, _TIMES, _ENDS, _OPEN, _CLOSE = map(str, (TIME, TIMES, ENDS, OPEN, CLOSE))


def by_itself(element: Element) -> Element:
    """Return an element with all its triples in a graph of their own, and the event time of this graph."""
    found = element.by_itself
    if found is None:
        graph = f"<{_ELEMENT}{element.seq}>"
        time = (graph, _TIME, term_text(instant_literal(element.event_time)), _TIMES)
        statements = (*((s, p, o, graph) for s, p, o, _ in element.statements), time)
        found = element.by_itself = Element(statements, element.event_time, element.seq)
    return found


def seq_of(graph: object) -> int | None:
    """Return the sequence number of the element that a graph of `by_itself` has; None for another term."""
    if isinstance(graph, NamedNode) and graph.value.startswith(_ELEMENT):
        return int(graph.value.removeprefix(_ELEMENT))
    return None


def _ends(interval: Interval) -> Element:
    pairs = ((_OPEN, interval.open), (_CLOSE, interval.close))
    statements = tuple((_ENDS, end, term_text(instant_literal(at)), "") for end, at in pairs)
    return Element(statements, interval.close, 0)


class ContentParts:
    """The forms of one window's content; operators change the elements of all forms together.

    The attribute ``interval`` has the window's ends as of the last `move_ends`; None for a window without
    ends, such as a session before its first element.
    """

    def __init__(
        self,
        whole: LiveQuads | EncodedContent,
        elements: LiveQuads | EncodedContent | None,
        ends: LiveQuads | EncodedContent | None,
    ) -> None:
        self.whole = whole
        self.elements = elements
        self.ends = ends
        self.interval: Interval | None = None

    def named(self, window: NamedNode) -> Iterator[tuple[NamedNode, LiveQuads | EncodedContent]]:
        """Yield the forms of the content with their names, of `WindowDeclaration.contents`."""
        yield window, self.whole
        if self.elements is not None:
            yield elements_of(window), self.elements
        if self.ends is not None:
            yield ends_of(window), self.ends

    @property
    def forms(self) -> list[LiveQuads | EncodedContent]:
        """The forms of the content in the order of `named`."""
        return [each for each in (self.whole, self.elements, self.ends) if each is not None]

    @property
    def occurrences(self) -> int:
        """The number of quads in the elements of the window."""
        return self.whole.occurrences

    def __len__(self) -> int:
        return len(self.whole) + (0 if self.elements is None else len(self.elements))

    def add(self, *elements: Element) -> None:
        """Add elements."""
        self.whole.add(*elements)
        if self.elements is not None:
            self.elements.add(*map(by_itself, elements))

    def remove(self, *elements: Element) -> None:
        """Remove elements."""
        self.whole.remove(*elements)
        if self.elements is not None:
            self.elements.remove(*map(by_itself, elements))

    def replace(self, leaving: Sequence[Element], entering: Sequence[Element]) -> None:
        """Replace all elements of the window's content by others."""
        self.add(*entering)
        self.remove(*leaving)

    def move_ends(self, interval: Interval | None) -> None:
        """Set the ends of the window for the next evaluation; nothing without BOUNDS."""
        old = self.interval
        if self.ends is None or interval == old:
            return
        self.interval = interval
        if interval is not None:
            self.ends.add(_ends(interval))
        if old is not None:
            self.ends.remove(_ends(old))

    def snapshot(self) -> ContentSnapshot:
        """Return all forms of the content for a checkpoint."""
        elements = None if self.elements is None else self.elements.snapshot()
        ends = None if self.ends is None else self.ends.snapshot()
        return self.whole.snapshot()._replace(elements=elements, ends=ends, interval=self.interval)

    def restore(self, snapshot: ContentSnapshot) -> None:
        """Fill empty forms from a snapshot in a checkpoint."""
        self.whole.restore(snapshot)
        if self.elements is not None and snapshot.elements is not None:
            self.elements.restore(snapshot.elements)
        if self.ends is not None and snapshot.ends is not None:
            self.ends.restore(snapshot.ends)
            self.interval = snapshot.interval

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update({name: copy(value) for name, value in vars(self).items()})
        return other
