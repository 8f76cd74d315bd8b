"""What XML cannot hold is refused by every writer of XML, and is right in every other format."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from quadrill.app.http.errors import HttpError
from quadrill.app.http.xml_text import xml_text

from .conftest import LiveServer, problem_of

pytestmark = pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")

QUERY = "SELECT ?o { ?s ?p ?o }"
XML = "application/sparql-results+xml"
RDF_XML = "application/rdf+xml"


def insert(server: LiveServer, text: str) -> None:
    escaped = "".join(f"\\U{ord(char):08X}" for char in text)
    server.client.post(
        "/update",
        content=f"INSERT DATA {{ <urn:s> <urn:p/q> '{escaped}' }}",
        headers={"Content-Type": "application/sparql-update"},
    ).raise_for_status()


@pytest.mark.parametrize("text", ["a\0b", "\x01", "\x0b", "\x1f", "\ufffe", "\uffff"])
def test_a_character_that_xml_cannot_hold_is_not_acceptable_there(server: LiveServer, text: str) -> None:
    insert(server, text)
    asked = [
        ("/query", {"query": QUERY}, XML),
        ("/query", {"query": "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"}, RDF_XML),
        ("/query", {"query": "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"}, "application/trix"),
        ("/store", {"default": ""}, RDF_XML),
        ("/store", {"default": ""}, "application/trix"),
        ("/store", {}, "application/trix"),
    ]
    for path, parameters, accept in asked:
        answer = server.client.get(path, params=parameters, headers={"Accept": accept})
        document = problem_of(answer, 406)
        assert "XML cannot hold" in document["detail"], accept
    found = server.client.get("/query", params={"query": QUERY}).json()
    assert found["results"]["bindings"][0]["o"]["value"] == text


def test_all_other_characters_come_back_from_xml_as_they_are(server: LiveServer) -> None:
    text = "\t\n\r\x85 <&>]]>\ud7ff\ue000\ufffd\U00010000\U0010ffff"
    insert(server, text)
    answer = server.client.get("/query", params={"query": QUERY}, headers={"Accept": XML})
    (literal,) = ElementTree.fromstring(answer.content).iter(
        "{http://www.w3.org/2005/sparql-results#}literal"
    )
    assert literal.text == text
    graph = server.client.get("/store", params={"default": ""}, headers={"Accept": RDF_XML})
    (literal,) = ElementTree.fromstring(graph.content).iter("{urn:p/}q")
    assert literal.text == text
    graph = server.client.get("/store", params={"default": ""}, headers={"Accept": "application/trix"})
    (literal,) = ElementTree.fromstring(graph.content).iter(
        "{http://www.w3.org/2004/03/trix/trix-1/}plainLiteral"
    )
    assert literal.text == text


def test_a_character_on_the_border_of_two_blocks_is_seen() -> None:
    with pytest.raises(HttpError, match="U\\+FFFE"):
        xml_text(b"\xbe</literal>", b"\xef\xbf")
    assert xml_text(b"\xbd</literal>", b"\xef\xbf") == b"\xbd</literal>"
