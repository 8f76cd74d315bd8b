"""The command ``quadrill load``, which loads RDF files into a server's store or into a data folder."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from . import output
from .arguments import OfflineError, UsageError, add_client_command, media_type_of
from .connection import ServerConnection, ServerError, connect
from .progress import ProgressLine, followed

ENGINES = ("auto", "oxigraph", "spark")
BAD_LINES = 1
"""Exit code of a load that skipped bad lines; the other lines were loaded."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Begin of an IRI that is given as a file."""
_GLOB = re.compile(r"[*?\[]")
_DATASETS = ("application/n-quads", "application/trig", "application/ld+json")
"""RDF formats that can name graphs; files in other formats are uploaded to the default graph."""


def add_commands(commands: Any) -> None:
    """Add the command ``load`` to the command line parser."""
    parser = add_client_command(
        commands,
        "load",
        _load,
        "load RDF files into the store",
        "load airports.ttl flights.nq.gz",
        "load --graph http://example.org/airports airports.ttl",
        "load --data ./quadrill flights.nt",
        further="The ending of a file name selects the format. The server reads files in its load folders "
        "from its own disk; other files are uploaded. With --data, no server is needed",
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="files, folders or globs; an upload takes only files",
    )
    parser.add_argument(
        "--graph", metavar="IRI", help="the graph to load into (default: the graphs in the file)"
    )
    parser.add_argument("--type", metavar="MEDIA_TYPE", help="media type (default: by the file's ending)")
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="the engine that parses the files")
    parser.add_argument("--strict", action="store_true", help="load nothing if a line is invalid")
    parser.add_argument(
        "--max-bad", type=int, metavar="N", help="load nothing if more than N lines are invalid"
    )
    parser.add_argument("--mirror", action="store_true", help="also write the Parquet mirror (Spark)")
    parser.add_argument("--data", metavar="DIR", help="load into this data folder, without a server")
    parser.add_argument(
        "--master", metavar="URL", help="Spark master, only with --data (a server has a setting)"
    )


def _load(options: argparse.Namespace) -> int:
    if options.data:
        # The store is imported here, because its import is slow and only an offline load needs the store in
        # this process.
        from .offline_load import load_offline

        figures = load_offline(options)
        what = output.counted(figures["files"], "file")
        return _report(
            options, what, figures["rows"], {"file": [str(file) for file in options.files]} | figures
        )
    code = 0
    with connect(options) as server:
        _check_files(options, server.url)
        for file in options.files:
            there = _load_there(server, file, options)
            if there is None:
                _upload(server, file, options)
            else:
                code = max(code, there)
    return code


def _check_files(options: argparse.Namespace, url: str) -> None:
    """Check all arguments before the first load, because each load is a separate commit.

    Raises:
        UsageError: an argument is an address, or the ending of a file names no RDF format.
        OfflineError: an argument names no file, and the server, which runs on this machine, has none either.
    """
    # The import is slow enough to matter, and only this command needs it.
    from ..security import is_loopback

    on_this_machine = is_loopback(urlsplit(url).hostname or "")
    for file in options.files:
        if _ADDRESS.match(str(file)) and not file.exists():
            raise UsageError(
                f"{file} is an address, not a file; nothing was loaded",
                hint="--graph IRI names the graph of all files.",
            )
        if file.is_file():
            packed = _PACKED.get(file.suffix)
            if options.type is None:
                media_type_of(file.with_suffix("") if packed else file)
        elif on_this_machine and not file.exists() and not _GLOB.search(str(file)):
            raise OfflineError(f"there is no file {file}; nothing was loaded")


def _upload(server: ServerConnection, file: Path, options: argparse.Namespace) -> None:
    _require_upload(file, options)
    packed = _PACKED.get(file.suffix)
    media_type = options.type or media_type_of(file.with_suffix("") if packed else file)
    parameters = {} if options.graph is None else {"graph": options.graph}
    if options.graph is None and media_type not in _DATASETS:
        parameters = {"default": ""}
    headers = {"Content-Type": media_type} | output.PREFERRED
    if packed is _as_it_is:
        headers["Content-Encoding"] = "gzip"
    # The total size of an upload is unknown for .bz2 and .zst files, because this client decompresses them.
    total = file.stat().st_size if packed in (None, _as_it_is) else None
    line = ProgressLine()
    try:
        with (packed or _as_it_is)(file) as stream:
            content = _blocks(stream, line, total)
            answer = server.call("POST", "store", params=parameters, content=content, headers=headers)
    finally:
        line.end()
    change = answer.json()
    output.report(options, f"loaded {file}: {output.change_text(change)}", {"file": str(file)} | change)


def _as_it_is(file: Path) -> IO[bytes]:
    return file.open("rb")


def _unpacked_bz2(file: Path) -> IO[bytes]:
    import bz2

    return bz2.open(file, "rb")


def _unpacked_zst(file: Path) -> IO[bytes]:
    import zstandard

    return cast(IO[bytes], zstandard.open(file, "rb"))


_PACKED = {".gz": _as_it_is, ".bz2": _unpacked_bz2, ".zst": _unpacked_zst}
"""Functions that open compressed files, by file name ending; .gz is sent as is, and servers decompress it."""


def _blocks(stream: Any, line: ProgressLine, total: int | None) -> Iterator[bytes]:
    """Yield the content of a file in blocks of 1 MiB, and show the sent bytes on the progress line."""
    sent = 0
    while block := stream.read(1 << 20):
        if sent:
            line.show_sent(sent, total)
        yield block
        sent += len(block)


def _load_there(server: ServerConnection, file: Path, options: argparse.Namespace) -> int | None:
    """Let the server load a file from its own disk, and return the exit code.

    The exit code is None if the file lies in no load folder of the server or does not exist there (status 403
    or 404), so that the caller can upload the file.
    """
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
    figures = job["progress"]
    return _report(options, str(file), figures["rows"], {"file": str(file), "job": job["id"]} | figures)


def _require_upload(file: Path, options: argparse.Namespace) -> None:
    """Raise an error if a file cannot be uploaded to the server.

    Raises:
        OfflineError: the file does not exist.
        UsageError: the path is a folder, or an option needs a load by the server from its own disk.
    """
    if file.is_file() and options.engine != "spark" and options.max_bad is None and not options.mirror:
        return
    if not file.exists():
        raise OfflineError(f"there is no file {file}")
    raise UsageError(
        f"{file} does not lie below a load folder of the server, so it can only be uploaded as one document",
        hint="Add its folder to the setting load_folders, or load with --data while no server runs.",
    )


def _report(options: argparse.Namespace, what: str, rows: int, document: Mapping[str, Any]) -> int:
    bad = document.get("bad_lines", 0)
    text = f"loaded {what}, {rows} quads, {document['added']} of them new, version {document['version']}"
    if document.get("violations"):
        text += f", {output.violations_text(document)}"
    output.report(options, text, document)
    if not bad:
        return 0
    lines = "1 bad line was" if bad == 1 else f"{bad} bad lines were"
    print(f"{lines} left out; see {document['quarantine']}", file=sys.stderr)
    return BAD_LINES
