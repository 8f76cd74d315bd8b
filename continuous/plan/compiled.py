"""A plan as one generated Python function.

The operators of a plan are its readable form and the test of this one: both give the same deltas.
Generated are the loops: look-ups of joins nested in each other, filters and expressions in the innermost of
them, and the rows of a GROUP BY taken in at once, without a delta between any two of these steps. Whatever
is not a loop over rows (stars, matching, ordering, paths) is called as it is. The function counts the rows
that each operator gives out; a second form of it, run at one step of many, measures their time too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from ..expressions.compile import ExpressionContext, ExpressionEmitter
from ..operators import linear
from ..operators.grouping import GroupAggregate
from ..operators.join import DeltaJoin, Probe
from ..operators.linear import Scan
from ..operators.star import Star
from ..rows import EMPTY, Delta, IdRow, merge
from .chains import RowBody, RowMemos, takes_rows
from .keeping import is_set, keep
from .plan import Plan, PlanNode, SourceKey

_DEEPEST_JOIN = 12
_LARGE = 256
"""Rows of a first step that is worth a function."""


class EnclosingLoop(Protocol):
    """A loop around the steps of a plan, which it places in its own code.

    ``sources`` are the locals in which the changes of windows are, ``only`` the predicate of their triples
    where they have but one, ``stars``, by the places of stars, those with rows that they need not make;
    ``head`` is that of its function.
    """

    head: str
    sources: Mapping[SourceKey, str]
    only: Mapping[SourceKey, int]
    stars: Mapping[int, str]

    def write(self, out: ExpressionEmitter, steps: Callable[[], str], delta: str) -> None:
        """Write the lines of the loop.

        ``steps`` gives the lines of one step; ``delta`` is the local with the change of the answer after it.
        """
        ...


class CompiledPlan:
    """Runs a plan by its generated function; made again when a join chooses another route.

    The function works on the state of the plan's own operators, so that both forms can take turns. The
    operators take the first step unless it is a large one: many a plan takes no other, since its query joins
    others before, and a start need not wait for thousands of functions.
    ``renewals`` counts how often it was made; ``special`` is the number of the next step that is measured,
    before which joins look for better routes.
    """

    def __init__(
        self, plan: Plan, context: ExpressionContext, *, replan: int = 16, replan_most: int = 1024
    ) -> None:
        """Special steps are that of number ``replan``, then after twice as many, up to ``replan_most``."""
        self.plan = plan
        self.context = context
        self._joins = [node.operator for node in plan.nodes if isinstance(node.operator, DeltaJoin)]
        # Counted from the first step on: how many are between two of them, and the next.
        self._replan_every = self._replan_at = replan
        self._replan_most = replan_most
        self.special = 0
        self._memos = RowMemos()
        self.renewals = 0
        self._source = ""
        self._step: Any = None
        self._timed: Any = None

    def loop(self, around: EnclosingLoop) -> tuple[str, Any]:
        """The source text and the function of a loop, by ``around``, over steps before ``special``."""
        return _Writer(self.plan, self.context, self._memos).write_loop(around)

    def step(self, changes: Mapping[SourceKey, Delta]) -> Delta:
        """Run one step, as `Plan.step` does."""
        figures = self.plan.figures
        figures.steps = steps = figures.steps + 1
        if steps < self.special:
            delta: Delta = self._step(changes, False)
            return delta
        return self._special_step(changes, steps)

    def _special_step(self, changes: Mapping[SourceKey, Delta], steps: int) -> Delta:
        """The first step, or one that is measured, before which joins look for better routes."""
        if not self.plan.primed and sum(map(len, changes.values())) < _LARGE:
            self.plan.figures.steps -= 1  # the operators count it
            return self.plan.step(changes)
        timed = steps >= self._replan_at
        if timed:
            self._replan_every = min(2 * self._replan_every, self._replan_most)
            self._replan_at = steps + self._replan_every
        if (timed and any([join.replan() for join in self._joins])) or self._step is None:
            self._renew()
        self.special = self._replan_at
        if timed and self._timed is None:
            # With a look at the clock behind each loop.
            _, self._timed = _Writer(self.plan, self.context, self._memos, timed=True).write()
        self.plan.figures.timed_steps += timed
        step = self._timed if timed else self._step
        delta: Delta = step(changes, not self.plan.primed)
        self.plan.primed = True
        return delta

    def outdate(self) -> None:
        """An input of a join has become another: the function is made when it is needed."""
        self._step, self.special = None, 0

    @property
    def text(self) -> str:
        """The source of the function."""
        if self._step is None:
            self._renew()
        return self._source

    def _renew(self) -> None:
        self._source, self._step = _Writer(self.plan, self.context, self._memos).write()
        self._timed = None
        self.renewals += 1

    def forget(self) -> None:
        """The operators take the next step themselves: rows that leave in it are not to stay here."""
        self._memos.forget_rows()

    def held(self) -> Iterator[IdRow]:
        """The rows that are remembered for when what they were made of leaves; see `Operator.held`."""
        yield from self._memos.held()


class _Writer:
    """Writes the source text of a plan's function; ``memos`` are shared by all its forms."""

    def __init__(
        self, plan: Plan, context: ExpressionContext, memos: RowMemos, *, timed: bool = False
    ) -> None:
        self._nodes = plan.nodes
        self._root = plan.root
        self._figures = plan.figures
        self._timed = timed
        self._out = ExpressionEmitter(context)
        self._rows = RowBody(plan.nodes, self._out, memos)
        self._budget = plan.budget
        self._consumers = Counter(place for node in plan.nodes for place in node.inputs)
        self._next = {place: number for number, node in enumerate(plan.nodes) for place in node.inputs}
        self._written: set[int] = set()
        # What steps are in, and the operators whose rows are counted in its locals.
        self._around: EnclosingLoop | None = None
        self._counted: list[int] = []
        # By scans whose rows a join makes itself as it loops over triples: these, and the row of one.
        self._in_line: dict[int, tuple[str, str]] = {}

    def write(self) -> tuple[str, Any]:
        """The source text and the function."""
        out = self._out
        out.depth = 1
        self._steps()
        out.line(f"return d{self._root}")
        head = "def step(changes, first):"
        return out.source(head), out.build(head, "step")

    def write_loop(self, around: EnclosingLoop) -> tuple[str, Any]:
        """The same for a loop around many steps; the changes of windows are in the locals that it names."""
        out, self._around = self._out, around
        out.in_loop = True
        out.depth = 1
        around.write(out, self._steps_apart, f"d{self._root}")
        begin = [f"number{each} = 0" for each in self._counted] + out.begin
        out.lines[:0] = [f"    {line}" for line in begin]
        out.depth = 2  # in the clause that ends the loop
        out.line(*[f"rows_out[{each}] += number{each}" for each in self._counted], *out.end)
        return out.source(around.head), out.build(around.head, "run")

    def _steps_apart(self) -> str:
        with self._out.apart() as lines:
            self._steps()
        return "\n".join(lines)

    def _steps(self) -> None:
        """The lines of one step, which leave the change of the root."""
        out = self._out
        out.names["EMPTY"] = EMPTY
        values = out.context.values
        out.names.update(id_of=values.id_of, decimal_ids=values.decimal_ids)
        out.names["rows_out"] = self._figures.rows
        out.names["budget"] = self._budget
        if any(isinstance(node.operator, DeltaJoin) for node in self._nodes):
            # Rows that joins have made, and how many may be made before somebody looks at the budget.
            out.line("joined, look = 0, budget.look")
        if self._timed:
            out.names["spent"] = self._figures.spent
            out.names["clock"] = time.thread_time_ns
            out.line("before = clock()")
        for place, node in enumerate(self._nodes):
            if place not in self._written:
                self._node(place, node)
                if self._timed:
                    out.line("after = clock()")
                    out.line(f"spent[{place}] += after - before")
                    out.line("before = after")

    # --- nodes ----------------------------------------------------------------------------------

    def _node(self, place: int, node: PlanNode) -> None:
        operator = node.operator
        out = self._out
        if self._around is not None and node.static:
            out.line(f"d{place} = EMPTY  # {node.label} {node.detail}")
            return
        if operator is None:
            if self._around is None:
                given = f"changes.get({out.name_of(node.source, 'source')}, EMPTY)"
            else:
                given = self._around.sources[node.source or ""]
            out.line(f"d{place} = {given}  # {node.label} {node.detail}")
            self._count(place)
            return
        if isinstance(operator, DeltaJoin) and len(operator.inputs) <= _DEEPEST_JOIN:
            self._join(place, operator)
            return
        if takes_rows(node) or (isinstance(operator, Scan) and operator.simple is not None):
            self._loop(place, node)
            return
        step = out.name_of(operator, "op")
        given = ", ".join(f"d{each}" for each in node.inputs)
        tests = " or ".join(["first", *(f"d{each}" for each in node.inputs)])
        out.line(f"d{place} = {step}.step({given}) if {tests} else EMPTY  # {node.label} {node.detail}")
        if self._around is not None and isinstance(operator, Star) and place in self._around.stars:
            rows, (source,) = self._around.stars[place], node.inputs
            out.names["merge"] = merge
            out.line(f"if {rows}:")
            out.line(f"    rows_out[{source}] += {len(operator.places)} * len({rows})")
            out.line(f"    d{place} = merge({rows}, d{place})")
        self._count(place)

    def _count(self, place: int) -> None:
        """Count the rows of a delta that is there as a whole."""
        number = f"number{place}" if self._out.in_loop else f"rows_out[{place}]"
        self._out.line(f"if d{place}: {number} += len(d{place})")
        if self._out.in_loop:
            self._counted.append(place)

    def _loop(self, place: int, node: PlanNode) -> None:
        """A loop over the rows of one delta: a scan, or what looks at one row at a time, and its chain."""
        out, operator = self._out, node.operator
        (given,) = node.inputs
        chain = self._chain(place)
        if self._rows.renames(chain, self._nodes[given].schema.vars):
            out.line(f"d{chain[-1]} = d{given}  # under other names")
            self._count(chain[-1])
            self._figures.counted_at[place] = given
            return
        tests: list[str] = []
        if isinstance(operator, Scan) and operator.simple is not None:
            only = self._around and self._around.only.get(self._nodes[given].source or "")
            constants = [each for each in operator.constants if each != (1, only)]
            tests = [f"quad[{column}] == {out.name_of(each, 'id')}" for column, each in constants]
            if not tests and self._joins(place) and is_set(operator):
                row = ", ".join([f"quad[{column}]" for column in operator.simple])
                self._in_line[place] = f"d{given}", f"({row},)"
                self._counted.append(place)
                out.line(f"number{place} += len(d{given})  # {node.label} {node.detail}")
                return
        self._open_sink(chain)
        depth = out.depth
        if isinstance(operator, Scan):
            assert operator.simple is not None
            out.line(f"for quad, w in d{given}.items():  # {node.label} {node.detail}")
            out.depth += 1
            if tests:
                out.line(f"if {' and '.join(tests)}:")
                out.depth += 1
            columns = zip(operator.schema.vars, operator.simple, strict=True)
            slots = {name: f"quad[{column}]" for name, column in columns}
            whole = len(self._nodes[given].schema.vars) == len(operator.positions)
            remembered = "quad"
        else:
            out.line(f"for row, w in d{given}.items():")
            out.depth += 1
            slots = {name: f"row[{column}]" for column, name in enumerate(self._nodes[given].schema.vars)}
            whole, remembered = True, "" if self._nodes[given].static else "row"
        self._rows.body(chain, slots, "w", remembered, once=whole and self._rows.whole(chain, slots))
        out.depth = depth
        self._close_sink(chain)

    def _joins(self, place: int) -> bool:
        """True in a loop for what one input of a join alone reads."""
        alone = self._out.in_loop and self._consumers[place] == 1
        join = self._nodes[self._next[place]].operator if alone else None
        return isinstance(join, DeltaJoin) and len(join.inputs) <= _DEEPEST_JOIN

    def _join(self, place: int, join: DeltaJoin) -> None:
        """The code of a join: for each changed input its rows, with the look-ups of its route inside."""
        out = self._out
        chain = self._chain(place)
        self._open_sink(chain)
        if out.in_loop and len(chain) > 1:
            self._counted.append(place)
        depth = out.depth
        often = {
            probe.input
            for route, static in zip(join.routes, join.static, strict=True)
            for probe in route
            if not static
        }
        inputs = [self._nodes[each] for each in self._nodes[place].inputs]
        # In a loop static parts stay as they are.
        moving = [each for each, node in enumerate(inputs) if self._around is None or not node.static]
        for number in moving:
            route = join.routes[number]
            source = self._nodes[place].inputs[number]
            given, row = self._in_line.get(source, (f"d{source}", ""))
            out.line(f"if {given}:  # #{place} join: what came from #{source}")
            out.depth += 1
            inside = out.depth
            # What the last look-up finds is what the join gives out, where nothing is left to be checked.
            plain = len(chain) > 1 and bool(route) and not route[-1].check
            if plain:
                out.line("begun, between = joined, 0")
            indexes = [self._index(join, probe, probe.input in often) for probe in route]
            operator = inputs[number].operator
            lines, behind = keep(out, join, number, given, row, operator, often=number in often)
            out.line(f"for {'quad' if row else f'row{number}'}, w{number} in {given}.items():")
            out.depth += 1
            if row:
                out.line(f"row{number} = {row}")
            out.line(*lines)
            slots = {name: f"row{number}[{column}]" for column, name in enumerate(join.inputs[number].vars)}
            weights = [f"w{number}"]
            for probe, index in zip(route, indexes, strict=True):
                self._probe(
                    probe, index, self._nodes[place], join, slots, last=probe is route[-1] or not plain
                )
                weights.append(f"w{probe.input}")
            # Rows of one input with all that they meet: no two are the same where no column is left out.
            whole = self._rows.whole(chain, slots)
            once = len(moving) == 1 and not any(probe.check for probe in route) and whole
            self._rows.body(chain, dict(slots), " * ".join(weights), counted=plain, once=once)
            out.depth = inside
            if plain:
                counted = f"number{place}" if out.in_loop else f"rows_out[{place}]"
                out.line(f"{counted} += joined - begun - between")
            out.line(behind)
            out.depth = depth
        self._close_sink(chain)

    def _index(self, join: DeltaJoin, probe: Probe, often: bool) -> str:
        """The name of the index that a look-up uses; where only commits look, it is made when one does."""
        out = self._out
        arrangement = join.arrangements[probe.input]
        if probe.bounds:
            return out.name_of(join.passing(probe), "passing")
        if arrangement.now is None and often:
            return out.name_of(arrangement.index(probe.key), "index")
        index = out.fresh("look")
        if arrangement.now is not None:
            arrangement.index(probe.key)
            found = f"{index} = {out.name_of(arrangement.now, 'now')}[{probe.key}]"
            if out.in_loop:  # in which it stays the same
                out.begin.append(f"{found}.rows")
            else:
                out.line(found)
        else:
            out.line(f"{index} = {out.name_of(arrangement, 'input')}.index({probe.key})")
        return index

    def _probe(
        self, probe: Probe, index: str, node: PlanNode, join: DeltaJoin, slots: dict[str, str], *, last: bool
    ) -> None:
        """One look-up: a loop over what it finds, which is counted first; ``last``: for good."""
        out = self._out
        names = join.inputs[probe.input].vars
        texts = [slots[each.given] for each in probe.bounds] or [slots[names[column]] for column in probe.key]
        key = (
            f"[{', '.join(texts)}]"
            if probe.bounds
            else f"({', '.join(texts)})"
            if len(texts) != 1
            else texts[0]
        )
        number = probe.input
        by = "".join(f" ?{names[column]}" for column in probe.key)
        by = by or "".join(f" ?{names[each.column]} {each.relation} ?{each.given}" for each in probe.bounds)
        told = f"look-up in #{node.inputs[number]} by{by}" if by else f"all of #{node.inputs[number]}"
        found = f"found{number}"
        out.line(f"{found} = {index}.get({key}, EMPTY)  # {told}")
        met = f"{found}.items()"
        if out.in_loop and join.arrangements[probe.input].now is not None:
            # A row may stand for itself, once.
            out.line(f"{found} = (({found}, 1),) if type({found}) is tuple else {met}")
            met = found
        out.line(f"joined += len({found})")
        if not last:
            out.line(f"between += len({found})")
        out.line(f"if joined > look: look = budget.check(joined, {out.name_of(join, 'join')})")
        out.line(f"for row{number}, w{number} in {met}:")
        out.depth += 1
        for column in probe.check:
            name, theirs = names[column], f"row{number}[{column}]"
            mine = slots[name]
            out.line(f"if {mine} and {theirs} and {mine} != {theirs}: continue")
            merged = out.fresh("m")
            out.line(f"{merged} = {mine} or {theirs}")
            slots[name] = merged
        slots.update({names[column]: f"row{number}[{column}]" for column in probe.take})

    # --- chains ---------------------------------------------------------------------------------

    def _chain(self, place: int) -> list[int]:
        """The node and the linear nodes behind it that alone read its rows, with a GROUP BY at the end."""
        chain = [place]
        while self._consumers[chain[-1]] == 1 and chain[-1] != self._root:
            following = self._next[chain[-1]]
            ended = isinstance(self._nodes[chain[-1]].operator, GroupAggregate)
            if ended or not takes_rows(self._nodes[following]):
                break
            chain.append(following)
        self._written.update(chain)
        for each in chain:
            self._figures.timed_with[each] = place
            operator = self._nodes[each].operator
            if each != chain[-1] and isinstance(operator, linear.AddColumn | linear.Projection):
                # It gives out as many rows as it takes, so one count serves both.
                self._figures.counted_at[each] = self._nodes[each].inputs[0]
        return chain

    def _open_sink(self, chain: list[int]) -> None:
        out = self._out
        last = chain[-1]
        operator = self._nodes[last].operator
        if isinstance(operator, GroupAggregate):
            group = out.name_of(operator, "group")
            out.line(f"t{last} = {group}.begin()  # {self._nodes[last].label} {self._nodes[last].detail}")
        else:
            out.line(f"d{last} = {{}}")

    def _close_sink(self, chain: list[int]) -> None:
        last = chain[-1]
        operator = self._nodes[last].operator
        if isinstance(operator, GroupAggregate):
            group = self._out.name_of(operator, "group")
            self._out.line(f"d{last} = {group}.show(t{last}) if t{last} else EMPTY")
        self._count(last)
