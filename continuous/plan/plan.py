"""The physical plan: operators in topological order, with their inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyoxigraph import NamedNode

from ..algebra.nodes import Expr
from ..algebra.printer import write_expression
from ..operators import linear
from ..operators.join import DeltaJoin
from ..operators.linear import Operator, Scan
from ..operators.matching import Match
from ..operators.ordering import TopK
from ..operators.star import Star
from ..rows import EMPTY, UNLIMITED, Budget, Delta, IdRow, Schema
from ..windows.window_delta import Predicates

SourceKey = str
"""The key of one input of a plan: a window, a table (both by `source_key`) or the clock."""


def source_key(kind: str, name: NamedNode | str) -> SourceKey:
    """Return the key of a plan's input: a static table, or a window's triples, quads, times or streams.

    ``kind`` is ``table``, ``triples``, ``quads``, ``times`` or ``streams``.
    """
    return f"{kind} {name}"


_WRITTEN = ("filter", "extend")
CLOCK_KEY: SourceKey = "clock now"
"""The key of the input with the current instant, for expressions that read the instant."""


@dataclass(slots=True)
class PlanNode:
    """A node of a plan: one operator and the positions of its input nodes.

    A plan node that receives deltas from outside has a ``source`` instead of an ``operator``. ``exprs`` are
    the expressions of a filter or computed column, or the aggregated expressions of a GROUP BY. ``detail``
    describes the plan node in one line of EXPLAIN. ``static`` says that the plan node reads no window, so
    only commits change its rows.
    """

    label: str
    schema: Schema
    inputs: tuple[int, ...] = ()
    operator: Operator | None = None
    source: SourceKey | None = None
    detail: str = ""
    exprs: Sequence[Expr | None] = ()
    static: bool = False

    @property
    def explanation(self) -> str:
        """The node's description with its condition or computed value, as EXPLAIN shows it."""
        texts = [write_expression(each) for each in self.exprs if each] if self.label in _WRITTEN else []
        return " := ".join(filter(None, (self.detail, *texts)))

    @property
    def is_table(self) -> bool:
        """True for a plan node that receives the deltas of a static part."""
        return self.static and self.operator is None

    @property
    def size(self) -> int | None:
        """The number of rows, entries or groups that an operator stores; None without state."""
        return None if self.operator is None else self.operator.size()


class PlanFigures:
    """Figures of a plan's operators: emitted rows, always counted, and CPU time, measured at some steps.

    The emitted rows ``rows`` are read through `rows_out`, since operators with equal counts share a count
    (``counted_at``). ``spent`` holds the operators' CPU nanoseconds in the ``timed_steps`` measured steps.
    ``timed_with`` maps each operator to the first operator of the loop with which its time is measured.
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
        """Return the number of changed rows that an operator has emitted."""
        while self.counted_at[place] != place:
            place = self.counted_at[place]
        return self.rows[place]


@dataclass(slots=True)
class Plan:
    """A plan of incremental operators, which runs the operators on deltas.

    ``root`` is the position of the plan node whose rows are the answer.
    """

    nodes: list[PlanNode]
    root: int
    primed: bool = False
    budget: Budget = UNLIMITED
    figures: PlanFigures = field(init=False)
    sources: frozenset[SourceKey] = field(init=False)
    """The keys of the plan's inputs."""

    def __post_init__(self) -> None:
        self.figures = PlanFigures(len(self.nodes))
        self.sources = frozenset(node.source for node in self.nodes if node.source is not None)

    def limit(self, budget: Budget) -> None:
        """Set one budget of rows and time for all operators."""
        self.budget = budget
        for node in self.nodes:
            if node.operator is not None:
                node.operator.budget = budget

    def explain(self, operator: Any) -> str:
        """Return an operator and its inputs as EXPLAIN shows them."""
        place = next(place for place, node in enumerate(self.nodes) if node.operator is operator)
        below = [self.nodes[each] for each in self.nodes[place].inputs]
        of = "; ".join(f"{each.label} {each.explanation}".rstrip() for each in below)
        return f"#{place} {self.nodes[place].label} {self.nodes[place].explanation}".rstrip() + f" ({of})"

    @property
    def schema(self) -> Schema:
        """The schema of the answer's rows."""
        return self.nodes[self.root].schema

    def step(self, changes: Mapping[SourceKey, Delta]) -> Delta:
        """Apply one transaction, the deltas of all inputs; return the delta of the answer."""
        results: list[Delta] = []
        rows = self.figures.rows
        self.figures.steps += 1
        for place, node in enumerate(self.nodes):
            if node.operator is None:
                change = changes.get(node.source or "", EMPTY)
            else:
                given = [results[each] for each in node.inputs]
                idle = self.primed and not any(given) and not node.operator.is_due
                change = EMPTY if idle else node.operator.step(*given)
            rows[place] += len(change)
            results.append(change)
        self.primed = True
        return results[self.root]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows of all operators, inputs before derived rows; see `Operator.referenced_rows`."""
        return chain.from_iterable(
            node.operator.referenced_rows() for node in self.nodes if node.operator is not None
        )

    # --- look-ups -------------------------------------------------------------------------------

    def joins(self, table: str) -> list[tuple[DeltaJoin | Match, tuple[int, ...], int]] | None:
        """Return operators that can probe a static part, their inputs, and the part's number among these.

        Returns None if other operators, or the answer, receive the static part's rows as they are.
        """
        key = source_key("table", table)
        found = []
        for node in self.nodes:
            for number, place in enumerate(node.inputs):
                if self.nodes[place].source == key:
                    given_out = isinstance(node.operator, Match) and number == 0
                    if given_out or not isinstance(node.operator, DeltaJoin | Match):
                        return None
                    found.append((node.operator, node.inputs, number))
        return None if self.nodes[self.root].source == key else found

    def unshared(self, table: str) -> str | None:
        """Return why joins cannot probe a static part's shared rows; None if the joins can.

        Shared rows of a static part never enter a plan as a delta, so another input of the join must have
        changing rows.
        """
        joins = self.joins(table)
        if joins is None:
            return "the plan reads all its rows"
        if not joins:
            return "the plan does not read it"
        if any(all(self.nodes[place].static for place in inputs) for _, inputs, _ in joins):
            return "it is joined with static parts alone"
        return None

    def unkeyed(self, table: str, others: Collection[str]) -> str | None:
        """Return why a static part cannot be looked up by key next to ``others``; None if it can."""
        reason = self.unshared(table)
        if reason is not None:
            return reason
        keys = {source_key("table", each) for each in (table, *others)}
        for join, inputs, _ in self.joins(table) or ():
            if isinstance(join, Match):
                return "the plan reads all its rows"
            asked = [number for number, place in enumerate(inputs) if self.nodes[place].source in keys]
            if not join.always_keyed(asked):
                return "the plan looks into it without a key"
        return None

    def star_of(self, source: SourceKey, wanted: Predicates) -> tuple[int, Star] | None:
        """Return a window's only reader if it is a star with a slot per wanted predicate, and its place."""
        read = [number for number, node in enumerate(self.nodes) if node.source == source]
        readers = [
            (number, node.operator) for number, node in enumerate(self.nodes) if {*read} & {*node.inputs}
        ]
        match readers:
            case [(number, Star() as star)] if star.is_plain and wanted == star.places.keys():
                return number, star
        return None

    def wanted_predicates(self) -> dict[SourceKey, Predicates]:
        """Return the ids of the predicates that each window input needs; None stands for all predicates."""
        # For each node, the predicates that its readers need, computed from the root down.
        asked: list[Predicates] = [frozenset() for _ in self.nodes]
        asked[self.root] = None
        for place in reversed(range(len(self.nodes))):
            own = _predicates(self.nodes[place].operator, asked[place])
            for below in self.nodes[place].inputs:
                earlier = asked[below]
                asked[below] = None if own is None or earlier is None else own | earlier
        return {
            node.source: asked[place]
            for place, node in enumerate(self.nodes)
            if node.source is not None and not node.is_table
        }


def _predicates(operator: Operator | None, asked: Predicates) -> Predicates:
    """Return the predicates that an operator reads from its inputs if its readers need those in ``asked``."""
    match operator:
        case Scan():
            return frozenset(term_id for column, term_id in operator.constants if column == 1) or None
        case Star():
            return frozenset(operator.places)
        case linear.Select() | linear.UnionAll() | linear.Deduplicate() | TopK():
            # Operators of these kinds pass triples on unchanged.
            return asked if operator.schema.vars[:3] == ("s", "p", "o") else None
        case _:
            return None
