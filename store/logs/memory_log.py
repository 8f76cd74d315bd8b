"""The change log of a store in memory: the same history and retention as on disk, but not durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ..changes.commit import Commit
from ..errors import GoneError, UnsupportedError
from .change_faults import gone
from .history import Retention

# Approximate bytes in memory of one quad of a stored commit, without the texts of its subject and object.
_QUAD_BYTES = 350


class MemoryChangeLog:
    """The recent commits of a store in memory, without the facts that recovery needs."""

    on_disk = False
    bulk_pending = False

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._commits: deque[Commit] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._counts: dict[str, int] = {}
        self.version = 0
        self.parted: Mapping[int, int] = {}

    @property
    def checkpoint(self) -> int:
        """The newest version; the quads of a store in memory always contain every commit."""
        return self.version

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """Append commits to the change log in memory; see `ChangeLog.append`."""
        for graph, count in counts.items():
            if count is None:
                self._counts.pop(graph, None)
            else:
                self._counts[graph] = count
        for commit in commits:
            self._commits.append(commit)
            self._sizes.append(_size(commit))
            self._bytes += self._sizes[-1]
        self.version = commits[-1].version

    def after(self, version: int, limit: int | None = None, *, listed: bool = True) -> Iterator[Commit]:
        """Return the commits after ``version``, oldest first; see `ChangeLog.after`."""
        if version > self.version:
            raise GoneError(
                f"version {version} is ahead of the store, which is at {self.version}",
                earliest=self.version,
                hint="a store in memory is empty after each start; read the dataset again",
            )
        # The loop reads a copy of the commits, because writers append while the caller reads.
        commits = list(self._commits)
        earliest = commits[0].version if commits else self.version + 1
        if version < earliest - 1:
            raise gone(version, earliest)
        return islice((commit for commit in commits if commit.version > version), limit)

    def trim(self, now_ms: int) -> None:
        """Delete old commits by the retention limits; see `ChangeLog.trim`."""
        oldest = now_ms - self._retention.max_age_ms
        commits = self._commits
        while len(commits) > 1 and (self._bytes > self._retention.max_bytes or commits[0].at_ms < oldest):
            commits.popleft()
            self._bytes -= self._sizes.popleft()

    def mark_checkpoint(self, version: int) -> None:
        """Do nothing, because a store in memory has no checkpoints and no recovery."""

    def begin_bulk(self) -> None:
        """Do nothing, because a store in memory has no checkpoints and no recovery."""

    def end_bulk(self) -> None:
        """Do nothing, because a store in memory has no checkpoints and no recovery."""

    def counts(self) -> dict[str, int]:
        """Return the number of quads of each graph; see `ChangeLog.counts`."""
        return dict(self._counts)

    def mark(self, version: int) -> str | None:
        """Return no mark of the history (None), because a history in memory ends with the process."""
        return None

    def begin_epoch(self, version: int) -> None:
        """Do nothing, because a store in memory cannot be copied and so needs no epochs."""

    def backup(self, target: Path) -> None:
        """Raise UnsupportedError, because a store in memory has no files to copy."""
        raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")

    def close(self) -> None:
        """Do nothing, because a change log in memory has no file to close."""


def _size(commit: Commit) -> int:
    size = _QUAD_BYTES
    for quads in (commit.added, commit.removed):
        for quad in quads:
            size += _QUAD_BYTES + len(str(quad.subject)) + len(str(quad.object))
    return size
