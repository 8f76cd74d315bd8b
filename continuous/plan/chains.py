"""Generated code that processes one row: filters and computed columns, up to a delta or a GROUP BY.

For a row that leaves a window, the same expressions have to be evaluated as when the row entered. If the
expressions of filters and columns cost more than a look-up, generated code stores the result of an entering
row until the row leaves, so that expiry evaluates no expression:

    made = memo.pop(row, ABSENT) if w < 0 else ABSENT     None: a filter dropped the row before
    if made is ABSENT: filters, columns ...; memo[row] = the result

Expressions depend on the row alone, since the instant is a column, so the stored and the repeated evaluation
give the same result. A row that enters several times and leaves once at a time is evaluated again, because
the memo of results no longer has the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..algebra.build import conditions_of, sub_expressions
from ..algebra.nodes import Call, Expr, FunctionCall, Var
from ..algebra.static import is_volatile
from ..algebra.variables import Names, expression_variables
from ..expressions.compile import ExpressionEmitter
from ..operators import linear
from ..operators.grouping import GroupAggregate
from ..operators.join import DeltaJoin
from ..rows import IdRow
from .plan import PlanNode


@dataclass(slots=True)
class RowMemos:
    """Results of expressions that generated code stores for rows in windows.

    ``rows`` maps the last operator of a chain of filters and columns to the results for present rows; a
    result begins with a row of term ids. ``columns`` maps the computed columns after a join to the term ids
    of their values.
    """

    rows: dict[int, dict[IdRow, tuple[Any, ...] | None]] = field(default_factory=dict)
    columns: dict[int, ColumnMemo] = field(default_factory=dict)

    def forget_rows(self) -> None:
        """Delete the stored results for rows; stored ids of computed columns stay valid."""
        for memo in self.rows.values():
            memo.clear()

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield stored rows and ids, which the sweep must not delete; see `Operator.referenced_rows`."""
        for memo in self.rows.values():
            for made in list(memo.values()):
                if made is not None:
                    yield made[0]
        for column in self.columns.values():
            yield from [(each,) for each in list(column.values())]


_ABSENT = object()
_COSTLY_CALLS = 4
"""Number of operations below which repeating an evaluation is faster than storing its result."""
_CALLS_OF_AN_ID = 2
"""Number of operations that cost as much as the look-up of a computed value's term id."""
_LEAST_VALUES = 1_024
"""Least number of ids that the memo of a computed column stores before it is cleared."""


class ColumnMemo(dict[Any, int]):
    """The term ids of a computed column's values, by the ids that each value is computed from.

    The expression is evaluated only once for a row that joins with many others. The dictionary never reuses
    an id, so a memo entry of a deleted row is not wrong. The memo of a computed column is cleared when it has
    more than twice as many entries as the join has rows.
    """

    def __init__(self, join: DeltaJoin) -> None:
        super().__init__()
        self._join = join
        self._most = _LEAST_VALUES

    def keep(self, key: Any, term_id: int) -> int:
        """Store the id of a computed value in the memo, and return the id."""
        if len(self) >= self._most:
            self._most = max(_LEAST_VALUES, 2 * self._join.size())
            if len(self) >= self._most:
                self.clear()
        self[key] = term_id
        return term_id


class RowBody:
    """Writes the innermost lines of the loops in a plan's generated function."""

    def __init__(self, nodes: Sequence[PlanNode], out: ExpressionEmitter, memos: RowMemos) -> None:
        self._nodes = nodes
        self._out = out
        self._memos = memos

    def body(
        self,
        chain: list[int],
        slots: dict[str, str],
        weight: str,
        remembered: str = "",
        *,
        counted: bool = False,
        once: bool = False,
    ) -> None:
        """Write the code for one row, up to the chain's last operator, which stores or emits the row.

        The scan or join before the chain's filters and columns has emitted the row already, and ``counted``
        says that the row is counted. ``remembered`` is the local variable with the row if the row's result
        may be stored. With ``once``, the caller guarantees that the generated loop makes no row twice.
        """
        out, last = self._out, chain[-1]
        if len(chain) > 1 and not counted and not takes_rows(self._nodes[chain[0]]):
            out.line(f"rows_out[{chain[0]}] += 1")
        known = dict(out.known)
        if remembered and self._pays(chain):
            made = self._remembered(chain, slots, remembered)
        else:
            self._compute(chain, slots)
            made = self._made(last, slots)
        operator = self._nodes[last].operator
        if isinstance(operator, GroupAggregate):
            self._take(last, operator, made, weight)
        elif once:
            out.line(f"d{last}[{made[0]}] = {weight}")
        else:
            out.line(f"total = d{last}.get({made[0]}, 0) + {weight}")
            out.line(f"if total: d{last}[{made[0]}] = total")
            out.line(f"else: del d{last}[{made[0]}]")
        out.known = known

    def renames(self, chain: list[int], given: Sequence[str]) -> bool:
        """Return True if operators only rename columns, so that rows of columns ``given`` stay unchanged."""
        columns: dict[str, int] = {name: place for place, name in enumerate(given)}
        for node in [self._nodes[place] for place in chain]:
            if isinstance(node.operator, linear.Scan):
                if node.operator.simple != (*range(len(given)),):
                    return False
                columns = {name: place for place, name in enumerate(node.schema.vars)}
            elif isinstance(node.operator, linear.AddColumn):
                expr = _only(node)
                if not isinstance(expr, Var) or expr.name not in columns:
                    return False
                columns[node.schema.vars[-1]] = columns[expr.name]
            elif not isinstance(node.operator, linear.Projection):
                return False
        return [columns.get(name) for name in self._nodes[chain[-1]].schema.vars] == [*range(len(given))]

    def whole(self, chain: list[int], slots: dict[str, str]) -> bool:
        """Return True if no operator of a chain drops a variable, so that two different rows stay different.

        A name that one plan node drops may denote another variable after this node.
        """
        return all(slots.keys() <= set(self._nodes[each].schema.vars) for each in chain)

    def _pays(self, chain: list[int]) -> bool:
        """Return True if evaluating a chain's expressions for a row costs more than storing the result.

        The memo of results does not record which filter dropped a row, so a chain with two counting filters
        is not stored.
        """
        nodes = [self._nodes[place] for place in chain]
        exprs = [expr for node in nodes for expr in node.exprs if expr]
        columns = [
            node for node in nodes if isinstance(node.operator, linear.AddColumn) and _calls(_only(node))
        ]
        calls = sum(map(_calls, exprs)) + _CALLS_OF_AN_ID * len(columns)
        return len(self._counted(chain)) < 2 and calls >= _COSTLY_CALLS

    def _counted(self, chain: list[int]) -> list[int]:
        """Return the filters of a chain whose passed rows are counted."""
        return [each for each in chain[:-1] if isinstance(self._nodes[each].operator, linear.RowFilter)]

    def _remembered(self, chain: list[int], slots: dict[str, str], row: str) -> list[str]:
        """Write code that evaluates entering rows, and looks up the stored results of leaving rows."""
        out, last = self._out, chain[-1]
        memo = out.name_of(self._memos.rows.setdefault(last, {}), "memo")
        operator = self._nodes[last].operator
        width = 1 + len(operator.aggregations) if isinstance(operator, GroupAggregate) else 1
        names = [f"made{number}" for number in range(width)]
        listed = f"{', '.join(names)}{',' * (len(names) == 1)}"
        out.names["ABSENT"] = _ABSENT
        out.line(f"made = {memo}.pop({row}, ABSENT) if w < 0 else ABSENT")
        out.line("if made is ABSENT:")
        out.depth += 1
        self._compute(chain, slots, f"if w > 0: {memo}[{row}] = None")
        for name, text in zip(names, self._made(last, slots), strict=True):
            out.line(f"{name} = {text}")
        out.line(f"if w > 0: {memo}[{row}] = ({listed})")
        out.depth -= 1
        out.line("elif made is None: continue")
        out.line("else:")
        out.depth += 1
        out.line(f"{listed} = made")
        for place in self._counted(chain):
            out.line(f"rows_out[{place}] += 1")
        out.depth -= 1
        return names

    def _compute(self, chain: list[int], slots: dict[str, str], dropped: str = "") -> None:
        """Write the code of filters and computed columns; ``dropped`` is the code for a dropped row."""
        out = self._out
        # For each computed column, the columns of the preceding join that the value is computed from.
        read: dict[str, Names] = {}
        for place in chain:
            node = self._nodes[place]
            operator = node.operator
            if isinstance(operator, linear.RowFilter):
                for condition in conditions_of(_only(node)):
                    out.line(f"if not {out.holds(condition, slots)}:")
                    out.line(*[f"    {each}" for each in (dropped, "continue") if each])
                if place != chain[-1]:
                    out.line(f"rows_out[{place}] += 1")
            elif isinstance(operator, linear.AddColumn):
                out.line(f"# ?{node.schema.vars[-1]}")
                names = expression_variables(_only(node))
                names = names.union(*(read[each] for each in names & read.keys())) - read.keys()
                read[node.schema.vars[-1]] = names
                known = all(slots.get(each) for each in names)
                if known and self._of_one_input(chain[0], names, _only(node)):
                    self._remembered_column(chain[0], place, sorted(names), slots)
                else:
                    out.extend(node.schema.vars[-1], _only(node), slots)
            elif isinstance(operator, linear.Projection):
                kept = set(node.schema.vars)
                for name in [each for each in slots if each not in kept]:
                    del slots[name]
                    out.known.pop(name, None)

    def _of_one_input(self, head: int, names: Names, expr: Expr) -> bool:
        """Return True if an expression reads columns of only one input of the join before the chain."""
        join = self._nodes[head].operator
        if not isinstance(join, DeltaJoin) or not names or not _calls(expr) or is_volatile(expr):
            return False
        return any(names <= set(schema.vars) for schema in join.inputs)

    def _remembered_column(self, head: int, place: int, names: Sequence[str], slots: dict[str, str]) -> None:
        """Write the code of a computed column, whose id is stored under the ids that it is computed from."""
        out, node = self._out, self._nodes[place]
        name, made = node.schema.vars[-1], out.fresh("i")
        join = self._nodes[head].operator
        assert isinstance(join, DeltaJoin)
        memo = out.name_of(self._memos.columns.setdefault(place, ColumnMemo(join)), "values")
        key = slots[names[0]] if len(names) == 1 else f"({', '.join([slots[each] for each in names])})"
        out.line(f"{made} = {memo}.get({key})")
        out.line(f"if {made} is None:")
        out.depth += 1
        known, inside = dict(out.known), dict(slots)
        out.extend(name, _only(node), inside)
        out.line(f"{made} = {memo}.keep({key}, {self._id(name, inside)})")
        out.depth -= 1
        out.known = known
        out.known.pop(name, None)
        slots[name] = made

    def _id(self, name: str, slots: dict[str, str]) -> str:
        """Return Python code for a column's id; a column with only a value gets code that finds the id."""
        slot = slots.get(name)
        if slot is None:
            return "0"
        if slot:
            return slot
        out = self._out
        result = out.fresh("i")
        value = out.known[name]
        quick = f"decimal_ids[{value}] if type({value}) is Decimal18 else " if value in out.decimals else ""
        out.line(f"{result} = {quick}id_of({value})")
        for other, text in slots.items():
            if not text and out.known.get(other) == value:
                slots[other] = result
        return result

    def _ids(self, names: Sequence[str], slots: dict[str, str]) -> str:
        """Return Python code for a row with these columns; the name "" stands for an unbound column."""
        cells = [self._id(name, slots) if name else "0" for name in names]
        return f"({', '.join(cells)}{',' * (len(cells) == 1)})"

    def _made(self, last: int, slots: dict[str, str]) -> list[str]:
        """Return Python code for the last operator's input: a row, or a group's key and aggregated values."""
        out, node = self._out, self._nodes[last]
        group = node.operator
        if not isinstance(group, GroupAggregate):
            out.line(f"row_ = {self._ids(node.schema.vars, slots)}")
            return ["row_"]
        below = self._nodes[node.inputs[0]].schema.vars
        out.line(f"key = {self._ids([below[each] if each >= 0 else '' for each in group.keys], slots)}")
        made = ["key"]
        for expr, aggregation in zip(node.exprs, group.aggregations, strict=True):
            if expr is None:
                # COUNT(*) counts each row once, and COUNT(DISTINCT *) needs the row's ids.
                whole = [below[each] for each in aggregation.columns]
                given = self._ids(whole, slots) if aggregation.new().by_id else "True"
            elif not aggregation.new().by_id:
                counted = aggregation.new().counts and isinstance(expr, Var) and slots.get(expr.name)
                given = f"{counted} or None" if counted else out.value(expr, slots)
            elif isinstance(expr, Var):
                given = self._id(expr.name, slots)
            else:
                given = f"id_of({out.value(expr, slots)})"
            made.append(given)
        return made

    def _take(self, last: int, group: GroupAggregate, made: list[str], weight: str) -> None:
        """Write the code that adds a row to its group of GROUP BY."""
        out = self._out
        key, *given = made
        out.line(f"group = t{last}.get({key})")
        out.line(f"if group is None: group = t{last}[{key}] = {out.name_of(group, 'group')}.group({key})")
        out.line(f"weight = {weight}")
        out.line("group.rows += weight")
        if given:
            out.line(f"{''.join(f'into{each}, ' for each in range(len(given)))}= group.accumulators")
        for number, value in enumerate(given):
            out.line(f"into{number}.take({value}, weight)")


def _calls(expr: Expr) -> int:
    """Return the number of operator and function calls in an expression."""
    return sum(isinstance(each, Call | FunctionCall) for each in sub_expressions(expr))


def _only(node: PlanNode) -> Expr:
    """Return the only expression of a filter or of a computed column."""
    (expr,) = node.exprs
    assert expr is not None
    return expr


def takes_rows(node: PlanNode) -> bool:
    """Return True for plan nodes that a loop processes row by row, and for a GROUP BY at the loop's end."""
    operator = node.operator
    if isinstance(operator, linear.RowFilter | linear.AddColumn):
        return bool(node.exprs)
    return isinstance(operator, linear.Projection | GroupAggregate)
