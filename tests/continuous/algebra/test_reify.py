"""Annotated triples in windows: the reifier is a function of graph and triple."""

from __future__ import annotations

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.algebra.reify import REIFIES, assert_quoted, canonical_content, has_reifiers

S, P, OBJECT, U, W, G, H = (NamedNode(f"urn:{letter}") for letter in "spouwgh")
TRIPLE = Triple(S, P, OBJECT)
ONE, TWO = Literal("1"), Literal("2")
DEFAULT = DefaultGraph()


def annotation(
    reifier: BlankNode | NamedNode,
    value: Literal,
    triple: Triple = TRIPLE,
    predicate: NamedNode = U,
    graph: NamedNode | DefaultGraph = DEFAULT,
) -> dict[Quad, int]:
    return {Quad(reifier, REIFIES, triple, graph): 1, Quad(reifier, predicate, value, graph): 1}


def subjects(content: dict[Quad, int]) -> set[object]:
    return {quad.subject for quad in content}


def test_equal_annotated_triples_of_two_elements_are_one() -> None:
    content = canonical_content({**annotation(BlankNode("a"), ONE), **annotation(BlankNode("b"), ONE)})
    assert len(content) == 2
    assert len(subjects(content)) == 1


def test_several_annotations_of_one_triple_have_one_reifier() -> None:
    content = canonical_content(
        {**annotation(BlankNode("a"), ONE), **annotation(BlankNode("b"), TWO, predicate=W)}
    )
    assert len(content) == 3
    assert len(subjects(content)) == 1


def test_different_triples_and_different_graphs_have_reifiers_of_their_own() -> None:
    other = Triple(S, P, ONE)
    content = canonical_content(
        {
            **annotation(BlankNode("a"), ONE),
            **annotation(BlankNode("b"), ONE, other),
            **annotation(BlankNode("c"), ONE, graph=G),
            **annotation(BlankNode("d"), ONE, graph=H),
        }
    )
    assert len(subjects(content)) == 4


def test_named_reifiers_are_kept() -> None:
    content = annotation(U, ONE)
    assert canonical_content(content) == content


def test_a_blank_node_that_reifies_two_triples_is_kept() -> None:
    content = {**annotation(BlankNode("a"), ONE), Quad(BlankNode("a"), REIFIES, Triple(S, P, TWO)): 1}
    assert canonical_content(content) == content


def test_nested_annotations_are_renamed_from_the_inside_out() -> None:
    def nested(inner: str, outer: str) -> dict[Quad, int]:
        return {
            **annotation(BlankNode(inner), ONE),
            **annotation(BlankNode(outer), TWO, Triple(BlankNode(inner), U, ONE)),
        }

    content = canonical_content({**nested("a", "b"), **nested("c", "d")})
    assert len(content) == 4
    assert len(subjects(content)) == 2


def test_a_reifier_of_a_triple_about_itself_does_no_harm() -> None:
    looped = BlankNode("a")
    content = canonical_content({Quad(looped, REIFIES, Triple(looped, P, ONE)): 1})
    assert len(content) == 1


def test_the_greater_event_time_is_kept_where_quads_become_one() -> None:
    late = {quad: 9 for quad in annotation(BlankNode("b"), ONE)}
    assert set(canonical_content({**late, **annotation(BlankNode("a"), ONE)}).values()) == {9}


def test_names_are_the_same_in_every_evaluation() -> None:
    first = canonical_content(annotation(BlankNode("a"), ONE))
    assert first == canonical_content(annotation(BlankNode("z"), ONE))


def test_quoted_triples_are_asserted_only_on_request() -> None:
    content = annotation(BlankNode("a"), ONE, graph=G)
    assert has_reifiers(content)
    assert Quad(S, P, OBJECT, G) not in canonical_content(content)
    assert assert_quoted(content)[Quad(S, P, OBJECT, G)] == 1
    assert not has_reifiers({Quad(S, P, OBJECT): 1})
