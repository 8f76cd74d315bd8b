"""A durable record of the graphs that had an owner when the graphs of rule sets were last updated."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from contextlib import contextmanager

from quadrill.store.changes.commit import GraphName, graph_key, graph_of_key
from quadrill.store.changes.owners import NO_OWNERS, Owners
from quadrill.store.errors import ReportedError
from quadrill.store.registry import ReflectedOwnerRecord, Registry

log = logging.getLogger("quadrill.continuous")


class ReflectedOwners:
    """The graphs that had an owner at the last commit, which the default input of rule sets leaves out.

    When a view is dropped, its graph joins the default input, and a later commit infers what follows from the
    graph. A crash may come before this commit. The registry therefore has a record of each owned graph, which
    is marked as changing before the commit that updates the graphs of rule sets, and final after it.
    """

    def __init__(self, registry: Registry | None) -> None:
        """Read the records of a registry; without a registry, nothing is recorded."""
        self._records = None if registry is None else registry.reflected_owners
        records = [] if self._records is None else self._records.all()
        self._kept: set[GraphName] = {graph_of_key(each.graph) for each in records}
        self._changing = {graph_of_key(each.graph) for each in records if each.changing}
        # The owners of the last record; None until the start has computed all sets.
        self._newest: Owners | None = None

    def differ(self, owned: Owners, listed: Container[GraphName]) -> bool:
        """Return True if a listed graph may have gained or lost an owner since the last record."""
        return any(graph in listed for graph in self._changing | (self._kept ^ owned.keys()))

    def note(self, owned: Owners) -> None:
        """Record owners that the graphs of all rule sets reflect; from now on `committing` records them."""
        self._newest = NO_OWNERS
        with self.committing(owned):
            pass

    def has(self, owned: Owners) -> bool:
        """Return True if the last commit has recorded these owners."""
        return owned is self._newest

    @contextmanager
    def committing(self, owned: Owners) -> Iterator[None]:
        """Return the context of a commit with which the graphs of all rule sets reflect ``owned``."""
        if self._newest is None or owned is self._newest:
            yield
            return
        changed = self._changing | (self._kept ^ owned.keys())
        for graph in changed - self._changing:
            self._put(graph, changing=True)
            self._changing.add(graph)
        yield
        try:
            for graph in changed:
                if graph in owned:
                    self._put(graph, changing=False)
                elif self._records is not None:
                    self._records.remove(graph_key(graph))
        except ReportedError as error:  # the commit is durable; the next start computes the sets again
            log.warning("owners of graphs could not be recorded: %s", error.message)
            return
        self._kept, self._changing, self._newest = set(owned), set(), owned

    def _put(self, graph: GraphName, *, changing: bool) -> None:
        if self._records is not None:
            self._records.put(ReflectedOwnerRecord(graph_key(graph), changing))
