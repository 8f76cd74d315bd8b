"""How fast pushes are read: bytes to elements, for each format, the same trips in all of them.

Run: ``python -m benchmarks.ingest [--elements N]``. CPU time of one thread, best of three: the
parsing, the finding of elements and bringing their terms into the store's form, as a push does. Records of
a sensor are mapped by CONSTRUCT and by JSON-LD context, beside the same triples as N-Triples in NDJSON. The
last two lines compare two readers of N-Triples lines: Oxigraph's parser, and the strict regular expression
that gives the text of the terms (docs/decisions/0091).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from pyoxigraph import NamedNode, Quad, RdfFormat, parse, serialize

from quadrill.continuous.inputs import Element
from quadrill.continuous.language.mapping.declaration import read_declaration
from quadrill.continuous.language.mapping.decode import decode_mapped
from quadrill.continuous.language.mapping.mapping import compiled
from quadrill.store.documents.statements import lines_of, read_statements
from quadrill.store.pushes.decode import DecodeOptions, decode

from . import taxi
from .results import keep


def in_graphs(elements: list[Element]) -> list[Quad]:
    """All quads, those of each element in a graph of its own."""
    return [
        Quad(quad.subject, quad.predicate, quad.object, NamedNode(f"urn:trip:{element.seq}"))
        for element in elements
        for quad in element.quads
    ]


def bodies(elements: list[Element]) -> dict[str, tuple[bytes, str, DecodeOptions]]:
    """For each format: a push of all elements, its media type and how it is read."""
    at = DecodeOptions(at=0)
    each = DecodeOptions(at=0, each_triple=True)
    triples = [quad.triple for element in elements for quad in element.quads]
    graphs = in_graphs(elements)

    def written(quads: list[Quad], form: RdfFormat) -> bytes:
        body = serialize(quads, format=form)
        assert body is not None
        return body

    plain = written(triples, RdfFormat.N_TRIPLES)  # type: ignore[arg-type]
    texts = [written([quad.triple for quad in element.quads], RdfFormat.N_TRIPLES) for element in elements]  # type: ignore[misc]
    lines = b"".join(
        json.dumps({"at": element.event_time, "data": text.decode()}).encode() + b"\n"
        for element, text in zip(elements, texts, strict=True)
    )
    messages = b'VERSION "1.2-messages"\n' + b"MESSAGE\n".join(texts)
    return {
        "N-Triples, an element a triple": (plain, "application/n-triples", each),
        "N-Triples, one element": (plain, "application/n-triples", at),
        "N-Quads": (written(graphs, RdfFormat.N_QUADS), "application/n-quads", at),
        "Turtle, one element": (written(triples, RdfFormat.TURTLE), "text/turtle", at),  # type: ignore[arg-type]
        "TriG": (written(graphs, RdfFormat.TRIG), "application/trig", at),
        "JSON-LD": (written(graphs, RdfFormat.JSON_LD), "application/ld+json", at),
        "NDJSON": (lines, "application/x-ndjson", DecodeOptions()),
        "RDF Messages": (messages, "application/n-triples; version=1.2-messages", at),
    }


CONSTRUCT = """PREFIX : <http://example.org/>
CONSTRUCT { ?s a :Reading ; :celsius ?value_c ; :room ?room ; :number ?n }
WHERE { BIND(IRI(CONCAT("http://example.org/", ?sensor)) AS ?s) }"""
CONTEXT = {"@vocab": "http://example.org/", "@base": "http://example.org/", "sensor": "@id", "ts": None}


def mapped(number: int) -> dict[str, tuple[int, float]]:
    """For each way to push so many records: how many triples they give, and how many of these a second."""
    records = [
        {
            "sensor": f"s{at % 50}",
            "value": {"c": 20 + at % 100 / 4},
            "ts": at,
            "room": f"room {at % 7}",
            "n": at,
        }
        for at in range(number)
    ]
    ways: dict[str, Any] = {
        "CONSTRUCT": {"construct": CONSTRUCT},
        "JSON-LD": {"jsonld": {"@context": CONTEXT}},
    }
    body = "\n".join(map(json.dumps, records)).encode()
    found: dict[str, tuple[int, float]] = {}
    options = DecodeOptions()
    for name, members in ways.items():
        mapping = compiled(read_declaration({**members, "time": "ts"}).text(), "http://localhost/")
        decoded = decode_mapped(body, "application/x-ndjson", mapping, options)
        triples = sum(len(each.statements) for each in decoded.elements)
        texts = [json.dumps({"at": each.at, "data": lines_of(each.statements)}) for each in decoded.elements]
        plain = "\n".join(texts).encode()
        seconds = best(lambda: decode_mapped(body, "application/x-ndjson", mapping, options))  # noqa: B023
        found[f"records by {name}"] = triples, triples / seconds
        seconds = best(lambda: decode(plain, "application/x-ndjson", options))  # noqa: B023
        found[f"the same as N-Triples ({name})"] = triples, triples / seconds
        whole, at = (
            "".join(lines_of(each.statements) for each in decoded.elements).encode(),
            DecodeOptions(at=0),
        )
        seconds = best(lambda: decode(whole, "application/n-triples", at))  # noqa: B023
        found[f"the same as one N-Triples ({name})"] = triples, triples / seconds
    return found


def best(work: Callable[[], object]) -> float:
    """CPU seconds of the best of three runs."""
    spent = []
    for _ in range(3):
        begin = time.thread_time()
        work()
        spent.append(time.thread_time() - begin)
    return min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=2000)
    options = parser.parse_args()
    elements = [taxi.element_of(trip) for trip in taxi.trips(options.elements)]
    triples = sum(len(element.quads) for element in elements)
    print(f"{'format':32}{'MB':>8}{'elements':>10}{'decode':>12}   (triples a second)")
    lines = []
    for name, (body, media_type, how) in bodies(elements).items():
        decoded = decode(body, media_type, how)
        assert sum(len(each.statements) for each in decoded.elements) == triples
        line = (
            name,
            round(len(body) / 1e6, 2),
            len(decoded.elements),
            round(triples / best(lambda: decode(body, media_type, how))),  # noqa: B023
        )
        lines.append(line)
        print(f"{line[0]:32}{line[1]:8.2f}{line[2]:10}{line[3]:12,}", flush=True)
    for name, (count, rate) in mapped(options.elements).items():
        lines.append((name, None, count, round(rate)))  # type: ignore[arg-type]
        print(f"{name:40}{count:10}{round(rate):12,}", flush=True)
    text = bodies(elements)["N-Triples, one element"][0].decode()
    readers = {
        "Oxigraph": round(triples / best(lambda: list(parse(text, RdfFormat.N_TRIPLES)))),
        "regular expression": round(triples / best(lambda: read_statements(text, RdfFormat.N_TRIPLES))),
    }
    for name, rate in readers.items():
        print(f"{name + ' on N-Triples lines':50}{rate:12,}")
    keep(
        "ingest",
        {"columns": ["format", "mb", "elements", "decode"], "lines": lines, "readers": readers},
    )


if __name__ == "__main__":
    main()
