"""Accept, Accept-Encoding and Content-Type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quadrill.app.http import codecs, negotiation
from quadrill.app.http.errors import HttpError
from quadrill.app.http.negotiation import GRAPH_OFFERS, RESULT_OFFERS


@pytest.mark.parametrize(
    ("accept", "name"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("application/*", "json"),
        ("text/*", "csv"),
        ("application/json", "json"),
        ("application/xml", "xml"),
        ("text/plain", "csv"),
        ("TEXT/CSV", "csv"),
        ("text/csv;q=0.5, application/xml;q=0.9", "xml"),
        ("text/csv, application/xml", "csv"),
        ("text/tab-separated-values;q=1.0,*/*;q=0.1", "tsv"),
        ("application/sparql-results+json;q=0, */*", "xml"),
        ("text/csv;header=present, text/tab-separated-values;q=0.1", "tsv"),
        ("text/csv;charset=utf-8", "csv"),
        ('application/xml;note="a,b;q=0", text/csv;q=0.5', "csv"),
    ],
)
def test_the_most_specific_range_decides(accept: str | None, name: str) -> None:
    assert negotiation.choose(accept, RESULT_OFFERS).name == name


@pytest.mark.parametrize(
    "accept", ["image/png", "*/*;q=0", "text/csv;q=0", "nonsense", "a/b/c", "text/csv;q=x"]
)
def test_nothing_acceptable_is_406(accept: str) -> None:
    with pytest.raises(HttpError) as refused:
        negotiation.choose(accept, RESULT_OFFERS)
    assert refused.value.status == 406


@pytest.mark.parametrize(
    ("accept", "name"),
    [
        (None, "ttl"),
        ("text/plain", "nt"),
        ("application/n-triples;version=1.2", "nt"),
        ("application/ld+json;profile=x", "jsonld"),
    ],
)
def test_graphs_have_formats_of_their_own(accept: str | None, name: str) -> None:
    assert negotiation.choose(accept, GRAPH_OFFERS).name == name


def test_only_a_name_itself_asks_for_events() -> None:
    events = "text/event-stream"
    offers = negotiation.RESULT_OFFERS
    for header in (events, f"text/html, {events};q=0.5", f"{events};q=0.5, */*", f"{events}, text/csv"):
        assert negotiation.accepts(header, events, offers), header
    for other in (None, "*/*", f"{events};q=0", f"{events};q=0.5, text/csv", f"{events};q=0.1, text/json"):
        assert not negotiation.accepts(other, events, offers), other


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("*, gzip;q=0", False),
        ("identity", False),
    ],
)
def test_packing_is_asked_for(header: str | None, expected: bool) -> None:
    assert negotiation.accepts_gzip(header) is expected


@pytest.mark.parametrize(
    "content_type", [None, "", "nonsense", "text/turtle; charset=latin-1", "text/x-unknown"]
)
def test_bodies_of_other_types_are_415(content_type: str | None) -> None:
    with pytest.raises(HttpError) as refused:
        negotiation.rdf_type(content_type)
    assert refused.value.status == 415


def test_every_format_stands_in_the_table_of_the_http_page() -> None:
    assert set(codecs.NAMES) <= {offer.name for offer in negotiation.graph_offers()}
    page = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([\w.+/-]+)` \| (graphs|solutions) \|", page, re.MULTILINE)
    offers = {(offer.name, offer.media_type, "solutions") for offer in negotiation.result_offers()}
    offers |= {(offer.name, offer.media_type, "graphs") for offer in negotiation.graph_offers()}
    assert sorted(rows) == sorted(offers)
