"""Generated code that adds a join input's delta to the input's arrangement (its index), inline in loops."""

from __future__ import annotations

from ..expressions.compile import ExpressionEmitter
from ..operators.join import DeltaJoin
from ..operators.linear import Operator, Scan


def keep(
    out: ExpressionEmitter,
    join: DeltaJoin,
    number: int,
    given: str,
    made: str,
    of: Operator | None,
    *,
    often: bool,
) -> tuple[list[str], str]:
    """Return the generated lines for each row of join input ``number``, and the line after the last row.

    The rows to add are in the local variable ``given``, or, if ``made`` is the Python expression of a row,
    are made from the triples in that variable. Operator ``of`` emits the rows that are added to the
    arrangement. ``often`` says that deltas of windows probe this join input, not only deltas of commits.
    """
    arrangement = join.arrangements[number]
    name, row, weight = out.name_of(arrangement, "input"), f"row{number}", f"w{number}"
    keys = set(join.keys_of(number))
    rows = f"{{{made}: {weight} for quad, {weight} in {given}.items()}}" if made else given
    update = f"{name}.update({rows})"
    in_line = out.in_loop and arrangement.now is None and not arrangement.is_lookup
    if not in_line or (often and (len(keys) > 1 or not is_set(of))):
        return [], update
    kept, grown, latest = out.fresh("kept"), out.fresh("grown"), out.fresh("latest")
    if often:
        (key,) = keys
        index = out.name_of(arrangement.index(key), "index")
        columns = ", ".join(f"{row}[{column}]" for column in key)
        out.begin.append(f"{kept} = None if {name}.ordered or len({name}.indexes) > 1 else {index}")
        out.begin.append(f"{grown} = 0")
        out.end.append(f"{name}.count += {grown}")
        lines = [
            f"key = {columns if len(key) == 1 else f'({columns})'}",
            f"bucket = {kept}.get(key)",
            f"if bucket is None: {kept}[key] = {{{row}: {weight}}}",
            f"elif {weight} > 0: bucket[{row}] = {weight}",
            f"elif len(bucket) > 1: del bucket[{row}]",
            f"else: del {kept}[key]",
            f"{grown} += {weight}",
        ]
    else:
        out.begin.append(f"{kept} = {name}.flat")
        lines = [f"total = {kept}.get({row}, 0) + {weight}", f"if total: {kept}[{row}] = total"]
        if is_set(of):
            lines = [f"if {weight} > 0: {kept}[{row}] = {weight}"]
        lines.append(f"else: del {kept}[{row}]")
    out.begin.append(f"{latest} = None")
    out.end.append(f"if {latest} is not None: {name}.recent.append({latest})")
    lines = [f"if {kept} is not None:", *[f"    {line}" for line in (*lines, f"{latest} = {row}")]]
    return lines, f"if {kept} is None: {update}"


def is_set(of: Operator | None) -> bool:
    """Return True for an operator with distinct rows: triples of a window without a dropped column."""
    if not isinstance(of, Scan) or of.simple is None:
        return False
    return len(of.simple) + len(of.constants) == len(of.positions)
