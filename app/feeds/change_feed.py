"""Change feed: the store's commits as events; new commits come from memory, older ones from the change log.

One subscription to the store's commits serves all readers of the change feed. Each reader of the change feed
has a separate position (the last store version that it received) and reads the commits after this version;
readers with equal graphs and an equal form of events share the encoded event.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from quadrill.store.changes.commit import Commit, GraphChange, graph_key, rdf_patch
from quadrill.store.errors import GoneError
from quadrill.store.quads.quad_store import QuadStore

from .sources import Write, frame

RECENT_COMMITS = 256
COMMITS_AT_A_TIME = 256
PAGE_BYTES = 1 << 20
"""Target bytes of a page of the change feed for one reader; a page has whole commits and may be larger."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The commits and the details that one reader follows.

    Attributes:
        graphs: the keys of the graphs; empty for all.
        patch: True if the events have the exact change set.
        inferred: True if the change set includes the quads that rule sets infer.
    """

    graphs: frozenset[str]
    patch: bool
    inferred: bool = False


class ChangeFeed:
    """Change feed of a store: one subscription to its commits, and the readers to wake."""

    def __init__(self, store: QuadStore) -> None:
        self.store = store
        self.closed = False
        self._recent: deque[Commit] = deque(maxlen=RECENT_COMMITS)
        self._readers: set[ChangeSource] = set()
        self._lock = threading.Lock()
        self._event = lru_cache(maxsize=2 * RECENT_COMMITS)(_event)
        self._unsubscribe = store.subscribers.subscribe(self._on_commit)

    def close(self) -> None:
        """Unsubscribe from the store's commits and end the stream of every reader."""
        self._unsubscribe()
        self.closed = True
        for reader in self._snapshot():
            reader.wake()

    def join(self, reader: ChangeSource) -> None:
        """Register a reader of the change feed, which is woken at every commit."""
        with self._lock:
            self._readers.add(reader)

    def leave(self, reader: ChangeSource) -> None:
        """Unregister a reader of the change feed."""
        with self._lock:
            self._readers.discard(reader)

    def commits_after(self, version: int) -> list[Commit]:
        """Return the next commits after ``version``, oldest first, at most ``COMMITS_AT_A_TIME``.

        Raises: GoneError if the change log no longer has the commits after ``version``.
        """
        with self._lock:
            recent = list(self._recent)
        if recent and recent[0].version <= version + 1:
            return [commit for commit in recent if commit.version > version]
        return list(self.store.commits_after(version, COMMITS_AT_A_TIME))

    def event_of(self, commit: Commit, selection: Selection, write: Write) -> bytes | None:
        """Return the change feed's event of a commit; None if the commit changed no selected graph."""
        return self._event(_ByVersion(commit.version, commit), selection, write)

    def _on_commit(self, commit: Commit) -> None:
        with self._lock:
            self._recent.append(commit)
        for reader in self._snapshot():
            reader.wake()

    def _snapshot(self) -> list[ChangeSource]:
        with self._lock:
            return list(self._readers)


class ChangeSource:
    """One reader's position in the change feed; if ``after`` is None, reading starts at the next commit."""

    def __init__(
        self, feed: ChangeFeed, after: int | None, selection: Selection, write: Write = frame
    ) -> None:
        self.finished = self.more = False
        self._feed = feed
        self._selection = selection
        self._write = write
        self._wake: Callable[[], None] = lambda: None
        self._version = feed.store.reader.version if after is None else after
        feed.join(self)

    def take(self) -> list[bytes]:
        """Return the pending events of the change feed, at most one page."""
        frames: list[bytes] = []
        size = 0
        current = self._feed.store.reader.version
        if self._version > current:
            frames.append(self._reset(current, current))
        while len(frames) < COMMITS_AT_A_TIME and size < PAGE_BYTES:
            try:
                commits = self._feed.commits_after(self._version)
            except GoneError as error:
                frames.append(self._reset(int(error.details.get("earliest", current)), current))
                continue
            if not commits:
                self.more = False
                break
            for commit in commits:
                self._version = commit.version
                event = self._feed.event_of(commit, self._selection, self._write)
                if event is not None:
                    frames.append(event)
                    size += len(event)
                    if size >= PAGE_BYTES:
                        break
        else:
            self.more = True
        self.finished = self._feed.closed
        return frames

    def listen(self, wake: Callable[[], None]) -> None:
        """Register the function that the change feed calls after each commit."""
        self._wake = wake

    def wake(self) -> None:
        """Notify the reader that the change feed has a new commit or was closed."""
        self._wake()

    def close(self) -> None:
        """Unregister this reader from the change feed."""
        self._feed.leave(self)

    def _reset(self, earliest: int, current: int) -> bytes:
        """Return a `reset` event: the change log lacks the reader's position, which becomes ``current``."""
        self._version = current
        return self._write("reset", json.dumps({"earliest": earliest, "version": current}), None)


@dataclass(frozen=True, slots=True, eq=False)
class _ByVersion:
    """A commit hashed by its version, because hashing its quads is slow."""

    version: int
    commit: Commit

    def __hash__(self) -> int:
        return hash(self.version)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByVersion) and other.version == self.version


def _event(key: _ByVersion, selection: Selection, write: Write) -> bytes | None:
    commit = key.commit
    if selection.graphs:
        commit = _restricted(commit, selection.graphs)
        if not commit.graphs:
            return None
    data: dict[str, object] = {
        "version": commit.version,
        "at": commit.at_ms,
        "graphs": _counts(commit.asserted_graphs),
    }
    if commit.inferred:
        data["inferred"] = _counts(commit.inferred_graphs)
    if not commit.exact:
        data["exact"] = False
    elif selection.patch:
        data["patch"] = rdf_patch(commit, inferred=selection.inferred)
    return write(None, json.dumps(data, ensure_ascii=False), commit.version)


def _counts(graphs: Mapping[str, GraphChange]) -> dict[str, dict[str, int]]:
    return {name: {"added": change.added, "removed": change.removed} for name, change in graphs.items()}


def _restricted(commit: Commit, graphs: frozenset[str]) -> Commit:
    return commit._replace(
        added=tuple(quad for quad in commit.added if graph_key(quad.graph_name) in graphs),
        removed=tuple(quad for quad in commit.removed if graph_key(quad.graph_name) in graphs),
        created=tuple(name for name in commit.created if graph_key(name) in graphs),
        dropped=tuple(name for name in commit.dropped if graph_key(name) in graphs),
        graphs={name: change for name, change in commit.graphs.items() if name in graphs},
        inferred=commit.inferred & graphs,
    )
