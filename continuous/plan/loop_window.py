"""The generated lines for one window of a run loop: entering elements, leaving elements, and deltas.

`EncodedContent` and `QueryTimeline.slide` are the readable form of these lines. If an element's triples are
the only triples of their subject, and a star alone reads the window, the triples are one row of the star. The
generated lines then make the star operator's entry and row directly. Any other change goes through the
window's content and the star operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from quadrill.store.documents.subject_columns import MOST_KNOWN

from ..expressions.compile import ExpressionEmitter
from ..expressions.emitter import block, fill
from ..operators.star import Star
from ..windows.operator import WindowOperator
from ..windows.window_delta import Columns, Predicates
from .plan import SourceKey

# The following templates belong to one window, whose number replaces ``$n``.
_OPENED = """
live$n = window$n.live
count$n, size$n = live$n.$held, live$n.occurrences
if live$n.changes or live$n.named: return
$kept
"""
# the instant at which the oldest element of the window leaves
_OLDEST = "out$n = held$n[0].event_time + $stay if held$n else most"
_LEFT = """
$changes$n = {}
while out$n <= due:
    element = held$n.popleft()
    $oldest
    $leave
"""
_LEAVE_ROW = """
known = element.encoded
if known is not None and count$n.get(known[3]) is known[1]:
    del count$n[known[3]]
    size$n -= known[1].number
    rows$n[(known[3], *entries$n.pop(known[3]))] = -1
$otherwise
"""
# The window contains these term ids, so no sweep has deleted them since the element entered.
_LEAVE_KEYS = """
known = element.encoded
keys = keys_of(element) if known is None else known[1]
size$n -= len(keys)
for key in keys:
    if $unwanted: continue
    n = count$n[key] - 1
    if n: count$n[key] = n
    else:
        del count$n[key]
        $fresh
        change$n[key] = -1
"""
# Triples that do not form one star row go through the window's content and the star operator, triple by
# triple.
_OTHERWISE = """
else:
    live$n.occurrences = size$n
    live$n.$method(element)
    size$n = live$n.occurrences
"""
_ENTERED = """
$held
for element in elements:
    $enter
"""
_HELD = """
if not held$n: out$n = at + $stay
held$n.extend(elements)
"""
_ENTER_ROW = """
_, keys, _, subject, columns = element.encoded
pick = $picks[columns]
if pick is not None and subject not in entries$n and not live$n.changes:
    count$n[subject] = keys
    size$n += keys.number
    objects = pick(keys.objects)
    entries$n[subject] = [*objects]
    row = (subject, *objects)
    if rows$n and row in rows$n: del rows$n[row]
    else: rows$n[row] = 1
$otherwise
"""
_ENTER_KEYS = """
keys = element.encoded[1]
size$n += len(keys)
for key in keys:
    if $unwanted: continue
    n = count$n.get(key)
    if n is not None: count$n[key] = n + 1
    else:
        count$n[key] = 1
        if key in change$n: del change$n[key]
        else: change$n[key] = 1
$newest
"""
_NEWEST = """
newest$n.add(element)
if newest$n.number > $most:
    for element in newest$n.take(newest$n.number - $most):
        $leave
"""
CHANGED = """
change$n = live$n.changes
if change$n: live$n.changes = {}
"""
EARLIEST = "if out$n < due: due = out$n"
KEPT = "live$n.changes = change$n"
SIZE = "live$n.occurrences = size$n"


@dataclass(frozen=True, slots=True)
class LoopWindow:
    """One window of a run loop: the index of its stream, and the plan's source for its triples.

    ``stay`` is the time in milliseconds that elements stay in the window; None if elements do not leave by
    time. ``triples`` is the number of newest triples that the window contains; None for other windows.
    ``star`` is the star operator that receives rows from the loop, with its position in the plan.
    """

    stream: int
    source: SourceKey
    stay: int | None
    triples: int | None
    wanted: Predicates
    star: tuple[int, Star] | None

    @property
    def only(self) -> int | None:
        """The id of the only predicate that the window stores; None if it does not store exactly one."""
        return next(iter(self.wanted)) if self.wanted and len(self.wanted) == 1 else None


Pick: TypeAlias = Callable[[list[int]], tuple[int, ...]]


class _Picks(dict[Columns | None, Pick | None]):
    """Functions that select a star row's objects from an element; None if the element is not one row."""

    def __init__(self, star: Star, wanted: Predicates) -> None:
        super().__init__({None: None})
        self._star, self._wanted = star, wanted or ()

    def __missing__(self, columns: Columns) -> Pick | None:
        if len(self) >= MOST_KNOWN:
            self.clear()
            self[None] = None
        mine = [(each, place) for place, each in enumerate(columns.predicates) if each in self._wanted]
        by, places = dict(mine), self._star.places
        whole = len(mine) == len(by) == len(places) > 1 and by.keys() == places.keys()
        found = self[columns] = itemgetter(*[by[each] for each in places]) if whole else None
        return found


@dataclass(slots=True)
class WindowCode:
    """The generated lines of one window: `EncodedContent` and `QueryTimeline.slide` inline in a loop."""

    out: ExpressionEmitter
    number: int
    window: LoopWindow
    operator: WindowOperator

    @property
    def expires(self) -> bool:
        """True if elements leave the window when they become too old."""
        return self.window.stay is not None

    def filled(self, template: str, **parts: object) -> str:
        """Replace the placeholders of a code template by the window's number and other parts."""
        return fill(template, n=self.number, stay=self.window.stay, **parts)

    def setup_lines(self) -> str:
        """Return the generated lines for this window before the loop begins."""
        window, kept = self.window, []
        self.out.names[f"window{self.number}"] = self.operator
        if self.expires:
            kept += [self.filled("held$n = window$n.state.elements"), self.filled(_OLDEST)]
        elif window.triples is not None:
            kept.append(self.filled("newest$n = window$n.state.newest"))
        if window.star is not None:
            star = self.out.name_of(window.star[1], "star")
            kept.append(self.filled("entries$n = $star.entries", star=star))
        return self.filled(_OPENED, held="counts" if window.star is None else "alone", kept=block(kept))

    def expiry_lines(self) -> str:
        """Return the generated lines that remove expired elements from the window."""
        changes = "change" if self.window.star is None else "rows"
        if not self.expires:
            return self.filled("$changes$n = {}", changes=changes)
        return self.filled(_LEFT, changes=changes, oldest=self.filled(_OLDEST), leave=self._leave())

    def _leave(self) -> str:
        if self.window.star is not None:
            return self.filled(_LEAVE_ROW, otherwise=self.filled(_OTHERWISE, method="remove"))
        # If a window's elements leave by time, no triple has entered yet in this step.
        fresh = "if key in change$n: del change$n[key]; continue" if self.window.triples is not None else ""
        return self.filled(_LEAVE_KEYS, unwanted=self._unwanted(), fresh=self.filled(fresh))

    def entry_lines(self) -> str:
        """Return the generated lines that add elements to the window."""
        held = self.filled(_HELD) if self.expires else ""
        if self.window.star is not None:
            picks = self.out.name_of(_Picks(self.window.star[1], self.window.wanted), "picks")
            otherwise = self.filled(_OTHERWISE, method="add")
            enter = self.filled(_ENTER_ROW, picks=picks, otherwise=otherwise)
        else:
            unwanted, triples, newest = self._unwanted(), self.window.triples, ""
            if triples is not None:
                newest = self.filled(_NEWEST, most=triples, leave=self._leave())
            enter = self.filled(_ENTER_KEYS, unwanted=unwanted, newest=newest)
        return self.filled(_ENTERED, held=held, enter=enter)

    def _unwanted(self) -> str:
        """Return the Python condition for a triple whose predicate the window does not store."""
        if self.window.wanted is None:
            return "key is None"
        if (only := self.window.only) is not None:
            return f"key is None or key[1] != {self.out.name_of(only, 'id')}"
        return f"key is None or key[1] not in {self.out.name_of(self.window.wanted, 'wanted')}"
