"""How fast pushes are read: bytes to elements, for each format, the same trips in all of them.

Run: ``python -m benchmarks.ingest [--elements N]``. CPU time of one thread, best of three: the
parsing, the finding of elements and bringing their terms into the store's form, as a push does. The
last two lines compare two readers of N-Triples lines: Oxigraph's parser, which is used, and a strict regular
expression that makes the same terms in Python, which is not (docs/decisions/0091).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, parse, serialize

from quadrill.continuous.inputs import Element
from quadrill.continuous.streams.decode import DecodeOptions, decode

from . import taxi
from .results import keep

_IRI = r'<([^\x00-\x20<>"{}|^`\\]*)>'
LINE = re.compile(
    rf'{_IRI} {_IRI} (?:{_IRI}|"([^"\\\n\r]*)"(?:\^\^{_IRI}|@([a-zA-Z]+(?:-[a-zA-Z0-9]+)*))?) \.\n'
)


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


def best(work: Callable[[], object]) -> float:
    """CPU seconds of the best of three runs."""
    spent = []
    for _ in range(3):
        begin = time.thread_time()
        work()
        spent.append(time.thread_time() - begin)
    return min(spent)


def by_expression(text: str) -> list[Quad]:
    """The quads of strict N-Triples lines by a regular expression; predicates are remembered."""
    default = DefaultGraph()
    known: dict[str, NamedNode] = {}
    found = []
    for subject, predicate, iri, value, datatype, language in LINE.findall(text):
        item: NamedNode | Literal
        if iri:
            item = NamedNode(iri)
        elif datatype:
            item = Literal(
                value, datatype=known.get(datatype) or known.setdefault(datatype, NamedNode(datatype))
            )
        else:
            item = Literal(value, language=language) if language else Literal(value)
        node = known.get(predicate) or known.setdefault(predicate, NamedNode(predicate))
        found.append(Quad(NamedNode(subject), node, item, default))
    return found


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
    text = bodies(elements)["N-Triples, one element"][0].decode()
    by_parser = list(parse(input=text, format=RdfFormat.N_TRIPLES))
    assert by_expression(text) == by_parser
    readers = {
        "Oxigraph": round(triples / best(lambda: list(parse(input=text, format=RdfFormat.N_TRIPLES)))),
        "regular expression": round(triples / best(lambda: by_expression(text))),
    }
    for name, rate in readers.items():
        print(f"{name + ' on N-Triples lines':50}{rate:12,}")
    keep(
        "ingest",
        {"columns": ["format", "mb", "elements", "decode"], "lines": lines, "readers": readers},
    )


if __name__ == "__main__":
    main()
