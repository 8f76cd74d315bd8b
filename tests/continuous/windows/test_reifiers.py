"""Canonical reifiers, change by change, are those of the whole content."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.algebra.reify import REIFIES, CanonicalReifiers, assert_quoted, canonical_content
from quadrill.continuous.windows.encoded import EncodedContent, EngineTerms
from tests.examples import examples

E = "http://e/"
NODES = [NamedNode(E + "x"), BlankNode("a"), BlankNode("b"), BlankNode("c")]
GRAPHS = [DefaultGraph(), NamedNode(E + "g"), BlankNode("a")]
inner = st.builds(
    Triple, st.sampled_from(NODES), st.just(NamedNode(E + "p")), st.sampled_from([*NODES, Literal("1")])
)
# Reifiers that reify each other in a circle have no canonical name: a node speaks of later ones only.
statements = st.sampled_from(range(len(NODES))).flatmap(
    lambda place: st.builds(
        Quad,
        st.just(NODES[place]),
        st.just(REIFIES),
        st.builds(
            Triple,
            st.sampled_from([NODES[0], *NODES[place + 1 :]]),
            st.just(NamedNode(E + "p")),
            st.sampled_from([NODES[0], *NODES[place + 1 :], Literal("1")]),
        ),
        st.sampled_from(GRAPHS[:2]),
    )
)
uses = st.builds(
    Quad,
    st.sampled_from(NODES),
    st.just(NamedNode(E + "q")),
    st.one_of(st.sampled_from([*NODES, Literal("1")]), inner),
    st.sampled_from(GRAPHS),
)
contents = st.sets(st.one_of(statements, uses), max_size=6)


@settings(deadline=None, max_examples=examples(200))
@given(st.sets(uses, max_size=3), st.lists(contents, min_size=1, max_size=5), st.booleans())
def test_the_running_sum_is_the_canonical_content(
    first: set[Quad], states: list[set[Quad]], asserts: bool
) -> None:
    names, coder = CanonicalReifiers(asserts, first), EngineTerms().coder
    content = EncodedContent(coder)
    content.apply({coder.key(quad): 1 for quad in first})
    content.take()
    given_out = set(first)
    before = first
    for state in states:
        change = {quad: 1 for quad in state - before} | {quad: -1 for quad in before - state}
        content.apply({coder.key(quad): weight for quad, weight in names.change(change).items()})
        for key, weight in content.take().keys.items():
            quad = coder.quad(key)
            assert (quad in given_out) is (weight < 0)
            given_out ^= {quad}
        raw = dict.fromkeys(state, 0)
        assert given_out == set(canonical_content(assert_quoted(raw) if asserts else raw))
        before = state
    assert len(content) == len(given_out)
