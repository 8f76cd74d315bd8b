"""SEQ as a window, which contains the matches that complete at an instant, each as a blank node's triples.

A      B      C                 SEQ { A ; B ; C } WITHIN d
t ───────1──────4──────7────────         content: the match at 7, nothing from 8 on
├────── ≤ d ──┤

SEQ { A ; B ; NOT N }                    content: the match at 1 + d, unless an N came after B
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyoxigraph import BlankNode, NamedNode, Quad

from quadrill.store.terms import Term

from ..algebra.query import MATCH
from ..algebra.query import SequencePattern as SequenceOf
from ..inputs import NEVER, Element
from ..slices import chunks
from .operator import WindowOperator, WindowState
from .sequence_matches import Bindings, Match, Order, SequenceMatches

Key = tuple[Term | None, ...]
_BEFORE: Order = (NEVER, 0, 0)


@dataclass(slots=True)
class SequenceState(WindowState):
    """The stored elements of a SEQ window, and up to which instant matches are known.

    The stored ``elements`` of a SEQ window are pairs of the index of the stream and the element. ``now`` is
    the instant of the SEQ window's content, and ``done`` the instant up to which NOT steps are decided by
    time. For SEQ with SKIP, ``taken`` maps each key to the last element of the key's last match, and
    ``before`` is the value of ``taken`` before ``now``.
    """

    elements: list[tuple[int, Element]] = field(default_factory=list)
    now: int = NEVER
    done: int = NEVER
    taken: dict[Key, Order] = field(default_factory=dict)
    before: dict[Key, Order] = field(default_factory=dict)


class SequenceWindow(WindowOperator):
    """The SEQ window: matches of a SEQ block at the instant at which they complete.

    ``name`` is the name of the SEQ window.
    """

    def __init__(self, sequence: SequenceOf) -> None:
        self.state: SequenceState = SequenceState()
        self.name: NamedNode | None = None
        self._matches = SequenceMatches(sequence)
        self._found: dict[Match, Bindings] = {}
        self._shown: dict[Match, Element] = {}

    def next_due(self) -> int | None:
        """Return the instant at which matches leave the SEQ window, or at which time completes a match."""
        if self._shown:
            return self.state.now + 1
        return self._matches.next_completion(self.state.done)

    def advance(self, instant: int) -> bool:
        """Remove matches that completed before ``instant``, and find matches that time completes by then."""
        state, changed = self.state, False
        if instant > state.now:
            changed = self._move_to(instant)
        state.done = max(state.done, instant)
        if self._matches.waits:
            self._found = self._matches.completed_at(state.now)
            changed |= self._show()
        return changed

    def add(self, element: Element) -> bool:
        """Add an element of the SEQ block's first stream."""
        return self.take(0, element, element.event_time)

    def admit(self, element: Element, instant: int) -> bool:
        """Add a late element of the SEQ block's first stream, which may complete matches now or later."""
        return self.take(0, element, instant)

    def take(self, place: int, element: Element, instant: int) -> bool:
        """Add an element of the SEQ block's stream number ``place``; return True if the content changed."""
        state, matches = self.state, self._matches
        changed = instant > state.now and self._move_to(instant)
        if element.event_time < instant - matches.within:
            return changed
        newest = not matches.held or matches.held[-1].order < (element.event_time, place, element.seq)
        held = matches.hold(place, element)
        if held is None:
            return changed
        if not newest or matches.waits or element.event_time < instant:
            self._found = matches.completed_at(state.now)
        elif held.solutions[matches.last]:
            self._found |= matches.of([held])
        return self._show() or changed

    def state_size(self) -> int:
        """Return the number of quads in the SEQ window's stored elements and in its matches."""
        return len(self.live) + sum(len(each.element.statements) for each in self._matches.held)

    def snapshot(self) -> Any:
        """Return the SEQ window's stored elements and content for a checkpoint."""
        elements = [(each.order[1], each.element) for each in self._matches.held]
        return replace(self.state, elements=elements, content=self.live.snapshot())

    def restore(self, snapshot: Any) -> None:
        """Restore the SEQ window's elements, and search for the matches in the content again."""
        self.live.restore(snapshot.content)
        self.state = replace(snapshot, content=None, elements=[])
        for place, element in snapshot.elements:
            self._matches.hold(place, element)
        self._found = self._matches.completed_at(self.state.now)
        self._shown = {match: self._element(match, bindings) for match, bindings in self._chosen().items()}

    def _move_to(self, instant: int) -> bool:
        """Move the SEQ window to a later instant, and remove the matches that completed before it."""
        state, left = self.state, list(self._shown.values())
        oldest = instant - self._matches.within
        state.taken = {key: order for key, order in state.taken.items() if order[0] >= oldest}
        state.now, state.before = instant, dict(state.taken)
        self._found, self._shown = {}, {}
        self._matches.forget_before(oldest)
        self._remove(left)
        return bool(left)

    def _show(self) -> bool:
        """Make the found matches the SEQ window's content; return True if the content changed."""
        chosen, shown = self._chosen(), self._shown
        new = {match: chosen[match] for match in chosen if match not in shown}
        gone = [shown.pop(match) for match in list(shown) if match not in chosen]
        self._remove(gone)
        for some in chunks(list(new)):
            made = {match: self._element(match, new[match]) for match in some}
            shown |= made
            self.live.add(*made.values())
        return bool(new or gone)

    def _remove(self, elements: Sequence[Element]) -> None:
        for some in chunks(elements):
            self.live.remove(*some)

    def _chosen(self) -> dict[Match, Bindings]:
        if not self._matches.sequence.skip:
            return self._found
        taken, chosen = dict(self.state.before), {}
        # All matches complete at the same instant; the match that begins first takes its elements first.
        for match, bindings in sorted(self._found.items(), key=lambda each: each[0]):
            key = self._matches.key_of(bindings)
            if match[0][0] > taken.get(key, _BEFORE):
                taken[key] = match[-1][0]
                chosen[match] = bindings
        self.state.taken = taken
        return chosen

    def _element(self, match: Match, bindings: Bindings) -> Element:
        """Return a match of SEQ as triples whose subject is the match's blank node."""
        label = "_".join(f"{at}.{place}.{seq}.{index}" for (at, place, seq), index in match)
        node = BlankNode("m" + label.replace("-", "n").replace(".", "x"))
        quads = [Quad(node, MATCH, MATCH)]
        quads += [Quad(node, NamedNode(f"{MATCH.value}:{name}"), term) for name, term in bindings.items()]
        return Element.of(quads, self.state.now, 0)


class StepInput(WindowOperator):
    """Passes the elements of a further stream of SEQ to the SEQ window, and stores nothing.

    ``place`` is the index of the stream among the streams of the SEQ block.
    """

    def __init__(self, place: int) -> None:
        self._place = place
        self.sequence: SequenceWindow | None = None

    def add(self, element: Element) -> bool:
        """Pass an element to the SEQ window."""
        return self.admit(element, element.event_time)

    def admit(self, element: Element, instant: int) -> bool:
        """Pass a late element to the SEQ window."""
        assert self.sequence is not None
        return self.sequence.take(self._place, element, instant)
