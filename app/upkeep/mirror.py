"""Watches how far the store is ahead of its mirror, and says when the mirror is to be brought up."""

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
    """The mirror of a data folder beside its store.

    Commits are only counted. Each time so many came that something may be due, or one that the mirror cannot
    follow, ``ask`` is called, which has `is_due` asked where that may take its time.
    """

    def __init__(self, store: QuadStore, folder: Path, ratio: float, ask: Callable[[], None]) -> None:
        """Make one.

        Args:
            store: the store.
            folder: the mirror's folder.
            ratio: the share of the mirror's quads that may change; 0 never finds anything due.
            ask: called in the thread of a writer; it must not wait.
        """
        self._store = store
        self._folder = folder
        self._ratio = ratio
        self._ask = ask
        self._uncounted = 0
        self._stop = store.subscribers.subscribe(self._committed) if ratio else None

    def close(self) -> None:
        """Watch no more commits."""
        if self._stop is not None:
            self._stop()

    def is_due(self) -> bool:
        """True when the mirror is stale or so much changed that it is to be compacted."""
        try:
            found = state(self._store, self._folder) if self._ratio else None
        except ReportedError as error:
            log.warning("the mirror is left as it is: %s", error.message)
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
    """A mirror as the API shows it; ``ratio`` is the share of its quads that may change.

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
