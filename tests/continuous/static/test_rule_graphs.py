"""The changes of graphs that rules read, as they wait for a query."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from pyoxigraph import NamedNode, Quad

from quadrill.continuous.rules.definition import RuleSetDefinition
from quadrill.continuous.static.rule_graphs import RuleGraphs
from quadrill.continuous.static.table import Frontier
from quadrill.store.changes.commit import Commit
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

INTO = NamedNode("urn:into")


def quad(name: str) -> Quad:
    return Quad(NamedNode(f"urn:{name}"), NamedNode("urn:p"), NamedNode("urn:o"))


def defined(rule: str) -> RuleSetDefinition:
    return RuleSetDefinition(INTO, (rule,))


@dataclass
class Steps:
    """The steps of a query, which reflects a version."""

    frontier: Frontier
    steps: list[int] = field(default_factory=list)

    def graphs_changed(self, version: int, at_ms: int) -> None:
        self.steps.append(version)


def test_a_view_has_the_version_of_the_query_and_a_replaced_set_keeps_the_order() -> None:
    with QuadStore.open(None, StoreOptions()) as store:
        graphs = RuleGraphs("r", INTO, defined("a"), store, threading.RLock())
        steps = Steps(Frontier(0))
        graphs.attach(steps, 0)

        def commit(version: int, name: str, definition: RuleSetDefinition) -> None:
            store.writer.apply(add=[quad(name)])
            made = Commit(version, 0, added=(quad(name),))
            assert graphs.reads(made, definition)
            graphs.committed(made, definition, None)

        view = graphs.view(0)
        commit(1, "x", defined("a"))
        graphs.advance(1)
        commit(2, "y", defined("b"))
        assert graphs.newest == defined("b")
        graphs.redefine(1, 0, defined("b"))
        assert steps.steps == [1, 1], "the commit of version 2 has no task yet"
        assert view.match(None, None, None, None) == [], "the query has applied no change"
        steps.frontier.version = 1
        due = graphs.due()
        assert [(each.version, each.definition) for each in due] == [(1, defined("a")), (1, defined("b"))]
        graphs.apply(due)
        assert (graphs.definition, view.match(None, None, None, None)) == (defined("b"), [quad("x")])
        assert [each.version for each in graphs.advance(2)] == [2]
        steps.frontier.version = 2
        graphs.apply(graphs.due())
        assert set(view.match(None, None, None, None)) == {quad("x"), quad("y")}
        graphs.redefine(2, 0, defined("b"))
        assert (graphs.waiting, steps.steps) == ([], [1, 1, 2]), "the definition is the same"
        graphs.redefine(1, 0, None)
        assert (graphs.newest, [each.version for each in graphs.due()]) == (None, [2])


def test_many_changes_of_a_query_that_is_not_evaluated_become_one() -> None:
    with QuadStore.open(None, StoreOptions()) as store:
        graphs = RuleGraphs("r", INTO, defined("a"), store, threading.RLock())
        steps = Steps(Frontier(0))
        graphs.attach(steps, 0)
        for version in range(1, 12):
            quads = tuple(quad(f"{version}-{each}") for each in range(2_000))
            store.writer.apply(add=quads)
            graphs.committed(Commit(version, 0, added=quads), defined("a"), None)
            graphs.advance(version)
            steps.frontier.version = version
        assert steps.steps == list(range(1, 12))
        assert sum(len(each.change.added) for each in graphs.waiting if each.change) <= 12_000
        due = graphs.due()
        assert due[0].change is None and due[-1].version == 11
        assert len(graphs.view(len(due)).match(None, None, None, None)) == 22_000
        graphs.apply(due)
        assert (graphs.waiting, graphs.advance(11)) == ([], [])
