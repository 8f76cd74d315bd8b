"""The number of quads of each graph, updated by every commit and recounted after bulk loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, QuerySolutions, Store

from ..documents.wall_clock import is_after_epoch
from .commit import Commit, GraphChange, GraphName, graph_key, graph_of_key

Counts = dict[GraphName, int]


def counts_of_keys(stored: Mapping[str, int]) -> Counts:
    """Convert the change log's quad counts to counts by graph name, the default graph included."""
    return {DefaultGraph(): 0} | {graph_of_key(key): count for key, count in stored.items()}


def keys_of_counts(counts: Counts) -> dict[str, int]:
    """Convert quad counts by graph name to the change log's form; the inverse of `counts_of_keys`."""
    return {graph_key(name): count for name, count in counts.items()}


def counts_after(counts: Counts, commits: Iterable[Commit]) -> dict[GraphName, int | None]:
    """Return the new quad counts of the graphs that commits changed; None for a dropped graph."""
    after: dict[GraphName, int | None] = {}
    for commit in commits:
        for key, change in commit.graphs.items():
            name = graph_of_key(key)
            known = after[name] if name in after else counts.get(name, 0)
            after[name] = (known or 0) + change.added - change.removed
        for dropped in commit.dropped:
            after[dropped] = None
    return after


def take_counts(counts: Counts, changed: Mapping[GraphName, int | None]) -> None:
    """Update quad ``counts`` by graph in place; readers in other threads copy the dict, which is atomic."""
    for name, count in changed.items():
        if count is None:
            counts.pop(name, None)
        else:
            counts[name] = count


def count_store(store: Store) -> Counts:
    """Count the quads of every graph by reading the whole store."""
    counts: Counts = {DefaultGraph(): 0}
    counts |= dict.fromkeys(store.named_graphs(), 0)
    if not is_after_epoch():  # Oxigraph cannot evaluate queries if the clock is before 1970
        for quad in store:
            counts[quad.graph_name] = counts.get(quad.graph_name, 0) + 1
        return counts
    total = store.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
    named = store.query("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g")
    assert isinstance(total, QuerySolutions) and isinstance(named, QuerySolutions)
    for solution in total:
        counts[DefaultGraph()] = int(solution[0].value)
    for solution in named:
        name = solution[0]
        if isinstance(name, (NamedNode, BlankNode)):
            counts[name] = int(solution[1].value)
    return counts


def bulk_commit(
    version: int, now_ms: int, before: Mapping[str, int], now: Mapping[str, int], cause: str | None
) -> Commit | None:
    """Return a bulk load's commit without quads, from quad counts before and after; None if equal."""
    graphs = {}
    for key in sorted(before.keys() | now.keys()):
        grown = now.get(key, 0) - before.get(key, 0)
        if grown or (key in before) != (key in now):
            graphs[key] = GraphChange(max(grown, 0), max(-grown, 0))
    if not graphs:
        return None
    created = [graph_of_key(key) for key in now if key not in before]
    return Commit(
        version,
        now_ms,
        created=tuple(name for name in created if not isinstance(name, DefaultGraph)),
        exact=False,
        graphs=graphs,
        cause=cause,
    )
