"""Documents that Oxigraph's parsers read wrongly are read as specified, or refused with the place."""

from __future__ import annotations

import pytest

from quadrill.store.errors import RdfSyntaxError, ReportedError
from quadrill.store.formats import RDF_TYPES, RdfType, parse_rdf
from quadrill.store.hosts import AllowedHosts
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.remote import Fetched

KINDS = {kind.name: kind for kind in RDF_TYPES}
XML = KINDS["RDF/XML"]
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
HEAD = f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="http://e/" xml:lang="en">'
MARK = b"\xef\xbb\xbf"


def about(content: str, attributes: str = "") -> bytes:
    return f'{HEAD}<rdf:Description rdf:about="http://e/a"{attributes}>{content}</rdf:Description></rdf:RDF>'.encode()


def objects(body: bytes, kind: RdfType = XML) -> list[str]:
    return [str(quad.object) for quad in parse_rdf(body, kind)]


@pytest.mark.parametrize(
    ("body", "place", "fault"),
    [
        (b"", (1, 1), "no element found"),
        (b" \n ", (2, 2), "no element found"),
        (b'<?xml version="1.0"?>', (1, 22), "no element found"),
        (f"{HEAD}\n<e:A/>\n".encode(), (3, 1), "no element found"),
        (f"{HEAD}\n<rdf:Description".encode(), (2, 1), "unclosed token"),
        (f"{HEAD}</rdf:RDF>\n{HEAD}</rdf:RDF>".encode(), (2, 1), "junk after document element"),
        (about("\n<e:p:q>1</e:p:q>"), (2, 5), "not well-formed"),
        (about("\n<f:p>1</f:p>"), (2, 1), "unbound prefix"),
        (about("\n<e:p>1</e:q>"), (2, 9), "mismatched tag"),
        (about('\n<e:p e:x="1" e:x="2"/>'), (2, 14), "duplicate attribute"),
        (about("\n<e:p>&nbsp;</e:p>"), (2, 6), "undefined entity"),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?>' + about(""), (1, 1), "encoding is ISO-8859-1"),
    ],
)
def test_xml_that_is_not_well_formed_is_refused_with_its_place(
    body: bytes, place: tuple[int, int], fault: str
) -> None:
    with pytest.raises(
        RdfSyntaxError, match=f"malformed RDF/XML at line {place[0]}, column.*{fault}"
    ) as caught:
        list(parse_rdf(body, XML))
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize(
    ("property_", "value"),
    [
        ('<e:p rdf:parseType="Other">q</e:p>', f'"q"^^<{RDF}XMLLiteral>'),
        ("<e:p  rdf:parseType = 'literal'  >q</e:p>", f'"q"^^<{RDF}XMLLiteral>'),
        ('<e:p rdf:parseType="">q</e:p>', f'"q"^^<{RDF}XMLLiteral>'),
        ('<e:p rdf:parseType="Literal">q</e:p>', f'"q"^^<{RDF}XMLLiteral>'),
        ('<e:p xml:lang="">2</e:p>', '"2"'),
        ("<e:p xml:lang = ''>2</e:p>", '"2"'),
        ('<e:p xml:lang="de">2</e:p>', '"2"@de'),
        ("<e:p>2</e:p>", '"2"@en'),
    ],
)
def test_attributes_that_oxigraph_does_not_take_are_read(property_: str, value: str) -> None:
    assert objects(about(property_)) == [value]


def test_an_empty_language_ends_the_one_around_it() -> None:
    assert objects(about("<e:p>1</e:p><e:q xml:lang='de'>2</e:q>", ' xml:lang="" e:r="0"')) == [
        '"0"',
        '"1"',
        '"2"@de',
    ]


def test_the_daml_collection_is_an_xml_literal() -> None:
    (value,) = parse_rdf(
        about('<e:l rdf:parseType="daml:collection"><e:B rdf:about="http://e/b"/></e:l>'), XML
    )
    text = value.object.value  # type: ignore[union-attr]
    assert text.startswith("<e:B ") and 'rdf:about="http://e/b"' in text


def test_an_xml_literal_declares_each_namespace_once() -> None:
    inner = (
        '<c xmlns="http://c/" xmlns:d="http://d/" xmlns:e="http://f/"><d:x e:y=" xmlns=&quot;1&quot;"/></c>'
    )
    (value,) = parse_rdf(about(f'<e:p rdf:parseType="Literal">{inner}</e:p>'), XML)
    text = value.object.value  # type: ignore[union-attr]
    for name, iri in (("xmlns", "http://c/"), ("xmlns:d", "http://d/"), ("xmlns:e", "http://f/")):
        assert text.count(f"{name}=") == (2 if name == "xmlns" else 1) and f'{name}="{iri}"' in text
    # The literal is XML again: it can be the content of another document.
    assert objects(about(f'<e:p rdf:parseType="Literal">{text}</e:p>')) == [str(value.object)]


def test_attributes_inside_an_xml_literal_stay() -> None:
    inner = '<b xml:lang="" rdf:parseType="Foo">x</b>'
    (value,) = parse_rdf(about(f'<e:p rdf:parseType="Literal">{inner}</e:p>'), XML)
    assert 'xml:lang="" rdf:parseType="Foo"' in value.object.value  # type: ignore[union-attr]


TAGGED = [
    ("RDF/XML", about(f'<e:p rdf:datatype="{RDF}langString">x</e:p>')),
    ("RDF/XML", about(f'<e:p rdf:datatype="{RDF}langString" xml:lang="en">x</e:p>')),
    ("RDF/XML", about(f'<e:p rdf:datatype="{RDF}langS&#116;ring">x</e:p>')),
    ("RDF/XML", about(f'<e:p rdf:datatype="{RDF}dirLangString">x</e:p>')),
    ("JSON-LD", f'{{"@id":"http://a","http://p":{{"@value":"x","@type":"{RDF}langString"}}}}'.encode()),
    (
        "JSON-LD",
        f'{{"@id":"http://a","http://p":{{"@value":"x","@type":"{RDF}dirLang\\u0053tring"}}}}'.encode(),
    ),
    ("Turtle", f'<http://a> <http://p> "x"^^<{RDF}langString> .'.encode()),
    ("TriG", f'<http://a> <http://p> "x"^^<{RDF}langString> .'.encode()),
    ("N-Quads", f'<http://a> <http://p> <<( <http://s> <http://p> "x"^^<{RDF}langString> )>> .'.encode()),
]


@pytest.mark.parametrize(("name", "body"), TAGGED)
def test_a_language_string_without_a_tag_is_refused(name: str, body: bytes) -> None:
    with pytest.raises(RdfSyntaxError, match="language tag"):
        list(parse_rdf(body, KINDS[name]))


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("N-Triples", b'<http://e/a> <http://e/p> "1" .'),
        ("N-Quads", b'<http://e/a> <http://e/p> "1" .'),
        ("Turtle", b'@prefix : <http://e/> .\n:a :p "1" .'),
        ("TriG", b'@prefix : <http://e/> .\n:a :p "1" .'),
        ("JSON-LD", b'{"@id": "http://e/a", "http://e/p": "1"}'),
        ("RDF/XML", about('<e:p xml:lang="">1</e:p>')),
    ],
)
def test_a_byte_order_mark_is_skipped(name: str, body: bytes) -> None:
    assert objects(MARK + body, KINDS[name]) == ['"1"']
    if name == "Turtle":
        with pytest.raises(RdfSyntaxError) as caught:
            list(parse_rdf(MARK + b"<http://e/a> <http://e/p> .", KINDS[name]))
        assert caught.value.line == 1


def loaded(text: str, body: bytes, media_type: str | None, iri: str = "http://example.org/doc") -> list[str]:
    store = QuadStore.open(
        None,
        StoreOptions(
            allowed_hosts=AllowedHosts(["example.org"]), fetcher=lambda _: Fetched(body, media_type, iri)
        ),
    )
    try:
        return sorted(str(quad) for quad in store.writer.update(text).added)
    finally:
        store.close()


LOAD = "LOAD <http://example.org/doc>"
INTO = f"{LOAD} INTO GRAPH <http://e/g>"
QUAD = "<http://e/a> <http://e/p> <http://e/b>"


@pytest.mark.parametrize("media_type", ["application/xml", "text/xml", "application/xml; charset=utf-8"])
def test_load_reads_rdf_xml_under_the_media_types_of_xml(media_type: str) -> None:
    assert loaded(INTO, about('<e:p rdf:resource="http://e/b"/>'), media_type) == [f"{QUAD} <http://e/g>"]


@pytest.mark.parametrize("name", ["application/xml", "text/xml"])
def test_load_prefers_the_ending_to_a_media_type_of_any_xml(name: str) -> None:
    assert loaded(INTO, f"{QUAD} .".encode(), name, "http://example.org/doc.ttl") == [f"{QUAD} <http://e/g>"]


@pytest.mark.parametrize(
    ("text", "graph"),
    [(INTO, " <http://e/gx>"), (INTO, " _:b"), (f"BASE <http://e/> {LOAD} INTO GRAPH <g>", " <http://e/G>")],
)
def test_load_into_a_graph_refuses_quads_of_others(text: str, graph: str) -> None:
    with pytest.raises(ReportedError, match="has quads of the graph") as caught:
        loaded(text, f"{QUAD} .\n{QUAD}{graph} .".encode(), "application/n-quads")
    assert caught.value.code == "wrong-graph"
    silent = text.replace("LOAD", "LOAD SILENT")
    assert loaded(silent, f"{QUAD}{graph} .".encode(), "application/n-quads") == []


def test_load_into_a_graph_takes_a_dataset_of_that_graph() -> None:
    body = f"{QUAD} .\n{QUAD} <http://e/g> .".encode()
    assert loaded(INTO, body, "application/n-quads") == [f"{QUAD} <http://e/g>"]
    assert loaded(LOAD, body, "application/n-quads") == sorted([QUAD, f"{QUAD} <http://e/g>"])
