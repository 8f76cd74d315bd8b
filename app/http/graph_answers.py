"""Answers with RDF graphs from memory, in the format that the client asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import Triple, serialize

from quadrill.store.documents.serialising import serialising

from . import negotiation, xml_text
from .answers import WholeAnswer
from .request import Request


def graph_answer(
    request: Request, triples: Iterable[Triple], prefixes: Mapping[str, str], *, version: int | None = None
) -> WholeAnswer:
    """Return an answer with an RDF graph; ``version`` of the dataset is part of the header ETag.

    Raises:
        HttpError: 406 if the client accepts no RDF format.
    """
    chosen = negotiation.choose(request.accept, negotiation.graph_offers())
    assert chosen.rdf is not None
    given = negotiation.prefixes_for(chosen, prefixes)
    named = None if given is None else dict(given)
    with serialising():
        written = serialize(triples, format=chosen.rdf, prefixes=named)
    assert written is not None
    if chosen.convert is not None:
        written = chosen.convert(written)
    body = xml_text.xml_text(written) if chosen.name in xml_text.NAMES else written
    return WholeAnswer(200, {"Content-Type": chosen.header, "Vary": "Accept"}, body, version)
