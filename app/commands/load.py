"""``quadrill load``: by a server that can read the files or gets them sent, or offline into a data folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .connection import ServerConnection, ServerError, add_client_command, connect
from .given import OfflineError, UsageError, media_type_of
from .progress import followed

ENGINES = ("auto", "oxigraph", "spark")
BAD_LINES = 1
"""The exit code of a load that left bad lines out: not everything that was asked for was done."""
_DATASETS = ("application/n-quads", "application/trig", "application/ld+json")


def add_commands(commands: Any) -> None:
    """Add the command."""
    summary = "load RDF files into the store"
    parser = add_client_command(commands, "load", _load, summary)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="files; folders and globs the server can read"
    )
    parser.add_argument("--graph", metavar="IRI", help="the graph to load into (default: as the file says)")
    parser.add_argument("--type", metavar="MEDIA_TYPE", help="media type, when the file name does not tell")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="what prepares the files")
    parser.add_argument("--strict", action="store_true", help="load nothing when there is a bad line")
    parser.add_argument("--max-bad", type=int, metavar="N", help="load nothing above so many bad lines")
    parser.add_argument("--mirror", action="store_true", help="also write the Parquet mirror (Spark)")
    parser.add_argument("--data", metavar="DIR", help="load into this data folder, without a server")
    parser.add_argument("--master", metavar="URL", help="Spark master (with --data; a server has a setting)")


def _load(options: argparse.Namespace) -> int:
    if options.data:
        # Only this way needs the store; a client starts without it.
        from .offline_load import load_offline

        figures = load_offline(options)
        return _tell("1 file" if figures["files"] == 1 else f"{figures['files']} files", figures)
    code = 0
    with connect(options) as server:
        for file in options.files:
            there = _load_there(server, file, options)
            if there is not None:
                code = max(code, there)
                continue
            _require_upload(file, options)
            media_type = options.type or media_type_of(file)
            parameters = {} if options.graph is None else {"graph": options.graph}
            if options.graph is None and media_type not in _DATASETS:
                parameters = {"default": ""}
            with file.open("rb") as stream:
                server.call(
                    "POST",
                    "store",
                    params=parameters,
                    content=_blocks(stream),
                    headers={"Content-Type": media_type},
                )
            print(f"loaded {file}", file=sys.stderr)
    return code


def _blocks(stream: Any) -> Iterator[bytes]:
    while block := stream.read(1 << 20):
        yield block


def _load_there(server: ServerConnection, file: Path, options: argparse.Namespace) -> int | None:
    """Let the server read the file itself; None when it does not lie below one of its load folders."""
    if options.master:
        raise UsageError("--master is for loads with --data", hint="A server has the setting spark_master.")
    members = {
        "source": str(file.absolute()),
        "graph": options.graph,
        "format": options.type,
        "engine": options.engine,
        "strict": options.strict or None,
        "max_bad": options.max_bad,
        "mirror": options.mirror or None,
    }
    try:
        job = server.call(
            "POST", "loads", json={key: value for key, value in members.items() if value is not None}
        ).json()
    except ServerError as error:
        if error.status in (403, 404):
            return None
        raise
    job = followed(server, job)
    if job["state"] != "done":
        raise ServerError(f"{file} was not loaded: {job.get('error', job['state'])}")
    return _tell(str(file), job["progress"])


def _require_upload(file: Path, options: argparse.Namespace) -> None:
    """Refuse what only a load by the server can do.

    Raises: OfflineError, UsageError.
    """
    if file.is_file() and options.engine != "spark" and options.max_bad is None and not options.mirror:
        return
    if not file.exists():
        raise OfflineError(f"there is no file {file}")
    raise UsageError(
        f"{file} does not lie below a load folder of the server, so it can only be uploaded as one document",
        hint="Add its folder to the setting load_folders, or load with --data while no server runs.",
    )


def _tell(what: str, figures: Mapping[str, Any]) -> int:
    bad = figures.get("bad_lines", 0)
    print(f"loaded {what}, {figures['rows']} quads", file=sys.stderr)
    if not bad:
        return 0
    lines = "1 bad line was" if bad == 1 else f"{bad} bad lines were"
    print(f"{lines} left out; see {figures['quarantine']}", file=sys.stderr)
    return BAD_LINES
