"""The change log of a store in memory: the same history and retention, nothing durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ..changes.commit import Commit
from ..errors import GoneError
from .change_log import Retention, gone

# What one quad of a kept commit costs in memory, roughly.
_QUAD_BYTES = 200


class MemoryChangeLog:
    """A bounded history of commits."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._commits: deque[Commit] = deque()
        self._bytes = 0
        self.version = 0

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """See `ChangeLog.append`; the counts are kept by the store alone."""
        for commit in commits:
            self._commits.append(commit)
            self._bytes += _size(commit)
        self.version = commits[-1].version

    def after(self, version: int, limit: int | None = None) -> Iterator[Commit]:
        """See `ChangeLog.after`."""
        if version > self.version:
            raise GoneError(
                f"version {version} is ahead of the store, which is at {self.version}",
                earliest=self.version,
                hint="a store in memory begins anew at each start; read the dataset anew",
            )
        commits = list(self._commits)  # a copy: writers append while the caller reads
        earliest = commits[0].version if commits else self.version + 1
        if version < earliest - 1:
            raise gone(version, earliest)
        return islice((commit for commit in commits if commit.version > version), limit)

    def trim(self, now_ms: int) -> None:
        """See `ChangeLog.trim`."""
        oldest = now_ms - self._retention.max_age_ms
        commits = self._commits
        while len(commits) > 1 and (self._bytes > self._retention.max_bytes or commits[0].at_ms < oldest):
            self._bytes -= _size(commits.popleft())

    def close(self) -> None:
        """Nothing to close."""


def _size(commit: Commit) -> int:
    return _QUAD_BYTES * (1 + len(commit.added) + len(commit.removed))
