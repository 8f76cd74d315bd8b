"""The order in which rule sets are evaluated, and the check that they do not read one another in a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import GraphName
from quadrill.store.changes.owners import Owners
from quadrill.store.errors import InputError, UnsupportedError

from ..algebra.flows import FlowEdge, find_cycle
from .rule_set import RuleSet


def in_order(sets: Sequence[RuleSet]) -> list[RuleSet]:
    """Return rule sets in an order in which each comes after the sets whose graphs it reads."""
    by_graph: dict[GraphName, RuleSet] = {each.into: each for each in sets}
    order = TopologicalSorter[RuleSet]()
    for each in sets:
        order.add(each, *(by_graph[graph] for graph in each.definition.sources or () if graph in by_graph))
    return list(order.static_order())


def _cycle(sets: list[RuleSet]) -> list[str]:
    """Return the names of the sets of a cycle, each of which reads the graph of the next; empty if none.

    While a PUT replaces a set, ``sets`` has the set before and after the PUT, because the PUT may fail.
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
    """Check that a new set does not make rule sets read one another in a cycle.

    Args:
        sets: the registered sets, and those whose PUT is under way.
        candidate: a set that is new, or replaces the set with its name.

    Raises:
        InputError: there is a cycle; the code is ``cycle``, and the member ``cycle`` has the sets' names.
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
    """Return the named graphs of the member ``from`` of a set, and the graph that the set writes."""
    sources = rule_set.definition.sources or ()
    reads = {("graph", each.value) for each in sources if isinstance(each, NamedNode)}
    return reads, [("graph", rule_set.into.value)]


def require_no_view_cycle(candidate: RuleSet, others: Sequence[FlowEdge]) -> None:
    """Check that a set does not read its own graph through the views of queries.

    Args:
        candidate: a set that is new, or replaces the set with its name.
        others: the inputs and outputs of each other set and of each query.

    Raises:
        InputError: the set reads its own graph; the code is ``cycle``.
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


def require_no_report(candidate: RuleSet, owned: Owners) -> None:
    """Check that a set does not read the reports of shapes, which are made after the consequences of rules.

    Args:
        candidate: a set that is new, or replaces the set with its name.
        owned: the owners of graphs.

    Raises:
        UnsupportedError: the member ``from`` names the graph of a report.
    """
    for graph in candidate.definition.sources or ():
        owner = owned.get(graph)
        if owner is not None and owner.kind == "shapes":
            raise report_is_read(str(graph), f"the shapes {owner.name}", f"the rule set {candidate.name}")


def report_is_read(graph: str, shapes: str, rule_set: str) -> UnsupportedError:
    """Return the error for a rule set that would read the graph of the report of shapes."""
    return UnsupportedError(
        "from",
        f"{rule_set} cannot read {graph}, the report of {shapes}: rules run before shapes",
        hint="let a continuous query keep what the rules need of the report in a view, and read the view",
    )
