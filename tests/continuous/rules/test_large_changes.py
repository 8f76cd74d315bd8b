"""A small change with many consequences computes the set from its input alone, with the same result."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode, Quad, Store

from quadrill.continuous.rules import rule_set as module
from quadrill.continuous.rules.definition import RuleSetDefinition
from quadrill.continuous.rules.rule_set import RuleSet
from quadrill.store.changes.pending import PendingChanges, StoreView

INTO = NamedNode("http://e/into")
SUBCLASS = NamedNode("http://www.w3.org/2000/01/rdf-schema#subClassOf")
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")


def test_loss_of_a_class_edge_computes_the_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW_CHANGES", 50)
    definition = RuleSetDefinition(INTO, include=("rdfs",))
    rule_set = RuleSet("classes", definition, "http://e/", None)
    store = Store()
    recomputed = []
    derive_all = rule_set.derive_all
    monkeypatch.setattr(rule_set, "derive_all", lambda *args: recomputed.append(1) or derive_all(*args))

    def commit(add: list[Quad], remove: list[Quad]) -> None:
        view = StoreView(store)
        below, pending = PendingChanges(view), PendingChanges(PendingChanges(view))
        for quad in remove:
            pending.remove(quad)
        for quad in add:
            pending.add(quad)
        budget = rule_set.budget(0, timed=False)
        rule_set.derive(below, pending, pending.net(), budget, lambda: len(store))
        change = pending.net()
        for quad in change.removed:
            store.remove(quad)
        store.extend(change.added)

    edge = Quad(NamedNode("http://e/c0"), SUBCLASS, NamedNode("http://e/c1"))
    members = [
        Quad(NamedNode(f"http://e/i{number}"), TYPE, NamedNode("http://e/c0")) for number in range(200)
    ]
    commit([edge], [])
    for member in members:
        commit([member], [])
    assert not recomputed
    assert sum(1 for _ in store.quads_for_pattern(None, TYPE, None, INTO)) == 200
    commit([], [edge])
    assert recomputed
    assert list(store.quads_for_pattern(None, None, None, INTO)) == []
