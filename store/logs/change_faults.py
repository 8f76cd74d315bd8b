"""Checks of a change log before its first use, and the errors for its faults."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import (
    DAMAGED,
    GoneError,
    OlderFormatError,
    ReportedError,
    StoreError,
    StoreFormatError,
    StoreUnwritableError,
)
from .change_rows import COLUMNS, check_sum
from .reading import faults_of

FACTS = ("version", "checkpoint", "bytes", "bulk", "identity")
"""Names of facts in each change log's table ``meta``, which also has `EARLIEST`, a check sum and epochs.

The stored version, size in bytes and quad counts of graphs may be some commits old; `facts_of` brings version
and size up to date."""
EARLIEST = "earliest"
"""The name of the fact with the version of the change log's oldest commit; 0 if the log is empty."""
PARTED = "parted "
"""The prefix of the names of facts about epochs; the last version before the epoch follows the prefix."""


def require_sound(db: sqlite3.Connection, path: Path, durable: int) -> None:
    """Check that a change log is complete and undamaged.

    Raises:
        OlderFormatError: the change log was written before `OLDEST`.
        StoreFormatError: the change log is damaged, or lacks a commit that was durable.
        sqlite3.Error, LookupError, ValueError, TypeError: the log is too damaged to be read.
    """
    meta = stored_facts(db)
    written = meta["version"]
    # If the process was killed while it created the change log, there are no commits, check sum and earliest
    # version.
    if not meta.keys() >= {"check", EARLIEST} and (written or "check" in meta):
        raise OlderFormatError(f"the change log {path}")
    if "check" in meta:
        if meta["check"] != sum_of(meta):
            raise damaged(path, "the check sum of its figures is wrong")
        for fault in faults_of(db):
            raise damaged(path, fault)
    number, oldest, newest = db.execute("SELECT count(*), min(version), max(version) FROM commits").fetchone()
    version = max(written, newest or 0)
    if version < durable:
        raise behind(path, version, durable)
    if newest != version and (number or version):
        raise damaged(path, f"it is at version {version}, its newest commit is {newest}")
    if number and oldest != meta[EARLIEST]:
        raise damaged(path, f"its oldest commit is {oldest}, version {meta[EARLIEST]} was kept")
    if number and number != (expected := _commits_between(oldest, version, parted_of(meta))):
        raise damaged(path, f"it has {number} commits from version {oldest} to {version}, not {expected}")


def faults_of_rows(db: sqlite3.Connection) -> Iterator[str]:
    """Yield the faults of commits and quad counts in a change log: wrong check sums and missing versions."""
    parted = parted_of(facts_of(db))
    expected = None
    for *row, digest in db.execute(f"SELECT {COLUMNS}, digest FROM commits ORDER BY version"):
        if digest is not None and digest != check_sum(row):
            yield f"the check sum of version {row[0]} is wrong"
        if expected is not None and row[0] not in (expected, parted.get(expected - 1)):
            yield f"versions {expected} to {row[0] - 1} are missing"
        expected = row[0] + 1
    for graph, quads, digest in db.execute("SELECT graph, quads, digest FROM counts"):
        if digest is not None and digest != check_sum((graph, quads)):
            yield f"the number of quads of {graph} is wrong"


def facts_of(db: sqlite3.Connection) -> dict[str, int]:
    """Return a change log's facts, with version and size in bytes brought up to the newest commit."""
    facts = stored_facts(db)
    behind_them = "SELECT max(version), sum(bytes) FROM commits WHERE version > ?"
    newest, size = db.execute(behind_them, (facts["version"],)).fetchone()
    return facts if newest is None else {**facts, "version": newest, "bytes": facts["bytes"] + size}


def stored_facts(db: sqlite3.Connection) -> dict[str, int]:
    """Return the facts in the change log's table ``meta``, which may be older than the newest commit."""
    return {str(name): int(value) for name, value in db.execute("SELECT name, value FROM meta")}


def sum_of(meta: Mapping[str, int]) -> int:
    """Return the check sum of the facts in a change log's table ``meta``."""
    parted = [each for pair in sorted(parted_of(meta).items()) for each in pair]
    return check_sum([meta[name] for name in FACTS] + parted + [meta[EARLIEST]])


def parted_of(meta: Mapping[str, int]) -> dict[int, int]:
    """Return a map from the last store version before each epoch to the first version of the epoch."""
    return {int(name.removeprefix(PARTED)): first for name, first in meta.items() if name.startswith(PARTED)}


def _commits_between(oldest: int, newest: int, parted: Mapping[int, int]) -> int:
    """Return the number of commits between two store versions; numbers skipped by epochs do not count."""
    gaps = [first - before - 1 for before, first in parted.items() if oldest <= before < first <= newest]
    return newest - oldest + 1 - sum(gaps)


def gone(version: int, earliest: int) -> GoneError:
    """Return the error for a reader of the change log whose next commit was deleted by retention."""
    return GoneError(
        f"the change log begins after version {earliest - 1}, version {version} was asked for",
        earliest=earliest - 1,
        hint="read the dataset again and follow from its version",
    )


def missing(path: Path, version: int, earliest: int, parted: Mapping[int, int]) -> ReportedError:
    """Return the error for a change log that lacks the commit after ``version``."""
    # The commit was deleted by retention during the read, or the version lies between two epochs.
    if version + 1 < earliest or any(before < version < first for before, first in parted.items()):
        return gone(version, earliest)
    return damaged(path, f"it has no commit behind version {version}")


def behind(path: Path, version: int, durable: int) -> StoreFormatError:
    """Return the error for a change log that lost its newest durable commits."""
    return StoreFormatError(
        f"the change log {path} ends at version {version}, version {durable} was durable: the file or its "
        "write-ahead log is damaged, gone, or of another time",
        hint=DAMAGED,
    )


def damaged(path: Path, what: str) -> StoreFormatError:
    """Return the error for a damaged change log; ``what`` states the fault."""
    return StoreFormatError(f"the change log {path} is damaged: {what}", hint=DAMAGED)


def log_error(path: Path, error: Exception) -> StoreError:
    """Return the error for an exception that occurred while the change log was read or written."""
    text = str(error)
    if (
        "not a database" in text
        or "malformed" in text
        or not isinstance(error, sqlite3.Error)
        or "no such table" in text
        or "Could not decode" in text
    ):
        # A file that is no database at all was not written by this program, so only a backup helps.
        hint = "restore the data folder from a backup" if "not a database" in text else DAMAGED
        return StoreFormatError(f"the change log {path} is damaged: {text}", hint=hint)
    if "closed database" in text:
        return StoreError("the store is closed")
    return StoreUnwritableError(
        f"the change log {path} cannot be written: {text}",
        hint="check free space and permissions of the data folder",
    )
