"""The history of changes that a store keeps, as the store uses it: on disk (`change_log`) or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..changes.commit import Commit


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits on the history that the change log keeps; the newest commit always stays.

    Attributes:
        max_bytes: of stored change sets.
        max_age_ms: since the commit.
    """

    max_bytes: int = 256 * 1024 * 1024
    max_age_ms: int = 7 * 24 * 3600 * 1000


class ChangeLog(Protocol):
    """The change log as the store uses it, on disk or in memory.

    Methods are called under the writer lock, `after` from any thread.
    """

    on_disk: bool
    """True when commits survive the process; the quads must then be flushed before a checkpoint is noted."""

    parted: Mapping[int, int]
    """The versions at which this folder was a copy of another one, each with the next version since then."""

    @property
    def version(self) -> int:
        """The version of the newest commit; it never goes back."""
        ...

    @property
    def bulk_pending(self) -> bool:
        """True when a bulk load was begun and not ended: the stored counts may be wrong."""
        ...

    @property
    def checkpoint(self) -> int:
        """The quads on disk hold every commit up to this version for certain."""
        ...

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """Make the commits durable together, with the new quad count of each graph they touch (None: gone).

        Raises:
            StoreUnwritableError: nothing was logged.
        """
        ...

    def after(self, version: int, limit: int | None = None, *, listed: bool = True) -> Iterator[Commit]:
        """The commits after ``version``, oldest first; not ``listed``: their quads are counted only.

        Raises:
            GoneError: history does not reach back so far.
        """
        ...

    def trim(self, now_ms: int) -> None:
        """Forget what is beyond retention; commits that recovery may need stay."""
        ...

    def mark_checkpoint(self, version: int) -> None:
        """Note that the quads on disk hold every commit up to ``version`` for certain."""
        ...

    def begin_bulk(self) -> None:
        """Note that a bulk load begins; should it be cut off, opening counts the quads anew."""
        ...

    def end_bulk(self) -> None:
        """Note that a bulk load ended without a change."""
        ...

    def counts(self) -> dict[str, int]:
        """The stored quad count of each listed graph."""
        ...

    def mark(self, version: int) -> str | None:
        """Names this history up to a version; None when the commit of that version is not in the log."""
        ...

    def backup(self, target: Path) -> None:
        """Write a copy of the log as it is now."""
        ...

    def begin_epoch(self, version: int) -> None:
        """The next commit has this version, if it is behind the present one: see ``parted``."""
        ...

    def close(self) -> None:
        """Close; the log is not used afterwards."""
        ...
