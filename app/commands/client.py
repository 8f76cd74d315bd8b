"""Clients of a running server: query, update, register, queries, watch, explain, replay, drop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import tables
from .connection import ServerConnection, add_client_command, connect, events
from .given import UsageError, add_data_options, json_of, members_of, read_text

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


def add_commands(commands: Any) -> None:
    """Add the client commands."""
    query = add_client_command(commands, "query", _query, "run a SPARQL query")
    _add_text(query)
    query.add_argument("--format", choices=tuple(ACCEPT), default="table", help="how to print the answer")
    query.add_argument("--timeout", type=float, metavar="SECONDS", help="stop it after that time")
    update = add_client_command(commands, "update", _update, "run a SPARQL update")
    _add_text(update)
    register = add_client_command(commands, "register", _register, "register a continuous query")
    register.add_argument("file", help="the query text, or a JSON registration; - for standard input")
    register.add_argument("--name", help="the query's name")
    register.add_argument("--dialect", choices=("cqels", "rspql", "csparql", "sparql"))
    register.add_argument("--output", choices=("istream", "dstream", "rstream", "changes"))
    register.add_argument("--replace", action="store_true", help="drop the query that has the name")
    register.add_argument(
        "--option", action="append", default=[], metavar="NAME=JSON", help="a further member"
    )
    add_client_command(commands, "queries", _queries, "list the continuous queries")
    watch = add_client_command(commands, "watch", _watch, "follow a query's feed, one event a line")
    watch.add_argument("name", help="the query's name")
    watch.add_argument(
        "--from", dest="after", type=int, metavar="ID", help="begin after that event; 0 is the oldest"
    )
    watch.add_argument("--snapshot", action="store_true", help="begin with the current answer")
    watch.add_argument("--ids", action="store_true", help="begin each line with the id of its event")
    watch.add_argument("--count", type=int, metavar="N", help="end after that many events")
    replay = add_client_command(
        commands, "replay", _replay, "evaluate a query once more over the retained elements"
    )
    replay.add_argument("name", help="the query's name")
    replay.add_argument("--from", dest="begin", metavar="TIME", help="milliseconds or xsd:dateTime")
    drop = add_client_command(commands, "drop", _drop, "drop a continuous query")
    drop.add_argument("name", help="the query's name")
    drop.add_argument("--offline", action="store_true", help="in a data folder that no server has open")
    add_data_options(drop, ", with --offline")


def _add_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", help="the text; without it standard input is read")
    parser.add_argument("--file", type=Path, help="read the text from a file")


def _text(options: argparse.Namespace) -> str:
    if options.text is not None and options.file is not None:
        raise UsageError("the text is given twice, as an argument and as a file")
    return options.text if options.text is not None else read_text(options.file)


def _query(options: argparse.Namespace) -> int:
    parameters = {} if options.timeout is None else {"timeout": f"{options.timeout:g}"}
    headers = {"Accept": ACCEPT[options.format], "Content-Type": "application/sparql-query"}
    with connect(options) as server:
        if options.format != "table":
            for chunk in server.stream(
                "POST", "query", params=parameters, content=_text(options), headers=headers
            ):
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return 0
        answer = server.call("POST", "query", params=parameters, content=_text(options), headers=headers)
    if answer.headers["Content-Type"].startswith("application/sparql-results+json"):
        tables.print_results(answer.json())
    else:
        sys.stdout.write(answer.text)
    return 0


def _update(options: argparse.Namespace) -> int:
    with connect(options) as server:
        server.call(
            "POST", "update", content=_text(options), headers={"Content-Type": "application/sparql-update"}
        )
    return 0


def _register(options: argparse.Namespace) -> int:
    text = read_text(None if options.file == "-" else Path(options.file))
    members = json_of(text, options.file) if text.lstrip().startswith("{") else {"query": text}
    for name in ("name", "dialect", "output"):
        if getattr(options, name) is not None:
            members[name] = getattr(options, name)
    members |= members_of(options.option, "--option")
    with connect(options) as server:
        if options.replace and "name" in members:
            path = f"queries/{quote(members['name'], safe='')}?replace=true"
            answer = server.call("PUT", path, json=members)
        else:
            answer = server.call("POST", "queries", json=members)
    print(f"{answer.json()['name']} {'registered' if answer.status_code == 201 else 'is registered already'}")
    for warning in answer.json().get("warnings", ()):
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _queries(options: argparse.Namespace) -> int:
    with connect(options) as server:
        rows = server.call("GET", "queries").json()["queries"]
    shown = [
        [
            *(row[name] or "" for name in ("name", "state", "dialect")),
            "; ".join(each["text"] for each in row["waiting_for"]),
        ]
        for row in rows
    ]
    tables.print_table(["name", "state", "dialect", "waiting for"], shown)
    return 0


def _watch(options: argparse.Namespace) -> int:
    seen = 0
    with connect(options) as server:
        for event in _feed(server, options):
            shown = f"{event.id or '-'} " if options.ids else ""
            print(f"{shown}{event.kind} {event.data}", flush=True)
            seen += 1
            if options.count is not None and seen >= options.count:
                break
    return 0


def _feed(server: ServerConnection, options: argparse.Namespace) -> Iterator[Any]:
    parameters: dict[str, str] = {}
    if options.after is not None:
        parameters["from"] = str(options.after)
    if options.snapshot:
        parameters["snapshot"] = "true"
    return events(server, f"queries/{quote(options.name, safe='')}/results", parameters)


def _replay(options: argparse.Namespace) -> int:
    parameters = {} if options.begin is None else {"from": options.begin}
    with connect(options) as server:
        path = f"queries/{quote(options.name, safe='')}/replay"
        answer = server.call("POST", path, params=parameters).json()
    oldest = "nothing is retained" if answer["retained_from"] is None else answer["retained_from"]
    print(f"{answer['elements']} elements evaluated; retained since {oldest}; ids from {answer['first_id']}")
    return 0


def _drop(options: argparse.Namespace) -> int:
    if options.offline:
        # A client starts without store and engine.
        from .offline import drop_offline

        return drop_offline(options)
    if options.data is not None or options.config is not None:
        raise UsageError("--data and --config go with --offline")
    with connect(options) as server:
        server.call("DELETE", f"queries/{quote(options.name, safe='')}")
    return 0
