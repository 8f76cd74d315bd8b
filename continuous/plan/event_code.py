"""Generated lines by which a loop writes the rows of a step as JSON events.

`SelectEmission`, `ConstructEmission` and `quadrill.store.results` are the readable form of these lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..expressions.compile import ExpressionEmitter
from ..expressions.emitter import block, fill
from ..output.emission import ConstructEmission, Event, SelectEmission, raise_too_large
from ..rows import Delta
from .plan_state import PlanState

_INSERT, _DELETE = ("insert", "rows_inserted", 1), ("delete", "rows_deleted", -1)
_SIGNS = {"istream": (_INSERT,), "dstream": (_DELETE,), "changes": (_DELETE, _INSERT), "rstream": ()}
# the beginning and end of an event's JSON line, as parts of an f-string
_BEGIN, _END = '{{"at":{due}{middle}', "]}}}}"


@dataclass(slots=True)
class EventCode:
    """Writes code for the event lines of a query, or of a shared plan's members by column ``label``."""

    state: PlanState
    emission: SelectEmission | ConstructEmission
    label: int | None
    # The revision of the ordered answer that was last written as JSON, and its JSON text.
    _listed: list[Any] = field(default_factory=lambda: [-1, ""])

    def members(self, out: ExpressionEmitter, delta: str, label: int) -> str:
        """Return generated lines that write events for a delta with rows of several group members."""
        tested = {"istream": "if w > 0: ", "dstream": "if w < 0: "}.get(self.emission.output, "")
        after = "member.at, member.place = due, steps - remaining"
        rows = self.rows(out, "share", "member.events", "member.counts", after)
        return fill(_MEMBERS, delta=delta, tested=tested, label=label, rows=rows)

    def rows(self, out: ExpressionEmitter, delta: str, events: str, counts: str, after: str) -> str:
        """Return generated lines that write one delta as events; ``after`` runs if the delta has events."""
        if isinstance(self.emission, ConstructEmission):
            return self._quads(out, self.emission, delta, events, after)
        signs = _SIGNS[self.emission.output]
        if not signs:
            return ""
        kinds = [kind for kind, _, _ in signs]
        written = {kind: self._written(out, kind) for kind in kinds}
        refused = self._refused(out, [f"{kind}_line" for kind in kinds])
        sorted_ = block(fill(_SORTED, kind=kind, sign=sign, than="<>"[sign > 0]) for kind, _, sign in signs)
        counted = {
            kind: fill(_COUNTED, kind=kind, counts=counts, counted=counted, events=events, after=after)
            for kind, counted, _ in signs
        }
        if len(signs) == 1:
            (kind,) = kinds
            written[kind] = block([written[kind], refused, counted[kind]])
            return fill(_ONE_KIND, kind=kind, delta=delta, sorted=sorted_, written=written[kind])
        return fill(
            _BOTH_KINDS,
            delta=delta,
            sorted=sorted_,
            delete=written["delete"],
            insert=written["insert"],
            refused=refused,
            deleted=counted["delete"],
            inserted=counted["insert"],
        )

    def _quads(
        self, out: ExpressionEmitter, emission: ConstructEmission, delta: str, events: str, after: str
    ) -> str:
        """Return generated lines that write a delta's quads, for a CONSTRUCT query with a private plan."""
        changed, coded = emission.changed, self.state.coder_of(emission.names)

        def events_of(at: int, head: str, delta: Delta) -> list[Event]:
            return changed(at, head, coded(delta))

        made, refused = out.name_of(events_of, "events"), out.name_of(raise_too_large, "raise_too_large")
        return fill(
            _QUADS, made=made, begin=_BEGIN, delta=delta, raise_too_large=refused, events=events, after=after
        )

    def _refused(self, out: ExpressionEmitter, lines: Sequence[str]) -> str:
        """Return generated lines that check an event's size.

        The generated lines also store the rows of a group member whose event is too large.
        """
        size = " + ".join(f"len({line})" for line in lines)
        if self.label is None:
            return f"if {size} > heavy: {out.name_of(raise_too_large, 'raise_too_large')}({size}, heavy)"
        return fill(_REFUSED, size=size, label=self.label)

    def whole(self, out: ExpressionEmitter, top: str | None) -> str:
        """Return generated lines that write the whole ordered answer.

        An unchanged ordered answer is not formatted as JSON again.
        """
        listed = out.name_of(self._listed, "listed")
        return fill(
            _WHOLE,
            top=top,
            listed=listed,
            rows=f"f\"{{{{{{{self._many(out)}(rows)}}}}}}\" if rows else ''",
            line=f"f'{_BEGIN}{{{listed}[1]}}{_END}'",
            refused=self._refused(out, ["line"]),
            test=f"{listed}[1]" if self.emission.non_empty else "True",
            counts=out.name_of(self.emission.counts, "counts"),
            kind=out.name_of("answer", "kind"),
        )

    def _many(self, out: ExpressionEmitter) -> str:
        """Return the name of the function that writes several rows as JSON, without the outermost braces."""
        names, ordered = self.emission.names, self.emission.ordered
        columns = self.state.plan.schema.columns(names)
        return out.name_of(partial(self.state.terms.texts.listed, names, columns, ordered=ordered), "many")

    def _written(self, out: ExpressionEmitter, kind: str) -> str:
        """Return generated lines that write inserted or deleted rows; one row is formatted without a call."""
        names, schema = self.emission.names, self.state.plan.schema
        columns = [each for each in zip(names, schema.columns(names), strict=True) if each[1] >= 0]
        if schema.certain.issuperset(names):
            cells = ",".join(f'"{name}":{{text[row[{place}]]}}' for name, place in columns)
        else:
            key = out.name_of([f'"{name}":' for name, _ in columns], "k")
            ids = "".join(f"row[{place}], " for _, place in columns)
            listed = f"[key + text[each] for key, each in zip({key}, ({ids})) if each]"
            cells = f"{{{out.name_of(',', 'k')}.join({listed})}}"
        one = f"f'{_BEGIN}{{{{{cells}}}}}{_END}'"
        many = f"f'{_BEGIN}{{{{{{{self._many(out)}({kind})}}}}}}{_END}'"
        return fill(_LINE, kind=kind, one=one, many=many)


_MEMBERS = """
delta, shares = $delta, {}
for row, w in delta.items():
    ${tested}shares.setdefault(row[$label], {})[row] = w
    if w := net.pop(row, 0) + w: net[row] = w
for label, share in shares.items():
    member = outputs[label]
    middle = member.middle
    $rows
"""
_SORTED = """
if w == $sign: $kind.append(row)
elif w $than 0: $kind.extend([row] * abs(w))
"""
_COUNTED = """
$counts.$counted += len($kind)
$events.append(('$kind', ${kind}_line))
$after
"""
_ONE_KIND = """
$kind = []
for row, w in $delta.items():
    $sorted
if $kind:
    $written
"""
_BOTH_KINDS = """
delete = []
insert = []
for row, w in $delta.items():
    $sorted
if delete:
    $delete
else: delete_line = ''
if insert:
    $insert
else: insert_line = ''
$refused
if delete:
    $deleted
if insert:
    $inserted
"""
_QUADS = """
lines = $made(due, f'$begin', $delta)
size = sum([len(line) for _, line in lines])
if size > heavy: $raise_too_large(size, heavy)
if lines:
    $events.extend(lines)
    $after
"""
_REFUSED = """
if $size > heavy:
    refused[label], over = {row: w for row, w in delta.items() if row[$label] == label}, True
    continue
"""
_WHOLE = """
if $top.revision != $listed[0]:
    rows = $top.rows()
    $listed[:] = $top.revision, $rows
line = $line
$refused
if $test:
    $counts.answers += 1
    emitted.append(($kind, line))
    last, emitted_at = True, due
"""
_LINE = """
if len($kind) == 1:
    row = $kind[0]
    ${kind}_line = $one
else: ${kind}_line = $many
"""
