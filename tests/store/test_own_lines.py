"""Lines that were written here are read again, however long their terms are."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, serialize

from quadrill.store.bulk.parts import quads_of
from quadrill.store.documents.stored_lines import parse_stored_file, parse_stored_quads
from quadrill.store.errors import LimitError
from quadrill.store.formats import parse_rdf, rdf_format
from quadrill.store.quads.quad_store import QuadStore

LONG = 17 << 20
"""More than Oxigraph's parser holds of a line."""
S, P, G = NamedNode("urn:s"), NamedNode("urn:p"), NamedNode("urn:g")
XML = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral")


WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from quadrill.store.quads.quad_store import QuadStore
store = QuadStore.open(Path(sys.argv[1]))
store.writer.update("INSERT DATA { <urn:a> <urn:b> '" + "x" * %d + "' }")
os.kill(os.getpid(), signal.SIGKILL)
"""


def odd_text(size: int) -> str:
    """Signs that are escaped or mean something else, up to 9,000, at both ends of what is longer."""
    odd = ('a"\\\n<_:b>' * 500)[: size // 2]
    return odd + "x" * (size - 2 * len(odd)) + odd


def quads(size: int) -> list[Quad]:
    text = odd_text(size)
    long = NamedNode("urn:" + "s" * min(size, 5_000))
    return [
        Quad(S, P, Literal("before"), DefaultGraph()),
        Quad(S, P, Literal(text), G),
        Quad(S, P, Literal(text, datatype=XML), BlankNode("g")),
        Quad(S, P, Literal(text, language="en-gb"), DefaultGraph()),
        Quad(NamedNode("urn:" + "s" * size), P, BlankNode("b"), NamedNode("urn:" + "g" * size)),
        Quad(S, P, Triple(S, P, Triple(S, P, Literal(text))), G),
        Quad(S, P, Triple(long, P, Triple(long, P, Literal(text))), G),
        Quad(S, P, Triple(BlankNode("b"), long, Triple(S, long, long)), long),
        Quad(S, P, Triple(NamedNode("urn:(" + "s" * min(size, 5_000)), P, Literal(text, datatype=XML)), G),
        Quad(S, P, Literal("<urn:quadrill:long:0>"), NamedNode("urn:quadrill:long:0")),
    ]


@pytest.mark.slow_cases(str(LONG))
@pytest.mark.parametrize("size", [0, 5_000, LONG])
def test_terms_of_any_length_are_read_as_they_were_written(size: int, tmp_path: Path) -> None:
    listed = quads(size)
    lines = serialize(listed, format=RdfFormat.N_QUADS)
    assert lines is not None
    assert parse_stored_quads(lines) == listed
    file = tmp_path / "lines.nq"
    file.write_bytes(lines)
    assert list(parse_stored_file(file, 1000 if size < LONG else 1 << 20)) == listed
    assert list(quads_of([file])) == listed


@pytest.mark.process
def test_a_long_literal_is_there_after_a_kill(tmp_path: Path) -> None:
    child = subprocess.run([sys.executable, "-c", WRITE_AND_DIE % LONG, str(tmp_path / "data")], timeout=100)
    assert child.returncode == -signal.SIGKILL
    store = QuadStore.open(tmp_path / "data")
    _, rows = store.reader.solutions("SELECT (STRLEN(?o) AS ?n) { ?s <urn:b> ?o }")
    assert [row[0] for row in rows] == [Literal(LONG)]
    store.close()


@pytest.mark.parametrize("form", ["text/turtle", "application/n-triples", "application/trig"])
def test_a_document_with_a_longer_term_is_told_why_it_is_refused(form: str) -> None:
    kind = rdf_format(form)
    assert kind is not None
    with pytest.raises(LimitError, match="16 MiB a term"):
        list(parse_rdf(f'<urn:a> <urn:b> "{"x" * LONG}" .'.encode(), kind))
