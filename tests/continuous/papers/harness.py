"""Runs a query of tests/data/paper-queries; its ISTREAM is compared with answers computed elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pyoxigraph import Quad, RdfFormat, parse

from quadrill.app.describing.queries import describe
from quadrill.continuous.engine import Registration
from quadrill.continuous.streams.push_call import PushCall

from ..engines import Bench

QUERIES = Path(__file__).parents[2] / "data" / "paper-queries"
Rows = Counter[tuple[str, ...]]


def told(
    name: str,
    quads: Sequence[Quad],
    stream: str,
    elements: Sequence[tuple[int, str]],
    end: int,
    **options: Any,
) -> tuple[dict[int, Rows], str]:
    """The rows that the feed inserts, by instant, and the engine that computed them.

    All ``elements`` (event time, N-Triples) go into one push; a heartbeat at ``end`` lets everything expire.
    """
    bench = Bench()
    bench.engine.start()
    try:
        bench.store.writer.apply(add=list(quads))
        text = (QUERIES / f"{name}.cqels").read_text(encoding="utf-8")
        bench.engine.queries.register(Registration.from_json({"query": text, **options}, name="q"))
        lines = "\n".join(json.dumps({"at": at, "data": data}) for at, data in elements)
        bench.engine.streams.push(PushCall(stream, "application/x-ndjson"), lines.encode())
        bench.engine.streams.heartbeat(stream, end)
        description = describe(bench.engine, "q")
        assert description["error"] is None, description["error"]
        found: dict[int, Rows] = {}
        for event in bench.engine.queries.feed("q").subscribe(0).take():
            document = json.loads(event.data)
            assert event.kind == "insert"
            found.setdefault(document["at"], Counter()).update(_rows(document))
        return found, description["engine"]
    finally:
        bench.engine.stop()
        bench.store.close()


def _rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    if "quads" in document:
        return [
            (quad.subject.value, quad.object.value)
            for quad in parse(input=document["quads"], format=RdfFormat.N_QUADS)
        ]
    names = document["head"]["vars"]
    return [tuple(row[name]["value"] for name in names) for row in document["results"]["bindings"]]


def istream(answer: Callable[[int], Rows], times: Iterable[int], widths: Iterable[int]) -> dict[int, Rows]:
    """What is new at each instant: Γ(t) − Γ(t−1) wherever an element enters or leaves a window."""
    instants: set[int] = set()
    for at in times:
        instants |= {at, at + 1, *(at + width + 1 for width in widths)}
    return {at: new for at in sorted(instants) if (new := answer(at) - answer(at - 1))}
