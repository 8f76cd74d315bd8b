"""ORDER BY over rows of term ids: the sort key of a row, and the projection of a row to result columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..algebra.nodes import Extend, OrderCondition, Var
from ..algebra.order import Key, LazySortKey, descending_number_key, number_key
from ..algebra.sliced import condition_variables
from ..algebra.variables import NO_NAMES, expression_variables
from .compile import ExpressionContext, ExpressionEmitter, compile_id
from .scaled import NAMES
from .values import OrderKeys

Row = tuple[int, ...]
KeyOf = Callable[[Row, Key | None], Key]
"""A function from a row and a floor key to the row's sort key for ORDER BY.

The sort key is () if the row's first condition alone sorts the row after the floor key.
"""


def row_order(
    conditions: Sequence[OrderCondition],
    names: Sequence[str],
    given: tuple[str, ...],
    late: Sequence[Extend],
    context: ExpressionContext,
    keys: OrderKeys,
) -> tuple[Callable[[Row], Row], KeyOf]:
    """Return two functions of a row: the projection to the columns ``names``, and the sort key.

    The sort key of a row has the values of the ORDER BY conditions, and then the projected columns under the
    total order. ``given`` are the columns of the rows that ORDER BY sorts. ``late`` are columns that are
    computed for the projection, and for the sort key only if a condition uses the column.
    """
    columns_given, computed = given, []
    for each in late:
        computed.append(compile_id(each.expr, given, context))
        given = (*given, each.var.name)
    columns = [given.index(name) if name in given else -1 for name in names]

    def form(row: Row) -> Row:
        for compute in computed:
            row = (*row, compute(row))
        return tuple([row[column] if column >= 0 else 0 for column in columns])

    def tie(row: Row) -> Key:
        return tuple(map(keys.total, form(row)))

    return form, _sort_key(conditions, columns_given, late, context, keys, tie)


def _sort_key(
    conditions: Sequence[OrderCondition],
    given: tuple[str, ...],
    late: Sequence[Extend],
    context: ExpressionContext,
    keys: OrderKeys,
    tie: Callable[[Row], Key],
) -> KeyOf:
    """Generate the function for sort keys of rows: first the ORDER BY conditions, then ``tie``.

    Computed numbers are sorted without a term id.
    """
    out = ExpressionEmitter(context)
    out.depth = 1
    out.names.update(NAMES, Tie=LazySortKey, tie=tie, id_of=context.values.id_of)
    slots = {name: f"row[{place}]" for place, name in enumerate(given)}
    asked, parts = condition_variables(conditions), []
    for column in reversed(late):
        asked |= expression_variables(column.expr) if column.var.name in asked else NO_NAMES
    for column in late:
        if column.var.name in asked:
            out.extend(column.var.name, column.expr, slots)
    for each in conditions:
        by_id = out.name_of(keys.descending_key if each.descending else keys.value, "key")
        sign, head = ("-", descending_number_key(0)) if each.descending else ("", number_key(0))
        begin = ", ".join(map(str, head[:-1]))
        value = out.value(each.expr, slots)
        slot = slots.get(each.expr.name, "0") if isinstance(each.expr, Var) else ""
        term_id = slot or f"id_of({value})"
        parts.append(out.fresh("k"))
        out.line(f"if type({value}) is Decimal18: {parts[-1]} = ({begin}, {sign}{value})")
        out.line(f"elif type({value}) is int: {parts[-1]} = ({begin}, {sign}{value} * ONE)")
        out.line(f"else: {parts[-1]} = {by_id}({term_id})")
        if len(parts) == 1:
            out.line(f"if floor is not None and floor < {parts[0]}: return ()")
    # The parts of a sort key are concatenated into one flat tuple; this is safe because no part is a prefix
    # of another one.
    out.line(f"return ({''.join(f'*{each}, ' for each in parts)}Tie(tie, row),)")
    function: KeyOf = out.build("def sort_key(row, floor):", "sort_key")
    return function
