"""The command ``quadrill watch``, which prints the events of a continuous query's feed as they arrive."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from quadrill.client.event_stream import ServerEvent

from .arguments import UsageError, add_client_command, query_path
from .connection import ServerConnection, ServerError, connect, events
from .event_lines import EventLines, prefixes_of


def add_commands(commands: Any) -> None:
    """Add the command ``watch`` to the command line parser."""
    watch = add_client_command(
        commands,
        "watch",
        _watch,
        "print the events of a query's feed as they arrive",
        "watch alert",
        "watch alert --from 0 --count 10 --json",
        "watch alert --snapshot --format rows",
        further="It ends when the query is dropped or with Ctrl-C, and reconnects after a lost connection",
    )
    watch.add_argument("name", help="the query's name")
    watch.add_argument(
        "--from",
        dest="after",
        type=int,
        metavar="ID",
        help="begin after the event with this id; 0 for the oldest event",
    )
    watch.add_argument("--snapshot", action="store_true", help="begin with the current answer")
    watch.add_argument("--ids", action="store_true", help="begin each line with the id of its event")
    watch.add_argument(
        "--count", type=int, metavar="N", help="end after N printed lines, which are rows or events"
    )
    watch.add_argument(
        "--format",
        choices=("rows", "events"),
        help="rows: one row per line, for people, with the sign + (inserted), - (deleted) or = (answer), "
        "IRIs shortened by the prefixes of the query and the server, UNDEF for no value, the column names on "
        "standard error; events: one event per line, kind and data (default: rows on a terminal, else "
        "events)",
    )


def _watch(options: argparse.Namespace) -> int:
    if options.json and options.format is not None:
        raise UsageError("--json and --format are two formats")
    form = "json" if options.json else options.format or ("rows" if sys.stdout.isatty() else "events")
    number = 0
    with connect(options) as server:
        has_place = options.after is not None or options.snapshot
        described = {} if has_place and form != "rows" else _described(server, options.name)
        prefixes = _prefixes(server, described) if form == "rows" else {}
        written = EventLines(form, prefixes, with_ids=options.ids)
        lines = (
            line
            for event in _feed(server, options, described)
            for line in written.lines(_id(event.id), event.kind, event.data)
        )
        for line in islice(lines, options.count):
            print(line, flush=True)
            number += 1
    if number == options.count:
        return 0
    print(f"# the feed of {options.name} has ended: the query was dropped", file=sys.stderr, flush=True)
    return 0 if options.count is None else 1


def _id(given: str | None) -> int | None:
    return int(given) if given else None


def _feed(
    server: ServerConnection, options: argparse.Namespace, described: Mapping[str, Any]
) -> Iterator[ServerEvent]:
    parameters: dict[str, str] = {}
    if options.after is not None:
        parameters["from"] = str(options.after)
    if options.snapshot:
        parameters["snapshot"] = "true"
    newest = (described.get("feed") or {}).get("last_id")
    if not parameters and newest is not None:
        # With an explicit start position in the feed, no event is lost if the connection breaks before the
        # first event.
        parameters["from"] = str(newest)
    return events(server, query_path(options.name, "/results"), parameters)


def _described(server: ServerConnection, name: str) -> Mapping[str, Any]:
    """Return the description of a query; empty if the server has no such query."""
    try:
        return dict(server.call("GET", query_path(name)).json())
    except ServerError as error:
        if error.status == 404:
            return {}
        raise


def _prefixes(server: ServerConnection, described: Mapping[str, Any]) -> dict[str, str]:
    """Return namespaces by prefix: those of the server, and those of the query's text, which win."""
    return server.prefixes() | prefixes_of(described.get("query") or "")
