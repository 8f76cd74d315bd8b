"""What the files of a mirror hold, for tests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyoxigraph import RdfFormat, serialize

from quadrill.store.bulk.mirror import Mirror
from quadrill.store.quads.quad_store import QuadStore

COLUMNS = ("s", "o", "g", "kind", "n", "d", "t")


def content(mirror: Mirror) -> Counter[tuple[Any, ...]]:
    """The rows of all files, each as often as it is there: the predicate, then `COLUMNS`."""
    import pyarrow.parquet as pq

    found: Counter[tuple[Any, ...]] = Counter()
    for name, facts in mirror.predicates.items():
        table = pq.read_table(mirror.quads / f"k={facts.key}", columns=list(COLUMNS), partitioning=None)
        columns = [table.column(each).to_pylist() for each in COLUMNS]
        found.update((name, *row) for row in zip(*columns, strict=True))
    return found


def lines(mirror: Mirror) -> list[str]:
    """Its quads as N-Quads, sorted."""
    return sorted(
        " ".join(each for each in (s, f"<{p}>", o, g) if each) + " ."
        for p, s, o, g, *_ in content(mirror).elements()
    )


def lines_of(store: QuadStore) -> list[str]:
    """The quads of a store as N-Quads, sorted."""
    data = serialize(store.reader.quads_for_pattern(), format=RdfFormat.N_QUADS) or b""
    return sorted(data.decode().splitlines())
