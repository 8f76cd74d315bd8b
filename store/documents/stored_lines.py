"""Parsing of N-Quads that this program wrote to logs, dumps and checkpoints, with terms of any length.

Oxigraph's parser accepts lines of at most 16 MiB, but the rest of Oxigraph handles longer terms. To read
every stored line of N-Quads, long terms are replaced before a line is parsed, and restored in the quads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from quadrill.store.errors import LimitError
from quadrill.store.terms import Term

_BLOCK = 1 << 20
_LONG = 4096
# The two characters of a triple term's bracket ``<<`` match together: the second one does not begin an IRI.
_TERM = re.compile(
    rb'<<|<[^>]*+>|"(?>[^"\\]++|\\.)*+"(?>@[A-Za-z0-9-]++|\^\^<[^>]*+>)?+|_:[^\s<>"]++', re.DOTALL
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_MEANT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def parse_stored_quads(lines: bytes) -> list[Quad]:
    """Return the quads of stored N-Quads lines; blank nodes keep their labels."""
    try:
        return list(parse(lines, RdfFormat.N_QUADS, lenient=True, rename_blank_nodes=False))
    except MemoryError:
        return _with_long_terms(lines)


def parse_stored_file(file: Path, block_bytes: int = _BLOCK) -> Iterator[Quad]:
    """Return the quads of a file of stored N-Quads lines, read block by block."""
    with file.open("rb") as stream:
        while block := stream.read(block_bytes):
            yield from parse_stored_quads(block + stream.readline())


def term_too_long(name: str) -> LimitError:
    """Return the error for a document with a term that is too long for Oxigraph's parser."""
    return LimitError(
        f"{name} is read up to 16 MiB a term", hint="Send longer literals by an update (INSERT DATA)."
    )


def plain_term(text: str) -> Term:
    """Return the term of an N-Quads text that is not a triple term."""
    if text[0] == "<":
        return NamedNode(text[1:-1])
    if text[0] == "_":
        return BlankNode(text[2:])
    value, kind = literal_parts(text)
    if not kind:
        return Literal(value)
    if kind[0] == "@":
        language, _, direction = kind[1:].partition("--")
        if direction:
            return Literal(value, language=language, direction=BaseDirection(direction))
        return Literal(value, language=language)
    return Literal(value, datatype=NamedNode(kind[3:-1]))


def literal_parts(text: str) -> tuple[str, str]:
    """Return the value of a literal in N-Quads, and the text after its quotation marks."""
    end = text.rindex('"')
    value = text[1:end]
    if "\\" in value:
        value = _ESCAPE.sub(_unescaped, value)
    return value, text[end + 1 :]


def _with_long_terms(lines: bytes) -> list[Quad]:
    name = b"urn:quadrill:long"
    while name in lines:
        name += b"x"
    long_terms: dict[NamedNode, Term] = {}

    def take(match: re.Match[bytes]) -> bytes:
        text = match[0]
        if len(text) < _LONG:
            return text
        place = b"%b:%d" % (name, len(long_terms))
        long_terms[NamedNode(place.decode())] = plain_term(text.decode())
        return b"<%b>" % place

    short = _TERM.sub(take, lines)
    return (
        [_put_back(quad, long_terms) for quad in parse_stored_quads(short)] if long_terms else _refuse(lines)
    )


def _refuse(lines: bytes) -> list[Quad]:
    raise MemoryError(f"{len(lines)} bytes of N-Quads without a long term cannot be read")


def _put_back(quad: Quad, long_terms: dict[NamedNode, Term]) -> Quad:
    parts = (quad.subject, quad.predicate, quad.object, quad.graph_name)
    return Quad(*(_term(part, long_terms) for part in parts))  # type: ignore[arg-type]  # each at its position


def _term(term: object, long_terms: dict[NamedNode, Term]) -> object:
    if isinstance(term, NamedNode):
        return long_terms.get(term, term)
    if isinstance(term, Triple):
        return Triple(*(_term(part, long_terms) for part in (term.subject, term.predicate, term.object)))  # type: ignore[arg-type]  # each at its position
    return term


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _MEANT.get(code, code)
