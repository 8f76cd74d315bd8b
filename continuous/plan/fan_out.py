"""The fan-out of the joins next to a plan's uncertain filters, measured by the plan's row counters."""

from __future__ import annotations

from ..algebra.uncertain import is_uncertain
from ..algebra.variables import Names, expression_variables
from ..operators import linear
from ..operators.join import DeltaJoin
from ..operators.matching import Match
from .plan import Plan

_Pair = tuple[int, int]


def uncertain_filters(plan: Plan) -> list[int]:
    """Return the positions of the plan's filter nodes whose conditions call uncertainty functions."""
    return [
        number
        for number, node in enumerate(plan.nodes)
        if isinstance(node.operator, linear.RowFilter)
        if any(each and is_uncertain(each) for each in node.exprs)
    ]


class FanOut:
    """The mean number of joined rows per row at a plan's uncertain filters, since the last `measure`.

    Each filter that calls uncertainty functions has a pair of plan nodes, whose emitted rows are counted. The
    first node of a filter's pair emits the rows on which the filter could be tested first, or the rows that
    passed the filter. The second node of a filter's pair emits the rows on which the filter could be tested
    last, after all joins.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._above = {place: number for number, node in enumerate(plan.nodes) for place in node.inputs}
        pairs = [self._pair(number) for number in uncertain_filters(plan)]
        self.pairs = [pair for pair in pairs if pair is not None]
        self._counted = self._counts()

    def measure(self, least: int) -> float | None:
        """Return joined rows per row at uncertain filters; None if fewer than ``least`` rows were counted."""
        rows, joined = self._counts()
        rows, joined = rows - self._counted[0], joined - self._counted[1]
        if rows < least:
            return None
        self._counted = self._counts()
        return joined / rows

    def _counts(self) -> _Pair:
        rows_out = self.plan.figures.rows_out
        return sum(rows_out(low) for low, _ in self.pairs), sum(rows_out(high) for _, high in self.pairs)

    def _pair(self, place: int) -> _Pair | None:
        """Return the two counted nodes of a filter; None without a join, or if it needs all join inputs."""
        (expr,) = self.plan.nodes[place].exprs
        assert expr is not None
        low, top = self._earliest(place, expression_variables(expr)), self._latest(place)
        if top is not None:
            return place, top
        (below,) = self.plan.nodes[place].inputs
        return None if low is None else (low, below)

    def _earliest(self, place: int, names: Names) -> int | None:
        """Return the node below a filter's joins that first binds all ``names``; None without such a node."""
        nodes, found = self.plan.nodes, None
        while True:
            node = nodes[place]
            if isinstance(node.operator, linear.AddColumn) and node.schema.vars[-1] in names:
                (expr,) = node.exprs
                assert expr is not None
                names = names - {node.schema.vars[-1]} | expression_variables(expr)
            if isinstance(node.operator, DeltaJoin | Match):
                inputs = node.inputs if isinstance(node.operator, DeltaJoin) else node.inputs[:1]
                able = [each for each in inputs if names <= set(nodes[each].schema.vars)]
                if not able:
                    return found
                place = found = able[0]
            elif isinstance(node.operator, linear.RowFilter | linear.AddColumn):
                (place,) = node.inputs
            else:
                return found

    def _latest(self, place: int) -> int | None:
        """Return the last node that joins the rows passed by a filter with other rows, or None."""
        found = None
        while (above := self._above.get(place)) is not None:
            operator = self.plan.nodes[above].operator
            first = self.plan.nodes[above].inputs[0] == place
            if isinstance(operator, DeltaJoin) or (isinstance(operator, Match) and first):
                found = above
            elif not isinstance(operator, linear.RowFilter | linear.AddColumn):
                break
            place = above
        return found
