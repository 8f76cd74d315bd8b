"""Backup and restore: the store's checkpoint and the registry's rows in one folder."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from pyoxigraph import BlankNode, NamedNode, Quad, Store

from quadrill.store.errors import QuadrillError, StoreUnwritableError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import REGISTRY, Registry

from ..http.errors import HttpError


class RestoreError(QuadrillError):
    """A backup cannot be restored."""

    code = "restore"


def make(store: QuadStore, registry: Registry, folder: object) -> dict[str, Any]:
    """Copy store and registry into ``folder``, which must be absolute and new or empty; both stay in use.

    A registry on a database server is not copied: it has backups of its own.

    Raises:
        HttpError: 400 for a folder that is not an absolute path.
        StoreUnwritableError: the folder is not empty or cannot be written.
        UnsupportedError: the store is in memory.
    """
    if not isinstance(folder, str) or not Path(folder).is_absolute():
        raise HttpError(400, "the backup does not say its folder as an absolute path", code="member")
    target = Path(folder)
    version = store.backup(target)
    source = _sqlite_file(registry.url)
    if source is not None:
        copy_sqlite(source, target / REGISTRY)
    return {"folder": str(target), "version": version, "registry": source is not None}


def restore(backup: Path, folder: Path) -> None:
    """Make a data folder of a backup; the backup stays as it is.

    Raises:
        RestoreError: ``backup`` is none, or the data folder has something in it.
        StoreUnwritableError: the data folder cannot be written.
    """
    check(backup)
    if folder.exists() and any(folder.iterdir()):
        raise RestoreError(
            f"the data folder {folder} is not empty",
            hint="Restore into a new folder, or move the old one away.",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(backup, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("LOCK"))
        folder.chmod(0o700)
    except (OSError, shutil.Error) as error:
        raise StoreUnwritableError(f"the data folder {folder} cannot be written: {error}") from error


def check(backup: Path) -> None:
    """See that a folder is a backup.

    Raises: RestoreError.
    """
    if not (backup / "FORMAT").is_file() or not (backup / "quads").is_dir():
        raise RestoreError(f"{backup} is not a backup of Quadrill")


def read_dataset(backup: Path) -> tuple[list[Quad], list[NamedNode | BlankNode]]:
    """The quads and graph names of a backup, without taking hold of it.

    Raises: RestoreError when its database cannot be read.
    """
    check(backup)
    try:
        store = Store.read_only(str(backup / "quads"))
        return list(store), list(store.named_graphs())
    except (OSError, RuntimeError) as error:
        raise RestoreError(f"the database of the backup {backup} cannot be read: {error}") from error


def copy_sqlite(source: Path, target: Path) -> None:
    """A consistent copy of a SQLite database that may be in use."""
    reading, writing = sqlite3.connect(source), sqlite3.connect(target)
    try:
        reading.backup(writing)
    except sqlite3.Error as error:
        raise StoreUnwritableError(f"the registry cannot be copied to {target}: {error}") from error
    finally:
        writing.close()
        reading.close()


def _sqlite_file(url: str) -> Path | None:
    """The file of a SQLite registry, None for another database or one in memory."""
    prefix = "sqlite:///"
    return Path(url.removeprefix(prefix)) if url.startswith(prefix) and len(url) > len(prefix) else None
