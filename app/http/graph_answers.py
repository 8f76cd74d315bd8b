"""Answers with RDF graphs from memory, in the format that the client asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import Quad, Triple, serialize

from quadrill.store.documents.serialising import serialising

from . import negotiation, xml_text
from .answers import WholeAnswer
from .negotiation import Offer
from .request import Request


def graph_answer(
    request: Request, triples: Iterable[Triple], prefixes: Mapping[str, str], *, version: int | None = None
) -> WholeAnswer:
    """Return an answer with an RDF graph; ``version`` of the dataset is part of the header ETag.

    Raises:
        HttpError: 406 if the client accepts no RDF format.
    """
    chosen = negotiation.choose(request.accept, negotiation.graph_offers())
    body = graph_bytes(triples, chosen, negotiation.prefixes_for(chosen, prefixes))
    return WholeAnswer(200, {"Content-Type": chosen.header, "Vary": "Accept"}, body, version)


def graph_bytes(
    items: Iterable[Triple] | Iterable[Quad], chosen: Offer, prefixes: Mapping[str, str] | None = None
) -> bytes:
    """Return triples or quads in a format, whose ``rdf`` is not None."""
    assert chosen.rdf is not None
    named = None if prefixes is None else dict(prefixes)
    with serialising():
        written = serialize(items, format=chosen.rdf, prefixes=named)
    assert written is not None
    return formatted(written, chosen)


def formatted(written: bytes, chosen: Offer) -> bytes:
    """Return what Oxigraph has written, converted to the format and without characters that XML forbids."""
    converted = written if chosen.convert is None else chosen.convert(written)
    return xml_text.xml_text(converted) if chosen.name in xml_text.NAMES else converted
