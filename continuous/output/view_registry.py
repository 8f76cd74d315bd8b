"""The views of an engine: which graphs they own, and the writing of what changed in them.

    a turn --> change of the content --> settled (inputs durable) --> outbox --> a commit, in another thread
                                                                                  |
                        other queries, /query, /changes  <-- as of any commit <---+

The engine never waits for the store's writer. Changes that come while one is written are made by the next
commit together. What is written is a difference of sets: after a restart the whole content is compared with
the graph once, so that nothing is made twice and nothing is missing, whatever a crash cut off.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.commit import Commit, graph_key
from quadrill.store.errors import ConflictError, QuadrillError

from ..element import Solution
from .view_content import ViewContent

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.continuous")

_RETRY_S = 1.0


@dataclass(slots=True, eq=False)
class View:
    """One view. ``content`` belongs to the engine's thread, the rest to the holder of the book's lock.

    Attributes:
        name: the query's.
        graph: what it owns.
        content: what the graph has to hold after the present turn.
        whole: the graph has to be compared as a whole, not only changed.
        changes: quads to add (True) and to remove (False) since the last commit of the view.
        version: of the newest commit of the view, None before the first.
        error: why the last attempt to write failed.
    """

    name: str
    graph: NamedNode
    content: ViewContent
    whole: bool = True
    changes: dict[Quad, bool] = field(default_factory=dict)
    version: int | None = None
    error: str | None = None

    def take(self, deleted: Sequence[Solution], inserted: Sequence[Solution], at_ms: int) -> None:
        """In a turn: the answer changed."""
        self._note(*self.content.change(deleted, inserted, at_ms))

    def replace(self, rows: Sequence[Solution], at_ms: int) -> None:
        """In a turn: this is the answer."""
        self._note(*self.content.replace(rows, at_ms))

    def _note(self, gone: Sequence[Quad], come: Sequence[Quad]) -> None:
        self.changes.update(dict.fromkeys(gone, False))
        self.changes.update(dict.fromkeys(come, True))

    def describe(self) -> dict[str, Any]:
        """For the query's description."""
        return {
            "graph": self.graph.value,
            "quads": len(self.content),
            "version": self.version,
            "waiting": len(self.changes),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class _Write:
    """What one commit of a view makes: all its quads, or changes."""

    view: View
    whole: list[Quad] | None
    changes: dict[Quad, bool]


class ViewRegistry:
    """The views of one engine, ``by_name`` those by the names of their queries."""

    def __init__(self, store: QuadStore, *, threaded: bool) -> None:
        """Make an empty book.

        Args:
            store: whose graphs the views are.
            threaded: False writes in the caller of `settled`.
        """
        self._store = store
        self._threaded = threaded
        self.by_name: dict[str, View] = {}
        self._outbox: dict[str, _Write] = {}
        self._lock = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._started = False
        self._writing = False

    # --- ownership ------------------------------------------------------------------------------

    def check(self, graph: NamedNode | None, name: str) -> None:
        """Refuse a graph that a view of this name cannot own.

        Raises:
            ConflictError: it holds quads already, or another view owns it.
        """
        if graph is None:
            return
        with self._lock:
            owner = next((view.name for view in self.by_name.values() if view.graph == graph), None)
        if owner is not None and owner != name:
            raise ConflictError(
                f"the graph {graph} is the view of the query {owner}", code="graph-owned", graph=graph.value
            )
        if owner is None and self._store.graph_counts().get(graph, 0):
            raise ConflictError(
                f"the graph {graph} holds quads already, a view needs a graph of its own",
                code="graph-not-empty",
                hint="drop the graph first, or write into another one",
                graph=graph.value,
            )

    @contextmanager
    def claimed(self, graph: NamedNode | None, name: str) -> Iterator[None]:
        """Own a graph while the query that makes its view is registered, and afterwards if it began.

        Raises:
            ConflictError: see `check`.
        """
        if graph is None:
            yield
            return
        with self._lock:
            self.check(graph, name)
            self._store.own_graph(graph, name)
        try:
            yield
        finally:
            with self._lock:
                view = self.by_name.get(name)
                if view is None or view.graph != graph:
                    self._store.disown_graph(graph)

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
                self._store.own_graph(view.graph, name)

    def close(self, name: str) -> NamedNode | None:
        """A query ends: its graph is everybody's, with the quads that it has. The graph, if there was one."""
        with self._lock:
            view = self.by_name.pop(name, None)
            self._outbox.pop(name, None)
            if view is None:
                return None
            self._store.disown_graph(view.graph)
            return view.graph

    def find(self, name: str) -> View | None:
        """The view of a query."""
        return self.by_name.get(name)

    # --- in the engine's thread -----------------------------------------------------------------

    def committed(self, commit: Commit) -> None:
        """A bulk load can not be held off owned graphs: where it wrote into one, that is set right."""
        if commit.exact or not self.by_name:
            return
        with self._lock:
            for view in self.by_name.values():
                if graph_key(view.graph) in commit.graphs:
                    view.whole = True

    def settled(self) -> None:
        """What the turns so far changed is durable: it may be written."""
        if not self._started or not self.by_name:
            return
        with self._lock:
            for name, view in self.by_name.items():
                if view.whole or view.changes:
                    self._put(name, view)
            if self._outbox and self._threaded:
                self._lock.notify_all()
        if not self._threaded:
            self._write_all()

    def _put(self, name: str, view: View) -> None:
        """Put what changed behind what waits for the same view."""
        before = self._outbox.get(name)
        if view.whole or (before is not None and before.whole is not None):
            write = _Write(view, view.content.quads(), {})
        else:
            write = _Write(view, None, {**(before.changes if before is not None else {}), **view.changes})
        self._outbox[name] = write
        view.whole, view.changes = False, {}

    # --- writing --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write: first every view as a whole, since nobody knows what a crash cut off."""
        with self._lock:
            self._started = True
            for view in self.by_name.values():
                view.whole = True
        if self._threaded and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="quadrill-views", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Write what waits, then no more."""
        with self._lock:
            self._started = False
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(10.0)
            self._thread = None

    @property
    def idle(self) -> bool:
        """True when nothing waits to be written."""
        with self._lock:
            return not self._outbox and not self._writing

    def wait(self, deadline_s: float) -> bool:
        """True once everything that was settled is written; False at a time of the monotonic clock."""
        with self._lock:
            while self._threaded and (self._outbox or self._writing):
                left = deadline_s - time.monotonic()
                if left <= 0 or not self._lock.wait(left):
                    return not self._outbox and not self._writing
            return True

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._outbox and self._started:
                    self._lock.wait()
                if not self._outbox:
                    return
            if not self._write_all():
                with self._lock:
                    if not self._started:
                        return
                    self._lock.wait(_RETRY_S)

    def _write_all(self) -> bool:
        """Make the commits that wait; False when one could not be made and waits on."""
        while True:
            with self._lock:
                if not self._outbox:
                    return True
                write = self._outbox.pop(next(iter(self._outbox)))
                self._writing = True
            try:
                commit = self._write(write)
            except QuadrillError as error:
                log.warning("the view of %s could not be written: %s", write.view.name, error.message)
                with self._lock:
                    write.view.error = error.message
                    self._put_back(write)
                return False
            else:
                with self._lock:
                    write.view.error = None
                    if commit is not None and commit.changed:
                        write.view.version = commit.version
            finally:
                with self._lock:
                    self._writing = False
                    self._lock.notify_all()

    def _write(self, write: _Write) -> Commit | None:
        view, cause = write.view, f"view {write.view.name}"
        if self.by_name.get(view.name) is not view:
            return None
        if write.whole is not None:
            if not write.whole and not self._store.graph_exists(view.graph):
                return None
            return self._store.put_graph(view.graph, write.whole, cause=cause, owner=view.name)
        return self._store.apply(
            add=[quad for quad, there in write.changes.items() if there],
            remove=[quad for quad, there in write.changes.items() if not there],
            cause=cause,
            owner=view.name,
        )

    def _put_back(self, write: _Write) -> None:
        """What could not be written goes before what came meanwhile."""
        view = write.view
        if self.by_name.get(view.name) is not view:
            return
        later = self._outbox.get(view.name)
        if later is None:
            self._outbox[view.name] = write
        elif later.whole is None:
            if write.whole is None:
                self._outbox[view.name] = _Write(view, None, {**write.changes, **later.changes})
            else:
                quads = dict.fromkeys(write.whole)
                for quad, there in later.changes.items():
                    if there:
                        quads[quad] = None
                    else:
                        quads.pop(quad, None)
                self._outbox[view.name] = _Write(view, list(quads), {})
