"""Commits with exact sets of added and removed quads and graph names, and their RDF Patch text.

Triggers, caches and the change feed follow the store commit by commit. A `Commit` contains effective changes
only: inserting an existing quad, or deleting and inserting the same quad, changes nothing. Terms of a commit
have the store's canonical form (Oxigraph canonicalises numbers, dates and language tags).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, serialize

GraphName: TypeAlias = NamedNode | BlankNode | DefaultGraph

DEFAULT_GRAPH_KEY = "default"
"""The key of the default graph in `Commit.graphs`; no IRI equals it, because it has no colon."""


class NetChange(NamedTuple):
    """A net change of the dataset: quads and graph names to remove first, and those to add then."""

    added: tuple[Quad, ...] = ()
    removed: tuple[Quad, ...] = ()
    created: tuple[NamedNode | BlankNode, ...] = ()
    dropped: tuple[NamedNode | BlankNode, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.created or self.dropped)

    def inverse(self) -> NetChange:
        """Return the inverse net change, which undoes this change."""
        return NetChange(self.removed, self.added, self.dropped, self.created)


class GraphChange(NamedTuple):
    """The numbers of quads that a commit added to one graph and removed from it."""

    added: int
    removed: int


_NO_GRAPHS: Mapping[str, GraphChange] = {}


class Commit(NamedTuple):
    """A commit: one atomic change of the dataset.

    Attributes:
        version: the version of the dataset after this commit; versions are contiguous within an epoch.
        at_ms: wall clock time of the commit, milliseconds since the epoch.
        added: the quads that the commit inserted.
        removed: the quads that the commit deleted.
        created: the graph names that the commit added to the list of graphs.
        dropped: the graph names that the commit removed from the list of graphs.
        exact: False for a bulk load, whose quads are counted in ``graphs`` and not listed.
        graphs: the numbers of added and removed quads of each graph, by `graph_key`.
        cause: what asked for the commit, for instance ``update``; triggers read it to cut loops.
        inferred: the keys of the changed graphs whose quads rule sets infer, or shapes report.
        violations: number of violations that the commit adds to shapes with mode warn; not logged.
        changed: False when nothing changed; such a commit takes no version and is not logged.
    """

    version: int
    at_ms: int
    added: tuple[Quad, ...] = ()
    removed: tuple[Quad, ...] = ()
    created: tuple[NamedNode | BlankNode, ...] = ()
    dropped: tuple[NamedNode | BlankNode, ...] = ()
    exact: bool = True
    graphs: Mapping[str, GraphChange] = _NO_GRAPHS
    cause: str | None = None
    inferred: frozenset[str] = frozenset()
    violations: int = 0
    changed: bool = True

    def __hash__(self) -> int:
        return hash((self.version, self.at_ms))

    @property
    def asserted_graphs(self) -> Mapping[str, GraphChange]:
        """``graphs`` without the graphs whose quads rule sets infer."""
        return {key: change for key, change in self.graphs.items() if key not in self.inferred}

    @property
    def inferred_graphs(self) -> Mapping[str, GraphChange]:
        """``graphs`` with only the graphs whose quads rule sets infer."""
        return {key: self.graphs[key] for key in self.inferred}

    def net(self) -> NetChange:
        """Return the net change of an exact commit."""
        return NetChange(self.added, self.removed, self.created, self.dropped)

    def touches(
        self, graphs: frozenset[GraphName] | None = None, predicates: frozenset[NamedNode] | None = None
    ) -> bool:
        """Return True if a commit may affect a reader of these graphs and predicates (None: any).

        An added or removed graph name affects only readers without a restriction of predicates. A commit
        without exact change set affects every reader of its graphs.
        """
        if predicates is None or not self.exact:
            return graphs is None or any(graph_key(name) in self.graphs for name in graphs)
        return any(
            quad.predicate in predicates and (graphs is None or quad.graph_name in graphs)
            for quads in (self.added, self.removed)
            for quad in quads
        )


def graph_key(name: GraphName) -> str:
    """Return the key of a graph in commits: its IRI, ``_:id`` for a blank node, or ``default``."""
    match name:
        case NamedNode():
            return name.value
        case BlankNode():
            return f"_:{name.value}"
        case _:
            return DEFAULT_GRAPH_KEY


def graph_of_key(key: str) -> GraphName:
    """Return the graph name of a graph's key in commits; the inverse of `graph_key`."""
    if key == DEFAULT_GRAPH_KEY:
        return DefaultGraph()
    if key.startswith("_:"):
        return BlankNode(key[2:])
    return NamedNode(key)


def count_graphs(
    added: Iterable[Quad], removed: Iterable[Quad], names: Iterable[NamedNode | BlankNode] = ()
) -> dict[str, GraphChange]:
    """Count the quads of a commit by graph; created or dropped ``names`` may have zero counts."""
    counts: dict[GraphName, list[int]] = {name: [0, 0] for name in names}
    for place, quads in enumerate((added, removed)):
        for quad in quads:
            counts.setdefault(quad.graph_name, [0, 0])[place] += 1
    return {graph_key(name): GraphChange(plus, minus) for name, (plus, minus) in counts.items()}


def without_inferred(commit: Commit) -> Commit:
    """Return the commit without the changes of the graphs of rule sets."""
    hidden = commit.inferred
    if not hidden:
        return commit
    return commit._replace(
        added=tuple(quad for quad in commit.added if graph_key(quad.graph_name) not in hidden),
        removed=tuple(quad for quad in commit.removed if graph_key(quad.graph_name) not in hidden),
        created=tuple(name for name in commit.created if graph_key(name) not in hidden),
        dropped=tuple(name for name in commit.dropped if graph_key(name) not in hidden),
        graphs={key: change for key, change in commit.graphs.items() if key not in hidden},
        inferred=frozenset(),
    )


def rdf_patch(commit: Commit, *, inferred: bool = False) -> str:
    """Return the commit as one RDF Patch document (https://afs.github.io/rdf-delta/rdf-patch.html).

    Removals come before additions. RDF Patch has no rows for added and removed graph names, so these are
    header rows ``H created`` and ``H dropped``; ``H version`` holds the version. Blank nodes keep the
    store's labels. The changes of rule sets' graphs are left out unless ``inferred`` is True, because a
    reader with the same rules derives them itself.

    Raises:
        ValueError: the commit is not exact, so there are no quads to write.
    """
    if not commit.exact:
        raise ValueError(f"commit {commit.version} is a bulk load and has no exact change set")
    if not inferred:
        commit = without_inferred(commit)
    lines = [f'H version "{commit.version}" .']
    lines += [f"H dropped {name} ." for name in commit.dropped]
    lines += [f"H created {name} ." for name in commit.created]
    lines.append("TX .")
    lines += [f"D {line}" for line in _nquads(commit.removed)]
    lines += [f"A {line}" for line in _nquads(commit.added)]
    lines.append("TC .")
    return "\n".join(lines) + "\n"


def _nquads(quads: tuple[Quad, ...]) -> list[str]:
    data = serialize(quads, format=RdfFormat.N_QUADS) or b""
    # Only \n ends a line of an RDF Patch: other line separators may stand unescaped in literals.
    return data.decode().split("\n")[:-1]
