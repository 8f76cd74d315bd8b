"""Terms of elements are those of the store; blank nodes belong to their element."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Store, Triple

from quadrill.continuous.ingest.terms import ElementTerms, TermForms

P = NamedNode("http://e.org/p")
XSD = "http://www.w3.org/2001/XMLSchema#"


def integer(text: str) -> Literal:
    return Literal(text, datatype=NamedNode(XSD + "integer"))


def terms(stream: str = "http://e.org/s", seq: int = 1) -> ElementTerms:
    return ElementTerms(TermForms(), stream, seq)


def test_numbers_are_in_the_stores_form_at_any_depth() -> None:
    nested = Triple(P, P, Triple(P, P, integer("007")))
    quads = terms().quads([Quad(P, P, integer("010")), Quad(P, P, nested)])
    assert quads[0].object == integer("10")
    assert quads[1].object == Triple(P, P, Triple(P, P, integer("7")))


def test_an_element_is_a_set_in_document_order() -> None:
    quads = terms().quads([Quad(P, P, integer("2")), Quad(P, P, integer("1")), Quad(P, P, integer("02"))])
    assert [quad.object for quad in quads] == [integer("2"), integer("1")]


def test_blank_nodes_are_renamed_alike_inside_and_differently_outside_an_element() -> None:
    node = BlankNode("b")
    quads = [Quad(node, P, node, node), Quad(P, P, Triple(node, P, node))]
    first, again, other, elsewhere = (
        terms().quads(quads), terms().quads(quads), terms(seq=2).quads(quads), terms("http://e.org/t").quads(quads),
    )  # fmt: skip
    assert first == again
    renamed = first[0].subject
    assert renamed != node
    assert first[0].object == renamed and first[0].graph_name == renamed
    assert first[1].object == Triple(renamed, P, renamed)  # type: ignore[arg-type]
    assert len({first[0].subject, other[0].subject, elsewhere[0].subject}) == 3


def test_the_default_graph_stays() -> None:
    assert isinstance(terms().quads([Quad(P, P, P)])[0].graph_name, DefaultGraph)


def test_the_memory_of_forms_is_bounded() -> None:
    forms = TermForms(max_remembered=10)
    for number in range(100):
        assert forms.literal(integer(f"0{number}")) == integer(str(number))
    assert len(forms._known) <= 10


@given(st.from_regex(r"\A[+-]?0{0,2}\d{0,20}\Z"))
def test_integers_come_in_the_form_that_the_store_gives_back(text: str) -> None:
    """The short cut for canonical integers agrees with the store."""
    literal = integer(text)
    store = Store()
    store.add(Quad(P, P, literal))
    assert TermForms().literal(literal) == next(iter(store)).object
