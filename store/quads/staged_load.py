"""Bulk loads with their consequences: loaded into a temporary database, then applied to the dataset.

    load -> temporary database -> refuse derived graphs -> derive from dataset and load -> one atomic step

So readers never see the loaded quads without the quads that follow from them, and a load that is refused
changes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from pyoxigraph import BlankNode, NamedNode, Quad, Store

from ..changes.apply import apply_change
from ..changes.commit import GraphName
from ..changes.owners import Owners, refuse_targets
from ..changes.pending import PendingChanges, StoreView
from ..terms import Term
from .consequences import Consequences
from .frozen import new_place

Load = Callable[[Store], None]
"""A function that loads quads into a database, all of them or none."""


class LoadedView(StoreView):
    """A view of the dataset as it will be after the load of a temporary database."""

    def __init__(self, store: Store, loaded: Store, owned: Owners) -> None:
        """Make a view of the union of the dataset ``store`` and the quads of ``loaded``."""
        super().__init__(store, owned)
        self._loaded = StoreView(loaded)

    def contains(self, quad: Quad) -> bool:
        """Return True if the dataset or the load contains the quad."""
        return super().contains(quad) or self._loaded.contains(quad)

    def has_graph(self, name: NamedNode | BlankNode) -> bool:
        """Return True if the graph name is listed after the load."""
        return super().has_graph(name) or self._loaded.has_graph(name)

    def graph_names(self) -> Iterator[NamedNode | BlankNode]:
        """Return the graph names listed after the load."""
        new = (name for name in self._loaded.graph_names() if not StoreView.has_graph(self, name))
        return chain(super().graph_names(), new)

    def quads_of(self, name: GraphName) -> Iterator[Quad]:
        """Iterate over the quads of one graph after the load."""
        return chain(super().quads_of(name), filter(self._is_new, self._loaded.quads_of(name)))

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: GraphName | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern after the load; None is a wildcard."""
        loaded = self._loaded.match(subject, predicate, object, graph)
        return super().match(subject, predicate, object, graph) + list(filter(self._is_new, loaded))

    def quads_with(self, predicate: NamedNode | None, graph: GraphName | None) -> Iterator[Quad]:
        """Iterate over the quads with a predicate in a graph after the load; None is a wildcard."""
        loaded = self._loaded.quads_with(predicate, graph)
        return chain(super().quads_with(predicate, graph), filter(self._is_new, loaded))

    def subjects_and_objects(
        self, predicate: NamedNode, graphs: Sequence[GraphName] | None
    ) -> Iterable[Sequence[Term]]:
        """Iterate over the subjects and objects of triples; see `StoreView.subjects_and_objects`."""
        loaded = self._loaded.subjects_and_objects(predicate, graphs)
        return chain(super().subjects_and_objects(predicate, graphs), loaded)

    def few(self, subject: NamedNode | BlankNode | None, object: Term | None, most: int) -> list[Quad] | None:
        """Return the quads with a subject or an object after the load; None if more than ``most``."""
        found = self.match(subject, None, object, None)
        return found if len(found) <= most else None

    def _is_new(self, quad: Quad) -> bool:
        return not StoreView.contains(self, quad)


class _NotAppliedError(Exception):
    """The caller of `staged` did not apply the load, so `Consequences.committing` undoes its effects."""


@contextmanager
def staged(
    load: Load, store: Store, owned: Owners, consequences: Consequences, folder: Path | None
) -> Iterator[tuple[Load, int]]:
    """Run ``load`` on a temporary database; yield a load of the same quads and of their consequences.

    The second value is the number of violations that the load adds (`Commit.violations`).

    Args:
        load: the load.
        store: the dataset, which is only read.
        owned: the owners of graphs.
        consequences: derives the consequences.
        folder: the data folder, in which the temporary database is made; None to make it in memory.

    Raises:
        OwnedGraphError: the load has quads of a derived graph.
        ReportedError: ``load`` or the derivation raised this error.
    """
    place = None if folder is None else new_place(folder)
    try:
        if place is None:
            loaded = Store()
        else:
            place.parent.mkdir(exist_ok=True)
            loaded = Store(str(place))
        load(loaded)
        refuse_targets(owned, loaded.named_graphs())
        applied = False
        consequences.begin_group()
        pending = PendingChanges(LoadedView(store, loaded, owned))
        violations = consequences.derive_all(pending)
        change = pending.net()

        def apply(target: Store) -> None:
            nonlocal applied
            if change.removed or change.dropped:  # only a transaction removes and adds quads in one step
                apply_change(target, change._replace(added=(*loaded, *change.added)))
                applied = True
                return
            target.bulk_extend(chain(loaded, change.added))
            for name in change.created:
                target.add_graph(name)
            applied = True

        with suppress(_NotAppliedError), consequences.committing(owned):
            yield apply, violations
            if not applied:
                raise _NotAppliedError
    finally:
        if place is not None:
            apply = load = loaded = pending = None  # type: ignore[assignment]  # closes the database
            shutil.rmtree(place, ignore_errors=True)
