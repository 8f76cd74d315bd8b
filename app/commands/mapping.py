"""The command ``quadrill map``, and the command line arguments for a stream declaration with a mapping."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from . import output
from .arguments import (
    OfflineError,
    UsageError,
    add_client_command,
    json_of,
    members_of,
    read_text,
    stream_address,
)
from .connection import connect

RECORD_TYPES = {".json": "application/json", ".csv": "text/csv"}
"""Media types of files with records, by file name ending; other files are read as NDJSON."""
_LINES = "application/x-ndjson"


def add_commands(commands: Any) -> None:
    """Add the command ``map`` to the command line parser."""
    shown = add_client_command(
        commands,
        "map",
        _map,
        "show the quads that a mapping makes from records, without a push",
        "map readings sample.csv",
        "map sample.ndjson --mapping mapping.rq --time ts",
    )
    shown.add_argument("stream", nargs="?", help="the stream with the mapping; not needed with --mapping")
    shown.add_argument("file", help="a file of records, or - for standard input")
    shown.add_argument(
        "--type", metavar="MEDIA_TYPE", help=f"media type; default: by the file's ending, else {_LINES}"
    )
    _add_mapping(shown)


def add_declaration(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a stream declaration to a parser: stream, mapping options and ``--option``."""
    parser.add_argument("stream", help="the stream's name or IRI")
    _add_mapping(parser)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further member of the declaration, for instance lateness=2s; can be repeated",
    )


def declaration(options: argparse.Namespace) -> dict[str, Any]:
    """Return the members of a stream declaration from the command line arguments."""
    members = members_of(options.option, "--option")
    if options.mapping is not None:
        members["mapping"] = _mapping(options)
    return members


def _add_mapping(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mapping", type=Path, metavar="FILE", help="a CONSTRUCT, a JSON-LD context, or a mapping as JSON"
    )
    parser.add_argument("--time", metavar="FIELD", help="the field of the event time")
    parser.add_argument(
        "--time-format", choices=("iso", "s", "ms", "us"), help="format of the event time in that field"
    )
    parser.add_argument("--format", choices=("json", "csv"), help="accept only records of this format")


def _mapping(options: argparse.Namespace) -> dict[str, Any]:
    """Return a mapping from the file of ``--mapping``, with time and format from the other options."""
    text = read_text(options.mapping)
    members: dict[str, Any] = {"construct": text}
    if text.lstrip().startswith("{"):
        members = json_of(text, options.mapping)
        members = {"jsonld": members} if "@context" in members else members
    for name in ("time", "time_format", "format"):
        if getattr(options, name) is not None:
            members[name] = getattr(options, name)
    return members


def _map(options: argparse.Namespace) -> int:
    data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    media_type = options.type or RECORD_TYPES.get(Path(options.file).suffix, _LINES)
    with connect(options) as server:
        if options.mapping is not None:
            members = {"mapping": _mapping(options), "records": _records(data, media_type, options.file)}
            answer = server.call("POST", "streams:map", json=members)
        elif options.stream is None:
            raise UsageError("no mapping is given", hint="Name a stream before the file, or give --mapping.")
        else:
            path, parameters = stream_address(options.stream, ":map")
            headers = {"Content-Type": media_type}
            answer = server.call("POST", path, params=parameters, content=data, headers=headers)
    if options.json:
        output.print_json({"quads": answer.text})
    else:
        sys.stdout.write(answer.text)
    return 0


def _records(data: bytes, media_type: str, file: str) -> list[Any] | str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OfflineError(f"{file} is not UTF-8") from error
    if media_type.startswith("text/csv"):
        return text
    if media_type == _LINES:
        return [json_of(line, file) for line in text.splitlines() if line.strip()]
    found = json_of(text, file)
    return found if isinstance(found, list) else [found]
