"""Faults in RDF/XML and JSON-LD have line and column, also where Oxigraph's parsers report none."""

from __future__ import annotations

import json
import random

import pytest

from quadrill.store.documents import fault_places
from quadrill.store.errors import RdfSyntaxError
from quadrill.store.formats import parse_rdf, rdf_format

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
HEAD = f'<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="http://e/">\n'
# Faults of RDF/XML: an element that is not RDF, and the part of it at which the place is.
XML_FAULTS = [
    ('<rdf:Description rdf:about="http://e/a b"><e:p>1</e:p></rdf:Description>', "<rdf:Description"),
    ('<rdf:Description rdf:ID="1 2"><e:p>1</e:p></rdf:Description>', "<rdf:Description"),
    ('<rdf:Description><e:p rdf:datatype="a b">1</e:p></rdf:Description>', "<e:p"),
    ('<rdf:Description><e:p xml:lang="a_b">1</e:p></rdf:Description>', "<e:p"),
    ('<rdf:Description><e:p rdf:resource="a" rdf:nodeID="b"/></rdf:Description>', "<e:p"),
    ("<rdf:Description>  stray<e:p>1</e:p></rdf:Description>", "stray"),
    (f'<rdf:Description><e:p rdf:datatype="{RDF}langString">1</e:p></rdf:Description>', "</e:p>"),
]
# Faults of JSON-LD: members of a node object that are not allowed, and the part at which the place is.
JSON_FAULTS = [
    ('"@type": 7', '"@type"'),
    ('"@id": 7', '"@id"'),
    ('"http://e/q": {"@value": "x", "@language": 7}', '"@language"'),
    ('"http://e/q": {"@value": {}}', '"@value"'),
    ('"@context": {"@vocab": 7}', '"@vocab"'),
    ('"@context": {"t": {"@id": "http://e/t", "@type": "nonsense"}}, "t": "1"', '"nonsense"'),
    ('"@context": {"t": {"@id": "http://e/t", "@container": "nonsense"}}, "t": "1"', '"@container"'),
    ('"@context": "http://e/remote"', '"@context"'),
]


def place_of(media_type: str, text: str) -> tuple[int | None, int | None]:
    """The line and column of the fault of a document."""
    kind = rdf_format(media_type)
    assert kind is not None
    with pytest.raises(RdfSyntaxError) as caught:
        list(parse_rdf(text.encode(), kind, base_iri="http://base/"))
    error = caught.value
    assert f"line {error.line}, column {error.column}: " in error.message
    return error.line, error.column


def expected_place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def good_elements(chance: random.Random, most: int) -> list[str]:
    """Elements of RDF/XML without a fault, with characters of several bytes."""
    return [
        chance.choice(
            [
                f'<e:Thing rdf:about="http://e/{number}">\n <e:p>ä𝄞 {number}</e:p></e:Thing>',
                f'<e:Thing>\n\n<e:p rdf:parseType="Literal"><b>{number}</b></e:p></e:Thing>',
                f"<e:Thing\n rdf:nodeID='n{number}'><e:p xml:lang='de'>&lt;</e:p>\n</e:Thing>",
            ]
        )
        for number in range(chance.randint(0, most))
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("fault", "part"), XML_FAULTS)
def test_fault_of_rdf_xml_is_placed_at_its_tag(fault: str, part: str, seed: int) -> None:
    chance = random.Random(seed)
    most = 3000 if seed == 0 else 6  # more than a block
    separator = chance.choice(["\n", "  ", "\n <!-- > -->"])
    before = HEAD + separator.join(["", *good_elements(chance, most), ""])
    text = before + fault + separator.join(["", *good_elements(chance, 4)]) + "</rdf:RDF>\n"
    assert place_of("application/rdf+xml", text) == expected_place(text, len(before) + fault.index(part))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("fault", "part"), JSON_FAULTS)
def test_fault_of_json_ld_is_placed_at_its_token(fault: str, part: str, seed: int) -> None:
    chance = random.Random(seed)
    most = 3000 if seed == 0 else 6

    def good(count: int) -> list[str]:
        return [
            json.dumps(
                {"@id": f"http://e/{number}", "@type": "http://e/T", "http://e/p": ["ä𝄞,]}", number]},
                indent=chance.choice([None, 1]),
                ensure_ascii=chance.random() < 0.5,
            )
            for number in range(count)
        ]

    before = (
        "[" + "".join(f"{node},\n" for node in good(chance.randint(0, most))) + '{"@id": "http://e/x",\n '
    )
    if '"@id"' in fault:
        before = before.removesuffix('"@id": "http://e/x",\n ')
    text = before + fault + "}" + "".join(f",\n{node}" for node in good(chance.randint(0, 3))) + "]"
    assert place_of("application/ld+json", text) == expected_place(text, len(before) + fault.index(part))


def test_place_of_a_larger_document_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_places, "MAX_BYTES", 20)
    kind = rdf_format("application/ld+json")
    assert kind is not None
    with pytest.raises(RdfSyntaxError, match="malformed JSON-LD: @type value must be a string") as caught:
        list(parse_rdf(b'{"@id": "http://e/a", "@type": 7}', kind))
    assert caught.value.line is None
