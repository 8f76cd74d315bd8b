"""Media types, and documents that would exhaust a parser."""

from __future__ import annotations

import pytest
from pyoxigraph import RdfFormat

from quadrill.store.errors import LimitError, RdfSyntaxError
from quadrill.store.formats import RdfLimits, guess_rdf_format, parse_rdf, rdf_format


@pytest.mark.parametrize(
    ("media_type", "format"),
    [
        ("text/turtle", RdfFormat.TURTLE),
        ("Text/Turtle; charset=UTF-8", RdfFormat.TURTLE),
        ("application/n-triples", RdfFormat.N_TRIPLES),
        ("application/n-quads", RdfFormat.N_QUADS),
        ("application/trig", RdfFormat.TRIG),
        ("application/rdf+xml", RdfFormat.RDF_XML),
        ('application/ld+json; profile="x"', RdfFormat.JSON_LD),
        ("text/plain", None),
        ("application/json", None),
        ("", None),
    ],
)
def test_an_rdf_format_is_found_by_its_media_type(media_type: str, format: RdfFormat | None) -> None:
    kind = rdf_format(media_type)
    assert (kind and kind.format) == format


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("data.ttl", "Turtle"),
        ("http://e/x/data.NT?version=1", "N-Triples"),
        ("dump.nq.gz", "N-Quads"),
        ("http://e/a.ttl/plain", None),
        ("noending", None),
    ],
)
def test_a_format_is_guessed_by_the_ending_of_a_name(name: str, found: str | None) -> None:
    kind = guess_rdf_format(name)
    assert (kind and kind.name) == found


def parse(media_type: str, body: bytes, **options: object) -> list[object]:
    kind = rdf_format(media_type)
    assert kind is not None
    return list(parse_rdf(body, kind, **options))  # type: ignore[arg-type]


def test_blank_nodes_are_new_by_default_and_kept_on_request() -> None:
    body = b"_:a <http://p> _:a ."
    first, second = parse("text/turtle", body), parse("text/turtle", body)
    assert first[0].subject == first[0].object != second[0].subject  # type: ignore[attr-defined]
    kept = parse("text/turtle", body, rename_blank_nodes=False)
    assert kept[0].subject.value == "a"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("media_type", "body", "line", "match"),
    [
        ("text/turtle", b"<http://a> <http://b> \n c .", 2, "malformed Turtle at line 2, column 2: c is not"),
        (
            "application/n-quads",
            b"<http://a> <http://b> <http://c> .\n<http://a>",
            2,
            "malformed N-Quads at line 2",
        ),
        ("application/ld+json", b'{"@id": }', 1, "malformed JSON-LD at line 1"),
        ("application/ld+json", b'{"@context":"http://a/"}', 1, "a context of another server"),
        ("application/rdf+xml", b"<a><b>", 1, "malformed RDF/XML at line 1, column 7"),
        ("text/turtle", b"<http://a> <http://b> \xff", 1, "UTF-8"),
        ("text/turtle", "<http://a> <http://b> 1 .".encode("utf-16"), None, "UTF-16"),
        ("text/turtle", b"<a> <b> <c> .", 1, "malformed Turtle"),
    ],
)
def test_malformed_rdf_is_told_with_its_place(
    media_type: str, body: bytes, line: int | None, match: str
) -> None:
    with pytest.raises(RdfSyntaxError, match=match) as caught:
        parse(media_type, body)
    assert caught.value.line == line


def test_named_graphs_can_be_refused() -> None:
    with pytest.raises(RdfSyntaxError):
        parse("application/trig", b"<http://g> { <http://a> <http://b> 1 }", without_named_graphs=True)


def test_a_deep_json_ld_document_is_refused_and_braces_in_strings_are_not_counted() -> None:
    with pytest.raises(LimitError, match="deeper than 200 levels at line 1"):
        parse("application/ld+json", b'{"http://p":' * 300 + b"1" + b"}" * 300)
    assert parse("application/ld+json", b'{"@id":"http://a","http://p":"' + b"{[" * 300 + b'"}')


@pytest.mark.parametrize(
    "media_type", ["application/n-triples", "text/turtle", "application/trig", "application/n-quads"]
)
def test_deep_triple_terms_are_refused_in_every_text_format(media_type: str) -> None:
    deep = (
        b"<http://a> <http://p> " + b"<<( <http://a> <http://p> " * 30_000 + b"1" + b" )>>" * 30_000 + b" ."
    )
    with pytest.raises(LimitError, match="deeper than 500 levels"):
        parse(media_type, deep)


def test_many_triple_terms_side_by_side_are_not_deep() -> None:
    line = b'<http://a> <http://p> <<( <http://a> <http://p> "<< <<" )>> .\n'
    assert len(parse("application/n-triples", line * 1_000)) == 1_000


def test_plain_entities_of_rdf_xml_are_read_and_bombs_are_refused() -> None:
    document = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY ex "http://e/"> %s ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:ex="http://e/">
  <rdf:Description rdf:about="&ex;a"><ex:p>%s</ex:p></rdf:Description>
</rdf:RDF>"""
    quads = parse("application/rdf+xml", (document % ("", "&ex;")).encode())
    assert quads[0].subject.value == "http://e/a"  # type: ignore[attr-defined]
    bomb = '<!ENTITY a0 "0123456789">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 9)
    )
    with pytest.raises(LimitError, match="expand to"):
        parse("application/rdf+xml", (document % (bomb, "&a8;")).encode())
    with pytest.raises(LimitError, match="external or parameter"):
        parse("application/rdf+xml", (document % ('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;")).encode())
    with pytest.raises(LimitError, match="external or parameter"):
        parse("application/rdf+xml", (document % ('<!ENTITY % x "y">', "")).replace("%%", "%").encode())


def test_limits_are_parameters() -> None:
    with pytest.raises(LimitError, match="deeper than 2 levels"):
        parse("application/ld+json", b'{"http://p":[[1]]}', limits=RdfLimits(json_depth=2))
