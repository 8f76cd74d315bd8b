"""Views: graphs that their owners keep equal to sets of quads, by commits in the background.

    apply: quads come and go --> settled: these count --> outbox --> a commit, in another thread
                                                                      |
                      queries, subscribers  <-- as of any commit <----+

Whoever changes a view never waits for the writer. Changes that come while one is written are made by the next
commit together. What is written is a difference of sets: after a restart the whole content is compared with
the graph once, so that nothing is made twice and nothing is missing, whatever a crash cut off.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from ..changes.commit import Commit, graph_key
from ..errors import ConflictError, ReportedError
from ..terms import store_form
from ..threads import Background
from .quad_store import QuadStore

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_LAST_S = 10.0
"""How long a stop waits for the last commit."""


@dataclass(slots=True)
class _ViewWrite:
    """What one commit of a view makes: quads come (True) or go; ``whole``: there are no others."""

    changes: dict[Quad, bool] = field(default_factory=dict)
    whole: bool = False

    def followed_by(self, later: _ViewWrite) -> _ViewWrite:
        """This one and a later one as one."""
        return later if later.whole else _ViewWrite(self.changes | later.changes, self.whole)


class View:
    """One view: a graph that holds the quads of a query's answer, kept up to date by its changes.

    Law: its quads are those that came more often than they went.

    They belong to the thread that changes it, ``version`` and ``error`` to the holder of the registry's lock.

    Attributes:
        name: the query's.
        graph: what it owns.
        whole: the graph has to be compared as a whole, not only changed.
        changes: quads to add (True) and to remove (False) since the last commit of the view.
        version: of the newest commit of the view, None before the first.
        error: why the last attempt to write failed.
    """

    def __init__(self, name: str, graph: NamedNode) -> None:
        """Begin empty."""
        self.name = name
        self.graph = graph
        self.whole = True
        self.changes: dict[Quad, bool] = {}
        self.version: int | None = None
        self.error: str | None = None
        # How many rows of the answer yield each quad.
        self._weights: dict[Quad, int] = {}

    def apply(self, deleted: Iterable[Quad], inserted: Iterable[Quad]) -> None:
        """Quads of the default graph went and came, each as often as it is given."""
        weights = Counter(map(self._own, inserted))
        weights.subtract(map(self._own, deleted))
        for quad, weight in weights.items():
            before = self._weights.get(quad, 0)
            after = before + weight
            if after:
                self._weights[quad] = after
            elif before:
                del self._weights[quad]
            if bool(before) != bool(after):
                self.changes[quad] = bool(after)

    def take_changes(self) -> _ViewWrite:
        """What has to be written since the last call."""
        write = (
            _ViewWrite(dict.fromkeys(self._weights, True), whole=True)
            if self.whole
            else _ViewWrite(self.changes)
        )
        self.whole, self.changes = False, {}
        return write

    def describe(self) -> dict[str, Any]:
        """For the query's description."""
        return {
            "graph": self.graph.value,
            "quads": len(self._weights),
            "version": self.version,
            "waiting": len(self.changes),
            "error": self.error,
        }

    def _own(self, quad: Quad) -> Quad:
        """The quad in the view's graph and in the store's form: equal there is equal here."""
        object_ = quad.object
        if isinstance(object_, Literal | Triple):
            object_ = store_form(object_)
        assert quad.graph_name == DefaultGraph()
        return Quad(quad.subject, quad.predicate, object_, self.graph)


class ViewRegistry:
    """The views of one store, ``by_name`` those by the names of their queries."""

    def __init__(self, store: QuadStore, background: Background) -> None:
        """Make an empty registry, which writes in the background."""
        self._store = store
        self._background = background
        self.by_name: dict[str, View] = {}
        self._outbox: dict[str, _ViewWrite] = {}
        self._lock = threading.Condition(threading.RLock())
        self._started = False
        # The background has been asked to write, or will be in a while; it does.
        self._asked = False
        self._writing = False

    # --- ownership ------------------------------------------------------------------------------

    def check(self, graph: NamedNode, name: str) -> None:
        """Refuse a graph that a view of this name cannot own.

        Raises:
            ConflictError: it holds quads already, or another view owns it.
        """
        with self._lock:
            owner = next((view.name for view in self.by_name.values() if view.graph == graph), None)
        if owner is not None and owner != name:
            raise ConflictError(
                f"the graph {graph} is the view of the query {owner}", code="graph-owned", graph=graph.value
            )
        if owner is None and self._store.reader.graph_counts().get(graph, 0):
            raise ConflictError(
                f"the graph {graph} holds quads already, a view needs a graph of its own",
                code="graph-not-empty",
                hint="drop the graph first, or write into another one",
                graph=graph.value,
            )

    @contextmanager
    def claimed(self, graph: NamedNode, name: str) -> Iterator[None]:
        """Own a graph while the query that makes its view is registered, and afterwards if it began.

        Raises:
            ConflictError: see `check`.
        """
        with self._lock:
            self.check(graph, name)
            self._store.queue.owned[graph] = name
        try:
            yield
        finally:
            with self._lock:
                view = self.by_name.get(name)
                if view is None or view.graph != graph:
                    self._store.queue.owned.pop(graph, None)

    def adopt(self, name: str, view: View | None) -> None:
        """In its turn: this is the view of a query that begins or goes on; one on another graph ends.

        Until then the graph stays as it is, with what a query of the name before this one made.
        """
        with self._lock:
            old = self.by_name.get(name)
            if old is not None and (view is None or old.graph != view.graph):
                self.close(name)
            if view is not None:
                self.by_name[name] = view
                self._outbox.pop(name, None)
                self._store.queue.owned[view.graph] = name

    def close(self, name: str) -> None:
        """A query ends: its graph, if it has one, is everybody's, with the quads that are in it."""
        with self._lock:
            view = self.by_name.pop(name, None)
            self._outbox.pop(name, None)
            if view is not None:
                self._store.queue.owned.pop(view.graph, None)

    # --- in the thread that changes them --------------------------------------------------------

    def after_commit(self, commit: Commit) -> None:
        """A bulk load can not be held off owned graphs: where it wrote into one, that is set right."""
        if commit.exact or not self.by_name:
            return
        with self._lock:
            for view in self.by_name.values():
                if graph_key(view.graph) in commit.graphs:
                    view.whole = True

    def enqueue_writes(self) -> None:
        """What was taken so far is durable where it comes from: it may be written."""
        if not self._started or not self.by_name:
            return
        with self._lock:
            for name, view in self.by_name.items():
                if view.whole or view.changes:
                    self._outbox[name] = self._outbox.get(name, _ViewWrite()).followed_by(view.take_changes())
            if not self._outbox or self._asked:
                return
            self._asked = True
        self._background.do(self._write_all)

    # --- writing --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write: first every view as a whole, as none has been written before."""
        with self._lock:
            self._started = True

    def stop(self) -> None:
        """Write what waits, then no more."""
        with self._lock:
            self._started = False
        last = self._background.do(self._write_all)
        if last is not None:
            wait([last], _LAST_S)
        self._background.close(wait=False)

    @property
    def idle(self) -> bool:
        """True when nothing waits to be written."""
        with self._lock:
            return not self._outbox and not self._writing

    def wait(self, deadline_s: float) -> bool:
        """True once the background has no more to do; False at a time of the monotonic clock."""
        with self._lock:
            left = deadline_s - time.monotonic()
            return self._lock.wait_for(lambda: self.idle or not self._asked, max(0.0, left))

    def _write_all(self) -> None:
        """Make the commits that wait, as far as they can be made now."""
        while True:
            with self._lock:
                if not self._outbox:
                    self._asked = False
                    return
                name, write = next(iter(self._outbox.items()))
                del self._outbox[name]
                view = self.by_name[name]
                self._writing = True
            commit, error = None, None
            try:
                commit = self._write(view, write)
            except Exception as failed:
                error = failed.message if isinstance(failed, ReportedError) else str(failed)
                log.warning("the view of %s could not be written: %s", name, error)
            finally:
                with self._lock:
                    self._writing = False
                    view.error = error
                    if commit is not None and commit.changed:
                        view.version = commit.version
                    if error is not None and self.by_name.get(name) is view:
                        # What could not be written goes before what came meanwhile.
                        self._outbox[name] = write.followed_by(self._outbox.get(name, _ViewWrite()))
                    if error is not None:
                        self._asked = self._background.do_later(_RETRY_S, self._write_all)
                    self._lock.notify_all()
            if error is not None:
                return

    def _write(self, view: View, write: _ViewWrite) -> Commit | None:
        if self.by_name.get(view.name) is not view:
            return None
        add = [quad for quad, there in write.changes.items() if there]
        cause = f"view {view.name}"
        if not write.whole:
            remove = [quad for quad, there in write.changes.items() if not there]
            return self._store.writer.apply(add=add, remove=remove, cause=cause, owner=view.name)
        if not add and not self._store.reader.graph_exists(view.graph):
            return None
        return self._store.writer.put_graph(view.graph, add, cause=cause, owner=view.name)
