"""The command ``quadrill shapes``, which lists, shows, puts and deletes the shapes of a server."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import output
from .arguments import OfflineError, UsageError, add_action, add_actions, add_client_command, media_type_of
from .connection import connect

_FORMATS = {
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "rdf": "application/rdf+xml",
    "jsonld": "application/ld+json",
}
"""Media types of a report by the format's name."""
_OPTIONS = ("mode", "data", "into", "max_time", "max_results")


def add_commands(commands: Any) -> None:
    """Add the command ``shapes`` with its actions ``list``, ``get``, ``put``, ``report`` and ``delete``."""
    shapes = add_client_command(
        commands,
        "shapes",
        _list,
        "list the SHACL shapes of a server; show, put or delete one, or print its validation report",
        "shapes",
        "shapes put people shapes.ttl --mode reject",
        "shapes report people",
    )
    actions = add_actions(shapes, _list)
    add_action(actions, "list", _list, "list the shapes, with the number of their results", "shapes list")
    get = add_action(
        actions,
        "get",
        _get,
        "show parameters, state and shapes graph of one",
        "shapes get people",
    )
    get.add_argument("name", help="the name of the shapes")
    put = add_action(
        actions,
        "put",
        _put,
        "create or replace shapes, and wait until their report is complete",
        "shapes put people shapes.ttl --mode reject",
        "shapes put people person.ttl address.ttl --data default --into http://example.org/report",
        "shapes put people --graph http://example.org/shapes",
    )
    put.add_argument("name", help="the name of the shapes")
    put.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="an RDF file with shapes; several files are one shapes graph",
    )
    put.add_argument(
        "--graph", metavar="IRI", help="read the shapes once from this graph of the store, and not from files"
    )
    put.add_argument(
        "--mode",
        choices=("watch", "warn", "reject"),
        help="what a violation does to its commit: nothing, a header of the answer, or a refusal "
        "(default: watch)",
    )
    put.add_argument(
        "--data",
        action="append",
        metavar="GRAPH",
        help="a graph to check, `default` for the default graph; can be repeated (default: the default graph "
        "and all named graphs that no rule set, shapes or view owns, and that hold no shapes)",
    )
    put.add_argument("--into", metavar="IRI", help="the graph that holds the report of each version")
    put.add_argument(
        "--max-time", metavar="TIME", help="maximum time for the validation of one commit, for example 10s"
    )
    put.add_argument("--max-results", type=int, metavar="N", help="maximum number of results of the report")
    report = add_action(
        actions,
        "report",
        _report,
        "print the validation report of the store's newest version",
        "shapes report people",
        "shapes report people --format nt --limit 100",
    )
    report.add_argument("name", help="the name of the shapes")
    report.add_argument("--format", choices=tuple(_FORMATS), help="RDF format of the report (default: ttl)")
    report.add_argument("--limit", type=int, metavar="N", help="maximum number of results (default: 10000)")
    delete = add_action(
        actions, "delete", _delete, "delete shapes and the graph of their report", "shapes delete people"
    )
    delete.add_argument("name", help="the name of the shapes")


def _list(options: argparse.Namespace) -> int:
    with connect(options) as server:
        found = server.call("GET", "shapes").json()["shapes"]
    names = ("name", "state", "mode", "results", "data", "report", "cost", "error")
    output.listing(options, names, found, _row)
    return 0


def _row(each: dict[str, Any]) -> list[str]:
    return [
        each["name"],
        each["state"],
        each["mode"],
        output.shown(each["results"]),
        ", ".join(each.get("data", ())),
        each.get("into", ""),
        f"{each['cost_ms']:.1f} ms",
        each["error"] or "",
    ]


def _get(options: argparse.Namespace) -> int:
    with connect(options) as server:
        document = server.call("GET", _path(options.name)).json()
    if options.json:
        output.print_json(document)
    else:
        text = document.pop("text")
        print(json.dumps(document, ensure_ascii=False, indent=2))
        print(f"\n{text}", end="")
    return _code(document)


def _put(options: argparse.Namespace) -> int:
    if bool(options.files) == bool(options.graph):
        raise UsageError(
            "shapes need a FILE, or --graph without files", hint="quadrill shapes put --help shows both."
        )
    parameters = {name: getattr(options, name) for name in _OPTIONS}
    given = {name: value for name, value in parameters.items() if value is not None}
    body: dict[str, Any] = {"json": {"graph": options.graph}}
    if options.files:
        content, kind = _shapes_graph(options.files)
        body = {"content": content, "headers": {"Content-Type": kind}}
    with connect(options) as server:
        document = server.call("PUT", _path(options.name), params=given, **body).json()
    count = output.counted(document["results"], "result")
    outcome = f": {document['error']}" if document["error"] else f": {count}"
    output.report(options, f"{options.name} is {document['state']}{outcome}", document)
    return _code(document)


def _shapes_graph(files: list[Path]) -> tuple[bytes, str]:
    """Return the shapes graph in files as a request body with its media type."""
    try:
        if len(files) == 1:
            return files[0].read_bytes(), media_type_of(files[0])
        return b"".join(_n_triples(file) for file in files), "application/n-triples"
    except OSError as error:
        raise OfflineError(f"{error.filename}: {error.strerror}") from error


def _n_triples(file: Path) -> bytes:
    """Return the triples of an RDF file, with blank nodes that no other file has."""
    from quadrill.store.errors import ReportedError
    from quadrill.store.formats import guess_rdf_format, parse_rdf

    media_type_of(file)
    kind = guess_rdf_format(file.name)
    assert kind is not None
    try:
        quads = list(parse_rdf(file.read_bytes(), kind, base_iri=file.absolute().as_uri()))
    except ReportedError as error:
        raise OfflineError(f"{file}: {error.message}", hint=error.hint) from error
    return "".join(f"{quad.triple} .\n" for quad in quads).encode()


def _report(options: argparse.Namespace) -> int:
    if options.json and options.format not in (None, "jsonld"):
        raise UsageError(f"--json and --format {options.format} are two formats")
    form = "jsonld" if options.json else options.format or "ttl"
    limit = {} if options.limit is None else {"limit": str(options.limit)}
    with connect(options) as server:
        pieces = server.stream(
            "GET", f"{_path(options.name)}/report", params=limit, headers={"Accept": _FORMATS[form]}
        )
        for piece in pieces:
            sys.stdout.buffer.write(piece)
    if options.json:
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    return 0


def _delete(options: argparse.Namespace) -> int:
    with connect(options) as server:
        server.call("DELETE", _path(options.name))
    output.report(options, f"{options.name} is deleted", {"deleted": options.name})
    return 0


def _code(document: dict[str, Any]) -> int:
    """Return the exit code of the command: 1 if the shapes have failed, otherwise 0."""
    return 1 if document["state"] == "failed" else 0


def _path(name: str) -> str:
    return f"shapes/{quote(name, safe='')}"
