"""The interface of the change log, implemented on disk (`change_log`) and in memory (`memory_log`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..changes.commit import Commit


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits on the commits that the change log keeps; the newest commit always stays.

    Attributes:
        max_bytes: the maximum size of the stored change sets in bytes.
        max_age_ms: the maximum age of a stored commit in milliseconds.
    """

    max_bytes: int = 256 * 1024 * 1024
    max_age_ms: int = 7 * 24 * 3600 * 1000


class ChangeLog(Protocol):
    """The change log as the store uses it, on disk or in memory.

    Callers of the change log's methods hold the store's writer lock, except for `after` and `mark`, which any
    thread may call.
    """

    on_disk: bool
    """True if commits survive the process; quads must then be flushed before `mark_checkpoint`."""

    parted: Mapping[int, int]
    """A map from the last store version before each new epoch to the first version of that epoch.

    An epoch begins when a copy or a restored backup of a data folder is opened."""

    @property
    def version(self) -> int:
        """The version of the newest commit in the change log, which never decreases."""
        ...

    @property
    def bulk_pending(self) -> bool:
        """True if a bulk load began and did not end, so that the stored quad counts may be wrong."""
        ...

    @property
    def checkpoint(self) -> int:
        """The version up to which the quads on disk contain every commit of the change log."""
        ...

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """Make commits durable together, with new quad counts by `graph_key` (None if a graph is dropped).

        Raises:
            StoreUnwritableError: the change log cannot be written; no commit was logged.
        """
        ...

    def after(self, version: int, limit: int | None = None, *, listed: bool = True) -> Iterator[Commit]:
        """Return the commits after ``version``, oldest first; without ``listed``, commits have no quads.

        Raises:
            GoneError: the log no longer has the commit after ``version``, or the store is at a lower version.
        """
        ...

    def trim(self, now_ms: int) -> None:
        """Delete commits that exceed the retention limits, except commits that recovery may need."""
        ...

    def mark_checkpoint(self, version: int) -> None:
        """Record in the change log that the quads on disk contain every commit up to ``version``."""
        ...

    def begin_bulk(self) -> None:
        """Record in the change log that a bulk load begins.

        After an interrupted bulk load, opening the store counts all quads again.
        """
        ...

    def end_bulk(self) -> None:
        """Record in the change log that a bulk load ended without a change."""
        ...

    def counts(self) -> dict[str, int]:
        """Return the number of quads of each graph by `graph_key`, empty graphs included."""
        ...

    def mark(self, version: int) -> str | None:
        """Return a mark, a hash of the history up to ``version``; None if its commit is not in the log."""
        ...

    def backup(self, target: Path) -> None:
        """Write a copy of the change log's present state to the file ``target``."""
        ...

    def begin_epoch(self, version: int) -> None:
        """Begin an epoch: the next commit gets ``version`` if that is greater than the present version.

        See ``parted``.
        """
        ...

    def close(self) -> None:
        """Close the change log, which cannot be used afterwards."""
        ...
