"""One window or more of each kind, for the tests that draw windows."""

from __future__ import annotations

from pyoxigraph import NamedNode

from quadrill.continuous.algebra.nodes import Bgp, TriplePattern, Var
from quadrill.continuous.algebra.query import WindowSpec

BLOCK = Bgp((TriplePattern(Var("x"), NamedNode("http://example.org/p"), Var("y")),))
SPECS = (
    WindowSpec("now"),
    WindowSpec("range", width_ms=7),
    WindowSpec("past", width_ms=7, past_ms=2),
    WindowSpec("grid", width_ms=6, slide_ms=4),
    WindowSpec("grid", width_ms=3, slide_ms=5),
    WindowSpec("grid", width_ms=8, slide_ms=3, past_ms=4),
    WindowSpec("triples", count=2),
    WindowSpec("batch", count=2),
    WindowSpec("elements", count=3, step=2),
    WindowSpec("all"),
    WindowSpec("latest", count=2, width_ms=6, keys=(Var("x"),), pattern=BLOCK),
    WindowSpec("latest", count=2, keys=(Var("y"),), pattern=BLOCK),
    WindowSpec("session", width_ms=3, keys=(Var("x"),), pattern=BLOCK),
    WindowSpec("session", width_ms=4),
)
