"""A plan compiled to one generated Python function.

The operators of a plan are the readable form of the generated function and its test: both give the same
deltas. The loops over rows are generated: probes of joins are nested, filters and expressions run in the
innermost loop, and the rows of a GROUP BY are accumulated there, without a delta between these steps.
Operators that are not loops over rows (stars, matching, ordering, paths) are called as they are. The function
generated from a plan counts the rows that each operator emits. A second form of the generated function, which
runs at few steps, also measures CPU time.
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
"""Inputs of the largest join that is written as nested loops, since Python limits nested blocks to 20."""
_LARGE = 256
"""Number of input rows of a plan's first step from which generating a function pays."""


class EnclosingLoop(Protocol):
    """A generated loop that contains the code of a plan's steps, so that many steps run in one call.

    ``sources`` names the local variables of the loop that hold the windows' deltas. ``only`` gives, for
    windows whose triples all have one predicate, the id of this predicate. ``stars`` maps a star's position
    in the plan to the local variable with rows that the loop makes instead. ``head`` is the ``def`` line of
    the generated function that contains the loop.
    """

    head: str
    sources: Mapping[SourceKey, str]
    only: Mapping[SourceKey, int]
    stars: Mapping[int, str]

    def write(self, out: ExpressionEmitter, steps: Callable[[], str], delta: str) -> None:
        """Write the lines of a loop around a plan's steps.

        ``steps`` returns the lines of one step; ``delta`` is the local variable with the answer's delta after
        a step.
        """
        ...


class CompiledPlan:
    """Runs a plan by a generated function, which is generated again when a join changes its order of probes.

    The generated function works on the state of the plan's operators, so function and operators can
    alternate. The operators run a plan's first step unless that step is large: many plans run only one step,
    because their query joins a group before the second step, and a server start should not wait for the
    generation of thousands of functions. ``renewals`` counts how often the plan's function was generated.
    ``special`` is the number of the next step that measures CPU time, before which joins choose their probe
    order again.
    """

    def __init__(
        self, plan: Plan, context: ExpressionContext, *, replan: int = 16, replan_most: int = 1024
    ) -> None:
        """Measure CPU time at step ``replan``, then at doubling intervals up to ``replan_most`` steps."""
        self.plan = plan
        self.context = context
        self._joins = [node.operator for node in plan.nodes if isinstance(node.operator, DeltaJoin)]
        # The number of steps between two steps that measure CPU time, and the number of the next such step.
        self._replan_every = self._replan_at = replan
        self._replan_most = replan_most
        self.special = 0
        self._memos = RowMemos()
        self.renewals = 0
        self._source = ""
        self._step: Any = None
        self._timed: Any = None

    def loop(self, around: EnclosingLoop) -> tuple[str, Any]:
        """Return the source text and the function of a loop around the steps before step ``special``."""
        return _Writer(self.plan, self.context, self._memos).write_loop(around)

    def step(self, changes: Mapping[SourceKey, Delta]) -> Delta:
        """Run one step of the plan by the generated function, as `Plan.step` does by the operators."""
        figures = self.plan.figures
        figures.steps = steps = figures.steps + 1
        if steps < self.special:
            delta: Delta = self._step(changes, False)
            return delta
        return self._special_step(changes, steps)

    def _special_step(self, changes: Mapping[SourceKey, Delta], steps: int) -> Delta:
        """Run the first step, or a step that measures CPU time.

        Before a step that measures CPU time, joins choose their order of probes again.
        """
        if not self.plan.primed and sum(map(len, changes.values())) < _LARGE:
            # `Plan.step` adds one to `figures.steps` as well, so one is subtracted here.
            self.plan.figures.steps -= 1
            return self.plan.step(changes)
        timed = steps >= self._replan_at
        if timed:
            self._replan_every = min(2 * self._replan_every, self._replan_most)
            self._replan_at = steps + self._replan_every
        if (timed and any([join.replan() for join in self._joins])) or self._step is None:
            self._renew()
        self.special = self._replan_at
        if timed and self._timed is None:
            # The form of the generated function that measures CPU time reads the clock after each loop.
            _, self._timed = _Writer(self.plan, self.context, self._memos, timed=True).write()
        self.plan.figures.timed_steps += timed
        step = self._timed if timed else self._step
        delta: Delta = step(changes, not self.plan.primed)
        self.plan.primed = True
        return delta

    def outdate(self) -> None:
        """Discard the generated function, because a join's input was replaced; generate it on demand."""
        self._step, self.special = None, 0

    @property
    def text(self) -> str:
        """The source text of the plan's generated function."""
        if self._step is None:
            self._renew()
        return self._source

    def _renew(self) -> None:
        self._source, self._step = _Writer(self.plan, self.context, self._memos).write()
        self._timed = None
        self.renewals += 1

    def forget(self) -> None:
        """Delete the stored results for rows, which a step by the operators does not maintain."""
        self._memos.forget_rows()

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the stored results of expressions for rows in windows; see `Operator.referenced_rows`."""
        yield from self._memos.referenced_rows()


class _Writer:
    """Writes the source text of a plan's function.

    All forms of a plan's generated function share the stored results ``memos``.
    """

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
        # The generated loop around the steps, and the operators whose emitted rows are counted in local
        # variables.
        self._around: EnclosingLoop | None = None
        self._counted: list[int] = []
        # Scans whose rows a join makes while it loops over triples, by position, each with the Python
        # expressions of the triples and of a row.
        self._in_line: dict[int, tuple[str, str]] = {}

    def write(self) -> tuple[str, Any]:
        """Return the source text and the function of one step."""
        out = self._out
        out.depth = 1
        self._steps()
        out.line(f"return d{self._root}")
        head = "def step(changes, first):"
        return out.source(head), out.build(head, "step")

    def write_loop(self, around: EnclosingLoop) -> tuple[str, Any]:
        """Return the source text and the function of a loop around many steps."""
        out, self._around = self._out, around
        out.in_loop = True
        out.depth = 1
        around.write(out, self._steps_apart, f"d{self._root}")
        begin = [f"number{each} = 0" for each in self._counted] + out.begin
        out.lines[:0] = [f"    {line}" for line in begin]
        out.depth = 2  # The following lines stand in the ``finally`` clause at the end of the generated loop.
        out.line(*[f"rows_out[{each}] += number{each}" for each in self._counted], *out.end)
        return out.source(around.head), out.build(around.head, "run")

    def _steps_apart(self) -> str:
        with self._out.apart() as lines:
            self._steps()
        return "\n".join(lines)

    def _steps(self) -> None:
        """Write the lines of one step, which leave the delta of the plan's answer in a local variable."""
        out = self._out
        out.names["EMPTY"] = EMPTY
        values = out.context.values
        out.names.update(id_of=values.id_of, decimal_ids=values.decimal_ids)
        out.names["rows_out"] = self._figures.rows
        out.names["budget"] = self._budget
        if any(isinstance(node.operator, DeltaJoin) for node in self._nodes):
            # Local variables of the generated code: the rows that joins have made, and the number of rows at
            # which the step checks the budget.
            out.line("joined, look = 0, budget.next_check")
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
        """Write the code that counts the rows of a delta that is complete."""
        number = f"number{place}" if self._out.in_loop else f"rows_out[{place}]"
        self._out.line(f"if d{place}: {number} += len(d{place})")
        if self._out.in_loop:
            self._counted.append(place)

    def _loop(self, place: int, node: PlanNode) -> None:
        """Write a loop over the input delta of a scan or row-by-row operator, with the operators after it."""
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
        """Return True if, in a generated loop, only a join of at most `_DEEPEST_JOIN` inputs reads a node."""
        alone = self._out.in_loop and self._consumers[place] == 1
        join = self._nodes[self._next[place]].operator if alone else None
        return isinstance(join, DeltaJoin) and len(join.inputs) <= _DEEPEST_JOIN

    def _join(self, place: int, join: DeltaJoin) -> None:
        """Write a join: a loop over each changed input's delta, and nested loops that probe the others."""
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
        # Static parts do not change during a run of the generated loop, so their deltas need no code.
        moving = [each for each, node in enumerate(inputs) if self._around is None or not node.static]
        for number in moving:
            route = join.routes[number]
            source = self._nodes[place].inputs[number]
            given, row = self._in_line.get(source, (f"d{source}", ""))
            out.line(f"if {given}:  # #{place} join: what came from #{source}")
            out.depth += 1
            inside = out.depth
            # If no columns must be compared after the last probe, every row that the last probe finds is an
            # output row of the join.
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
            # If only one input of a join changes and no column is dropped, all output rows are different.
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
        """Return the local name of the index that a join probes.

        An index of a join input that only commits probe is built on demand.
        """
        out = self._out
        arrangement = join.arrangements[probe.input]
        if probe.bounds:
            return out.name_of(join.bounded_rows(probe), "passing")
        if arrangement.now is None and often:
            return out.name_of(arrangement.index(probe.key), "index")
        index = out.fresh("look")
        if arrangement.now is not None:
            arrangement.index(probe.key)
            found = f"{index} = {out.name_of(arrangement.now, 'now')}[{probe.key}]"
            # The index of the static rows does not change during a run of the generated loop.
            if out.in_loop:
                out.begin.append(f"{found}.rows")
            else:
                out.line(found)
        else:
            out.line(f"{index} = {out.name_of(arrangement, 'input')}.index({probe.key})")
        return index

    def _probe(
        self, probe: Probe, index: str, node: PlanNode, join: DeltaJoin, slots: dict[str, str], *, last: bool
    ) -> None:
        """Write a join's probe as a loop over found rows; unless ``last``, count them as intermediate."""
        out = self._out
        names = join.inputs[probe.input].vars
        texts = [slots[each.variable] for each in probe.bounds] or [
            slots[names[column]] for column in probe.key
        ]
        key = (
            f"[{', '.join(texts)}]"
            if probe.bounds
            else f"({', '.join(texts)})"
            if len(texts) != 1
            else texts[0]
        )
        number = probe.input
        by = "".join(f" ?{names[column]}" for column in probe.key)
        by = by or "".join(
            f" ?{names[each.column]} {each.relation} ?{each.variable}" for each in probe.bounds
        )
        comment = f"look-up in #{node.inputs[number]} by{by}" if by else f"all of #{node.inputs[number]}"
        found = f"found{number}"
        out.line(f"{found} = {index}.get({key}, EMPTY)  # {comment}")
        met = f"{found}.items()"
        if out.in_loop and join.arrangements[probe.input].now is not None:
            # In an index of static rows, a row that occurs once may stand in place of a dictionary of rows.
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
        """Return a plan node and the row-by-row nodes that alone read its rows, up to a GROUP BY."""
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
                # This operator emits as many rows as it receives, so one count serves both.
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
            self._out.line(f"d{last} = {group}.emit(t{last}) if t{last} else EMPTY")
        self._count(last)
