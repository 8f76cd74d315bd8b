"""Changes of a native query's windows under the canonical names of reifiers (algebra/reify.py).

The name of a blank reifier follows from the live statements about it. When these change, the live quads that
mention it, or mention a reifier of a triple that mentions it, are renamed; nearly always they come and go in
the same element and nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pyoxigraph import BlankNode, DefaultGraph, Quad, Triple

from quadrill.store.terms import Term

from ..algebra.reify import CanonicalNames, Statement, assert_quoted, canonical_content, states
from ..rows import IdRow, add
from .encoded import NOTHING, ElementCoder, EncodedContent, HeldWindow, Taken, WindowKey
from .timed import TimedContent, Turned


class WindowReifiers:
    """Takes the changes of one query's windows; nothing is renamed until a window meets a reifier."""

    def __init__(self, coder: ElementCoder, *, union: bool, asserts: Callable[[WindowKey], bool]) -> None:
        """``union`` as for `EncodedContent`; ``asserts``: annotated triples of a window count as asserted."""
        self._coder = coder
        self._union = union
        self._asserts = asserts
        self._reified: dict[WindowKey, tuple[CanonicalReifiers, EncodedContent]] = {}
        self._times: dict[WindowKey, dict[IdRow, int]] = {}

    def take(self, key: WindowKey, content: HeldWindow) -> Taken:
        """The change of a window since the last call, with canonical reifiers from the first one on."""
        taken = content.take()
        if taken is NOTHING or not self._coder.met_reifier:
            return taken
        coder = self._coder
        canonical, renamed = self._reified.get(key, (None, None))
        if canonical is None or renamed is None:
            if not any(each[1] == coder.reifies for each in taken.keys):
                return taken
            # What was there before had no reifiers and was given out as it is.
            earlier = content.before(taken.keys)
            canonical = CanonicalReifiers(self._asserts(key), map(coder.quad, earlier))
            renamed = EncodedContent(coder, union=self._union)
            renamed.apply(dict.fromkeys(earlier, 1))
            renamed.take()
            self._reified[key] = canonical, renamed
        quads = {coder.quad(each): weight for each, weight in taken.keys.items()}
        renamed.apply({coder.key(quad): weight for quad, weight in canonical.change(quads).items()})
        if not len(renamed):
            del self._reified[key]
        return renamed.take()

    def take_times(self, key: WindowKey, content: TimedContent) -> Turned:
        """The triples of a window whose event time changed, to be called behind `take`.

        Where a window has reifiers, all its times are compared: a rare case, and right.
        """
        turned = content.take_times()
        known = self._times.pop(key, None)
        if known is None and key not in self._reified:
            return turned
        if known is None:
            before = {row: old for row, (old, _) in turned.items()}
            known = {row: time for row, time in (content.times() | before).items() if time is not None}
        now = self._canonical_times(key, content)
        if key in self._reified:
            self._times[key] = now
        rows = {row for row in known.keys() | now.keys() if known.get(row) != now.get(row)}
        return {row: (known.get(row), now.get(row)) for row in rows}

    def held(self) -> Iterator[IdRow]:
        """The triples whose times are remembered."""
        for times in list(self._times.values()):
            yield from list(times)

    def _canonical_times(self, key: WindowKey, content: TimedContent) -> dict[IdRow, int]:
        coder, times = self._coder, content.times()
        quads = {coder.quad(each): times[each[:3]] for each in content.content if each[:3] in times}
        if self._asserts(key):
            quads = assert_quoted(quads)
        found: dict[IdRow, int] = {}
        for quad, time in canonical_content(quads).items():
            row = coder.key(quad)
            if self._union or len(row) == 3:
                found[row[:3]] = max(time, found.get(row[:3], time))
        return found


class CanonicalReifiers:
    """Turns the changes of a set of quads into those of occurrences with canonical reifiers.

    With ``asserts`` each reified triple counts as asserted in its graph too. Law: the quads in the running
    sum of the changes given out are `canonical_content` (after `assert_quoted`) of the running sum of those
    taken in.
    """

    def __init__(self, asserts: bool, live: Iterable[Quad] = ()) -> None:
        """``live``: quads without reifiers that are there already and were given out as they are."""
        self._asserts = asserts
        self._statements: dict[BlankNode, set[Statement]] = {}
        self._mentions: dict[BlankNode, set[Quad]] = {}
        self._names = CanonicalNames(self._only)
        for quad in live:
            self._mention(quad, True)

    def change(self, change: Mapping[Quad, int]) -> dict[Quad, int]:
        """How many more or fewer occurrences canonical quads have."""
        gone = [quad for quad, weight in change.items() if weight < 0]
        come = [quad for quad, weight in change.items() if weight > 0]
        for quad in come:
            self._mention(quad, True)
        affected = self._affected(quad for quad in change if states(quad))
        renamed = {quad for node in affected for quad in self._mentions.get(node, ())}
        renamed.difference_update(come, gone)
        out: dict[Quad, int] = {}
        for quad in (*gone, *renamed):
            self._give(quad, -1, out)
        for quad in gone:
            self._mention(quad, False)
        for quad, weight in change.items():
            if states(quad):
                self._state(quad, weight)
        for node in affected:
            self._names.forget(node)
        for quad in (*come, *renamed):
            self._give(quad, 1, out)
        return out

    def _affected(self, statements: Iterable[Quad]) -> set[BlankNode]:
        """The reifiers stated, and those of triples that mention them."""
        waiting = [quad.subject for quad in statements]
        found: set[BlankNode] = set()
        while waiting:
            node = waiting.pop()
            if not isinstance(node, BlankNode) or node in found:
                continue
            found.add(node)
            for quad in self._mentions.get(node, ()):
                if states(quad) and quad.subject not in found and node in _blank_nodes(quad.object):
                    waiting.append(quad.subject)
        return found

    def _mention(self, quad: Quad, there: bool) -> None:
        for node in {*_blank_nodes(quad.subject), *_blank_nodes(quad.object), *_blank_nodes(quad.graph_name)}:
            if there:
                self._mentions.setdefault(node, set()).add(quad)
                continue
            self._mentions[node].discard(quad)
            if not self._mentions[node]:
                del self._mentions[node]
                self._names.forget(node)

    def _state(self, quad: Quad, weight: int) -> None:
        node, statement = quad.subject, (quad.graph_name, quad.object)
        assert isinstance(node, BlankNode)
        about = self._statements.setdefault(node, set())
        if weight > 0:
            about.add(statement)  # type: ignore[arg-type]
        else:
            about.remove(statement)  # type: ignore[arg-type]
            if not about:
                del self._statements[node]

    def _give(self, quad: Quad, weight: int, out: dict[Quad, int]) -> None:
        for each in assert_quoted({quad: 0}) if self._asserts else (quad,):
            add(out, self._names.quad(each), weight)

    def _only(self, node: BlankNode) -> Statement | None:
        about = self._statements.get(node)
        return next(iter(about)) if about is not None and len(about) == 1 else None


def _blank_nodes(term: Term | DefaultGraph) -> Iterator[BlankNode]:
    if isinstance(term, BlankNode):
        yield term
    elif isinstance(term, Triple):
        yield from _blank_nodes(term.subject)
        yield from _blank_nodes(term.object)
