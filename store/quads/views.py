"""Views: graphs that their owners keep equal to sets of quads, by commits in the background.

    apply: changed quads --> enqueue_writes: inputs are durable --> outbox --> a commit, in another thread
                                                                                |
                                         queries, subscribers of the store  <---+

The thread that changes a view never waits for the writer. Changes of a view that arrive during a write are
written together by the next commit. A write of a view is a difference of sets of quads: after a restart the
whole content is compared with the graph once, so that no quad is added twice or missing after a crash.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from ..changes.commit import Commit, graph_key
from ..changes.owners import Owner
from ..errors import ConflictError, RefusedChangeError, ReportedError
from ..terms import store_form
from ..threads import Background
from .quad_store import QuadStore

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_LAST_S = 10.0
"""Seconds that `ViewRegistry.stop` waits for the last commit of the views."""


@dataclass(slots=True)
class _ViewWrite:
    """The content of one commit of a view: quads to add (True) or remove (False).

    If ``whole`` is True, the view's graph is replaced by the quads to add.
    """

    changes: dict[Quad, bool] = field(default_factory=dict)
    whole: bool = False

    def followed_by(self, later: _ViewWrite) -> _ViewWrite:
        """Return one write to a view with the effect of this write and then ``later``."""
        return later if later.whole else _ViewWrite(self.changes | later.changes, self.whole)


class View:
    """A view: a graph of the store that is kept equal to the answer of a CONSTRUCT query.

    Invariant: the view has the quads that were inserted more often than deleted. Only the engine's thread
    changes the quads; ``version`` and ``error`` are guarded by the registry's lock.

    Attributes:
        name: the name of the query.
        graph: the graph that the view owns.
        whole: True if the next write has to replace the whole graph.
        changes: quads to add (True) and to remove (False) since the last write.
        version: version of the newest commit of the view; None before the first.
        error: message of the last write if it failed; else None.
        refused: True if a write was refused; the graph then stays as it is until the query restarts.
    """

    def __init__(self, name: str, graph: NamedNode) -> None:
        """Create a view without quads."""
        self.name = name
        self.graph = graph
        self.whole = True
        self.changes: dict[Quad, bool] = {}
        self.version: int | None = None
        self.error: str | None = None
        self.refused = False
        # The number of rows of the query's answer that yield each quad of the view.
        self._weights: dict[Quad, int] = {}

    def apply(self, deleted: Iterable[Quad], inserted: Iterable[Quad]) -> None:
        """Delete and insert quads of the view, given in the default graph; each occurrence counts."""
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
        """Return and clear the view's changes since the last call."""
        write = (
            _ViewWrite(dict.fromkeys(self._weights, True), whole=True)
            if self.whole
            else _ViewWrite(self.changes)
        )
        self.whole, self.changes = False, {}
        return write

    def describe(self) -> dict[str, Any]:
        """Return the JSON members about the view in the description of its query."""
        return {
            "graph": self.graph.value,
            "quads": len(self._weights),
            "version": self.version,
            "waiting": len(self.changes),
            "error": self.error,
        }

    def _own(self, quad: Quad) -> Quad:
        """Return the quad in the view's graph, with its object in the form that the store returns."""
        object_ = quad.object
        if isinstance(object_, Literal | Triple):
            object_ = store_form(object_)
        assert quad.graph_name == DefaultGraph()
        return Quad(quad.subject, quad.predicate, object_, self.graph)


class ViewRegistry:
    """The views of one store; ``by_name`` maps names of queries to their views."""

    def __init__(
        self, store: QuadStore, background: Background, refused: Callable[[View, RefusedChangeError], None]
    ) -> None:
        """Create an empty registry of views.

        Args:
            store: the store of the views.
            background: writes the views.
            refused: called in the thread of ``background`` when rule sets or shapes have refused a write of a
                view; the view is not written any more.
        """
        self._store = store
        self._refused = refused
        self._background = background
        self.by_name: dict[str, View] = {}
        self._outbox: dict[str, _ViewWrite] = {}
        self._lock = threading.Condition(threading.RLock())
        self._started = False
        # _asked is True while a write of views is scheduled in the background thread, _writing while a commit
        # is being written.
        self._asked = False
        self._writing = False

    # --- ownership ------------------------------------------------------------------------------

    def check(self, graph: NamedNode, name: str) -> None:
        """Check that the view of the query ``name`` can own a graph.

        Raises:
            ConflictError: the graph has quads already, or it has another owner.
        """
        with self._lock:
            owner = self._store.queue.owned.get(graph)
        if owner is not None and owner != Owner("view", name):
            raise owner.refusal(graph)
        if owner is None and self._store.reader.graph_counts().get(graph, 0):
            raise ConflictError(
                f"the graph {graph} holds quads already, a view needs a graph of its own",
                code="graph-not-empty",
                hint="drop the graph first, or write into another one",
                graph=graph.value,
            )

    @contextmanager
    def claimed(self, graph: NamedNode, name: str) -> Iterator[None]:
        """Reserve a graph for a view during a query's registration; keep it if the registration succeeds.

        Raises:
            ConflictError: the graph has quads already, or it has another owner.
        """
        with self._lock:
            self.check(graph, name)
            self._store.queue.own(graph, Owner("view", name))
        try:
            yield
        finally:
            with self._lock:
                view = self.by_name.get(name)
                if view is None or view.graph != graph:
                    self._store.queue.disown(graph, Owner("view", name))

    def adopt(self, name: str, view: View | None) -> None:
        """Set the view of a query that starts or continues; a task of the engine calls this method.

        An older view of the query on another graph is closed. The argument ``view`` is None for a query
        without a view.
        """
        with self._lock:
            old, graph = self.by_name.get(name), None if view is None else view.graph
            if graph != (None if old is None else old.graph):
                self._release(name, kept=graph)
            if view is not None:
                self.by_name[name] = view
                self._outbox.pop(name, None)
                self._store.queue.own(view.graph, Owner("view", name))

    def close(self, name: str) -> None:
        """Remove the view of a query that ends; its graph keeps the quads, and all clients may write it."""
        with self._lock:
            self._release(name)

    def _release(self, name: str, kept: NamedNode | None = None) -> None:
        """Remove the view of a query, and let all clients write the graphs of the query except ``kept``.

        A query that could not be restored has no view, but its graph has had an owner since the start.
        """
        self.by_name.pop(name, None)
        self._outbox.pop(name, None)
        owner = Owner("view", name)
        for graph in [each for each, other in self._store.queue.owned.items() if other == owner]:
            if graph != kept:
                self._store.queue.disown(graph, owner)

    # --- methods for the thread that changes the views ----------------------------------------------

    def after_commit(self, commit: Commit) -> None:
        """Mark each view whose graph a bulk load has changed for a rewrite; bulk loads ignore ownership."""
        if commit.exact or not self.by_name:
            return
        with self._lock:
            for view in self.by_name.values():
                if graph_key(view.graph) in commit.graphs:
                    view.whole = True

    def enqueue_writes(self) -> None:
        """Enqueue the changes of all views for writing; called when the inputs of the changes are durable."""
        if not self._started or not self.by_name:
            return
        with self._lock:
            for name, view in self.by_name.items():
                if (view.whole or view.changes) and not view.refused:
                    self._outbox[name] = self._outbox.get(name, _ViewWrite()).followed_by(view.take_changes())
            if not self._outbox or self._asked:
                return
            self._asked = True
        self._background.do(self._write_all)

    # --- writing --------------------------------------------------------------------------------

    def start(self) -> None:
        """Allow writes of views from now on; each view first replaces its whole graph."""
        with self._lock:
            self._started = True

    def stop(self) -> None:
        """Write the queued changes of views, then end the background thread."""
        with self._lock:
            self._started = False
        last = self._background.do(self._write_all)
        if last is not None:
            wait([last], _LAST_S)
        self._background.close(wait=False)

    @property
    def idle(self) -> bool:
        """True if no change of a view is queued or being written."""
        with self._lock:
            return not self._outbox and not self._writing

    def wait(self, deadline_s: float) -> bool:
        """Wait until views are written or no write is scheduled; False at the monotonic ``deadline_s``."""
        with self._lock:
            left = deadline_s - time.monotonic()
            return self._lock.wait_for(lambda: self.idle or not self._asked, max(0.0, left))

    def _write_all(self) -> None:
        """Write queued changes, one commit for each view; stop and retry later after an error."""
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
                if isinstance(failed, RefusedChangeError):
                    self._end_refused(view, failed)
                    continue
                error = failed.message if isinstance(failed, ReportedError) else str(failed)
                log.warning("the view of %s could not be written: %s", name, error)
            finally:
                with self._lock:
                    self._writing = False
                    view.error = error
                    if commit is not None and commit.changed:
                        view.version = commit.version
                    if error is not None and self.by_name.get(name) is view:
                        # The failed write of a view precedes the changes that arrived meanwhile.
                        self._outbox[name] = write.followed_by(self._outbox.get(name, _ViewWrite()))
                    if error is not None:
                        self._asked = self._background.do_later(_RETRY_S, self._write_all)
                    self._lock.notify_all()
            if error is not None:
                return

    def _end_refused(self, view: View, error: RefusedChangeError) -> None:
        """Write a view no more, because a repetition of its write would be refused again."""
        with self._lock:
            view.refused, view.error = True, error.message
            if self.by_name.get(view.name) is view:
                self._outbox.pop(view.name, None)
        self._refused(view, error)

    def _write(self, view: View, write: _ViewWrite) -> Commit | None:
        if self.by_name.get(view.name) is not view:
            return None
        add = [quad for quad, there in write.changes.items() if there]
        cause = f"view {view.name}"
        owner = Owner("view", view.name)
        if not write.whole:
            remove = [quad for quad, there in write.changes.items() if not there]
            return self._store.writer.apply(add=add, remove=remove, cause=cause, owner=owner)
        if not add and not self._store.reader.graph_exists(view.graph):
            return None
        return self._store.writer.put_graph(view.graph, add, cause=cause, owner=owner)
