"""The physical plan: operators in an order in which each comes behind its inputs, and what they read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.nodes import Algebra, Expr
from ..operators import linear
from ..operators.join import Join
from ..operators.linear import Operator, Scan
from ..operators.ordering import TopK
from ..operators.star import Star
from ..rows import EMPTY, Delta, IdRow, Schema
from ..windows.encoded import Predicates

SourceKey = str
"""One input of a plan: the triples or the named graphs' quads of a window, or a static table."""


def source_key(kind: str, name: NamedNode | str) -> SourceKey:
    """The key of an input; ``kind`` is ``triples``, ``quads`` or ``table``."""
    return f"{kind} {name}"


CLOCK_KEY: SourceKey = "clock now"
"""The input that holds the instant, for expressions that ask for it."""


@dataclass(slots=True)
class PlanNode:
    """One operator and where its inputs come from.

    ``source`` is set instead of ``operator`` where changes enter. ``expr`` is the expression of a filter
    or extend, ``detail`` one line for EXPLAIN.
    """

    label: str
    schema: Schema
    inputs: tuple[int, ...] = ()
    operator: Operator | None = None
    source: SourceKey | None = None
    detail: str = ""
    expr: Expr | None = None
    extra: Any = None


class PlanFigures:
    """Figures of a plan's operators: rows given out, always counted, and CPU time, measured at some steps.

    ``rows`` are read through `rows_out`, since ``counted_at`` may name another operator with the same count.
    ``spent`` holds nanoseconds of ``timed_steps`` steps. ``timed_with`` names for each operator the first of
    those that run in one loop with it.
    """

    __slots__ = ("counted_at", "rows", "spent", "steps", "timed_steps", "timed_with")

    def __init__(self, operators: int) -> None:
        self.rows = [0] * operators
        self.spent = [0] * operators
        self.steps = 0
        self.timed_steps = 0
        self.timed_with = list(range(operators))
        self.counted_at = list(range(operators))

    def rows_out(self, place: int) -> int:
        """How many changed rows an operator gave out."""
        while self.counted_at[place] != place:
            place = self.counted_at[place]
        return self.rows[place]

    def microseconds(self, place: int) -> float | None:
        """The mean of the timed steps; None when there was none yet."""
        return round(self.spent[place] / self.timed_steps / 1000, 2) if self.timed_steps else None


@dataclass(slots=True)
class Plan:
    """Runs operators on changes. ``root`` is the place of the node whose rows are the answer."""

    nodes: list[PlanNode]
    root: int
    tables: set[str] = field(default_factory=set)
    """The names of the static parts that it reads."""
    windows: dict[NamedNode, Algebra | None] = field(default_factory=dict)
    primed: bool = False
    figures: PlanFigures = field(init=False)

    def __post_init__(self) -> None:
        self.figures = PlanFigures(len(self.nodes))

    @property
    def schema(self) -> Schema:
        """The schema of the answer's rows."""
        return self.nodes[self.root].schema

    def step(self, changes: Mapping[SourceKey, Delta]) -> Delta:
        """One transaction: the changes of all inputs together; the change of the answer."""
        results: list[Delta] = []
        rows = self.figures.rows
        self.figures.steps += 1
        for node in self.nodes:
            if results:
                rows[len(results) - 1] += len(results[-1])
            if node.operator is None:
                results.append(changes.get(node.source, EMPTY) if node.source is not None else EMPTY)
                continue
            given = [results[place] for place in node.inputs]
            if self.primed and not any(given) and not node.operator.is_due:
                results.append(EMPTY)
            else:
                results.append(node.operator.step(*given))
        rows[-1] += len(results[-1])
        self.primed = True
        return results[self.root]

    def held(self) -> Iterator[IdRow]:
        """Every row that some operator keeps, inputs before what is made from them (`Operator.held`)."""
        return chain.from_iterable(node.operator.held() for node in self.nodes if node.operator is not None)

    def size(self) -> int:
        """How many rows, entries and groups the operators keep."""
        return sum(_size(node) or 0 for node in self.nodes)

    def measured(self) -> list[dict[str, Any]]:
        """The figures of each operator since the query began to run, as JSON members, the root last.

        ``rows_in`` and ``rows_out`` count changed rows (one that comes and one that goes both count),
        ``state_rows`` is what the operator keeps now. ``microseconds`` is the mean CPU time of a step,
        measured at some steps; operators that run as one loop share it under the number ``timed_with``.
        """
        figures = self.figures
        found = []
        for place, node in enumerate(self.nodes):
            head = figures.timed_with[place]
            found.append(
                {
                    "number": place,
                    "operator": node.label,
                    "detail": node.detail,
                    "inputs": list(node.inputs),
                    "columns": list(node.schema.vars),
                    "rows_in": sum(figures.rows_out(each) for each in node.inputs),
                    "rows_out": figures.rows_out(place),
                    "state_rows": _size(node) or 0,
                    "microseconds": figures.microseconds(place) if head == place else None,
                    "timed_with": head,
                }
            )
        return found

    def explain(self, *, analyze: bool = False) -> str:
        """The operators as an indented tree, the root first; a node used twice is shown once.

        With ``analyze`` each line ends with the figures of `measured`.
        """
        shown: set[int] = set()
        lines: list[str] = []

        def visit(place: int, depth: int) -> None:
            node = self.nodes[place]
            again = place in shown and node.operator is not None
            shown.add(place)
            rows = _size(node)
            size = "" if rows is None else f" [{rows}]"
            text = f"{node.label} {node.detail}".rstrip()
            columns = " ".join(f"?{name}" for name in node.schema.vars)
            told = self._told(place) if analyze and not again else ""
            told = " (above)" if again else told
            lines.append(f"{'  ' * depth}#{place} {text}{size} -> ({columns}){told}")
            if not again:
                for below in node.inputs:
                    visit(below, depth + 1)

        visit(self.root, 0)
        return "\n".join(lines)

    def _told(self, place: int) -> str:
        """The figures of one operator, for people."""
        figures = self.figures
        rows = f"{figures.rows_out(place)} rows"
        if self.nodes[place].inputs:
            taken = sum(figures.rows_out(each) for each in self.nodes[place].inputs)
            rows = f"{taken} rows in, {figures.rows_out(place)} out"
        head = figures.timed_with[place]
        mean = figures.microseconds(place)
        if head != place:
            return f"  | {rows}, timed with #{head}"
        return f"  | {rows}" + ("" if mean is None else f", {mean:.1f} µs")


def _size(node: PlanNode) -> int | None:
    """How many rows an operator keeps; None for one that keeps none."""
    return None if node.operator is None else node.operator.size()


def static_nodes(nodes: Sequence[PlanNode]) -> frozenset[int]:
    """The places of nodes whose rows change with the store alone: no window is below them."""
    found: set[int] = set()
    for place, node in enumerate(nodes):
        if node.operator is None:
            static = node.source is not None and node.source.startswith("table ")
        else:
            static = all(each in found for each in node.inputs)
        if static:
            found.add(place)
    return frozenset(found)


def pin_tables(nodes: Sequence[PlanNode]) -> None:
    """Tell joins which of their inputs are static tables, whose ids are pinned as long as their rows stay."""
    for node in nodes:
        if isinstance(node.operator, Join):
            sources = [nodes[place].source for place in node.inputs]
            node.operator.pinned = tuple(each is not None and each.startswith("table ") for each in sources)


@dataclass(frozen=True, slots=True)
class Built:
    """A place in the plan under construction and what its rows look like."""

    place: int
    schema: Schema


class PlanBuilder:
    """Collects nodes; equal sources are one node."""

    def __init__(self) -> None:
        self.nodes: list[PlanNode] = []
        self._sources: dict[SourceKey, int] = {}

    def source(self, key: SourceKey, schema: Schema, label: str, detail: str = "") -> Built:
        """The node where the changes of ``key`` enter."""
        if key not in self._sources:
            self._sources[key] = len(self.nodes)
            self.nodes.append(PlanNode(label, schema, source=key, detail=detail))
        return Built(self._sources[key], self.nodes[self._sources[key]].schema)

    def add(
        self,
        label: str,
        operator: Operator,
        inputs: Sequence[Built],
        detail: str = "",
        expr: Expr | None = None,
        extra: Any = None,
    ) -> Built:
        """A node behind its inputs."""
        self.nodes.append(
            PlanNode(
                label,
                operator.schema,
                tuple(each.place for each in inputs),
                operator,
                None,
                detail,
                expr,
                extra,
            )
        )
        return Built(len(self.nodes) - 1, operator.schema)


def table_joins(plan: Plan, table: str) -> list[tuple[Join, int]] | None:
    """The joins that read a static part, with the number of the input; None when something else does, too."""
    key = source_key("table", table)
    places = {place for place, node in enumerate(plan.nodes) if node.source == key}
    found: list[tuple[Join, int]] = []
    for node in plan.nodes:
        for number, place in enumerate(node.inputs):
            if place in places:
                if not isinstance(node.operator, Join):
                    return None
                found.append((node.operator, number))
    return None if plan.root in places else found


def unshared(plan: Plan, table: str) -> str | None:
    """Why joins cannot look a part up in rows that others hold; None when they can.

    Such rows never enter as a change, so something else must bring rows to be joined with them.
    """
    joins = table_joins(plan, table)
    if joins is None:
        return "the plan reads all its rows"
    if not joins:
        return "the plan does not read it"
    static = static_nodes(plan.nodes)
    for node in plan.nodes:
        if any(each is node.operator for each, _ in joins) and all(place in static for place in node.inputs):
            return "it is joined with static parts alone"
    return None


def unkeyed(plan: Plan, table: str, others: Collection[str]) -> str | None:
    """Why a part cannot be looked up by keys, when others are looked up, too; None when it can."""
    reason = unshared(plan, table)
    if reason is not None:
        return reason
    joins = table_joins(plan, table) or []
    for node in plan.nodes:
        join = node.operator
        if not isinstance(join, Join) or all(each is not join for each, _ in joins):
            continue
        asked = {number for each, number in joins if each is join}
        for other in others:
            asked |= {number for each, number in table_joins(plan, other) or () if each is join}
        if not join.always_keyed(asked):
            return "the plan looks into it without a key"
    return None


def wanted_predicates(plan: Plan) -> dict[SourceKey, Predicates]:
    """The ids of the predicates that matter for each window input of a plan; None for all."""
    found: dict[SourceKey, Predicates] = {}
    for place, node in enumerate(plan.nodes):
        if node.source is not None and not node.source.startswith("table "):
            found[node.source] = _asked(plan, place)
    return found


def _asked(plan: Plan, place: int) -> Predicates:
    asked: frozenset[int] = frozenset()
    for node in plan.nodes:
        if place not in node.inputs:
            continue
        own = _of_operator(plan, node)
        if own is None:
            return None
        asked |= own
    # The answer itself, where nothing stands between.
    return None if plan.root == place else asked


def _of_operator(plan: Plan, node: PlanNode) -> Predicates:
    operator = node.operator
    if isinstance(operator, Scan):
        constants = [term_id for column, term_id in operator.constants if column == 1]
        return frozenset(constants) if constants else None
    if isinstance(operator, Star):
        return frozenset(operator.places)
    if isinstance(operator, linear.Select | linear.Union | linear.Distinct | TopK):
        # Triples are passed on.
        return _asked(plan, plan.nodes.index(node)) if operator.schema.vars[:3] == ("s", "p", "o") else None
    return None
