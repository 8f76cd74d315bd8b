"""Mutilated texts: whatever comes in, a query or an error in words comes out, soon."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pytest

from quadrill.continuous.language import parse
from quadrill.continuous.language.parser import DIALECTS
from quadrill.store.errors import QueryTextError, ReportedError
from tests.examples import ALL

DATA = Path(__file__).parents[2] / "data"
PIECES = """{ } ( ) [ ] . ; , ?x $y <a> 's' " STREAM WINDOW GRAPH << >> <<( )>> {| |} ~
 FILTER SELECT AS NOW RANGE 3s PT1S * /
 ^ | ! = && -1 +2 1e5 "$N$" @en ^^ # \\ “ é a _:b COUNT(
 GROUP UNDEF VALUES NOT EXISTS IN OPTIONAL \0 p: p:x
 LIMIT 1 REGISTER FROM
 NAMED ON median( minutes 😀""".split()


def test_a_mutilated_text_never_crashes_the_parser() -> None:
    draw = random.Random(20260101)
    texts = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*-queries/*ql*"))]
    refused, slowest = 0, 0.0
    number = 600 if ALL else 150
    for _ in range(number):
        text = draw.choice(texts)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(text) + 1)
            if draw.random() < 0.6:
                text = f"{text[:at]} {draw.choice(PIECES)} {text[at:]}"
            else:
                text = text[:at] + text[at + draw.randint(1, 12) :]
        start = time.perf_counter()
        try:
            parse(text, dialect=draw.choice([None, *DIALECTS]), parameters={"Name": "x", "Author Name": "y"})
        except ReportedError as error:
            refused += 1
            told = [error.message, *(fault["message"] for fault in getattr(error, "faults", ()))]
            assert not [each for each in told if "__" in each or "Token(" in each or "ANON" in each]
            assert not isinstance(error, QueryTextError) or (error.line and error.column and error.excerpt)
        slowest = max(slowest, time.perf_counter() - start)
    assert refused > number / 2
    assert slowest < 5  # seconds; tens of milliseconds on an idle machine


N = 30_000
STREAM = "SELECT * WHERE { STREAM <urn:s> [RANGE %s] { ?a ?b ?c } }"
LONG = {
    "an open string": "SELECT * { ?s ?p " + '"' + '\\"' * N,
    "open long strings": "SELECT * { ?s ?p " + '"""' + '\\"""\n' * N,
    "escapes": "SELECT * { ?s ?p '" + "\\n" * N + "' }",
    "words of windows": "SELECT * { " + "STREAM-" * N,
    "a name of parts": "SELECT * { " + "a." * N,
    "letters beyond ASCII": "SELECT * { " + "é" * N,
    "a path": "SELECT * { ?s " + "<a>/" * N + "<b> ?o }",
    "alternatives": "SELECT * { ?s " + "<a>|" * N + "<b> ?o }",
    "the same alias": "SELECT " + "(COUNT(*) AS ?x) " * 5_000 + "{}",
    "unconnected patterns": "SELECT * { " + "".join(f"?s{n} <p> ?o{n} . " for n in range(4_900)) + "}",
    "a duration of digits": STREAM % ("1" * N + "s"),
    "a duration of parts": STREAM % ("1s" * N),
    "a long xsd:duration": STREAM % ("PT" + "1H" * N),
    "an instant of digits": STREAM % ("10s SLIDE 1s STARTING AT " + "1" * 5_000),
    "a limit of digits": "SELECT * { ?s ?p ?o } LIMIT " + "9" * N,
    "a number of digits": "SELECT * { ?s ?p ?o FILTER(?o > " + "9" * N + ") }",
}


@pytest.mark.slow_cases("alternatives", "a path")
@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_is_judged_soon_and_in_words(kind: str) -> None:
    start = time.process_time()
    for dialect in (None, "cqels"):
        with contextlib.suppress(ReportedError):
            parse(LONG[kind], dialect=dialect)
    assert time.process_time() - start < 20  # seconds; what is read twice for each character takes minutes
