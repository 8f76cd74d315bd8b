"""Terms of elements are those of the store; blank nodes belong to their element."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from hypothesis import example, given
from hypothesis import strategies as st
from pyoxigraph import (
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    RdfFormat,
    Store,
    Triple,
    parse,
    serialize,
)

from quadrill.store import terms as store_terms
from quadrill.store.documents.element_terms import relabel_blank_nodes
from quadrill.store.documents.statements import quads_of, statements_of
from quadrill.store.pushes.decode import DecodeOptions, decode

P = NamedNode("http://e.org/p")
XSD = "http://www.w3.org/2001/XMLSchema#"


def integer(text: str) -> Literal:
    return Literal(text, datatype=NamedNode(XSD + "integer"))


def pushed(quads: Iterable[Quad]) -> tuple[Quad, ...]:
    body = serialize(quads, format=RdfFormat.N_TRIPLES)
    assert body is not None
    (element,) = decode(body, "application/n-triples", DecodeOptions()).elements
    return tuple(quads_of(element.statements))


def terms(stream: str = "http://e.org/s", seq: int = 1) -> Callable[[Iterable[Quad]], tuple[Quad, ...]]:
    return lambda quads: tuple(quads_of(relabel_blank_nodes(statements_of(quads), stream, seq)))


def test_numbers_are_in_the_stores_form_at_any_depth() -> None:
    nested = Triple(P, P, Triple(P, P, integer("007")))
    quads = pushed([Quad(P, P, integer("010")), Quad(P, P, nested)])
    assert quads[0].object == integer("10")
    assert quads[1].object == Triple(P, P, Triple(P, P, integer("7")))


def test_an_element_is_a_set_in_document_order() -> None:
    quads = pushed([Quad(P, P, integer("2")), Quad(P, P, integer("1")), Quad(P, P, integer("02"))])
    assert [quad.object for quad in quads] == [integer("2"), integer("1")]


def test_blank_nodes_are_renamed_alike_inside_and_differently_outside_an_element() -> None:
    node = BlankNode("b")
    quads = [Quad(node, P, node, node), Quad(P, P, Triple(node, P, node))]
    first, again, other, elsewhere = (
        terms()(quads), terms()(quads), terms(seq=2)(quads), terms("http://e.org/t")(quads),
    )  # fmt: skip
    assert first == again
    renamed = first[0].subject
    assert renamed != node
    assert first[0].object == renamed and first[0].graph_name == renamed
    assert first[1].object == Triple(renamed, P, renamed)  # type: ignore[arg-type]
    assert len({first[0].subject, other[0].subject, elsewhere[0].subject}) == 3


def test_the_default_graph_stays() -> None:
    assert isinstance(terms()([Quad(P, P, P)])[0].graph_name, DefaultGraph)


def test_the_memory_of_forms_is_bounded() -> None:
    for number in range(100):
        assert store_terms.store_form(integer(f"0{number}"), most=10) == integer(str(number))
        assert len(store_terms._forms) <= 10


@given(st.from_regex(r"\A[+-]?0{0,2}\d{0,20}\Z"))
def test_integers_come_in_the_form_that_the_store_gives_back(text: str) -> None:
    """The short cut for canonical integers agrees with the store."""
    agrees_with_the_store(integer(text))


def agrees_with_the_store(literal: Literal) -> None:
    store = Store()
    store.add(Quad(P, P, literal))
    assert store_terms.store_form(literal) == next(iter(store)).object


@given(
    st.sampled_from(["double", "float", "boolean", "date", "string", "duration"]),
    st.from_regex(r"\A([+-]?0{0,2}\d{0,11}(\.\d{0,10})?(E[+-]?\d{1,3})?|true|false|TRUE|-?INF|NaN)\Z"),
)
@example("double", "-0")
@example("double", "999999999.999999")
@example("double", "0.000001")
@example("boolean", "1")
def test_other_values_come_in_the_form_that_the_store_gives_back(datatype: str, text: str) -> None:
    agrees_with_the_store(Literal(text, datatype=NamedNode(XSD + datatype)))


def test_values_of_other_vocabularies_stay() -> None:
    agrees_with_the_store(Literal(" POINT( 01 2.50 )", datatype=NamedNode("http://e.org/wktLiteral")))
    agrees_with_the_store(Literal("010", language="en"))


STATEMENTS = st.sampled_from(
    [
        f'<{P.value}> <{P.value}> "1.5"^^<{XSD}decimal> .\n',
        f'<{P.value}> <{P.value}> "1.50"^^<{XSD}decimal> .\n',
        f'<{P.value}> <{P.value}> "1.50" ^^ <{XSD}decimal> <{P.value}>.\n',
        f'<{P.value}> <{P.value}> "07"^^<{XSD}integer><{P.value}> .\r\n',
        f'<{P.value}> <{P.value}> "07"^^<{XSD}\\u0069nteger> .\n',
        f'<{P.value}> <{P.value}> "7"^^<{XSD}integer> <{P.value}> . \n',
        f'<{P.value}> <{P.value}> "\\"07\\"^^<{XSD}integer> . "@en-GB .\n',
        f"<{P.value}> <{P.value}> <{P.value}> _:g .\n",
        f"<{P.value}> <{P.value}> _:o .\n",
        f"_:s <{P.value}> <{P.value}> .\n",
        f'<{P.value}> <{P.value}> <<( <{P.value}> <{P.value}> "07"^^<{XSD}integer> )>> .\n',
        f"<{P.value}> <{P.value}> <<(<{P.value}> <{P.value}> _:o)>> <{P.value}> .\n",
        f'# "" <{P.value}> <{P.value}> "7" .\n',
        '# "\r',
        "\n",
        "  ",
    ]
)


@given(st.lists(STATEMENTS, max_size=6).map("".join))
def test_lines_come_in_the_form_that_the_store_gives_back(text: str) -> None:
    """What is told by the text of a push agrees with what its terms tell."""
    line = json.dumps({"at": 1, "data": text}).encode()
    (element,) = decode(line, "application/x-ndjson", DecodeOptions()).elements
    parsed = list(parse(text, RdfFormat.N_QUADS))
    quads = quads_of(element.statements)
    rename = {str(node): str(number) for number, node in enumerate(blank_nodes(quads))}
    names = {str(node): str(number) for number, node in enumerate(blank_nodes(parsed))}
    assert element.blank >= bool(names)
    assert [same(quad, rename) for quad in quads] == [
        same(quad, names) for quad in store_terms.in_store_form(parsed)
    ]


def blank_nodes(quads: Iterable[Quad]) -> list[str]:
    return list(dict.fromkeys(re.findall(r"_:\w+", " ".join(map(str, quads)))))


def same(quad: Quad, names: dict[str, str]) -> str:
    return re.sub(r"_:\w+", lambda match: names[match[0]], str(quad)) + str(type(quad.graph_name))


@given(st.from_regex(r"\A[+-]?0{0,2}\d{0,11}(\.\d{0,10})?\Z"))
@example("-0")
@example("-0.0")
@example("0.10")
@example("999999999.999999999")
def test_decimals_come_in_the_form_that_the_store_gives_back(text: str) -> None:
    agrees_with_the_store(Literal(text, datatype=NamedNode(XSD + "decimal")))


@given(
    st.from_regex(
        r"\A-?[0-9]{4}-(0[1-9]|1[0-3])-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,8})?"
        r"(Z|[+-](0[0-9]|1[0-4]):(00|30))?\Z"
    )
)
@example("2013-01-01T24:00:00Z")
@example("2013-02-30T00:00:00Z")
@example("2013-02-28T23:59:60Z")
@example("2013-02-28T00:00:00.10Z")
@example("0000-01-01T00:00:00Z")
@example("9999-12-31T23:59:59.999999Z")
def test_times_come_in_the_form_that_the_store_gives_back(text: str) -> None:
    agrees_with_the_store(Literal(text, datatype=NamedNode(XSD + "dateTime")))
