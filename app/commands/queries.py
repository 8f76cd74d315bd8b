"""Commands that list, pause, resume, refresh, replay and drop the continuous queries of a server."""

from __future__ import annotations

import argparse
from typing import Any

from . import output
from .arguments import UsageError, add_client_command, add_data_options, query_path
from .connection import connect
from .hints import with_commands


def add_commands(commands: Any) -> None:
    """Add ``queries``, ``pause``, ``resume``, ``refresh``, ``replay`` and ``drop`` to the parser."""
    listed = add_client_command(
        commands,
        "queries",
        _queries,
        "list the continuous queries, and what each of them waits for",
        "queries",
        "queries alert --json",
    )
    listed.add_argument("names", nargs="*", metavar="NAME", help="list only these queries")
    for name, run, summary in (
        ("pause", _pause, "stop the evaluation of continuous queries; they stay registered"),
        ("resume", _resume, "resume paused or failed continuous queries"),
        ("refresh", _refresh, "read the static parts and remote sources of continuous queries again"),
    ):
        changed = add_client_command(commands, name, run, summary, f"{name} alert")
        changed.add_argument("names", nargs="+", metavar="NAME", help="names of queries")
    replay = add_client_command(
        commands,
        "replay",
        _replay,
        "evaluate a query again over the retained elements",
        "replay alert --from 2024-06-01T10:00:00Z",
    )
    replay.add_argument("name", help="the query's name")
    replay.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="first event time, milliseconds or xsd:dateTime (default: that of the oldest element)",
    )
    drop = add_client_command(commands, "drop", _drop, "drop a continuous query; its feed ends", "drop alert")
    drop.add_argument("name", help="the query's name")
    drop.add_argument(
        "--offline", action="store_true", help="drop it in a data folder that no server has open"
    )
    add_data_options(drop, ", with --offline")


def _queries(options: argparse.Namespace) -> int:
    with connect(options) as server:
        if options.names:
            found = [server.call("GET", query_path(name)).json() for name in options.names]
        else:
            found = server.call("GET", "queries").json()["queries"]
    output.listing(options, ("name", "state", "dialect", "waiting for"), found, _row)
    return 0


def _row(document: dict[str, Any]) -> list[str]:
    waiting = [with_commands(each["text"]) for each in document["waiting_for"]]
    return [document["name"], document["state"], document["dialect"] or "", "; ".join(waiting)]


def _pause(options: argparse.Namespace) -> int:
    return _patched(options, "paused")


def _resume(options: argparse.Namespace) -> int:
    return _patched(options, "running")


def _patched(options: argparse.Namespace, state: str) -> int:
    with connect(options) as server:
        for name in options.names:
            document = server.call("PATCH", query_path(name), json={"state": state}).json()
            output.report(options, f"{name} is {document['state']}", document)
            output.warn(_starting(document.get("starting")))
    return 0


def _starting(replay: dict[str, Any] | None) -> list[str]:
    """Return a warning that a server is still replaying its journal; an empty list for a ready server."""
    if replay is None:
        return []
    done, of = replay["replayed"], replay["records"]
    return [f"the server is starting: {done} of {of} records of its journal are replayed"]


def _refresh(options: argparse.Namespace) -> int:
    with connect(options) as server:
        for name in options.names:
            document = server.call("POST", query_path(name, "/refresh")).json()
            parts = document["static_parts"]
            rows = output.counted(sum(each["rows"] for each in parts), "row")
            sentence = f"{name} is refreshed: {output.counted(len(parts), 'static part')} with {rows}"
            output.report(options, sentence if parts else f"{name} has no static parts", document)
            output.warn(f"{name}: {each['problem']}" for each in parts if each["problem"])
    return 0


def _replay(options: argparse.Namespace) -> int:
    parameters = {} if options.begin is None else {"from": options.begin}
    with connect(options) as server:
        answer = server.call("POST", query_path(options.name, "/replay"), params=parameters).json()
    if options.json:
        output.print_json(answer)
        return 0
    oldest = "nothing is retained" if answer["retained_from"] is None else answer["retained_from"]
    print(f"{answer['elements']} elements evaluated; retained since {oldest}; ids from {answer['first_id']}")
    return 0


def _drop(options: argparse.Namespace) -> int:
    if options.offline:
        # Store and engine are imported here, because the import is slow and only --offline needs them in this
        # process.
        from .offline import drop_offline

        drop_offline(options)
        if options.json:
            output.print_json({"dropped": options.name})
        else:
            print(f"{options.name} is dropped")
        return 0
    if options.data is not None or options.config is not None:
        raise UsageError("--data and --config go with --offline")
    with connect(options) as server:
        server.call("DELETE", query_path(options.name))
        output.warn(_starting(server.replay()))
    output.report(options, f"{options.name} is dropped", {"dropped": options.name})
    return 0
