"""Graphs that the server derives: their owners, and the changes that a derivation has missed."""

from __future__ import annotations

from contextlib import suppress

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import NetChange, graph_key
from quadrill.store.changes.owners import Owner
from quadrill.store.errors import ConflictError, GoneError, ReportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry

from ..language.parser import parse


def claim(store: QuadStore, graph: NamedNode, owner: Owner) -> None:
    """Give a graph to the owner that derives it.

    Raises:
        ConflictError: the graph has quads, or belongs to another owner.
    """
    with store.committer.lock:
        require_free(store, graph, owner)
        store.queue.own(graph, owner)


def require_free(store: QuadStore, graph: NamedNode, owner: Owner) -> None:
    """Raise ConflictError if a graph has quads, or belongs to another owner."""
    other = store.queue.owned.get(graph)
    if other is not None and other != owner:
        raise other.refusal(graph)
    if other is None and store.committer.counts.get(graph, 0):
        raise ConflictError(
            f"the graph {graph} has quads already; derived quads need a graph of their own",
            code="graph-not-empty",
            hint="drop the graph first, or choose another one for into",
            graph=graph_key(graph),
        )


def missed_changes(store: QuadStore, version: int) -> list[NetChange] | None:
    """Return the changes since a version, oldest first; None if they are unknown."""
    if version == store.committer.version:
        return []
    try:
        commits = list(store.commits_after(version))
    except GoneError:
        return None
    return [commit.net() for commit in commits] if all(commit.exact for commit in commits) else None


def own_views(store: QuadStore, registry: Registry) -> None:
    """Make queries the owners of the graphs of their views, before the engine restores the queries."""
    for record in registry.queries.all():
        graph: object = record.options.get("into_graph")
        with suppress(ReportedError, ValueError):
            if graph is None:
                query = parse(record.text)
                graph = None if query.into_graph is None else query.into_graph.value
            if isinstance(graph, str):
                store.queue.own(NamedNode(graph), Owner("view", record.name))


def own_reports(store: QuadStore, registry: Registry) -> None:
    """Make shapes the owners of the graphs of their reports, before any rule set or shapes are loaded."""
    for record in registry.shapes.all():
        for graph in (record.definition.get("into"), record.former):
            with suppress(ValueError):
                if isinstance(graph, str):
                    store.queue.own(NamedNode(graph), Owner("shapes", record.name))
