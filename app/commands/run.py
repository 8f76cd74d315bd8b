"""The command ``quadrill run``, which evaluates a continuous query over recorded files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from quadrill.store.documents.times import parse_instant

from .arguments import (
    DIALECTS,
    OfflineError,
    UsageError,
    add_command,
    dialect_of,
    members_of,
    read_text,
    split_pair,
)


def add_commands(commands: Any) -> None:
    """Add the command ``run`` to the command line parser."""
    run = add_command(
        commands,
        "run",
        _run,
        "evaluate a continuous query over recorded files, without a server",
        "run delays.rspql --stream departures=departures.ndjson --static airports.ttl --format rows",
        "run delays.rspql --engine spark --checkpoint job --stream departures=files:in --sink files:out",
        json_help="print one JSON object per event: id, event and data",
    )
    run.add_argument("query", type=Path, help="the query text")
    run.add_argument(
        "--stream",
        action="append",
        default=[],
        metavar="NAME=SOURCE",
        help="recorded elements of a stream: a file, or files:FOLDER for all files of a folder",
    )
    run.add_argument(
        "--static",
        action="append",
        default=[],
        metavar="[GRAPH=]FILE",
        help="an RDF file to load into the store at the start",
    )
    run.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a member of the registration, such as lateness=5s, report=on-window-close or "
        "bounds=open-closed; or late=admit, drop or error, what to do with elements that are late in the "
        "order of their recording (default: admit); can be repeated",
    )
    run.add_argument(
        "--output",
        choices=("istream", "dstream", "rstream", "changes"),
        help="rows to emit: new rows, removed rows, whole answers, or new and removed rows",
    )
    run.add_argument(
        "--dialect", choices=DIALECTS, help="default: by the file's ending, else detected from the text"
    )
    run.add_argument(
        "--strict",
        action="store_true",
        help="evaluate nothing if a stream or graph is read but not given, or given but not read",
    )
    run.add_argument(
        "--format",
        choices=("events", "rows", "debs"),
        help="events: one event of the feed per line; rows: one row per line, for people; debs: the output "
        "lines of the DEBS 2015 challenge (default: events)",
    )
    run.add_argument(
        "--until", metavar="TIME", help="at the end, advance every stream to this time by a heartbeat"
    )
    _add_spark_options(run)


def _add_spark_options(run: argparse.ArgumentParser) -> None:
    spark = run.add_argument_group("on Spark", "a job that several workers share, see docs/scale.md")
    spark.add_argument("--engine", choices=("spark",), help="the engine; default: this process")
    spark.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="the folder of the job, from which it continues"
    )
    spark.add_argument(
        "--sink", metavar="SINK", help="files:FOLDER or kafka:BROKERS/TOPIC; default: standard output"
    )
    spark.add_argument("--master", metavar="URL", help="the Spark master; default: local[*]")
    spark.add_argument("--key-groups", type=int, metavar="N", help="the number of key groups; default: 64")
    spark.add_argument(
        "--self-contained",
        action="append",
        default=[],
        metavar="IRI",
        help="a stream of which each solution of a block comes from one element",
    )
    spark.add_argument(
        "--files-per-batch",
        type=int,
        metavar="N",
        help="the maximum number of files of a stream in one batch",
    )
    spark.add_argument("--once", action="store_true", help="end after the input that exists")
    spark.add_argument(
        "--mirror", type=Path, metavar="FOLDER", help="the mirror of a store, as the static data"
    )


def _run(options: argparse.Namespace) -> int:
    if options.json and options.format is not None:
        raise UsageError("--json and --format are two formats")
    if options.engine == "spark":
        if options.strict:
            raise UsageError("--strict does not go with --engine spark")
        from .run_spark import run_on_spark

        return run_on_spark(options, registration_options(options), _until(options))
    for option in _SPARK_ONLY:
        if getattr(options, option) not in (None, False, []):
            raise UsageError(f"--{option.replace('_', '-')} needs --engine spark")
    text, streams = read_text(options.query), _pairs(options.stream)
    until = _until(options)
    # Errors in the files are reported before the import of the engine, which is slow.
    from .replay import run_recorded

    return run_recorded(
        text,
        streams=streams,
        static=options.static,
        until=until,
        form="json" if options.json else options.format or "events",
        options=registration_options(options),
        strict=options.strict,
    )


_SPARK_ONLY = (
    "checkpoint", "sink", "master", "key_groups", "self_contained", "files_per_batch", "once", "mirror",
)  # fmt: skip


def _until(options: argparse.Namespace) -> int | None:
    until = None if options.until is None else parse_instant(options.until.strip())
    if options.until is not None and until is None:
        from quadrill.store.documents.times import INSTANT_HINT

        raise UsageError(f"--until {options.until} is not an instant", hint=INSTANT_HINT)
    return until


def registration_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the members of the registration that options and the ending of the query's file give.

    Raises UsageError for an ``--option`` that is not NAME=JSON, or that gives the query or its name.
    """
    dialect = options.dialect or dialect_of(options.query)
    given = {"dialect": dialect, "output": options.output}
    found = {name: value for name, value in given.items() if value is not None}
    found |= members_of(options.option, "--option")
    for name in ("query", "name"):
        if name in found:
            raise UsageError(f"--option {name} is not an option of a registration")
    return found


def _pairs(given: list[str]) -> dict[str, str]:
    streams = {}
    for each in given:
        name, source = split_pair(each)
        if not source.startswith("files:") and not Path(source).is_file():
            raise OfflineError(f"there is no file {source} for the stream {name}")
        streams[name] = source
    return streams
