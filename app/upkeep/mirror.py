"""Upkeep of the Parquet mirror of the store: measures its lag and decides when to refresh it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.upkeep import FEWEST_CHANGES, state
from quadrill.store.changes.commit import Commit
from quadrill.store.errors import NotFoundError, ReportedError
from quadrill.store.quads.quad_store import QuadStore

log = logging.getLogger("quadrill.jobs")


class MirrorUpkeep:
    """Upkeep of the Parquet mirror of a data folder's store.

    A commit only increments the mirror's counter of changed quads. After enough changes that a refresh of the
    mirror may be due, or after a commit that the mirror cannot follow, ``ask`` schedules the slower check
    `is_due` in another thread.
    """

    def __init__(self, store: QuadStore, folder: Path, ratio: float, ask: Callable[[], None]) -> None:
        """Create the upkeep of a Parquet mirror of the store.

        Args:
            store: the store that the mirror copies.
            folder: the folder with the Parquet files of the mirror.
            ratio: the share of the mirror's quads that may change before a compaction; 0 disables refreshes.
            ask: schedules a check of the mirror; called in the thread of a writer, so it must not block.
        """
        self._store = store
        self._folder = folder
        self._ratio = ratio
        self._ask = ask
        self._uncounted = 0
        self._stop = store.subscribers.subscribe(self._committed) if ratio else None

    def close(self) -> None:
        """Stop counting the store's changes for the mirror."""
        if self._stop is not None:
            self._stop()

    def is_due(self) -> bool:
        """Return True if the mirror is stale, or so many of its quads changed that a compaction is due."""
        try:
            found = state(self._store, self._folder) if self._ratio else None
        except ReportedError as error:
            log.warning("the mirror is not refreshed: %s", error.message)
            return False
        return found is not None and found.is_due(self._ratio) and spark_missing() is None

    def _committed(self, commit: Commit) -> None:
        self._uncounted += sum(change.added + change.removed for change in commit.graphs.values())
        if commit.exact and self._uncounted < FEWEST_CHANGES:
            return
        self._uncounted = 0
        if (self._folder / "meta.json").exists():
            self._ask()


def describe_mirror(store: QuadStore, folder: Path, ratio: float) -> dict[str, Any]:
    """Return a Parquet mirror as the HTTP API shows it; ``ratio`` is the share of its quads that may change.

    Raises: NotFoundError.
    """
    found = state(store, folder)
    if found is None:
        raise NotFoundError(
            "there is no mirror", code="no-mirror", hint="make it: POST /mirror, or quadrill mirror"
        )
    return {
        "version": found.version,
        "store_version": store.reader.version,
        "quads": found.rows,
        "changes": found.changes,
        "compact_at": found.limit(ratio) if ratio else None,
        "stale": found.stale,
        "due": found.is_due(ratio) if ratio else found.stale is not None,
    }
