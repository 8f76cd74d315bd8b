"""The command ``quadrill run``, which evaluates a continuous query over recorded files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from quadrill.store.documents.times import parse_instant

from .arguments import DIALECTS, OfflineError, UsageError, add_command, read_text


def add_commands(commands: Any) -> None:
    """Add the command ``run`` to the command line parser."""
    run = add_command(
        commands,
        "run",
        _run,
        "evaluate a continuous query over recorded files, without a server",
        "run delays.rspql --stream departures=departures.ndjson --static airports.ttl --format rows",
    )
    run.add_argument("query", type=Path, help="the query text")
    run.add_argument(
        "--stream",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a file with recorded elements of a stream",
    )
    run.add_argument(
        "--static",
        action="append",
        default=[],
        metavar="[GRAPH=]FILE",
        help="an RDF file to load into the store at the start",
    )
    run.add_argument("--dialect", choices=DIALECTS, help="default: detected from the text")
    run.add_argument(
        "--format",
        choices=("events", "rows", "debs"),
        default="events",
        help="events: one event of the feed per line; rows: one row per line, for people; debs: the output "
        "lines of the DEBS 2015 challenge",
    )
    run.add_argument(
        "--until", metavar="TIME", help="at the end, advance every stream to this time by a heartbeat"
    )


def _run(options: argparse.Namespace) -> int:
    text, streams = read_text(options.query), _pairs(options.stream)
    until = None if options.until is None else parse_instant(options.until.strip())
    if options.until is not None and until is None:
        from quadrill.store.documents.times import INSTANT_HINT

        raise UsageError(f"--until {options.until} is not an instant", hint=INSTANT_HINT)
    # Errors in the files are reported before the import of the engine, which is slow.
    from .replay import run_recorded

    return run_recorded(
        text,
        dialect=options.dialect,
        streams=streams,
        static=options.static,
        until=until,
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
