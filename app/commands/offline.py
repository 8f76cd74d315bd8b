"""Implementation of the commands migrate, backup, restore, export and ``drop --offline`` on a data folder.

``backup`` and ``export`` read a data folder, or request the data from a server; `open_source` chooses. The
module folder.py adds the commands on a data folder to the parser, without the slow import of the store.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, cast

import zstandard
from pyoxigraph import RdfFormat

from quadrill.store.bulk.sources import PACKINGS
from quadrill.store.changes.commit import GraphName
from quadrill.store.documents.serialising import PlainStringWriter
from quadrill.store.errors import FolderInUseError, StoreLockedError, StoreUnwritableError
from quadrill.store.folder import is_new
from quadrill.store.formats import guess_rdf_format
from quadrill.store.quads.quad_store import QuadStore

from ..config import Settings, load_settings, names_data_folder
from ..data_folder import derived_graphs_of, open_registry, open_store
from ..upkeep import backup as backups
from ..upkeep.tar import ArchiveError, unpack
from . import output
from .arguments import DEFAULT_SERVER, OfflineError, UsageError
from .connection import ServerConnection, connect, named_server

EXPORT_FORMATS = {"nq": RdfFormat.N_QUADS, "trig": RdfFormat.TRIG, "jsonld": RdfFormat.JSON_LD}
_PACKED: dict[str, Callable[[Path], IO[bytes]]] = {
    ".gz": lambda path: cast(IO[bytes], gzip.open(path, "wb")),
    ".bz2": lambda path: cast(IO[bytes], bz2.open(path, "wb")),
    ".zst": lambda path: cast(IO[bytes], zstandard.open(path, "wb")),
}
"""Functions that open a file for compressed writing, by the ending of its name."""


def _settings(options: argparse.Namespace) -> Settings:
    return load_settings(overrides={"data": options.data} if options.data else {}, file=options.config)


def migrate(options: argparse.Namespace) -> int:
    """Execute ``quadrill migrate``: upgrade a data folder and its registry to this version's formats."""
    settings = _settings(options)
    open_store(settings).close()
    with open_registry(settings) as registry:
        revision = registry.revision()
    if options.json:
        output.print_json({"revision": revision})
    else:
        print(f"the registry is at revision {revision}")
    return 0


def backup(options: argparse.Namespace) -> int:
    """Execute ``quadrill backup``: copy a server's or data folder's contents into a new folder."""
    target = options.folder.resolve()
    source = open_source(options)
    if isinstance(source, ServerConnection):
        with source:
            version = _downloaded(source, target)
    else:
        settings = _settings(options)
        folder = settings.data_folder
        with source, open_registry(settings) as registry:
            hold = partial(backups.held_offline, folder) if folder is not None else lambda: None
            version = backups.make(source, registry, hold, target)["version"]
    if options.json:
        output.print_json({"version": version, "folder": str(target)})
    else:
        print(f"version {version} is in {target}")
    return 0


def _downloaded(server: ServerConnection, target: Path) -> int:
    """Download a server's backup into an empty or new folder, and return the store version of the backup."""
    if target.exists() and any(target.iterdir()):
        raise FolderInUseError(f"the backup folder {target} is not empty", hint="give a new folder")
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


def restore(options: argparse.Namespace) -> int:
    """Execute ``quadrill restore``: create a data folder from a backup."""
    folder = _settings(options).data_folder
    if folder is None:
        raise OfflineError("a backup cannot be restored into memory", hint="Name a data folder with --data.")
    backups.restore(options.folder, folder)
    if options.json:
        output.print_json({"data": str(folder), "backup": str(options.folder)})
    else:
        print(f"{folder} is restored from {options.folder}")
    return 0


def drop_offline(options: argparse.Namespace) -> None:
    """Execute ``quadrill drop NAME --offline``: remove a query from the registry without evaluating it."""
    settings = _settings(options)
    if settings.data_folder is None or is_new(settings.data_folder):
        raise OfflineError(f"there is no data in the folder {settings.data_folder}")
    # Dropping a query offline replays no journal, because the next start of the server reads the registry.
    # The store is opened because an open store locks the data folder against a server.
    store = open_store(settings)
    try:
        with open_registry(settings) as registry:
            if not registry.queries.was_dropped(options.name):
                registry.queries.remove(options.name)
    finally:
        store.close()


def export(options: argparse.Namespace) -> int:
    """Execute ``quadrill export``: write all quads of a server or data folder to a file."""
    form = EXPORT_FORMATS[options.format or _format_of(options.file)]
    if options.json and options.file in (None, "-"):
        raise UsageError("--json tells of a file", hint="Name a file, or give --format jsonld.")
    source = open_source(options)
    if isinstance(source, ServerConnection):
        with source:
            parameters = {"inferred": "true"} if options.inferred else {}
            headers = {"Accept": form.media_type}
            chunks = iter(source.stream("GET", "store", params=parameters, headers=headers))
            # An existing file is not opened before the server sent the first bytes of the response.
            first = next(chunks, b"")
            with _written(options.file) as target:
                for chunk in chain([first], chunks):
                    target.write(chunk)
    else:
        with source, _written(options.file) as target:
            writer = PlainStringWriter(target, form)
            without = frozenset[GraphName]() if options.inferred else _derived_graphs(options)
            source.reader.dump(writer, form, without=without)  # type: ignore[arg-type]  # it only calls write
            writer.finish()
    if options.json:
        size = os.path.getsize(options.file)
        output.print_json({"file": options.file, "format": form.media_type, "bytes": size})
    return 0


def _derived_graphs(options: argparse.Namespace) -> frozenset[GraphName]:
    """Return the graphs of the rule sets and reports that the registry of a data folder has."""
    with open_registry(_settings(options)) as registry:
        return derived_graphs_of(registry)


def _format_of(file: str | None) -> str:
    """Return the short name of the export format for a file name; nq for an unknown ending.

    Raises: UsageError for a format that holds only one graph, or an unsupported compression.
    """
    name = "" if file is None else Path(file).name.lower()
    packed = next((ending for ending in PACKINGS if name.endswith(ending)), "")
    if packed and packed not in _PACKED:
        raise UsageError(f"files are not packed as {packed}", hint=f"Packings are {', '.join(_PACKED)}.")
    kind = guess_rdf_format(name.removesuffix(packed))
    if kind is None:
        return "nq"
    found = {form.media_type: short for short, form in EXPORT_FORMATS.items()}.get(kind.media_type)
    if found is None:
        raise UsageError(
            f"{file} would be in a format that holds one graph, an export holds all",
            hint=f"End the name with one of {', '.join(EXPORT_FORMATS)}, or give --format.",
        )
    return found


@contextmanager
def _written(file: str | None) -> Iterator[IO[bytes]]:
    """Open an export file or standard output for writing; replace an existing file only when complete."""
    if file is None or file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(os.path.realpath(file))
    special = path.exists() and not path.is_file()
    draft = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
    packed = next((opened for ending, opened in _PACKED.items() if path.name.lower().endswith(ending)), None)
    try:
        with packed(draft) if packed is not None else draft.open("wb") as target:
            yield target
        if not special:
            os.replace(draft, path)
    except BaseException as error:
        if not special:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is not None:
            error.filename = file  # errors name the export file, because users do not know the temporary file
        raise


def open_source(options: argparse.Namespace, default: str = DEFAULT_SERVER) -> QuadStore | ServerConnection:
    """Open the source of an export or backup: a data folder, or a connection to a server.

    The source is the data folder of the options; else the server of the option or environment; else the data
    folder of the environment; else a server at the ``default`` address, if it responds; else the default data
    folder. If another process has the data folder open, the source is the server of ``--server``, but never a
    server at the default address, because that server may have other data.

    Raises:
        OfflineError: no server responds and the data folder has no data.
        StoreLockedError: another process has the folder open, and ``--server`` is not given.
    """
    given = options.data is not None or options.config is not None
    if not given and named_server(options) is None:
        given = names_data_folder()
    if not given:
        server = connect(options, default)
        if named_server(options) is not None:
            return server
        if server.answers():
            print(f"asking the server at {default}; --data selects a data folder", file=sys.stderr)
            return server
    settings = _settings(options)
    folder = settings.data_folder
    if not given and (folder is None or is_new(folder)):
        raise OfflineError(
            f"no server answers at {default}, and there is no data in the folder {folder or settings.data}",
            hint="Name a running server with --server, or a data folder with --data.",
        )
    if folder is not None and is_new(folder):
        raise OfflineError(
            f"there is no data in the folder {folder}",
            hint="Name another one with --data, or a running server with --server.",
        )
    if not given:
        print(f"no server answers at {default}: using the data folder {folder}", file=sys.stderr)
    try:
        return open_store(settings)
    except StoreLockedError as error:
        if options.server is None:
            raise StoreLockedError(error.message, hint="stop it, or ask it with --server URL") from error
        print(f"{error.message}: asking the server at {options.server}", file=sys.stderr)
        return connect(options)
