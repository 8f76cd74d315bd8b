"""Generated code by which an input of a join keeps its change: `Arrangement.update` in line."""

from __future__ import annotations

from ..expressions.compile import Emitter
from ..operators.join import Join
from ..operators.linear import Operator, Scan


def write_keep(
    out: Emitter, join: Join, number: int, given: str, of: Operator | None, *, often: bool
) -> None:
    """The lines for the input of this number, whose change is in the local ``given``.

    It comes from the operator ``of``; ``often``: something that moves with windows looks into it.
    """
    arrangement = join.arrangements[number]
    name, row, weight = out.name_of(arrangement, "input"), f"row{number}", f"w{number}"
    keys = set(join.keys_of(number))
    if arrangement.now is not None or arrangement.is_lookup or (often and (len(keys) > 1 or not _is_set(of))):
        out.line(f"{name}.update({given})")
        return
    if often:
        (key,) = keys
        index = out.name_of(arrangement.index(key), "index")
        columns = ", ".join(f"{row}[{column}]" for column in key)
        out.line(f"if len({name}.indexes) > 1 or {name}.ordered: {name}.update({given})")
        lines = [
            f"key = {columns if len(key) == 1 else f'({columns})'}",
            f"bucket = {index}.get(key)",
            f"if bucket is None: {index}[key] = {{{row}: {weight}}}",
            f"elif {weight} > 0: bucket[{row}] = {weight}",
            f"elif len(bucket) > 1: del bucket[{row}]",
            f"else: del {index}[key]",
        ]
    else:
        flat = out.fresh("flat")
        out.line(f"{flat} = {name}.flat")
        out.line(f"if {flat} is None: {name}.update({given})")
        lines = [f"total = {flat}.get({row}, 0) + {weight}", f"if total: {flat}[{row}] = total"]
        if _is_set(of):
            lines = [f"if {weight} > 0: {flat}[{row}] = {weight}"]
        lines.append(f"else: del {flat}[{row}]")
    out.line("else:")
    out.depth += 1
    out.line(f"{name}.recent.extend({given})")
    out.line(f"for {row}, {weight} in {given}.items():")
    for line in lines:
        out.line(f"    {line}")
    if often:
        out.line(f"{name}.count += sum({given}.values())")
    out.depth -= 1


def _is_set(of: Operator | None) -> bool:
    """True for rows that are there once each: as the triples of a window, no column of which is left out."""
    if not isinstance(of, Scan) or of.simple is None:
        return False
    return len(of.simple) + len(of.constants) == len(of.positions)
