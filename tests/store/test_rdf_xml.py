"""RDF/XML documents that their parser could read in hours only are refused at once, all others are read."""

from __future__ import annotations

import tracemalloc

import pytest

from quadrill.store.documents.rdf_xml import XmlLimits, check_rdf_xml
from quadrill.store.errors import LimitError, RdfSyntaxError
from quadrill.store.formats import RDF_TYPES, parse_rdf

RDF_XML = next(kind for kind in RDF_TYPES if kind.name == "RDF/XML")
HEAD = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
FOOT = "</rdf:RDF>"
FEW = XmlLimits(depth=4, namespaces=3, entities=2)


def stripes(levels: int) -> str:
    return "<e:A><e:b>" * levels + "</e:b></e:A>" * levels


def test_what_people_write_is_read() -> None:
    document = (
        "<?xml version='1.0'?><!-- a > b - <e:A><e:A><e:A> -->"
        f'<!DOCTYPE rdf [<!ENTITY e "x"><!-- an e -->]>{HEAD}'
        + stripes(450)
        + '<e:A e:p="&lt;a> /> it\'s"><e:b><![CDATA[</e:b></e:A>]]></e:b><e:c/></e:A>' * 3
        + FOOT
    )
    assert len(list(parse_rdf(document.encode(), RDF_XML))) == 900 + 3 * 4


@pytest.mark.parametrize(
    "document",
    [
        stripes(3),
        "<e:A p='/>'><e:A><e:A><e:A><e:A>",
        "</e:A></e:A>" + "<e:A>" * 5,
        "<!-- <e:A> --></e:A>" + "<e:A>" * 5,
        "<![CDATA[</e:A>]]><e:A><e:A><e:A><![CDATA[</e:A></e:A>]]><e:A><e:A>",
        "<e:A><e:A><e:A><![cdata[</e:A></e:A>]]><e:A><e:A>",
        "<e:A><e:A><e:A><!-- </e:A></e:A> --><e:A><e:A>",
        "<e:A>\n" * 5,
    ],
)
def test_elements_nest_to_a_limit(document: str) -> None:
    with pytest.raises(LimitError, match="nest deeper than 4 levels"):
        check_rdf_xml(document.encode(), FEW)


@pytest.mark.parametrize(
    "document",
    [
        '<!DOCTYPE r [ " ]><e:A><e:A><e:A><e:A><e:A>" ]>',
        "<!DOCTYPE r [ <!-- ]> > <e:A><e:A><e:A><e:A><e:A> -->",
        "<!DOCTYPE r [<!ENTITY e '</e:A></e:A>'>]>",
        "<!doctype r [ ' ]>",
        "<e:A><!--></e:A>--><e:A>",
        "<e:A><!---></e:A>--><e:A>",
        "<e:A><?x > </e:A> ?><e:A>",
    ],
)
def test_where_readers_find_other_elements_nothing_is_read(document: str) -> None:
    with pytest.raises((LimitError, RdfSyntaxError)):
        check_rdf_xml(document.encode(), XmlLimits())


def test_the_attributes_of_an_element_are_limited() -> None:
    attributes = " ".join(f"e:p{n}='>'" for n in range(1_100))
    with pytest.raises(LimitError, match="more than 1,000 attributes"):
        list(parse_rdf(f"{HEAD}<e:A {attributes}/>{FOOT}".encode(), RDF_XML))
    many = "<e:A e:p='1' e:q='2'/>" * 2_000
    assert len(list(parse_rdf((HEAD + many + FOOT).encode(), RDF_XML))) == 6_000


def test_the_namespaces_of_an_element_are_limited() -> None:
    side_by_side = "<a xmlns:p='x' xmlns:q='y'/><a xmlns:p='x'></a>" * 10
    check_rdf_xml(side_by_side.encode(), FEW)
    with pytest.raises(LimitError, match="more than 3 namespaces hold"):
        check_rdf_xml(b"<a xmlns:p='x' xmlns:q='y'><b xmlns:r='z'><c xmlns:s='z'/></b></a>", FEW)


def test_the_entities_are_limited() -> None:
    with pytest.raises(LimitError, match="more than 2 entities"):
        check_rdf_xml(b"<!DOCTYPE r [<!ENTITY a 'x'><!ENTITY b 'x'><!ENTITY c 'x'>]><r/>", FEW)


HOSTILE = {
    "deep": HEAD + "<e:A><e:b>" * 100_000,
    "open tags": HEAD + "<e:A " * 100_000,
    "open attributes": HEAD + "<e:A p=\"<e:A p='" * 50_000,
    "one long attribute": f'{HEAD}<e:A e:p="{"x" * 1_000_000}"/>{FOOT}',
    "an open comment": HEAD + "<!--" * 200_000,
    "open sections": HEAD + "<![CDATA[" * 100_000,
    "slashes": HEAD + "<e:A " + "/" * 1_000_000,
    "a declaration without an end": "<!DOCTYPE rdf [" + "<!ENTITY " * 100_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_document_is_refused_without_memory(kind: str) -> None:
    body = HOSTILE[kind].encode()
    tracemalloc.start()
    try:
        try:
            for _quad in parse_rdf(body, RDF_XML):
                pass
        except (LimitError, RdfSyntaxError):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(body) + 100_000
