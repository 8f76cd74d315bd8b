"""TriX and HexTuples in and out."""

from __future__ import annotations

import time

import pytest
from pyoxigraph import CanonicalizationAlgorithm, Dataset, Literal, RdfFormat, parse

from quadrill.app.http.codecs import read, write
from quadrill.app.http.errors import HttpError
from quadrill.app.http.negotiation import MOST_CONVERTED
from quadrill.store.errors import RdfSyntaxError
from tests.app.conftest import LiveServer, problem_of

TYPES = ("application/trix", "application/hex+x-ndjson")
DATA = """<urn:a> <urn:p> "x"@en , 1 , _:b . _:b <urn:p> "q\\"<&\\n" .
<urn:g> { <urn:a> <urn:p> _:b , 2.5 }"""


def canonical(quads: str, form: RdfFormat = RdfFormat.N_QUADS) -> Dataset:
    dataset = Dataset(parse(quads.encode(), form))
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return dataset


@pytest.mark.parametrize("media_type", TYPES)
def test_a_dataset_goes_out_and_comes_back(server: LiveServer, media_type: str) -> None:
    server.client.put("/store", content=DATA, headers={"Content-Type": "application/trig"}).raise_for_status()
    before = server.client.get("/store", headers={"Accept": "application/n-quads"}).text
    written = server.client.get("/store", headers={"Accept": media_type})
    assert written.headers["Content-Type"] == media_type, written.text
    assert "x-rdflib" not in written.text
    server.client.delete("/store").raise_for_status()
    posted = server.client.post("/store", content=written.content, headers={"Content-Type": media_type})
    assert posted.status_code == 204, posted.text
    after = server.client.get("/store", headers={"Accept": "application/n-quads"}).text
    assert canonical(after) == canonical(before)


@pytest.mark.parametrize("media_type", TYPES)
@pytest.mark.parametrize("marker", ["", "VALUES ?m { 1 }"])
def test_graphs_of_queries_and_single_graphs_are_written(
    server: LiveServer, media_type: str, marker: str
) -> None:
    server.client.put("/store", content=DATA, headers={"Content-Type": "application/trig"}).raise_for_status()
    built = server.query(
        f"CONSTRUCT {{ ?s <urn:q> ?o }} {{ {marker} ?s <urn:p> ?o FILTER(?o = 1) }}", media_type
    )
    assert built.headers["Content-Type"] == media_type
    headers = {"Content-Type": media_type}
    assert (
        server.client.put("/store?graph=urn:new", content=built.content, headers=headers).status_code == 201
    )
    assert server.boolean("ASK { GRAPH <urn:new> { <urn:a> <urn:q> 1 } }")
    assert "2.5" in server.client.get("/store?graph=urn:g", headers={"Accept": media_type}).text


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (TYPES[0], b"<TriX><graph>"),
        (TYPES[0], b"<!DOCTYPE a [<!ENTITY x 'y'>]><TriX/>"),
        (TYPES[1], b'["urn:a", "urn:b"]'),
        (TYPES[1], b"nonsense"),
        (TYPES[1], b"\xff\xfe["),
    ],
)
def test_malformed_documents_are_refused(server: LiveServer, media_type: str, body: bytes) -> None:
    answer = server.client.post("/store", content=body, headers={"Content-Type": media_type})
    assert answer.status_code in (400, 413), answer.text
    problem_of(answer, answer.status_code)
    assert server.services.store.reader.quad_count == 0


def test_zero_bytes_and_other_encodings_are_errors_of_the_document() -> None:
    for body in (b"<TriX>\n\0</TriX>", "<?xml version='1.0'?>\n<TriX/>".encode("utf-16")):
        with pytest.raises(RdfSyntaxError, match=r"malformed TriX: .*zero byte in line \d, .*UTF-8"):
            read(body, "trix")


@pytest.mark.parametrize("text", ["a\0b", "\x01", "\x0b", "\ufffe", "\uffff"])
def test_what_xml_cannot_hold_is_not_written_as_trix(text: str) -> None:
    for quad in (f"<urn:a> <urn:b> {Literal(text)} .", f"<urn:a> <urn:b> {Literal(text, language='en')} ."):
        with pytest.raises(HttpError, match="XML cannot hold"):
            write(f"{quad}\n".encode(), "trix")
        assert read(write(f"{quad}\n".encode(), "hext"), "hext").decode() == f"{quad}\n"


@pytest.mark.parametrize("media_type", TYPES)
def test_triple_terms_have_no_form_there(server: LiveServer, media_type: str) -> None:
    server.update("INSERT DATA { <urn:a> <urn:p> <<( <urn:a> <urn:b> 1 )>> }")
    problem_of(server.client.get("/store", headers={"Accept": media_type}), 406)


@pytest.mark.parametrize("codec", ["trix", "hext"])
def test_long_literals_and_their_escapes_cost_their_length(codec: str) -> None:
    text = '\u00e9&<>"\n' * 400_000
    quads = f"<urn:a> <urn:b> {Literal(text)} .\n".encode()
    before = time.process_time()
    written = write(quads, codec)
    assert read(written, codec) == quads
    if codec == "trix":
        assert read(written.replace("\u00e9".encode(), b"&#233;"), codec) == quads
    assert time.process_time() - before < 10  # quadratic, it took hours


@pytest.mark.parametrize("codec", ["trix", "hext"])
def test_every_kind_of_term_and_graph_comes_back(codec: str) -> None:
    lines = [
        '<urn:a> <urn:p> "x"@en-gb <urn:g> .',
        '<urn:a> <urn:p> " x\\ty " .',
        "_:a <urn:p> _:b _:g .",
        "<urn:a?b&c='d'> <urn:p> \"2.5\"^^<http://www.w3.org/2001/XMLSchema#decimal> .",
        '<urn:a> <urn:p> "" .',
        '<urn:a> <urn:p> "a\\rb\\r\\nc\\n" .',
        '<urn:a> <urn:p> "a\\rb\\r\\nc"@en .',
        "<urn:a> <urn:p> \"\\r\"^^<urn:p?'&'> .",
        '<urn:a> <urn:p> "_:no" <urn:g> .',
    ]
    text = "".join(f"{line}\n" for line in lines)
    assert sorted(read(write(text.encode(), codec), codec).decode().splitlines()) == sorted(lines)


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        ("trix", "<TriX><graph><triple><uri>urn:a</uri><uri>urn:b</uri></triple></graph></TriX>"),
        ("trix", "<TriX><graph><triple><uri>a</uri><uri>urn:b</uri><uri>urn:b</uri></triple></graph></TriX>"),
        ("trix", "<TriX><graph>x</graph></TriX>"),
        ("trix", "<TriX><triple/></TriX>"),
        ("trix", "<a>" * 100_000),
        ("trix", ""),
        ("trix", "<TriX>\0</TriX>"),
        ("trix", "<TriX>\x01</TriX>"),
        ("trix", "<TriX>\ufffe</TriX>"),
        ("trix", "\0"),
        (
            "trix",
            "<TriX><graph><triple><id>a</id><uri>urn:b</uri><typedLiteral>1</typedLiteral></triple></graph></TriX>",
        ),
        ("hext", "[" * 100_000),
        ("hext", '{"a": 1}'),
        ("hext", '["urn:a", "urn:b", 1, "globalId", "", ""]'),
        ("hext", '["urn:a", "b", "c", "", "", ""]'),
    ],
)
def test_what_is_no_document_is_refused_with_a_reason(codec: str, body: str) -> None:
    with pytest.raises(RdfSyntaxError, match="malformed"):
        read(body.encode(), codec)


@pytest.mark.parametrize("media_type", ["application/trix", "application/hex+x-ndjson"])
def test_what_takes_much_memory_may_only_be_small(server: LiveServer, media_type: str) -> None:
    body = b" " * (MOST_CONVERTED + 1)
    answer = server.client.post("/store?default", content=body, headers={"Content-Type": media_type})
    assert problem_of(answer, 400)["code"] == "limit"
