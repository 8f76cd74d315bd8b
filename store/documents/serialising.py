"""Serialisation by Oxigraph, with clear errors for terms that a format cannot express.

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
"""Number of bytes at a block's end that wait for the next block; longer than a datatype's text."""


class NotExpressibleError(ReportedError):
    """A graph has a term that the requested RDF format cannot express: HTTP 406."""

    code = "not-acceptable"
    status = 406

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Ask for N-Quads, TriG, N-Triples or Turtle.")


class ByteWriter(Protocol):
    """A receiver of the bytes that a serialiser writes."""

    def write(self, data: bytes, /) -> object:
        """Receive a block of bytes from a serialiser."""
        ...


@contextmanager
def serialising() -> Iterator[None]:
    """Convert a serialiser's error about a term into a `NotExpressibleError`."""
    try:
        yield
    except OSError as error:
        refused = _REFUSED.search(str(error)) if error.errno is None else None
        if refused is None:
            raise
        raise NotExpressibleError(f"{refused[1]} cannot express the answer: {error}") from None


class PlainStringWriter:
    """Passes on a dump in which literals of `TAGGED_TYPES` without a language tag become plain strings.

    Earlier versions of this program stored literals of language types (`TAGGED_TYPES`) without a language
    tag, and parsers refuse them. Callers call `finish` after the last block of the dump.
    """

    def __init__(
        self, writer: ByteWriter, rdf_format: RdfFormat, prefixes: Mapping[str, str] | None = None
    ) -> None:
        self._writer = writer
        self._tail = b""
        self._spelling, self._plain = _spelling_of(rdf_format, prefixes or {})

    def write(self, block: bytes) -> int:
        """Pass on the end of the dump's previous block and this block without its end."""
        data = self._replaced(self._tail + block)
        cut = max(0, len(data) - _TAIL_BYTES)
        self._tail = data[cut:]
        if cut:
            self._writer.write(data[:cut])
        return len(block)

    def flush(self) -> None:
        """Do nothing on flush: serialisers flush at their end, and a call of `finish` follows."""

    def finish(self) -> None:
        """Pass on the remaining bytes of the dump to the writer."""
        if self._tail:
            self._writer.write(self._tail)
            self._tail = b""

    def _replaced(self, data: bytes) -> bytes:
        return self._spelling.sub(self._plain, data) if b"String" in data else data


def _spelling_of(rdf_format: RdfFormat, prefixes: Mapping[str, str]) -> tuple[re.Pattern[bytes], bytes]:
    """Return an expression for a language datatype as the RDF format writes it, and its replacement."""
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
    # A quotation mark ends a literal if an even number of backslashes precedes it.
    return re.compile(rb'(?<!\\)((?>\\\\)*+")\^\^(?:' + b"|".join(names) + rb")(?=[ \n,;.])"), rb"\1"
