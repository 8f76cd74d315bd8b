"""Mutilated texts: whatever comes in, a query or an error in words comes out, soon."""

from __future__ import annotations

import random
import time
from pathlib import Path

from quadrill.continuous.language import parse
from quadrill.continuous.language.parser import DIALECTS
from quadrill.store.errors import QuadrillError, QueryTextError

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
    for _ in range(600):
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
        except QuadrillError as error:
            refused += 1
            told = [error.message, *(fault["message"] for fault in getattr(error, "faults", ()))]
            assert not [each for each in told if "__" in each or "Token(" in each or "ANON" in each]
            assert not isinstance(error, QueryTextError) or (error.line and error.column and error.excerpt)
        slowest = max(slowest, time.perf_counter() - start)
    assert refused > 300
    assert slowest < 5  # seconds; tens of milliseconds on an idle machine
