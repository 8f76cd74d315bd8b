"""Graphs as Oxigraph's serialisers write them: what a format cannot express is an error that says so.

Source: RDF 1.1 XML Syntax section 2.6 (reserved names; predicates must end in an XML name), JSON-LD 1.1
section 10 (data model).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from pyoxigraph import RdfFormat

from ..errors import ReportedError
from .parsing import TAGGED_TYPES

_REFUSED = re.compile(r"(RDF/XML|JSON-LD) (?:reserved|does not support)")
_TAIL_BYTES = 512
"""Bytes of a block that wait for the next one: longer than a datatype with what stands around it."""


class NotExpressibleError(ReportedError):
    """A graph has a term that the requested format has no form for: HTTP 406."""

    code = "not-acceptable"
    status = 406

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Ask for N-Quads, TriG, N-Triples or Turtle.")


class ByteWriter(Protocol):
    """The bytes that a serialiser writes go here."""

    def write(self, data: bytes, /) -> object:
        """Take a block."""
        ...


@contextmanager
def serialising() -> Iterator[None]:
    """Around a call of a serialiser: its refusal of a term becomes a `NotExpressibleError`."""
    try:
        yield
    except OSError as error:
        refused = _REFUSED.search(str(error)) if error.errno is None else None
        if refused is None:
            raise
        raise NotExpressibleError(f"{refused[1]} cannot express the answer: {error}") from None


class PlainStringWriter:
    """Passes a dump on with literals of `TAGGED_TYPES` that lack a language tag written as plain strings.

    Earlier releases stored such literals, and no parser takes them. Call `finish` after the last block.
    """

    def __init__(
        self, writer: ByteWriter, rdf_format: RdfFormat, prefixes: Mapping[str, str] | None = None
    ) -> None:
        self._writer = writer
        self._tail = b""
        self._spelling, self._plain = _spelling_of(rdf_format, prefixes or {})

    def write(self, block: bytes) -> int:
        """Pass on the block before, and of this one all but its end."""
        data = self._replaced(self._tail + block)
        cut = max(0, len(data) - _TAIL_BYTES)
        self._tail = data[cut:]
        if cut:
            self._writer.write(data[:cut])
        return len(block)

    def flush(self) -> None:
        """Serialisers flush at their end, where `finish` follows."""

    def finish(self) -> None:
        """Pass on the end of the dump."""
        if self._tail:
            self._writer.write(self._tail)
            self._tail = b""

    def _replaced(self, data: bytes) -> bytes:
        return self._spelling.sub(self._plain, data) if b"String" in data else data


def _spelling_of(rdf_format: RdfFormat, prefixes: Mapping[str, str]) -> tuple[re.Pattern[bytes], bytes]:
    """How the format writes the datatype of such a literal, and what stands in its place."""
    iris = b"|".join(re.escape(iri.encode()) for iri in sorted(TAGGED_TYPES))
    if rdf_format is RdfFormat.RDF_XML:
        return re.compile(b' rdf:datatype="(?:' + iris + b')"'), b""
    if rdf_format is RdfFormat.JSON_LD:
        return re.compile(b'"@type":"(?:' + iris + b')","@value":'), b'"@value":'
    names = [b"<(?:" + iris + b")>"]
    for prefix, namespace in prefixes.items():
        names += [
            re.escape(f"{prefix}:{iri.removeprefix(namespace)}".encode())
            for iri in TAGGED_TYPES
            if namespace and iri.startswith(namespace)
        ]
    # The quotation mark ends a literal where an even number of backslashes stands before it.
    return re.compile(rb'(?<!\\)((?:\\\\)*+")\^\^(?:' + b"|".join(names) + rb")(?=[ \n,;.])"), rb"\1"
