"""Commands that need no server: explain, migrate, backup, restore, export, run.

Three ask a server after all: ``explain`` with a name of a query, ``backup`` and ``export`` when ``--server``
and no folder is given, or a server holds the folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from pyoxigraph import RdfFormat

from quadrill.continuous.queries.registration import Registration
from quadrill.store.errors import QuadrillError, StoreLockedError
from quadrill.store.folder import is_new
from quadrill.store.quads.quad_store import QuadStore

from ..config import MEMORY, Settings, load_settings
from ..upkeep import backup
from ..wiring import open_registry, open_services, open_store
from .connection import add_server_options, connect
from .given import OfflineError, UsageError, read_text

EXPORT_FORMATS = {"nq": RdfFormat.N_QUADS, "trig": RdfFormat.TRIG, "jsonld": RdfFormat.JSON_LD}


def add_commands(commands: Any) -> None:
    """Add the offline commands."""
    explain = _command(
        commands, "explain", _explain, "show the plan of a query text, or of a registered query"
    )
    explain.add_argument("query", help="a file with a query text, or the name of a registered query")
    explain.add_argument("--dialect", choices=("cqels", "rspql", "csparql", "sparql"))
    explain.add_argument("--analyze", action="store_true", help="JSON with live figures (registered queries)")
    explain.add_argument("--code", action="store_true", help="the generated source that runs the plan")
    add_server_options(explain)
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
    run = _command(commands, "run", _run, "evaluate a continuous query over recorded files")
    run.add_argument("query", type=Path, help="the query text")
    run.add_argument(
        "--stream", action="append", default=[], metavar="NAME=FILE", help="a stream's recorded elements"
    )
    run.add_argument(
        "--static", action="append", default=[], metavar="[GRAPH=]FILE", help="RDF to load at first"
    )
    run.add_argument("--dialect", choices=("cqels", "rspql", "csparql", "sparql"))
    run.add_argument(
        "--format",
        choices=("events", "rows", "debs"),
        default="events",
        help="events: one event of the feed a line; rows: one row a line, for people; debs: the output "
        "lines of the DEBS 2015 challenge",
    )
    run.add_argument("--until", metavar="TIME", help="end with a heartbeat of this time on every stream")


def _command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


def _data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", help="data folder")
    parser.add_argument("--config", metavar="FILE", type=Path, help="TOML file with settings")


def _settings(options: argparse.Namespace) -> Settings:
    return load_settings(overrides={"data": options.data} if options.data else {}, file=options.config)


def _explain(options: argparse.Namespace) -> int:
    file = Path(options.query)
    if not file.is_file():
        if "/" in options.query:
            raise OfflineError(f"there is no file {file}")
        print(_explained(options))
        return 0
    if options.analyze:
        raise OfflineError(f"{file} is a text: it has no live figures", hint="Name a registered query.")
    members: dict[str, Any] = {"query": read_text(file), "dialect": options.dialect}
    services = open_services(Settings(data=MEMORY), threaded=False)
    try:
        found = services.engine.validate(
            Registration.from_json({k: v for k, v in members.items() if v is not None}), code=options.code
        )
    finally:
        services.close()
    print(found["code" if options.code else "plan"])
    for warning in found.get("warnings", ()):
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _explained(options: argparse.Namespace) -> str:
    parameters = {flag: "true" for flag in ("analyze", "code") if getattr(options, flag)}
    path = f"queries/{quote(options.query, safe='')}/explain"
    try:
        with connect(options) as server:
            return server.call("GET", path, params=parameters).text.strip()
    except QuadrillError as error:
        if not Path(options.query).suffix:
            raise
        # What looks like the name of a file may be meant as one.
        raise OfflineError(f"there is no file {options.query}; {error.message}", hint=error.hint) from error


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
            made = server.call("POST", "backups", json={"folder": str(target)}).json()
    else:
        with store, open_registry(_settings(options)) as registry:
            made = backup.make(store, registry, str(target))
    print(f"version {made['version']} is in {made['folder']}")
    return 0


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


def _run(options: argparse.Namespace) -> int:
    from .replay import run_recorded

    return run_recorded(
        read_text(options.query),
        dialect=options.dialect,
        streams=_pairs(options.stream),
        static=options.static,
        until=options.until,
        form=options.format,
    )


def _pairs(given: list[str]) -> dict[str, Path]:
    streams = {}
    for each in given:
        name, equals, file = each.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--stream {each} is not NAME=FILE")
        if not Path(file).is_file():
            raise OfflineError(f"there is no file {file} for the stream {name}")
        streams[name] = Path(file)
    return streams
