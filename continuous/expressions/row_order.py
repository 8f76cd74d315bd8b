"""ORDER BY over rows of term ids: the key of a row, and the columns of it that are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..algebra.nodes import Extend, OrderCondition
from ..algebra.order import Key, Tie
from .compile import ExpressionContext, compile_id
from .values import OrderKeys

Row = tuple[int, ...]


def row_order(
    conditions: Sequence[OrderCondition],
    names: Sequence[str],
    given: tuple[str, ...],
    late: Sequence[Extend],
    context: ExpressionContext,
    keys: OrderKeys,
) -> tuple[Callable[[Row], Row], Callable[[Row], Key]]:
    """The columns ``names`` of a row, and its key: the conditions, then these columns under the total order.

    ``given`` are the columns that a row has, ``late`` those that are computed when they are shown.
    """
    parts = [
        (keys.falling if each.descending else keys.value, compile_id(each.expr, given, context))
        for each in conditions
    ]
    computed = []
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

    def sort_key(row: Row) -> Key:
        # Side by side: of two keys none is the beginning of the other.
        key: list[Any] = []
        for key_of, id_of in parts:
            key += key_of(id_of(row))
        return (*key, Tie(tie, row))

    return form, sort_key
