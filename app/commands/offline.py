"""Commands about a data folder: migrate, backup, restore, export.

``backup`` and ``export`` ask a server when ``--server`` and no folder is given, or a server holds the folder.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from pyoxigraph import RdfFormat

from quadrill.store.errors import StoreLockedError, StoreUnwritableError
from quadrill.store.folder import is_new
from quadrill.store.quads.quad_store import QuadStore

from ..config import Settings, load_settings
from ..data_folder import open_registry, open_store
from ..upkeep import backup
from ..upkeep.tar import ArchiveError, unpack
from .connection import ServerConnection, add_server_options, connect
from .given import OfflineError

EXPORT_FORMATS = {"nq": RdfFormat.N_QUADS, "trig": RdfFormat.TRIG, "jsonld": RdfFormat.JSON_LD}


def add_commands(commands: Any) -> None:
    """Add the offline commands."""
    _data_option(
        _command(commands, "migrate", _migrate, "bring data folder and registry to this version's format")
    )
    saving = _command(commands, "backup", _backup, "copy a data folder, also while a server uses it")
    saving.add_argument("folder", type=Path, metavar="DIR", help="a new folder for the backup")
    _data_option(saving)
    add_server_options(saving)
    restoring = _command(commands, "restore", _restore, "make a data folder of a backup")
    restoring.add_argument("folder", type=Path, metavar="DIR", help="the backup")
    _data_option(restoring)
    export = _command(commands, "export", _export, "write all quads")
    export.add_argument("file", nargs="?", help="the file; standard output without it")
    export.add_argument("--format", choices=tuple(EXPORT_FORMATS), default="nq")
    _data_option(export)
    add_server_options(export)


def _command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


def _data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", help="data folder")
    parser.add_argument("--config", metavar="FILE", type=Path, help="TOML file with settings")


def _settings(options: argparse.Namespace) -> Settings:
    return load_settings(overrides={"data": options.data} if options.data else {}, file=options.config)


def _migrate(options: argparse.Namespace) -> int:
    settings = _settings(options)
    open_store(settings).close()
    with open_registry(settings) as registry:
        print(f"the registry is at revision {registry.revision()}")
    return 0


def _backup(options: argparse.Namespace) -> int:
    target = options.folder.resolve()
    store = _own_store(options)
    if store is None:
        with connect(options) as server:
            version = _downloaded(server, target)
    else:
        settings = _settings(options)
        folder = settings.data_folder
        with store, open_registry(settings) as registry:
            hold = partial(backup.held_offline, folder) if folder is not None else lambda: None
            version = backup.make(store, registry, hold, target)["version"]
    print(f"version {version} is in {target}")
    return 0


def _downloaded(server: ServerConnection, target: Path) -> int:
    """Fetch a backup of a server into a new folder here; its version."""
    if target.exists() and any(target.iterdir()):
        raise StoreUnwritableError(f"the backup folder {target} is not empty", hint="give a new folder")
    headers: dict[str, str] = {}
    pieces = server.stream("POST", "backups", headers={"Accept": "application/x-tar"}, answered=headers)
    first = next(pieces, b"")
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        unpack(chain([first], pieces), target)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, (OSError, ArchiveError)):
            raise StoreUnwritableError(f"the backup cannot be written to {target}: {error}") from error
        raise
    return int(headers["etag"].strip('"'))


def _restore(options: argparse.Namespace) -> int:
    folder = _settings(options).data_folder
    if folder is None:
        raise OfflineError("a backup cannot be restored into memory", hint="Name a data folder with --data.")
    backup.restore(options.folder, folder)
    print(f"{folder} is restored from {options.folder}")
    return 0


def _export(options: argparse.Namespace) -> int:
    store = _own_store(options)
    if store is None:
        media_type = EXPORT_FORMATS[options.format].media_type
        with connect(options) as server:
            chunks = iter(server.stream("GET", "store", headers={"Accept": media_type}))
            # A file is not written over before there is something to write.
            first = next(chunks, b"")
            with _written(options.file) as output:
                for chunk in chain([first], chunks):
                    output.write(chunk)
    else:
        with store, _written(options.file) as output:
            store.dump(output, EXPORT_FORMATS[options.format])
    return 0


@contextmanager
def _written(file: str | None) -> Iterator[BinaryIO]:
    """A file to write, or standard output."""
    if file in (None, "-"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with Path(file).open("wb") as output:
            yield output


def _own_store(options: argparse.Namespace) -> QuadStore | None:
    """The data folder's store; None when a server is to be asked, because it is named or has the folder."""
    if options.server is not None and options.data is None and options.config is None:
        return None
    settings = _settings(options)
    if settings.data_folder is not None and is_new(settings.data_folder):
        raise OfflineError(
            f"there is no data in the folder {settings.data_folder}",
            hint="Name another one with --data, or a running server with --server.",
        )
    try:
        return open_store(settings)
    except StoreLockedError:
        return None
