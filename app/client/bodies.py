"""What may be pushed, as the body of a request and its media type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

N_QUADS = "application/n-quads"
JSON = "application/json"
NDJSON = "application/x-ndjson"


def body_of(data: Any, media_type: str | None = None) -> tuple[bytes, str]:
    """The body and media type of some data.

    Args:
        data: a graph or dataset of rdflib, quads or triples of pyoxigraph, one record or several (dicts, for
            a mapped stream), or text or bytes, which need ``media_type``.
        media_type: of text or bytes.

    Raises: TypeError for anything else.
    """
    if isinstance(data, str | bytes | bytearray):
        if media_type is None:
            raise TypeError("text and bytes need their media_type, for instance application/n-triples")
        return data.encode() if isinstance(data, str) else bytes(data), media_type
    if isinstance(data, Mapping):
        return json.dumps(data, default=str).encode(), JSON
    if hasattr(data, "serialize") and hasattr(data, "triples"):
        quads = hasattr(data, "quads") or hasattr(data, "graphs")
        text = data.serialize(format="nquads" if quads else "nt")
        return (text.encode() if isinstance(text, str) else text), N_QUADS
    if isinstance(data, Iterable):
        return _many(list(data))
    raise TypeError(f"{type(data).__name__} cannot be pushed")


def _many(items: list[Any]) -> tuple[bytes, str]:
    """Several records, or several statements of one element."""
    if all(isinstance(item, Mapping) for item in items):
        return "".join(json.dumps(item, default=str) + "\n" for item in items).encode(), NDJSON
    if all(type(item).__name__ in ("Quad", "Triple") for item in items):
        # pyoxigraph's statements are their own N-Quads.
        return "".join(f"{item} .\n" for item in items).encode(), N_QUADS
    raise TypeError("a list that is pushed holds dicts, or quads or triples of pyoxigraph")
