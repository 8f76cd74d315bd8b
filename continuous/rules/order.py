"""The order of rule sets: each after the sets whose graphs it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import GraphName
from quadrill.store.errors import InputError

from ..algebra.flows import FlowEdge, find_cycle
from .rule_set import RuleSet


def in_order(sets: Sequence[RuleSet]) -> list[RuleSet]:
    """Return rule sets, each after the sets that it reads."""
    by_graph: dict[GraphName, RuleSet] = {each.into: each for each in sets}
    order = TopologicalSorter[RuleSet]()
    for each in sets:
        order.add(each, *(by_graph[graph] for graph in each.definition.sources or () if graph in by_graph))
    return list(order.static_order())


def _cycle(sets: list[RuleSet]) -> list[str]:
    """Return the names of sets that read one another; empty if there are none.

    A set that a PUT under way replaces counts twice, before and after the PUT, because the PUT may fail.
    """
    by_graph: dict[GraphName, list[RuleSet]] = {}
    for each in sets:
        by_graph.setdefault(each.into, []).append(each)
    finished: set[int] = set()

    def search(rule_set: RuleSet, path: list[str]) -> list[str]:
        if rule_set.name in path:
            return path[path.index(rule_set.name) :]
        if id(rule_set) not in finished:
            for graph in rule_set.definition.sources or ():
                for other in by_graph.get(graph, ()):
                    found = search(other, [*path, rule_set.name])
                    if found:
                        return found
            finished.add(id(rule_set))
        return []

    for each in sets:
        found = search(each, [])
        if found:
            return found
    return []


def require_no_cycle(sets: Iterable[RuleSet], candidate: RuleSet) -> None:
    """Check that no rule sets would read one another.

    Args:
        sets: the registered sets.
        candidate: a set that is new, or replaces the set with its name.

    Raises:
        InputError: the code is ``cycle``, and the member ``cycle`` has the names of the sets.
    """
    cycle = _cycle([*(each for each in sets if each.name != candidate.name), candidate])
    if cycle:
        raise InputError(
            f"the rule sets {', '.join(cycle)} would read one another",
            code="cycle",
            hint="put their rules into one set",
            cycle=cycle,
        )


def flows_of(rule_set: RuleSet) -> FlowEdge:
    """Return the named graphs that a set names as its input, and its graph."""
    sources = rule_set.definition.sources or ()
    reads = {("graph", each.value) for each in sources if isinstance(each, NamedNode)}
    return reads, [("graph", rule_set.into.value)]


def require_no_view_cycle(candidate: RuleSet, others: Sequence[FlowEdge]) -> None:
    """Check that a set would not read its own graph through views.

    Args:
        candidate: a set that is new, or replaces the set with its name.
        others: what the other sets and the queries read and make.

    Raises:
        InputError: the code is ``cycle``.
    """
    reads, makes = flows_of(candidate)
    cycle = find_cycle(makes, reads, others) if reads else None
    if cycle is not None:
        raise InputError(
            f"the rule set would read its own graph: {candidate.into} leads to <{cycle[1][1]}>",
            code="cycle",
            hint="a view of the member from reads the graph of the set",
            cycle=[candidate.name],
        )
