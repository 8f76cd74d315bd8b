"""Facts of nodes: look-ups give the triples before and after a change, also of nodes with many triples."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, NamedNode, Quad, Store

from quadrill.continuous.rules.store_facts import InputGraphs, StoreFacts
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.fact_change import FactChange
from quadrill.continuous.shapes.node_facts import NodeFacts
from quadrill.store.changes.pending import PendingChanges, StoreView

from ...examples import examples

GRAPHS = [DefaultGraph(), NamedNode("http://e/g"), NamedNode("http://e/excluded")]
NODES = [NamedNode(f"http://e/n{number}") for number in range(4)]
PREDICATES = [NamedNode(f"http://e/p{number}") for number in range(3)]
INPUTS = InputGraphs(None, frozenset(GRAPHS[2:]))
NO_GRAPH = NamedNode("http://e/none")

quads = st.builds(
    Quad, st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(NODES), st.sampled_from(GRAPHS)
)


def triples(found: Iterable[Quad]) -> set[tuple[object, object, object]]:
    return {(quad.subject, quad.predicate, quad.object) for quad in found if quad.graph_name in INPUTS}


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sets(quads, max_size=15),
    st.sets(quads, max_size=4),
    st.sets(quads, max_size=4),
    st.booleans(),
    st.data(),
)
def test_look_ups_give_the_triples_of_each_state(
    content: set[Quad], added: set[Quad], removed: set[Quad], hub: bool, data: st.DataObject
) -> None:
    if hub:  # a subject, and an object, with many triples
        content |= {Quad(NODES[0], PREDICATES[0], NamedNode(f"http://e/o{each}")) for each in range(40)}
        content |= {Quad(NamedNode(f"http://e/s{each}"), PREDICATES[0], NODES[1]) for each in range(40)}
    store = Store()
    store.extend(content)
    view = StoreView(store)
    pending = PendingChanges(view)
    for quad in removed:
        pending.remove(quad)
    for quad in added:
        pending.add(quad)
    terms = RuleTerms()
    ids = terms.dictionary.ids
    changed = FactChange()
    states = triples(content), triples((content - removed) | added)
    for new, old, facts in ((states[1], states[0], changed.added), (states[0], states[1], changed.removed)):
        facts += [tuple(ids[term] for term in triple) for triple in new - old]  # type: ignore[misc, index]
    before = NodeFacts(StoreFacts(view, terms, INPUTS, NO_GRAPH, own=False))
    after = NodeFacts(StoreFacts(pending, terms, INPUTS, NO_GRAPH, own=False), before, changed)
    nodes, predicates = [ids[each] for each in NODES], [ids[each] for each in PREDICATES]
    patterns = [
        (s, p, o) for s in (*nodes, None) for p in (*predicates, None) for o in (*nodes, None) if s or p or o
    ]
    for pattern in data.draw(st.permutations(patterns)):
        for facts, state in zip((before, after), states, strict=True):
            found = facts.match(*pattern)
            expected = {
                fact
                for fact in ({tuple(ids[term] for term in triple) for triple in state})  # type: ignore[index]
                if all(term is None or term == part for term, part in zip(pattern, fact, strict=True))
            }
            assert len(found) == len(expected)
            assert set(found) == expected
