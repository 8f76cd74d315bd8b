"""What can be wrong with a change log: found before it is used, and told as errors."""

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
"""What the table ``meta`` says; with the check sum of these, `EARLIEST` and beginnings of epochs. Version,
bytes and the counts of graphs are those of the commit at which they were written last, see `facts_of`."""
EARLIEST = "earliest"
"""The oldest commit kept, 0 for none."""
PARTED = "parted "
"""Before the version behind which an epoch began, in the names of such facts."""


def require_sound(db: sqlite3.Connection, path: Path, durable: int) -> None:
    """Look at a change log before it is used.

    Raises:
        OlderFormatError: it was written before `OLDEST`.
        StoreFormatError: it is damaged, or lacks the version that was durable.
        sqlite3.Error, LookupError, ValueError, TypeError: so damaged that it cannot be looked at.
    """
    meta = stored_facts(db)
    written = meta["version"]
    # A new log whose process was killed has neither commits nor these two facts.
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
    """What is wrong with commits and counts: rows that nobody wrote, versions that are missing."""
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
    """What is known of a log: versions, sizes, which history it is."""
    facts = stored_facts(db)
    behind_them = "SELECT max(version), sum(bytes) FROM commits WHERE version > ?"
    newest, size = db.execute(behind_them, (facts["version"],)).fetchone()
    return facts if newest is None else {**facts, "version": newest, "bytes": facts["bytes"] + size}


def stored_facts(db: sqlite3.Connection) -> dict[str, int]:
    """What a log says of itself, as of the commit at which it was written."""
    return {str(name): int(value) for name, value in db.execute("SELECT name, value FROM meta")}


def sum_of(meta: Mapping[str, int]) -> int:
    """The check sum of what a log says of itself."""
    parted = [each for pair in sorted(parted_of(meta).items()) for each in pair]
    return check_sum([meta[name] for name in FACTS] + parted + [meta[EARLIEST]])


def parted_of(meta: Mapping[str, int]) -> dict[int, int]:
    """The versions behind which epochs began, each with the first one of its epoch."""
    return {int(name.removeprefix(PARTED)): first for name, first in meta.items() if name.startswith(PARTED)}


def _commits_between(oldest: int, newest: int, parted: Mapping[int, int]) -> int:
    """How many commits there are from one version to another: no version lies between two epochs."""
    gaps = [first - before - 1 for before, first in parted.items() if oldest <= before < first <= newest]
    return newest - oldest + 1 - sum(gaps)


def gone(version: int, earliest: int) -> GoneError:
    """The error for a reader that is behind retention."""
    return GoneError(
        f"the change log begins after version {earliest - 1}, version {version} was asked for",
        earliest=earliest - 1,
        hint="read the dataset anew and follow from its version",
    )


def missing(path: Path, version: int, earliest: int, parted: Mapping[int, int]) -> ReportedError:
    """The error where the commit behind a version cannot be read."""
    # Trimmed while it was read, or a version of a line from which this one has parted?
    if version + 1 < earliest or any(before < version < first for before, first in parted.items()):
        return gone(version, earliest)
    return damaged(path, f"it has no commit behind version {version}")


def behind(path: Path, version: int, durable: int) -> StoreFormatError:
    """The error for a log that has lost its newest commits."""
    return StoreFormatError(
        f"the change log {path} ends at version {version}, version {durable} was durable: the file or its "
        "write-ahead log is damaged, gone, or of another time",
        hint=DAMAGED,
    )


def damaged(path: Path, what: str) -> StoreFormatError:
    """The error for a log that cannot be believed."""
    return StoreFormatError(f"the change log {path} is damaged: {what}", hint=DAMAGED)


def log_error(path: Path, error: Exception) -> StoreError:
    """The error for what SQLite says, or for what came out of it."""
    text = str(error)
    if (
        "not a database" in text
        or "malformed" in text
        or not isinstance(error, sqlite3.Error)
        or "no such table" in text
        or "Could not decode" in text
    ):
        # What is no database at all was put there by somebody.
        hint = "restore the data folder from a backup" if "not a database" in text else DAMAGED
        return StoreFormatError(f"the change log {path} is damaged: {text}", hint=hint)
    if "closed database" in text:
        return StoreError("the store is closed")
    return StoreUnwritableError(
        f"the change log {path} cannot be written: {text}",
        hint="check free space and permissions of the data folder",
    )
