"""A law: the ends of paths change only at starts that a step over a changed triple leads back to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import NamedNode

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.rules.facts import MemoryFacts
from quadrill.continuous.rules.paths import FactReader, PathSteps
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.path_uses import uses_of

PREDICATES = [NamedNode(f"http://e/{each}") for each in "pqr"]
LINKS = st.sampled_from(PREDICATES)
SETS = st.builds(n.NegatedSet, st.lists(LINKS, max_size=2).map(tuple), st.lists(LINKS, max_size=2).map(tuple))
PATHS = st.recursive(
    st.builds(n.Link, LINKS) | SETS,
    lambda inner: st.one_of(
        st.builds(n.Inverse, inner),
        st.builds(n.Sequence, inner, inner),
        st.builds(n.Alternative, inner, inner),
        st.builds(n.ZeroOrMore, inner),
        st.builds(n.OneOrMore, inner),
        st.builds(n.ZeroOrOne, inner),
    ),
    max_leaves=5,
)
TRIPLES = st.sets(st.tuples(st.integers(100, 104), LINKS, st.integers(100, 104)), max_size=8)


@settings(max_examples=500, deadline=None)
@given(PATHS, TRIPLES, TRIPLES)
def test_ends_change_only_where_a_step_over_a_changed_triple_leads(
    path: n.PathExpr, one: set[tuple[int, NamedNode, int]], other: set[tuple[int, NamedNode, int]]
) -> None:
    terms = RuleTerms()
    reads = []
    facts = [{(s, terms.id_of(p), o) for s, p, o in triples} for triples in (one, other)]
    for each in facts:
        memory = MemoryFacts()
        for fact in each:
            memory.add(fact)
        reads.append(FactReader(memory, None))
    reached = set()
    for mine, others, read in ((facts[0], facts[1], reads[0]), (facts[1], facts[0], reads[1])):
        for s, p, o in mine - others:
            for use in uses_of(path):
                if use.predicate is None or terms.id_of(use.predicate) == p:
                    near = (s, p, o)[use.near]
                    starts = (
                        [near] if use.before is None else PathSteps(use.before, terms).backward(read, near)
                    )
                    reached.update(starts)
    steps = PathSteps(path, terms)
    for start in range(100, 105):
        before, now = (set(steps.forward(read, start)) for read in reads)
        assert before == now or start in reached
