"""The command ``quadrill watch``, which prints the events of a continuous query's feed as they arrive."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from . import output, tables
from .arguments import UsageError, add_client_command, query_path
from .connection import ServerConnection, ServerError, connect, events


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
    watch.add_argument("--count", type=int, metavar="N", help="end after N events")
    watch.add_argument(
        "--format",
        choices=("rows", "events"),
        help="rows: one row per line, for people, with the sign + (inserted), - (deleted) or = (answer); "
        "events: one event per line, kind and data (default: rows on a terminal, else events)",
    )


def _watch(options: argparse.Namespace) -> int:
    if options.json and options.format is not None:
        raise UsageError("--json and --format are two formats")
    form = options.format or ("rows" if sys.stdout.isatty() else "events")
    number = 0
    with connect(options) as server:
        for number, event in enumerate(_feed(server, options), start=1):
            if options.json:
                output.print_json({"id": _id(event.id), "event": event.kind, "data": json.loads(event.data)})
            else:
                before = f"{event.id or '-'} " if options.ids else ""
                for line in tables.event_text(event.kind, event.data, form).split("\n"):
                    print(before + line, flush=True)
            if options.count is not None and number >= options.count:
                return 0
    print(f"# the feed of {options.name} has ended: the query was dropped", file=sys.stderr, flush=True)
    return 0 if options.count is None else 1


def _id(given: str | None) -> int | None:
    return int(given) if given else None


def _feed(server: ServerConnection, options: argparse.Namespace) -> Iterator[Any]:
    parameters: dict[str, str] = {}
    if options.after is not None:
        parameters["from"] = str(options.after)
    if options.snapshot:
        parameters["snapshot"] = "true"
    if not parameters:
        # With an explicit start position in the feed, no event is lost if the connection breaks before the
        # first event.
        place = _newest(server, options.name)
        parameters = {} if place is None else {"from": str(place)}
    return events(server, query_path(options.name, "/results"), parameters)


def _newest(server: ServerConnection, name: str) -> int | None:
    """Return the id of the newest event of a query's feed; None if the server has no such query or event."""
    try:
        feed = server.call("GET", query_path(name)).json().get("feed") or {}
    except ServerError as error:
        if error.status == 404:
            return None
        raise
    return int(feed["last_id"]) if feed.get("last_id") is not None else None
