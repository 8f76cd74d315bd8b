"""The commands ``quadrill query`` and ``quadrill update``, which run a SPARQL text once on a server."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from . import output, tables
from .arguments import UsageError, add_client_command, read_text
from .connection import ServerConnection, connect

ACCEPT = {
    "json": "application/sparql-results+json, application/ld+json;q=0.5",
    "xml": "application/sparql-results+xml, application/rdf+xml;q=0.5",
    "csv": "text/csv, application/n-quads;q=0.5",
    "tsv": "text/tab-separated-values, application/n-quads;q=0.5",
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "nq": "application/n-quads",
    "trig": "application/trig",
    "rdf": "application/rdf+xml",
    "jsonld": "application/ld+json",
    "table": "application/sparql-results+json, text/turtle;q=0.5",
}
"""Accept headers by output format; the second media type is for answers that are graphs."""
_ENDINGS = {".srj": "json", ".srx": "xml", ".turtle": "ttl", ".owl": "rdf"} | {
    f".{name}": name for name in ACCEPT if name != "table"
}
"""Format of a query's answer by the file name ending of ``--to``."""
_TEXTS = (".rq", ".ru", ".sparql")
"""Endings of an argument that names a file with SPARQL; an argument with no such ending is SPARQL itself."""


def add_commands(commands: Any) -> None:
    """Add the commands ``query`` and ``update`` to the command line parser."""
    query = add_client_command(
        commands,
        "query",
        _query,
        "run a SPARQL query",
        "query 'SELECT ?s ?o { ?s ?p ?o } LIMIT 5'",
        "query airports.rq --to airports.csv",
        "query --format ttl < construct.rq",
    )
    _add_text(query)
    query.add_argument(
        "--format",
        choices=tuple(ACCEPT),
        help="format of the answer (default: by the ending of --to, else table)",
    )
    query.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="write the answer to this file, in the format of the file's ending",
    )
    query.add_argument(
        "--entailment",
        metavar="NAME",
        help="add the graph of this rule set to the default graph; none hides the graphs of all rule sets",
    )
    query.add_argument("--timeout", type=float, metavar="SECONDS", help="cancel the query after this time")
    update = add_client_command(
        commands,
        "update",
        _update,
        "run a SPARQL update",
        "update 'INSERT DATA { <urn:a> <urn:b> 1 }'",
        "update change.ru",
        further="The update is one atomic commit. The command prints how many quads it added and removed",
    )
    _add_text(update)


def _add_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text",
        nargs="?",
        help=f"the text, or a file that ends with one of {', '.join(_TEXTS)}; default: standard input",
    )
    parser.add_argument("--file", type=Path, help="read the text from this file, whatever its ending")


def _text(options: argparse.Namespace) -> str:
    text: str | None = options.text
    if text is not None and options.file is not None:
        raise UsageError("the text is given twice, as an argument and as a file")
    # A SPARQL text never ends with .rq, .ru or .sparql, so the argument is a file name.
    if text is not None and text.endswith(_TEXTS):
        return read_text(Path(text))
    return text if text is not None else read_text(options.file)


def _query(options: argparse.Namespace) -> int:
    form = _format(options)
    with connect(options) as server:
        if form != "table":
            pieces = _answer_pieces(server, options, form)
            # An existing file is not opened before the server sent the first bytes of the response.
            first = next(pieces, b"")
            with nullcontext(sys.stdout.buffer) if options.to is None else options.to.open("wb") as target:
                target.write(first)
                for piece in pieces:
                    target.write(piece)
                target.flush()
            return 0
        headers: dict[str, str] = {}
        body = b"".join(_answer_pieces(server, options, form, headers))
    if headers["content-type"].startswith("application/sparql-results+json"):
        tables.print_results(json.loads(body))
    else:
        sys.stdout.write(body.decode("utf-8"))
    return 0


def _format(options: argparse.Namespace) -> str:
    """Return the answer format of the options ``--format``, ``--json`` or ``--to``, else ``table``.

    Raises: UsageError when options contradict each other, or the ending of a file is unknown.
    """
    if options.format is not None:
        if options.json and options.format != "json":
            raise UsageError(f"--json and --format {options.format} are two formats")
        form: str = options.format
    elif options.json:
        form = "json"
    elif options.to is None:
        form = "table"
    elif options.to.suffix.lower() in _ENDINGS:
        form = _ENDINGS[options.to.suffix.lower()]
    else:
        raise UsageError(
            f"the ending of {options.to} names no known format",
            hint=f"End it with one of {', '.join(_ENDINGS)}, or give --format.",
        )
    if form == "table" and options.to is not None:
        raise UsageError("a table is for the screen", hint="Give a file another --format, for instance csv.")
    return form


def _answer_pieces(
    server: ServerConnection, options: argparse.Namespace, form: str, answered: dict[str, str] | None = None
) -> Iterator[bytes]:
    parameters = {} if options.timeout is None else {"timeout": f"{options.timeout:g}"}
    if options.entailment is not None:
        parameters["entailment"] = options.entailment
    headers = {"Accept": ACCEPT[form], "Content-Type": "application/sparql-query"}
    return server.stream(
        "POST", "query", answered, params=parameters, content=_text(options), headers=headers
    )


def _update(options: argparse.Namespace) -> int:
    headers = {"Content-Type": "application/sparql-update"} | output.PREFERRED
    with connect(options) as server:
        answer = server.call("POST", "update", content=_text(options), headers=headers)
    change = answer.json()
    output.report(options, output.change_text(change), change)
    return 0
