"""Generated lines by which a loop tells the rows that a step has brought, as lines of JSON.

`SelectEmission`, `ConstructEmission` and `quadrill.store.results` are the readable form of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..expressions.compile import Emitter
from ..output.emission import ConstructEmission, Event, SelectEmission, refuse
from ..rows import Delta
from .plan_state import PlanState

_INSERT, _DELETE = ("insert", "rows_inserted", 1), ("delete", "rows_deleted", -1)
_SIGNS = {"istream": (_INSERT,), "dstream": (_DELETE,), "changes": (_DELETE, _INSERT), "rstream": ()}
_BEGIN, _END = '{{"at":{due}{middle}', "]}}}}"  # of a line, in a formatted string


@dataclass(slots=True)
class Telling:
    """Writes them for a query, or for the members of a plan, by the column with their ``label``."""

    state: PlanState
    emission: SelectEmission | ConstructEmission
    label: int | None
    # Of rows that have an order: the revision of it that was written last, and what was written.
    _listed: list[Any] = field(default_factory=lambda: [-1, ""])

    def members(self, out: Emitter, delta: str, label: int) -> None:
        """What each member is told of a change that has rows of several."""
        tested = {"istream": "if w > 0: ", "dstream": "if w < 0: "}.get(self.emission.output, "")
        out.line(f"delta, shares = {delta}, {{}}")
        out.line("for row, w in delta.items():")
        out.line(f"    {tested}shares.setdefault(row[{label}], {{}})[row] = w")
        out.line("    if w := net.pop(row, 0) + w: net[row] = w")
        out.line("for label, share in shares.items():")
        out.depth += 1
        out.line("mine = telling[label]")
        out.line("middle = mine.middle")
        self.rows(out, "share", "mine.events", "mine.counts", "mine.at, mine.place = due, steps - left")
        out.depth -= 1

    def rows(self, out: Emitter, delta: str, events: str, counts: str, told: str) -> None:
        """The lines of a change, and what is to be done where there are any."""
        if isinstance(self.emission, ConstructEmission):
            self._quads(out, self.emission, delta, events, told)
            return
        signs = _SIGNS[self.emission.output]
        for kind, _, _ in signs:
            out.line(f"{kind} = []")
        if signs:
            out.line(f"for row, w in {delta}.items():")
        for kind, _, sign in signs:
            out.line(f"    if w == {sign}: {kind}.append(row)")
            out.line(f"    elif w {'<>'[sign > 0]} 0: {kind}.extend([row] * abs(w))")
        both = len(signs) > 1
        for kind, _, _ in signs:
            out.line(f"if {kind}:")
            out.depth += 1
            self._write(out, kind)
            if both:
                out.depth -= 1
                out.line(f"else: {kind}_line = ''")
        if signs:
            self._refuse(out, [f"{kind}_line" for kind, _, _ in signs])
        for kind, counted, _ in signs:
            if both:
                out.line(f"if {kind}:")
                out.depth += 1
            out.line(f"{counts}.{counted} += len({kind})")
            out.line(f"{events}.append(('{kind}', {kind}_line))")
            out.line(told)
            out.depth -= 1

    def _quads(self, out: Emitter, emission: ConstructEmission, delta: str, events: str, told: str) -> None:
        """The lines of the quads that come and go with a change, of a query that has the plan for itself."""
        changed, coded = emission.changed, self.state.coder_of(emission.names)

        def events_of(at: int, head: str, delta: Delta) -> list[Event]:
            return changed(at, head, coded(delta))

        out.line(f"lines = {out.name_of(events_of, 'events')}(due, f'{_BEGIN}', {delta})")
        out.line("size = sum([len(line) for _, line in lines])")
        out.line(f"if size > heavy: {out.name_of(refuse, 'refuse')}(size, heavy)")
        out.line("if lines:")
        out.line(f"    {events}.extend(lines)")
        out.line(f"    {told}")

    def _refuse(self, out: Emitter, lines: Sequence[str]) -> None:
        """The lines of an instant are too long; other members are told theirs before a run ends by it."""
        size = " + ".join(f"len({line})" for line in lines)
        if self.label is None:
            out.line(f"if {size} > heavy: {out.name_of(refuse, 'refuse')}({size}, heavy)")
            return
        out.line(f"if {size} > heavy:")
        of_it = f"{{row: w for row, w in delta.items() if row[{self.label}] == label}}"
        out.line(f"    refused[label], over = {of_it}, True")
        out.line("    continue")

    def whole(self, out: Emitter, top: str | None) -> None:
        """The line of all rows in their order, made when they are others than at the last instant."""
        listed = out.name_of(self._listed, "listed")
        out.line(f"if {top}.revision != {listed}[0]:")
        out.line(f"    rows = {top}.rows()")
        text = f"f\"{{{{{{{self._many(out)}(rows)}}}}}}\" if rows else ''"
        out.line(f"    {listed}[:] = {top}.revision, {text}")
        out.line(f"line = f'{_BEGIN}{{{listed}[1]}}{_END}'")
        self._refuse(out, ["line"])
        out.line(f"if {listed}[1]:" if self.emission.non_empty else "if True:")
        out.line(f"    {out.name_of(self.emission.counts, 'counts')}.answers += 1")
        out.line(f"    told.append(({out.name_of('answer', 'kind')}, line))")
        out.line("    last, told_at = True, due")

    def _many(self, out: Emitter) -> str:
        """The function that writes rows, without the outermost braces."""
        names, ordered = self.emission.names, self.emission.ordered
        columns = self.state.plan.schema.columns(names)
        return out.name_of(partial(self.state.terms.texts.listed, names, columns, ordered=ordered), "many")

    def _write(self, out: Emitter, kind: str) -> None:
        """The line of the rows of one sign; that of one row is put together here."""
        names, schema = self.emission.names, self.state.plan.schema
        columns = [each for each in zip(names, schema.columns(names), strict=True) if each[1] >= 0]
        if schema.certain.issuperset(names):
            cells = ",".join(f'"{name}":{{text[row[{place}]]}}' for name, place in columns)
        else:
            key = out.name_of([f'"{name}":' for name, _ in columns], "k")
            ids = "".join(f"row[{place}], " for _, place in columns)
            listed = f"[key + text[each] for key, each in zip({key}, ({ids})) if each]"
            cells = f"{{{out.name_of(',', 'k')}.join({listed})}}"
        out.line(f"if len({kind}) == 1:")
        out.line(f"    row = {kind}[0]")
        out.line(f"    {kind}_line = f'{_BEGIN}{{{{{cells}}}}}{_END}'")
        out.line(f"else: {kind}_line = f'{_BEGIN}{{{{{{{self._many(out)}({kind})}}}}}}{_END}'")
