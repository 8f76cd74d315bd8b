"""TriX and HexTuples, which Oxigraph does not have, through rdflib's codecs.

Both go by way of N-Quads and are held in memory whole, so that their size is limited.
"""

from __future__ import annotations

import re
from functools import partial

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, parse, serialize
from rdflib import Dataset
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID

from quadrill.store.errors import LimitError, RdfSyntaxError, UnsupportedError

from .negotiation import MOST_CONVERTED, Offer, register

NAMES = {"trix": "TriX", "hext": "HexTuples"}
READABLE = {"application/trix": "trix", "application/hex+x-ndjson": "hext"}
_BLANK_GRAPH = re.compile(rb"<graph[^<>]*+>\s*+<id[\s>]")
_DEFAULT_NAME = re.compile(
    rb"\n[ \t]*+<uri>" + re.escape(str(DATASET_DEFAULT_GRAPH_ID).encode()) + rb"</uri>"
)
_DEFAULT = NamedNode(str(DATASET_DEFAULT_GRAPH_ID))


def read(body: bytes, codec: str) -> bytes:
    """A document as N-Quads.

    Raises:
        RdfSyntaxError: malformed, or not UTF-8.
        UnsupportedError: a graph of TriX that is named by a blank node.
        LimitError: too large, or with a document type declaration, whose entities may expand.
    """
    _check_size(body, codec)
    if codec == "trix" and (b"<!DOCTYPE" in body or b"\0" in body):
        raise LimitError("a TriX document must be UTF-8 and have no document type declaration")
    if codec == "trix" and _BLANK_GRAPH.search(body):
        raise UnsupportedError("graphs of TriX that are named by blank nodes", hint="Send TriG or N-Quads.")
    dataset = Dataset()
    try:
        dataset.parse(data=body.decode("utf-8"), format=codec)
        text = dataset.serialize(format="nquads")
    except Exception as error:
        # rdflib's codecs raise whatever their libraries do, down to plain Exception.
        raise RdfSyntaxError(f"malformed {NAMES[codec]}: {error}") from error
    quads = [
        # To rdflib a graph of TriX without a name is one of a blank node.
        Quad(q.subject, q.predicate, q.object, DefaultGraph())
        if q.graph_name == _DEFAULT or (codec == "trix" and isinstance(q.graph_name, BlankNode))
        else q
        for q in parse(text.encode(), RdfFormat.N_QUADS)
    ]
    written = serialize(quads, format=RdfFormat.N_QUADS)
    assert written is not None  # without an output it gives the bytes
    return written


def write(quads: bytes, codec: str) -> bytes:
    """N-Quads in another format.

    Raises: UnsupportedError for triple terms, which neither format can express.
    """
    dataset = Dataset()
    try:
        dataset.parse(data=quads.decode("utf-8"), format="nquads")
    except Exception as error:
        raise UnsupportedError(
            f"RDF 1.2 terms in {NAMES[codec]}", hint="Ask for N-Quads, TriG or Turtle."
        ) from error
    text = dataset.serialize(format=codec, encoding="utf-8")
    if codec == "hext":
        # rdflib writes the default graph twice.
        return b"".join(dict.fromkeys(text.splitlines(keepends=True)))
    return _DEFAULT_NAME.sub(b"", text)


def _check_size(data: bytes, codec: str) -> None:
    if len(data) > MOST_CONVERTED:
        raise LimitError(
            f"{NAMES[codec]} is read up to {MOST_CONVERTED >> 20} MiB",
            hint="Use N-Quads, which is streamed.",
        )


for _media_type, _codec in READABLE.items():
    register(Offer(_codec, _media_type, rdf=RdfFormat.N_QUADS, convert=partial(write, codec=_codec)))
