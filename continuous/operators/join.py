"""Join of any number of inputs as one delta join (step 5 of 8 of query evaluation)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..rows import EMPTY, Delta, IdRow, Schema, add
from .arrangement import Arrangement, key_getter
from .linear import Operator
from .thresholds import Bound, BoundedRows, NumberOf

_STORE_COST = 1_000_000.0
"""Assumed cost, in rows, of a look-up in the store: above any probe in memory, below a cartesian product."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of another input of the join on the route of a delta.

    The column numbers of a probe's other side are those of the join's input ``input``. The columns ``key`` of
    the probed input must equal the cells ``key_from`` of the row under construction; both are bound in all
    rows. The columns ``take`` of the probed row are appended to the row under construction. The columns
    ``check`` of a probe may be unbound on one side, and an unbound cell is compatible with any value. If a
    probe has no key, comparisons (``bounds``) select the rows of the probed input, if there are any.
    """

    input: int
    key: tuple[int, ...]
    key_from: tuple[int, ...]
    take: tuple[int, ...]
    check: tuple[int, ...]
    bounds: tuple[Bound, ...] = ()


class DeltaJoin(Operator):
    """The SPARQL join ⋈ of n inputs: rows that agree on the variables which both rows bind.

    The delta of input i is joined with the updated rows of the inputs before i and the old rows of the inputs
    after i, so an event that enters two inputs joins itself once. A delta join stores no intermediate result,
    therefore any order of probes gives the same answer. Law of the join: multilinear in the inputs.
    ``static`` says for each input of the join whether only commits change its rows, and ``pinned`` whether
    another owner pins the ids of its rows.
    Source: delta joins as in Materialize and differential dataflow's dogsdogsdogs; SPARQL 1.1, section 18.5.
    """

    def __init__(self, inputs: Sequence[Schema]) -> None:
        self.inputs = tuple(inputs)
        names = tuple(dict.fromkeys(name for schema in inputs for name in schema.vars))
        self.schema = Schema(names, frozenset().union(*(schema.certain for schema in inputs)))
        # For each input of the join, its columns in the result.
        self._places = tuple(self.schema.positions(schema.vars) for schema in inputs)
        self.static = self.pinned = (False,) * len(inputs)
        self.arrangements = tuple(Arrangement() for _ in inputs)
        # Conditions over joined rows, listed under the input whose rows the conditions can select.
        self._bounds: tuple[tuple[Bound, ...], ...] = ((),) * len(inputs)
        self._number_of: NumberOf = lambda term_id: None
        self.routes = tuple(self._route(start) for start in range(len(inputs)))

    def set_bounds(self, bounds: Sequence[Sequence[Bound]], number_of: NumberOf) -> None:
        """Set comparisons of columns, by join input.

        With a comparison, a probe without a key reads only rows that may satisfy it.
        """
        self._bounds, self._number_of = tuple(map(tuple, bounds)), number_of
        self.replan()

    def bounded_rows(self, probe: Probe) -> BoundedRows:
        """Return the rows that a probe without a key searches by its comparisons (``bounds``)."""
        rows = self.arrangements[probe.input]
        return BoundedRows(
            [(rows.sorted_by(each.column, self._number_of), each.relation) for each in probe.bounds]
        )

    def step(self, *changes: Delta) -> Delta:
        """Join the deltas of the inputs one after the other; return the delta of the joined rows."""
        out: Delta = {}
        for place, change in enumerate(changes):
            if not change or self.arrangements[place].renewals:
                continue
            self._join_delta(place, change, out)
            self.arrangements[place].update(change)
        if self.is_due:
            self._renew(changes, out)
        return out or EMPTY

    @property
    def is_due(self) -> bool:
        """True if a commit replaced a look-up's rows, so that the join must run a step without a delta."""
        return any(each.renewals for each in self.arrangements)

    def _renew(self, changes: Sequence[Delta], out: Delta) -> None:
        """Replace the rows of look-ups: retract the whole old join, and insert the whole new join."""
        held = [place for place, each in enumerate(self.arrangements) if not each.is_lookup]
        start = min(held, key=lambda place: len(self.arrangements[place]))
        rows = dict(self.arrangements[start].rows())
        self._join_delta(start, {row: -weight for row, weight in rows.items()}, out)
        for arrangement, change in zip(self.arrangements, changes, strict=True):
            if arrangement.renewals:
                arrangement.renew()
                if change:
                    arrangement.update(change)
        self._join_delta(start, rows, out)

    def replan(self) -> bool:
        """Choose the join's routes again for the present sizes of the inputs; return True if one changed.

        A route is the order in which a delta of one join input probes the other inputs. Routes may change
        between any two steps, because the state of a join does not depend on routes.
        """
        routes = tuple(self._route(start) for start in range(len(self.inputs)))
        changed = routes != self.routes
        self.routes = routes
        if changed:
            for place, arrangement in enumerate(self.arrangements):
                arrangement.retain(self.keys_of(place))
        return changed

    def always_keyed(self, places: Collection[int]) -> bool:
        """Return True if every route can probe these inputs by a key that other inputs of the join bind."""
        if len(set(places)) == len(self.inputs):
            return False
        for start in range(len(self.inputs)):
            sure = set().union(
                *(schema.certain for place, schema in enumerate(self.inputs) if place not in places),
                self.inputs[start].certain,
            )
            left = [place for place in places if place != start]
            while left:
                keyed = [place for place in left if self.inputs[place].certain & sure]
                if not keyed:
                    return False
                left = [place for place in left if place not in keyed]
                sure.update(*(self.inputs[place].certain for place in keyed))
        return True

    def use_arrangement(self, place: int, arrangement: Arrangement) -> None:
        """Replace the arrangement of an input by a shared one, whose present rows count as processed."""
        arrangements = list(self.arrangements)
        arrangements[place] = arrangement
        self.arrangements = tuple(arrangements)
        self.replan()

    def keys_of(self, place: int) -> list[tuple[int, ...]]:
        """Return the keys by which the join's routes probe an input."""
        return [probe.key for route in self.routes for probe in route if probe.input == place]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows of the join's inputs, except inputs whose ids are pinned."""
        return chain.from_iterable(
            arrangement.referenced_rows()
            for arrangement, pinned in zip(self.arrangements, self.pinned, strict=True)
            if arrangement.is_lookup or not pinned
        )

    def size(self) -> int:
        """Return the number of rows in the arrangements of all inputs of the join."""
        return sum(map(len, self.arrangements))

    def _join_delta(self, start: int, change: Delta, out: Delta) -> None:
        width = len(self.schema.vars)
        found: list[tuple[list[int], int]] = []
        for row, weight in change.items():
            result = [0] * width
            for place, cell in zip(self._places[start], row, strict=True):
                result[place] = cell
            found.append((result, weight))
        for probe in self.routes[start]:
            index: Any = self.arrangements[probe.input].index(probe.key)
            places, key_from = self._places[probe.input], probe.key_from
            if probe.bounds:
                index = self.bounded_rows(probe)
                key_from = self.schema.positions(each.variable for each in probe.bounds)
            given, found, made, look = found, [], 0, self.budget.next_check
            for result, weight in given:
                key = [result[place] for place in key_from] if probe.bounds else key_getter(key_from)(result)
                bucket = index.get(key, EMPTY)
                if (made := made + len(bucket)) > look:
                    look = self.budget.check(made, self)
                for other, other_weight in bucket.items():
                    if (merged := _merge(result, other, probe, places)) is not None:
                        found.append((merged, weight * other_weight))
        for result, weight in found:
            add(out, tuple(result), weight)

    def cost(self, start: int, place: int, sure: set[str]) -> tuple[float, int]:
        """Return the expected rows of a probe, and a tie-breaker; cartesian products cost the most.

        If the changed row itself binds the whole key and an index exists, the estimate of a probe is the mean
        number of rows that recent changes find.
        """
        schema, first, target = self.inputs[place], self.inputs[start], self.arrangements[place]
        keyed = [name for name in schema.vars if name in sure and name in schema.certain]
        if not keyed and self._usable_bounds(place, sure):
            return (len(target) / 2, 0)
        if not keyed:
            return (float("inf"), sys.maxsize if target.is_lookup else len(target))
        key, recent = schema.positions(keyed), self.arrangements[start].recent
        if target.is_lookup:
            return (_STORE_COST + target.fan_out(key), -len(keyed))
        if recent and set(keyed) <= first.certain:
            # A window would have to maintain an index, made only for this estimate, at each change; so only
            # static inputs get one.
            index = target.index(key) if self.static[place] else target.indexes.get(key)
            columns = first.positions(keyed)
            if index:
                found = sum(len(index.get(key, EMPTY)) for key in map(key_getter(columns), recent))
                return (round(found / len(recent), 1), -len(keyed))
        return (round(target.fan_out(key), 1), -len(keyed))

    def order(self, start: int) -> list[int]:
        """Return the other inputs in the order in which a delta of input ``start`` probes them.

        The order of a delta's probes is greedy: next comes the input whose probe is expected to find the
        fewest rows.
        """
        sure = set(self.inputs[start].certain)
        left = [place for place in range(len(self.inputs)) if place != start]
        chosen = []
        while left:
            left.sort(key=lambda place: self.cost(start, place, sure))
            chosen.append(left.pop(0))
            sure |= self.inputs[chosen[-1]].certain
        return chosen

    def _route(self, start: int) -> tuple[Probe, ...]:
        """Return the probes for a delta of input ``start``, in the present order of the other inputs."""
        seen, sure = set(self.inputs[start].vars), set(self.inputs[start].certain)
        probes = []
        for chosen in self.order(start):
            schema = self.inputs[chosen]
            key = schema.positions([name for name in schema.vars if name in sure and name in schema.certain])
            old = schema.positions([name for name in schema.vars if name in seen])
            take = tuple(column for column in range(len(schema.vars)) if column not in old)
            key_from = tuple(self._places[chosen][column] for column in key)
            check = tuple(column for column in old if column not in key)
            bounds = () if key else self._usable_bounds(chosen, sure)
            probes.append(Probe(chosen, key, key_from, take, check, bounds))
            seen |= set(schema.vars)
            sure |= schema.certain
        return tuple(probes)

    def _usable_bounds(self, place: int, sure: Collection[str]) -> tuple[Bound, ...]:
        """Return the comparisons that can select rows of a join input, given bound variables ``sure``."""
        if self.arrangements[place].is_lookup or self.arrangements[place].now is not None:
            return ()
        return tuple(each for each in self._bounds[place] if each.variable in sure)


def _merge(result: list[int], other: IdRow, probe: Probe, places: tuple[int, ...]) -> list[int] | None:
    merged = result.copy()
    for column in probe.check:
        mine, theirs = merged[places[column]], other[column]
        if not mine:
            merged[places[column]] = theirs
        elif theirs and theirs != mine:
            return None
    for column in probe.take:
        merged[places[column]] = other[column]
    return merged
