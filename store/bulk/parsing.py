"""Parsing of source files to canonical N-Quads, and reports of malformed lines with line number and reason.

N-Triples and N-Quads are parsed in batches of lines; a batch with an error is parsed again line by line, so
that only malformed lines are omitted. Oxigraph's own error recovery is not used, because it omits good lines
and reports wrong positions. A malformed document in Turtle, TriG, RDF/XML or JSON-LD is omitted completely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from pyoxigraph import DefaultGraph, NamedNode, RdfFormat, parse, serialize

from ..documents.parsing import without_mark
from ..documents.stored_lines import parse_stored_quads
from ..errors import LimitError, RdfSyntaxError
from ..formats import RdfLimits, RdfType, parse_rdf, rdf_error
from .sources import Chunk, SourceFile, lines_of, open_source

DOCUMENT_BYTES = 2 << 30
"""Maximum size in bytes of a document in Turtle, TriG, RDF/XML or JSON-LD, which is read into memory."""

_TEXT_KEPT = 4_000
_BLOCK = 20_000
_LABEL = re.compile(rb'"(?>[^"\\]++|\\.)*+"|<[^<>]*+>|_:[^\s<>"]+')
_DEPTH = RdfLimits().term_depth


@dataclass(frozen=True, slots=True)
class ParseRules:
    """The settings with which every chunk of a bulk load is parsed.

    Attributes:
        graph: the IRI of the graph to which triples are added; None is the default graph. With a graph IRI,
            a line of a source with a named graph is a bad line.
        base_iri: the base IRI of relative IRIs; without a base IRI, a relative IRI in N-Triples or N-Quads
            makes its line bad.
        seed: a random text of the load, which makes the blank node labels of the load unique.
    """

    graph: str | None
    base_iri: str | None
    seed: str


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A malformed line that was omitted; ``line`` is its number in the chunk from 1, or 0 if unknown."""

    line: int
    reason: str
    text: str


@dataclass(slots=True)
class Batch:
    """The canonical N-Quads of a block of source lines, and the malformed lines of the block.

    ``rows`` is the number of quads; ``lines`` the number of source lines, 0 for a block of a document whose
    format is not line-based.
    """

    data: bytes = b""
    rows: int = 0
    lines: int = 0
    bad: list[SkippedLine] = field(default_factory=list)


def parse_chunk(
    source: SourceFile, chunk: Chunk, rules: ParseRules, *, keep_labels: bool = False
) -> Iterator[Batch]:
    """Yield parsed batches of a source chunk; blank nodes get new labels unless ``keep_labels`` is True.

    Raises:
        OSError, EOFError, zlib.error, zstandard.ZstdError: the source file cannot be read or decompressed.
    """
    relabel = None if keep_labels else _Relabel(f"{rules.seed} {chunk.source}")
    if not source.by_line:
        yield from _document(source, rules, relabel)
        return
    line = 0
    for lines in lines_of(source, chunk):
        if line == 0 and not chunk.start:
            lines[0] = without_mark(lines[0])
        batch = Batch(lines=len(lines))
        _parse_lines(lines, line, source.kind, rules, relabel, batch)
        line += len(lines)
        yield batch


def _parse_lines(
    lines: list[bytes], before: int, kind: RdfType, rules: ParseRules, relabel: _Relabel | None, batch: Batch
) -> None:
    body = b"".join(lines)
    if body.count(b"<<") <= _DEPTH:
        try:
            _add(batch, _canonical(body, kind, rules), rules, relabel)
            return
        except (SyntaxError, ValueError):
            pass  # the lines of the batch are parsed one by one below, which finds the malformed lines
    good: list[bytes] = []
    for number, line in enumerate(lines, before + 1):
        if line.count(b"<<") > _DEPTH:
            batch.bad.append(_bad(number, f"triple terms nest deeper than {_DEPTH} levels", line))
            continue
        try:
            good.append(_canonical(line, kind, rules))
        except SyntaxError as error:
            batch.bad.append(_bad(number, _reason(error), line))
        except ValueError as error:
            batch.bad.append(_bad(number, str(error), line))
    _add(batch, b"".join(good), rules, relabel)


def _canonical(body: bytes, kind: RdfType, rules: ParseRules) -> bytes:
    one_graph = rules.graph is not None
    try:
        quads = parse(body, kind.format, base_iri=rules.base_iri, without_named_graphs=one_graph)
        return serialize(quads, format=RdfFormat.N_QUADS) or b""
    except MemoryError:
        long = parse_stored_quads(body)
    if one_graph and any(not isinstance(quad.graph_name, DefaultGraph) for quad in long):
        raise ValueError("a named graph, where one graph is loaded")
    return serialize(long, format=RdfFormat.N_QUADS) or b""


def _add(batch: Batch, data: bytes, rules: ParseRules, relabel: _Relabel | None) -> None:
    if relabel is not None and b"_:" in data:
        data = relabel(data)
    if rules.graph is not None:
        # N-Quads escapes line feeds in literals, so a full stop with a line feed occurs only at the end of a
        # line.
        data = data.replace(b" .\n", f" {NamedNode(rules.graph)} .\n".encode())
    batch.data += data
    batch.rows += data.count(b"\n")


class _Relabel:
    """A function object that replaces blank node labels by hashes, unique per source file and load."""

    def __init__(self, seed: str) -> None:
        self._key = blake2b(seed.encode(), digest_size=32).digest()

    def __call__(self, data: bytes) -> bytes:
        return b"".join(
            _LABEL.sub(self._token, line) if b"_:" in line else line
            for line in data.splitlines(keepends=True)
        )

    def _token(self, match: re.Match[bytes]) -> bytes:
        token = match.group()
        if not token.startswith(b"_:"):
            return token
        digest = blake2b(token, digest_size=16, key=self._key).hexdigest()
        # Oxigraph stores blank node labels of 32 hexadecimal digits compactly, as numbers. The first
        # character of a blank node label is a letter, because labels must not begin with a digit here.
        return b"_:" + ("abcdef"[int(digest[0], 16) % 6] + digest[1:]).encode()


def _document(source: SourceFile, rules: ParseRules, relabel: _Relabel | None) -> Iterator[Batch]:
    batch = Batch()
    try:
        with open_source(source) as stream:
            body = stream.read(DOCUMENT_BYTES + 1)
        if len(body) > DOCUMENT_BYTES:
            raise LimitError(
                f"the document has more than {DOCUMENT_BYTES:,} bytes: write it as N-Quads or N-Triples"
            )
        quads = list(
            parse_rdf(
                body,
                source.kind,
                base_iri=rules.base_iri or Path(source.path).as_uri(),
                without_named_graphs=rules.graph is not None,
                rename_blank_nodes=False,
            )
        )
    except RdfSyntaxError as error:
        place = error.line or 0
        text = body.split(b"\n", place)[place - 1] if place else b""
        batch.bad.append(_bad(place, f"the whole document is left out: {error.message}", text))
        yield batch
        return
    except LimitError as error:
        batch.bad.append(_bad(0, f"the whole document is left out: {error.message}", b""))
        yield batch
        return
    for at in range(0, len(quads), _BLOCK):
        batch = Batch()
        _add(batch, serialize(quads[at : at + _BLOCK], format=RdfFormat.N_QUADS) or b"", rules, relabel)
        yield batch


def _reason(error: SyntaxError) -> str:
    kind = RdfType("line", RdfFormat.N_QUADS, (), (), True)
    return re.sub(r"^malformed line( at line 1, column (\d+))?: ", _column, rdf_error(error, kind).message)


def _column(match: re.Match[str]) -> str:
    return f"column {match.group(2)}: " if match.group(2) else ""


def _bad(line: int, reason: str, text: bytes) -> SkippedLine:
    shown = text.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    if len(shown) > _TEXT_KEPT:
        shown = f"{shown[:_TEXT_KEPT]} … ({len(text):,} bytes)"
    return SkippedLine(line, reason, shown)
