"""Deltas of a native query's windows with canonical names of reifiers (algebra/reify.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..algebra.reify import CanonicalReifiers, assert_quoted, canonical_content
from ..rows import IdRow
from .encoded import ElementCoder, EncodedContent
from .timed import TimedContent, Turned
from .window_delta import NOTHING, EncodedWindow, WindowDelta, WindowKey


class WindowReifiers:
    """Renames reifiers in the deltas of one query's windows, from a window's first reifier on."""

    def __init__(self, coder: ElementCoder, *, union: bool, asserts: Callable[[WindowKey], bool]) -> None:
        """The function ``asserts`` says whether annotated triples of a window count as asserted."""
        self._coder = coder
        self._union = union
        self._asserts = asserts
        self._reified: dict[WindowKey, tuple[CanonicalReifiers, EncodedContent]] = {}
        self._times: dict[WindowKey, dict[IdRow, int]] = {}

    def take(self, key: WindowKey, content: EncodedWindow) -> WindowDelta:
        """Return a window's delta since the last call, with canonical names once there are reifiers."""
        taken = content.take()
        if taken is NOTHING or not self._coder.met_reifier:
            return taken
        coder = self._coder
        canonical, renamed = self._reified.get(key, (None, None))
        if canonical is None or renamed is None:
            if not any(each[1] == coder.reifies for each in taken.keys):
                return taken
            # The window's earlier content had no reifiers, so the plan has received it with unchanged names.
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
        """Return the triples of a window whose event time changed; called after `take`.

        For a window with reifiers, which is rare, all triples' event times are compared with those before.
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

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the triples of windows whose event times are stored."""
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
