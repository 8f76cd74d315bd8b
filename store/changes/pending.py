"""Pending changes: layers of effective, uncommitted changes over a view of the dataset.

    StoreView(store)  <-  PendingChanges (the group being committed)  <-  PendingChanges (one request of it)

In each layer of pending changes, ``added`` is disjoint from the view below, and ``removed`` is a subset of
the view below; the same holds for the graph names ``created`` and ``dropped``. In pending changes, a quad
that is deleted and inserted again is therefore no change, whatever the number of operations between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Store

from ..terms import Term
from .commit import GraphName, NetChange
from .owners import Owners

_UNINDEXED = 16
"""Maximum number of added quads that are scanned for each match; more quads get an index."""
_NO_QUADS: dict[Quad, None] = {}
_NO_OWNERS: Owners = {}
_Index = dict[tuple[int, Term], dict[Quad, None]]


class StoreView:
    """A view of the committed dataset, which lies below all layers of pending changes.

    Attributes:
        owned: the owners of graphs.
    """

    def __init__(self, store: Store, owned: Owners = _NO_OWNERS) -> None:
        self._store = store
        self.owned = owned

    def contains(self, quad: Quad) -> bool:
        """Return True if the committed dataset contains the quad."""
        return quad in self._store

    def has_graph(self, name: NamedNode | BlankNode) -> bool:
        """Return True if the dataset has the graph name, even if the graph is empty."""
        return self._store.contains_named_graph(name)

    def graph_names(self) -> Iterator[NamedNode | BlankNode]:
        """Return the graph names of the dataset, those of empty graphs included."""
        return iter(self._store.named_graphs())

    def quads_of(self, name: GraphName) -> Iterator[Quad]:
        """Iterate over the quads of one graph; the iterator must not leave the calling thread."""
        return iter(self._store.quads_for_pattern(None, None, None, name))

    def quads_with(self, predicate: NamedNode | None, graph: GraphName | None) -> Iterator[Quad]:
        """Iterate over the quads with a predicate in a graph; None is a wildcard. See `quads_of`."""
        return iter(self._store.quads_for_pattern(None, predicate, None, graph))

    def subjects_and_objects(
        self, predicate: NamedNode, graphs: Sequence[GraphName] | None
    ) -> Iterable[Sequence[Term]]:
        """Iterate over the subjects and objects of the triples with a predicate; see `quads_with`.

        Args:
            predicate: the predicate.
            graphs: the graphs with the triples; None for all graphs. A triple in several graphs may repeat.
        """
        if graphs is None:
            options: dict[str, Any] = {"use_default_graph_as_union": True}
        else:
            options = {"default_graph": list(graphs)}
        # A query does not decode the predicate and the graph of each quad.
        return self._store.query(f"SELECT ?s ?o {{ ?s {predicate} ?o }}", **options)  # type: ignore[return-value]

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: GraphName | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern; None is a wildcard, also for the graph."""
        return list(self._store.quads_for_pattern(subject, predicate, object, graph))

    def few(self, subject: NamedNode | BlankNode | None, object: Term | None, most: int) -> list[Quad] | None:
        """Return the quads with a subject or an object (the other is None); None if more than ``most``."""
        found = list(islice(self._store.quads_for_pattern(subject, None, object, None), most + 1))
        return found if len(found) <= most else None


class PendingChanges:
    """A layer of uncommitted changes over a view of the dataset; the layer is a view itself."""

    def __init__(self, below: StoreView | PendingChanges) -> None:
        self._below = below
        self.owned: Owners = below.owned
        # Dicts keep the order in which changes were made, so that a commit reads like its request.
        self._added: dict[Quad, None] = {}
        # The added quads by position and term; None as long as no reader needs the index.
        self._index: _Index | None = None
        self._removed: dict[Quad, None] = {}
        self._created: dict[NamedNode | BlankNode, None] = {}
        self._dropped: dict[NamedNode | BlankNode, None] = {}

    # --- the view -----------------------------------------------------------------------------

    def contains(self, quad: Quad) -> bool:
        """Return True if the dataset contains the quad after the pending changes of this layer."""
        if quad in self._added:
            return True
        return quad not in self._removed and self._below.contains(quad)

    def has_graph(self, name: NamedNode | BlankNode) -> bool:
        """Return True if the dataset has the graph name after the pending changes of this layer."""
        if name in self._created:
            return True
        return name not in self._dropped and self._below.has_graph(name)

    def graph_names(self) -> Iterator[NamedNode | BlankNode]:
        """Iterate over the dataset's graph names after the pending changes of this layer."""
        for name in self._below.graph_names():
            if name not in self._dropped:
                yield name
        yield from self._created

    def quads_of(self, name: GraphName) -> Iterator[Quad]:
        """Iterate over the quads of one graph after the pending changes of this layer."""
        for quad in self._below.quads_of(name):
            if quad not in self._removed:
                yield quad
        for quad in self._added:
            if quad.graph_name == name:
                yield quad

    def quads_with(self, predicate: NamedNode | None, graph: GraphName | None) -> Iterator[Quad]:
        """Iterate over quads with a predicate in a graph after this layer's changes; None is a wildcard."""
        for quad in self._below.quads_with(predicate, graph):
            if quad not in self._removed:
                yield quad
        for quad in self._candidates(None, predicate, None):
            if (predicate is None or quad.predicate == predicate) and (
                graph is None or quad.graph_name == graph
            ):
                yield quad

    def subjects_and_objects(
        self, predicate: NamedNode, graphs: Sequence[GraphName] | None
    ) -> Iterable[Sequence[Term]]:
        """Iterate over the subjects and objects of triples; see `StoreView.subjects_and_objects`."""
        if any(quad.predicate == predicate for quad in self._removed):
            every = (
                quad
                for each in ((None,) if graphs is None else graphs)
                for quad in self.quads_with(predicate, each)
            )
            return ((quad.subject, quad.object) for quad in every)
        added = (
            (quad.subject, quad.object)
            for quad in self._candidates(None, predicate, None)
            if quad.predicate == predicate and (graphs is None or quad.graph_name in graphs)
        )
        return chain(self._below.subjects_and_objects(predicate, graphs), added)

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: GraphName | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern after this layer's changes; None is a wildcard."""
        found = self._below.match(subject, predicate, object, graph)
        if self._removed and found:
            found = [quad for quad in found if quad not in self._removed]
        if self._added:
            found += [
                quad
                for quad in self._candidates(subject, predicate, object)
                if (subject is None or quad.subject == subject)
                and (predicate is None or quad.predicate == predicate)
                and (object is None or quad.object == object)
                and (graph is None or quad.graph_name == graph)
            ]
        return found

    def few(self, subject: NamedNode | BlankNode | None, object: Term | None, most: int) -> list[Quad] | None:
        """Return quads after this layer's changes; None if they may be too many. See `StoreView.few`."""
        found = self._below.few(subject, object, most)
        if found is None:
            return None
        if self._removed and found:
            found = [quad for quad in found if quad not in self._removed]
        if self._added:
            found += [
                quad
                for quad in self._candidates(subject, None, object)
                if (subject is None or quad.subject == subject) and (object is None or quad.object == object)
            ]
        return found

    def _candidates(
        self, subject: NamedNode | BlankNode | None, predicate: NamedNode | None, object: Term | None
    ) -> Iterable[Quad]:
        """Return the added quads that may match a pattern, by the index if there are many."""
        index = self._index
        if index is None:
            if len(self._added) <= _UNINDEXED:
                return self._added
            index = self._index = {}
            for quad in self._added:
                self._enter(index, quad)
        smallest = self._added
        for key in ((0, subject), (2, object), (1, predicate)):
            if key[1] is not None:
                quads = index.get((key[0], key[1]), _NO_QUADS)
                if len(quads) < len(smallest):
                    smallest = quads
        return smallest

    def _enter(self, index: _Index, quad: Quad) -> None:
        for key in ((0, quad.subject), (1, quad.predicate), (2, quad.object)):
            index.setdefault(key, {})[quad] = None

    def _leave(self, index: _Index, quad: Quad) -> None:
        for key in ((0, quad.subject), (1, quad.predicate), (2, quad.object)):
            index[key].pop(quad, None)

    # --- changes ------------------------------------------------------------------------------

    def add(self, quad: Quad) -> None:
        """Add a quad to the pending changes, and its graph name to the list of graphs.

        The quad must be in the store's canonical form.
        """
        if quad in self._removed:
            del self._removed[quad]
        elif quad not in self._added and not self._below.contains(quad):
            self._added[quad] = None
            if self._index is not None:
                self._enter(self._index, quad)
        else:
            return
        name = quad.graph_name
        if not isinstance(name, DefaultGraph):
            self.create(name)

    def add_missing(self, quad: Quad) -> None:
        """Add a quad that this layer's dataset lacks, of a graph that it has; otherwise like `add`."""
        if quad in self._removed:
            del self._removed[quad]
            return
        self._added[quad] = None
        if self._index is not None:
            self._enter(self._index, quad)

    def remove(self, quad: Quad) -> None:
        """Remove a quad in the pending changes; its graph stays in the list of graphs, even if empty."""
        if quad in self._added:
            del self._added[quad]
            if self._index is not None:
                self._leave(self._index, quad)
        elif quad not in self._removed and self._below.contains(quad):
            self._removed[quad] = None

    def create(self, name: NamedNode | BlankNode) -> None:
        """Add a graph name to the dataset's list of graphs, as CREATE GRAPH does."""
        if name in self._dropped:
            del self._dropped[name]
        elif name not in self._created and not self._below.has_graph(name):
            self._created[name] = None

    def clear(self, name: GraphName) -> None:
        """Remove the quads of a graph; the name of a named graph stays in the list of graphs."""
        for quad in list(self.quads_of(name)):
            self.remove(quad)

    def drop(self, name: NamedNode | BlankNode) -> None:
        """Remove the quads of a named graph, and its name from the list of graphs."""
        self.clear(name)
        if name in self._created:
            del self._created[name]
        elif name not in self._dropped and self._below.has_graph(name):
            self._dropped[name] = None

    def replace(self, name: GraphName, quads: Iterable[Quad]) -> None:
        """Create a graph if it is missing, and make ``quads`` its quads."""
        wanted = dict.fromkeys(quads)
        if not isinstance(name, DefaultGraph):
            self.create(name)
        for quad in list(self.quads_of(name)):
            if quad in wanted:
                del wanted[quad]
            else:
                self.remove(quad)
        for quad in wanted:
            self.add(quad)

    def replay(self, change: NetChange) -> None:
        """Apply a net change of another layer or of the change log to this layer of pending changes."""
        for name in change.dropped:
            self.drop(name)
        for quad in change.removed:
            self.remove(quad)
        for name in change.created:
            self.create(name)
        for quad in change.added:
            self.add(quad)

    def take(self, above: PendingChanges, change: NetChange) -> None:
        """Merge the upper layer of pending changes ``above``, whose net change is ``change``."""
        if self._added or self._removed or self._created or self._dropped:
            self.replay(change)
        else:
            self._added, self._removed = above._added, above._removed
            self._created, self._dropped = above._created, above._dropped
            self._index = above._index

    def net(self) -> NetChange:
        """Return the net change of this layer of pending changes."""
        return NetChange(tuple(self._added), tuple(self._removed), tuple(self._created), tuple(self._dropped))

    def layers(self) -> list[NetChange]:
        """Return the net changes of all non-empty layers of pending changes, lowest first."""
        below = self._below.layers() if isinstance(self._below, PendingChanges) else []
        own = self.net()
        return [*below, own] if own else below

    def __len__(self) -> int:
        return len(self._added) + len(self._removed) + len(self._created) + len(self._dropped)


def quads_in_graph(quads: Iterable[Quad], name: GraphName) -> list[Quad]:
    """Return the quads; those of the default graph are moved to the graph ``name``."""
    if isinstance(name, DefaultGraph):
        return list(quads)
    return [
        Quad(quad.subject, quad.predicate, quad.object, name)
        if isinstance(quad.graph_name, DefaultGraph)
        else quad
        for quad in quads
    ]
