"""Conversion of pushed data to a request body and its media type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .records import is_frame, json_records

N_QUADS = "application/n-quads"
JSON = "application/json"
NDJSON = "application/x-ndjson"


def body_of(data: Any, media_type: str | None = None) -> tuple[bytes, str]:
    """Return the request body and the media type of pushed data.

    Args:
        data: graph or dataset of rdflib, quads or triples of pyoxigraph, one record or several records for a
            mapped stream (dicts, or a data frame of pandas, polars or Arrow), or text or bytes, which need
            ``media_type``.
        media_type: media type of text or bytes.

    Raises:
        TypeError: the data has any other type, or is text or bytes without ``media_type``.
        ValueError: a number of a record is infinite, or two columns of a data frame have one name.
    """
    if isinstance(data, str | bytes | bytearray):
        if media_type is None:
            raise TypeError("text and bytes need their media_type, for instance application/n-triples")
        return data.encode() if isinstance(data, str) else bytes(data), media_type
    if isinstance(data, Mapping):
        (record,) = json_records(data)
        return json.dumps(record).encode(), JSON
    if is_frame(data):
        return _lines(data)
    if hasattr(data, "serialize") and hasattr(data, "triples"):
        quads = hasattr(data, "quads") or hasattr(data, "graphs")
        text = data.serialize(format="nquads" if quads else "nt")
        return (text.encode() if isinstance(text, str) else text), N_QUADS
    if isinstance(data, Iterable):
        return _many(list(data))
    raise TypeError(f"{type(data).__name__} cannot be pushed")


def _many(items: list[Any]) -> tuple[bytes, str]:
    """Encode a list of records as NDJSON, or a list of triples or quads as N-Quads."""
    if all(isinstance(item, Mapping) for item in items):
        return _lines(items)
    if all(type(item).__name__ in ("Quad", "Triple") for item in items):
        # str() of a pyoxigraph triple or quad is its N-Quads line without the final dot.
        return "".join(f"{item} .\n" for item in items).encode(), N_QUADS
    raise TypeError("a list that is pushed holds dicts, or quads or triples of pyoxigraph")


def _lines(records: Any) -> tuple[bytes, str]:
    """Encode records, or the rows of a data frame, as NDJSON."""
    return "".join(json.dumps(record) + "\n" for record in json_records(records)).encode(), NDJSON
