"""Backup and restore: one folder with quads, registry, and the state of streams, windows and feeds."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyoxigraph import BlankNode, NamedNode, Quad, Store

from quadrill.store.errors import FolderInUseError, ReportedError, StoreUnwritableError, UnsupportedError
from quadrill.store.folder import mark_as_copy
from quadrill.store.logs.input_log import SPACE
from quadrill.store.logs.journal import held_files
from quadrill.store.logs.pinned_files import PinnedFiles, copy_database
from quadrill.store.logs.reading import reading
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import REGISTRY, Registry, RuleSetRecord, ShapesRecord, default_url

from ..config import Settings
from ..http.errors import HttpError
from .tar import ArchiveError, tar_of, unpack

ENGINE = "engine"
OUTGOING = "outgoing"
_PIECE = 1 << 20
_LONGEST = 2000
"""Maximum bytes of a backup folder's path, so that paths of files in the folder stay within system limits."""
_CLAIMING = threading.Lock()
_CLAIMED: set[Path] = set()
"""Folders into which this process is writing a backup."""

Hold = Callable[[], AbstractContextManager[PinnedFiles] | None]
"""Pins the engine's files during a backup, between two tasks if it runs; yields None without files."""


class RestoreError(ReportedError):
    """The error of a backup that cannot be restored."""

    code = "restore"


def make(store: QuadStore, registry: Registry, hold: Hold, target: Path) -> dict[str, Any]:
    """Copy the contents of a data folder into ``target``, a new or empty folder; the server may keep running.

    A backup has all changes that were acknowledged before it began. A backup pins the files of the engine
    first, so the copies of store and registry are at least as new as the copy of the engine; when the backup
    is opened, the engine catches up with the store and the registry, as after a crash. A registry on a
    database server is not copied and needs a separate backup.

    Raises:
        FolderInUseError: the folder of the backup is not empty, or another backup is being written into it.
        StoreUnwritableError: the folder of the backup cannot be written.
        HttpError: 400 if the target of the backup is a file.
        UnsupportedError: the store to back up is in memory only.
    """
    if store.folder is None:
        raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")
    source = _sqlite_file(registry.url)

    def rest(folder: Path) -> None:
        if held is not None:
            held.copy_to(folder / ENGINE)
        if source is not None:
            copy_sqlite(source, folder / REGISTRY)
            if sets or registry.rule_sets.all():
                _mark_changed_sets(folder, sets)
            if shapes:
                _mark_changed_shapes(folder, shapes)

    sets, shapes = registry.rule_sets.all(), registry.shapes.all()
    with contextlib.ExitStack() as stack:
        found = hold()
        held = None if found is None else stack.enter_context(found)
        stack.enter_context(_claimed(target))
        version = store.backup(target, rest)
    return {"folder": str(target), "version": version, "registry": source is not None}


def _mark_changed_sets(backup: Path, before: list[RuleSetRecord]) -> None:
    """Mark the rule sets that changed while a backup was made, so that the first start completes the change.

    The copy of the registry is newer than the quads, so it may call a set complete whose graph is not in the
    backup, or lack a set whose graph is. The start empties the graph of a suspended set in any case.

    Args:
        backup: the folder with the copies of the quads and the registry.
        before: the rule sets before the quads were copied.
    """
    with Registry.open(default_url(backup)) as registry:
        copied = {record.name: record for record in registry.rule_sets.all()}
        for old in before:
            new = copied.pop(old.name, None)
            if new is None:
                registry.rule_sets.put(replace(old, state="dropping", following=None))
            elif new != old and new.state != "suspended":
                following = new.following or new.definition
                registry.rule_sets.put(replace(old, state="materialising", following=following))
        for new in copied.values():
            if new.state != "suspended":
                registry.rule_sets.put(replace(new, state="materialising"))


def _mark_changed_shapes(backup: Path, before: list[ShapesRecord]) -> None:
    """Mark shapes whose report left its graph while a backup was made, so that the first start removes it.

    The first start of a server computes the reports of all shapes, so nothing else has to be marked.

    Args:
        backup: the folder with the copies of the quads and the registry.
        before: the shapes before the quads were copied.
    """
    with Registry.open(default_url(backup)) as registry:
        copied = {record.name: record for record in registry.shapes.all()}
        for old in before:
            new, into = copied.get(old.name), old.definition.get("into")
            if new is None:
                registry.shapes.put(replace(old, state="dropping"))
            elif into is not None and new.definition.get("into") != into:
                registry.shapes.put(replace(new, former=into))


@contextlib.contextmanager
def _claimed(target: Path) -> Iterator[None]:
    """Reserve a backup's folder until the block ends; after a failure, remove the files written there."""
    place = Path(os.path.realpath(target))
    with _CLAIMING:
        if place in _CLAIMED:
            raise FolderInUseError(f"another backup is made in {target} now", hint="give a new folder")
        try:
            new = not place.is_dir()
            if new:
                place.mkdir(parents=True)
            elif any(place.iterdir()):
                raise FolderInUseError(f"the backup folder {target} is not empty", hint="give a new folder")
        except (FileExistsError, NotADirectoryError) as error:
            raise HttpError(400, f"{target} is no folder: a file has that name", code="member") from error
        except OSError as error:
            raise StoreUnwritableError(f"the backup to {target} failed: {error}") from error
        _CLAIMED.add(place)
    try:
        yield
    except BaseException:
        for path in (place,) if new else tuple(place.iterdir()):
            shutil.rmtree(path, ignore_errors=True)
            if not path.is_dir():
                path.unlink(missing_ok=True)
        raise
    finally:
        _CLAIMED.discard(place)


def download(
    store: QuadStore, registry: Registry, hold: Hold, settings: Settings
) -> tuple[int, Generator[bytes, None, None]]:
    """Return the store version of a new backup, and the backup as pieces of a tar archive.

    Raises: the errors of `make`, the function that writes a backup into a folder.
    """
    folder = settings.data_folder
    if folder is None:
        raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")
    outgoing = folder / OUTGOING
    try:
        outgoing.mkdir(mode=0o700, exist_ok=True)
        target = Path(tempfile.mkdtemp(dir=outgoing))
    except OSError as error:
        raise StoreUnwritableError(f"the backup to {outgoing} failed: {error}", hint=SPACE) from error
    try:
        made = make(store, registry, hold, target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise

    def pieces() -> Generator[bytes, None, None]:
        try:
            yield from tar_of(target, last="FORMAT")
        finally:
            shutil.rmtree(target, ignore_errors=True)

    return made["version"], pieces()


def remove_outgoing(folder: Path) -> None:
    """Delete temporary backups that downloads from a killed server left behind."""
    shutil.rmtree(folder / OUTGOING, ignore_errors=True)


def held_offline(folder: Path) -> PinnedFiles | None:
    """Pin the files of the engine, so that none is deleted, in a data folder that no server uses."""
    return held_files(folder / ENGINE) if (folder / ENGINE).is_dir() else None


def checked_folder(given: object, settings: Settings, what: str) -> Path:
    """Return the backup folder that a client names; its real path must lie below the configured folder.

    Raises:
        HttpError: 400 for an invalid folder name, 403 for a folder outside of the configured one.
        UnsupportedError: the store is in memory and has no data folder.
    """
    chosen = settings.backup_folder
    if not isinstance(given, str) or not given or "\0" in given:
        raise HttpError(400, f"the {what} does not say its folder", code="member")
    hint = "The setting backup_folder names the folder; `quadrill backup DIR` needs none."
    if not chosen and not Path(given).is_absolute():
        raise HttpError(400, f"there is no folder for the {what} {given}", code="member", hint=hint)
    if settings.data_folder is None:
        raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")
    base = Path(os.path.realpath(Path(chosen).expanduser()))
    try:
        path = Path(os.path.realpath(base / given))
        if len(os.fsencode(path)) > _LONGEST or any(len(os.fsencode(part)) > 255 for part in path.parts):
            raise ValueError("it is too long")
    except (OSError, ValueError) as error:
        raise HttpError(400, f"{given[:100]!r} is no name of a folder: {error}", code="member") from error
    if not chosen or path == base or not path.is_relative_to(base):
        raise HttpError(
            403, f"{given} is not below the folder for backups", code="outside-backup-folder", hint=hint
        )
    return path


def restore(backup: Path, folder: Path) -> None:
    """Create a data folder from a backup (a folder or a downloaded archive); the backup stays unchanged.

    Raises:
        RestoreError: ``backup`` is no backup, or the data folder is not empty.
        StoreUnwritableError: the data folder cannot be written.
    """
    if not backup.is_file():
        check(backup)
    if folder.exists() and any(folder.iterdir()):
        raise RestoreError(
            f"the data folder {folder} is not empty",
            hint="Restore into a new folder, or move the old one away.",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _unpacked(backup, folder) if backup.is_file() else contextlib.nullcontext(backup) as source:
            # The file FORMAT is copied last, because a folder without FORMAT is no data folder.
            without = shutil.ignore_patterns("LOCK", "FORMAT")
            shutil.copytree(source, folder, dirs_exist_ok=True, ignore=without)
            folder.chmod(0o700)
            mark_as_copy(folder)
            shutil.copy(source / "FORMAT", folder / "FORMAT.new")
            os.replace(folder / "FORMAT.new", folder / "FORMAT")
    except (OSError, shutil.Error) as error:
        # The target of the restore was empty before, so partial copies are removed for the next attempt.
        for each in list(folder.iterdir()) if folder.is_dir() else ():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
        raise StoreUnwritableError(
            f"the data folder {folder} cannot be written: {_first_reason(error)}",
            hint="Make space, or restore to another place: nothing of this try is left.",
        ) from error


def _first_reason(error: OSError) -> str:
    """Return the error of the first file that could not be copied; shutil reports all later errors, too."""
    several = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    return str(several[0][-1]) if isinstance(several, list) and several else str(error)


@contextlib.contextmanager
def _unpacked(archive: Path, folder: Path) -> Iterator[Path]:
    """Unpack a backup archive into a temporary folder next to the target folder until the block ends."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as made:
        target = Path(made)
        try:
            with archive.open("rb") as file:
                unpack(iter(lambda: file.read(_PIECE), b""), target)
            check(target)
        except (ArchiveError, RestoreError) as error:
            detail = f": {error}" if isinstance(error, ArchiveError) else ""
            raise RestoreError(
                f"{archive} is not a backup of Quadrill{detail}",
                hint="Give the archive as the server sent it, or unpack it and give the folder.",
            ) from error
        yield target


def check(backup: Path) -> None:
    """Check that a folder has the files of a backup.

    Raises: RestoreError.
    """
    if not (backup / "FORMAT").is_file() or not (backup / "quads").is_dir():
        raise RestoreError(f"{backup} is not a backup of Quadrill")


def read_dataset(backup: Path) -> tuple[list[Quad], list[NamedNode | BlankNode]]:
    """Read the quads and graph names of a backup without locking the backup.

    Raises: RestoreError when the database of the backup cannot be read.
    """
    check(backup)
    try:
        store = Store.read_only(str(backup / "quads"))
        return list(store), list(store.named_graphs())
    except (OSError, RuntimeError) as error:
        raise RestoreError(f"the database of the backup {backup} cannot be read: {error}") from error


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite database consistently, even while it is in use."""
    try:
        with reading(source) as database:
            copy_database(database, target)
    except sqlite3.Error as error:
        raise StoreUnwritableError(f"the registry cannot be copied to {target}: {error}") from error


def _sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite registry; None for another database or one in memory."""
    prefix = "sqlite:///"
    return Path(url.removeprefix(prefix)) if url.startswith(prefix) and len(url) > len(prefix) else None
