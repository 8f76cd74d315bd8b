"""``quadrill load``: by a server that can read the files, or offline into a data folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.bulk.load import ENGINES
from quadrill.store.formats import RdfType, guess_rdf_format, rdf_format

from ..config import load_settings
from ..upkeep.loads import shown
from ..wiring import open_store
from .connection import ServerConnection, ServerError
from .given import OfflineError, UsageError
from .progress import ProgressLine, followed

BAD_LINES = 1
"""The exit code of a load that left bad lines out: not everything that was asked for was done."""


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """The options of bulk loads."""
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="what prepares the files")
    parser.add_argument("--strict", action="store_true", help="load nothing when there is a bad line")
    parser.add_argument("--max-bad", type=int, metavar="N", help="load nothing above so many bad lines")
    parser.add_argument("--mirror", action="store_true", help="also write the Parquet mirror (Spark)")
    parser.add_argument("--data", metavar="DIR", help="load into this data folder, without a server")
    parser.add_argument("--master", metavar="URL", help="Spark master (with --data; a server has a setting)")


def load_offline(options: argparse.Namespace) -> int:
    """Load all files as one commit into a data folder that no server holds."""
    settings = load_settings(overrides={"data": options.data})
    folder = settings.data_folder
    if folder is None:
        raise OfflineError("a load into memory would be lost", hint="Name a data folder with --data.")
    asked = LoadOptions(
        sources=tuple(map(str, options.files)),
        kind=_kind(options.type),
        graph=_graph(options.graph),
        engine=options.engine,
        max_bad=0 if options.strict else options.max_bad,
        direct_bytes=settings.load_direct_bytes,
        master=options.master or settings.spark_master or None,
        memory=settings.spark_memory,
        mirror=options.mirror,
    )
    line = ProgressLine()
    try:
        with open_store(settings) as store:
            summary = BulkLoader(store, folder / "loads").run(
                asked, report=lambda progress: line.show(shown(progress))
            )
    finally:
        line.end()
    return _tell(
        f"{summary.files} {'file' if summary.files == 1 else 'files'}",
        {"rows": summary.rows, "bad_lines": summary.bad, "quarantine": summary.quarantine},
    )


def load_there(server: ServerConnection, file: Path, options: argparse.Namespace) -> int | None:
    """Let the server read the file itself; None when it does not lie below one of its load folders."""
    if options.master:
        raise UsageError(
            "--master is for loads with --data", hint="A server has the setting spark_master."
        )
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


def require_upload(file: Path, options: argparse.Namespace) -> None:
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


def _kind(given: str | None) -> RdfType | None:
    if given is None:
        return None
    kind = rdf_format(given) or guess_rdf_format(f"x.{given}")
    if kind is None:
        raise UsageError(
            f"the format {given} is not known", hint="Give a media type, for instance text/turtle."
        )
    return kind


def _graph(given: str | None) -> NamedNode | None:
    try:
        return None if given is None else NamedNode(given)
    except ValueError as error:
        raise UsageError(f"--graph {given} is not an IRI") from error
