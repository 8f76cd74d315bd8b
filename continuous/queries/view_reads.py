"""What a query reads of streams and of the store's graphs, and what it makes: where cycles are found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..algebra.graphs import graphs_read
from .prepare import PreparedQuery, streams_read


@dataclass(frozen=True, slots=True)
class Node:
    """A stream, or a graph of the store."""

    kind: str
    iri: str

    def __str__(self) -> str:
        return f"<{self.iri}>"


@dataclass(frozen=True, slots=True)
class Reads:
    """The streams and named graphs that a query reads.

    ``every``: all named graphs of the store; ``default_graph``: the store's own default graph.
    """

    streams: frozenset[str]
    graphs: frozenset[str]
    every: bool
    default_graph: bool

    def reads(self, node: Node) -> bool:
        """True when what is made there can change the query's answer."""
        if node.kind == "stream":
            return node.iri in self.streams
        return self.every or node.iri in self.graphs


def reads_of(prepared: PreparedQuery) -> Reads:
    """What a query reads, by its dataset clause (docs/semantics.md, section 1)."""
    query = prepared.query
    found = graphs_read(query.root)
    lenient = query.dialect == "cqels" and not prepared.registration.strict_dataset
    clause = query.dataset
    graphs: set[str] = set()
    if found.default:
        graphs.update(graph.value for graph in clause.default)
    all_named = not clause.named and (lenient or not clause.default)
    if found.every:
        graphs.update(graph.value for graph in clause.named)
    graphs.update(name.value for name in found.names if all_named or name in clause.named)
    own_default = found.default and not clause.default and (lenient or not clause.named)
    return Reads(frozenset(streams_read(query)), frozenset(graphs), found.every and all_named, own_default)


def makes_of(prepared: PreparedQuery) -> list[Node]:
    """The stream and the graph that a query makes."""
    made = []
    if prepared.makes_stream:
        made.append(Node("stream", prepared.result_iri or ""))
    if prepared.into_graph is not None:
        made.append(Node("graph", prepared.into_graph.value))
    return made


def cycle(prepared: PreparedQuery, others: Iterable[PreparedQuery]) -> tuple[Node, Node] | None:
    """What a query makes and what it would read of it, over others perhaps; None when there is no cycle."""
    own_made = makes_of(prepared)
    if not own_made:
        return None
    own = reads_of(prepared)
    edges = [(reads_of(other), makes_of(other)) for other in others]
    for made in own_made:
        reached, todo = set(), [made]
        while todo:
            node = todo.pop()
            if own.reads(node):
                return made, node
            if node not in reached:
                reached.add(node)
                for reads, makes in edges:
                    if reads.reads(node):
                        todo.extend(makes)
    return None
