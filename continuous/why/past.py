"""The dataset of the store at an earlier version, read without a lock."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from pyoxigraph import BlankNode, NamedNode, Quad, Store

from quadrill.store.changes.commit import Commit, GraphName, graph_of_key
from quadrill.store.changes.pending import PendingChanges, StoreView
from quadrill.store.errors import GoneError, LimitError
from quadrill.store.quads.quad_store import QuadStore

from ..algebra.nodes import Term
from .limits import Deadline, WhyLimits

_RETAIN_LONGER = "ask soon after the event, or raise retention of the stream and of the changes"


class _BoundedView(StoreView):
    """A view of the store in which one pattern matches a bounded number of quads."""

    def __init__(self, store: Store, limits: WhyLimits, deadline: Deadline) -> None:
        super().__init__(store)
        self._database, self._most, self._deadline = store, limits.matches, deadline

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: GraphName | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern; raises LimitError for too many quads or at the deadline."""
        self._deadline.check()
        matching = self._database.quads_for_pattern(subject, predicate, object, graph)
        found = list(islice(matching, self._most + 1))
        if len(found) > self._most:
            raise LimitError(f"a triple pattern matches more than {self._most} quads of the store")
        return found


class PastDataset:
    """The dataset at an earlier version: the newest dataset, with later commits undone in memory.

    Commits can change the store during the reads; `holds` checks afterwards that quads belong to the version.

    Attributes:
        version: the version that is read.
        inferred: the graphs of rule sets, including sets that were removed after ``version``.
    """

    def __init__(self, store: QuadStore, version: int, limits: WhyLimits, deadline: Deadline) -> None:
        """Undo the commits after ``version``.

        Raises:
            GoneError: the commits are no longer in the change log, include a bulk load, or have too many
                quads.
            LimitError: the deadline has passed; `back_to`, `commits` and `holds` raise it as well.
        """
        self._store, self._most, self._deadline = store, limits.changes, deadline
        self._newest = store.reader.version
        self._view = PendingChanges(_BoundedView(store.reader.database(), limits, deadline))
        self.inferred = set(store.queue.inferred_graphs())
        self.version = self._newest
        self.back_to(version)

    def back_to(self, version: int) -> None:
        """Undo the commits after an earlier version; raises GoneError as the constructor does."""
        for commit in reversed(self.commits(version)):
            self._most -= len(commit.added) + len(commit.removed)
            if not commit.exact or self._most < 0:
                raise expired(
                    f"the store cannot be read as it was at version {version}, because a bulk load or a "
                    "very large change came after it"
                )
            self._view.replay(commit.net().inverse())
            self.inferred.update(map(graph_of_key, commit.inferred))
        self.version = version

    def commits(self, version: int) -> list[Commit]:
        """Return the commits after an earlier version up to the one that is read, oldest first."""
        if version >= self.version:
            return []
        return [commit for commit in self._commits_after(version) if commit.version <= self.version]

    def _commits_after(self, version: int) -> Iterator[Commit]:
        try:
            for commit in self._store.commits_after(version):
                self._deadline.check()
                yield commit
        except GoneError as error:
            raise expired(f"the change log no longer has the commits after version {version}") from error

    def match(
        self,
        subject: NamedNode | BlankNode | None,
        predicate: NamedNode | None,
        object: Term | None,
        graph: GraphName | None,
    ) -> list[Quad]:
        """Return the quads that match a pattern; None is a wildcard, also for the graph.

        Raises:
            LimitError: the pattern matches too many quads, or the deadline has passed.
        """
        return self._view.match(subject, predicate, object, graph)

    def graph_names(self) -> Iterator[NamedNode | BlankNode]:
        """Return the names of the named graphs."""
        return self._view.graph_names()

    def holds(self, quads: Collection[Quad]) -> bool:
        """Return False if a quad may not belong to the version, because a commit has just added it.

        Raises:
            GoneError: code ``why-expired``: the change log no longer has the newest commits.
        """
        asked = set(quads)
        for commit in self._commits_after(self._newest):
            if not commit.exact or not asked.isdisjoint(commit.added):
                return False
            asked.difference_update(commit.removed)
        return True


def expired(message: str, hint: str = _RETAIN_LONGER) -> GoneError:
    """Return the error for an event whose elements, changes or rules are no longer kept."""
    return GoneError(
        message,
        earliest=0,
        code="why-expired",
        hint=hint,
    )
