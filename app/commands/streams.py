"""The commands ``quadrill streams`` and ``quadrill declare``, which manage the streams of a server."""

from __future__ import annotations

import argparse
from typing import Any

from . import output
from .arguments import UsageError, add_action, add_actions, add_client_command, stream_address
from .connection import ServerConnection, connect
from .mapping import add_declaration, declaration


def add_commands(commands: Any) -> None:
    """Add the command ``streams`` with its actions, and the command ``declare``, to the parser."""
    streams = add_client_command(
        commands,
        "streams",
        _list,
        "list the streams; show, declare, advance or drop one; list and retry its dead letters",
        "streams",
        "streams show readings",
        "streams heartbeat readings 2024-06-01T10:00:00Z",
        "streams dead-letters readings",
    )
    actions = add_actions(streams, _list)
    add_action(actions, "list", _list, "list the streams", "streams list --json")
    _stream(add_action(actions, "show", _show, "show a stream", "streams show readings"))
    example = "streams declare readings --option lateness=2s"
    add_declaration(
        add_action(
            actions, "declare", _declare, "declare a stream; an earlier declaration is replaced", example
        )
    )
    heartbeat = add_action(
        actions,
        "heartbeat",
        _heartbeat,
        "advance a stream's watermark without an element, so that windows close",
        "streams heartbeat readings 2024-06-01T10:00:00Z",
    )
    _stream(heartbeat)
    heartbeat.add_argument("time", metavar="TIME", help="event time: milliseconds or xsd:dateTime")
    heartbeat.add_argument(
        "--wait", action="store_true", help="wait until the resulting events are in the feeds"
    )
    reset = add_action(
        actions,
        "reset-time",
        _reset_time,
        "reset the time of a stream after the clock was ahead; queries that read it begin a new epoch",
        "streams reset-time readings",
    )
    _stream(reset)
    letters = add_action(
        actions,
        "dead-letters",
        _dead_letters,
        "list late elements, elements that do not conform or at which a query failed, unreadable records",
        "streams dead-letters readings",
    )
    _stream(letters)
    output.add_letters_limit(letters)
    retry = add_action(
        actions,
        "retry",
        _retry,
        "retry dead letters",
        "streams retry readings 17",
        "streams retry readings --all",
    )
    _stream(retry)
    retry.add_argument("ids", nargs="*", metavar="ID", help="ids of dead letters, as dead-letters lists them")
    retry.add_argument(
        "--all", action="store_true", help="retry all dead letters but admitted late elements, oldest first"
    )
    _stream(add_action(actions, "drop", _drop, "drop a stream that no query reads", "streams drop readings"))
    summary = "declare a stream; an earlier declaration is replaced as a whole"
    declare = add_client_command(
        commands,
        "declare",
        _declare,
        summary,
        "declare readings --mapping mapping.rq --time ts",
        "declare http://example.org/readings --option lateness=2s",
    )
    add_declaration(declare)


def _stream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", help="the stream's name or IRI")


def _list(options: argparse.Namespace) -> int:
    with connect(options) as server:
        found = server.call("GET", "streams").json()["streams"]
    names = ("name", "elements", "late", "watermark", "silent", "queries", "iri")
    output.listing(options, names, found, _row)
    return 0


def _row(each: dict[str, Any]) -> list[str]:
    return [
        each["name"],
        output.shown(each["elements"]),
        output.shown(each["late_count"]),
        output.instant(each["watermark"]),
        "idle" if each["idle"] else output.duration(each["silent_ms"]),
        str(len(each["readers"])),
        each["iri"],
    ]


def _show(options: argparse.Namespace) -> int:
    path, parameters = stream_address(options.stream)
    with connect(options) as server:
        document = server.call("GET", path, params=parameters).json()
    output.describe(options, document, times=("watermark", "newest", "oldest_retained", "created"))
    return 0


def _declare(options: argparse.Namespace) -> int:
    members = declaration(options)
    path, parameters = stream_address(options.stream)
    with connect(options) as server:
        answer = server.call("PUT", path, params=parameters, json=members)
    document = answer.json()
    if options.json:
        output.print_json(document)
    else:
        print(f"{document['name']} {'declared' if answer.status == 201 else 'is declared'}")
    return 0


def _heartbeat(options: argparse.Namespace) -> int:
    path, parameters = stream_address(options.stream, ":heartbeat")
    parameters |= {"at": options.time} | ({"wait": "true"} if options.wait else {})
    with connect(options) as server:
        server.call("POST", path, params=parameters)
        path, parameters = stream_address(options.stream)
        document = server.call("GET", path, params=parameters).json()
    at = output.instant(document["watermark"]) or "nowhere yet"
    output.report(options, f"the watermark of {document['name']} is at {at}", document)
    return 0


def _reset_time(options: argparse.Namespace) -> int:
    path, parameters = stream_address(options.stream, ":reset-time")
    with connect(options) as server:
        answer = server.call("POST", path, params=parameters).json()
    begun = ", ".join(answer["queries"]) or "no query reads it"
    output.report(
        options, f"the time of {options.stream} is reset; queries with a new epoch: {begun}", answer
    )
    return 0


def _dead_letters(options: argparse.Namespace) -> int:
    with connect(options) as server:
        found = server.call("GET", f"{_named(server, options.stream)}/dead-letters").json()["letters"]
    found = output.newest_letters(options, found)
    output.listing(options, ("id", "reason", "query", "at", "element", "error"), found, _letter)
    return 0


def _letter(each: dict[str, Any]) -> list[str]:
    return [
        str(each["id"]),
        each["reason"],
        each.get("query") or "",
        output.instant(each.get("at")),
        (each.get("quads") or each.get("record") or "").strip(),
        each.get("error") or "",
    ]


def _retry(options: argparse.Namespace) -> int:
    if bool(options.ids) == options.all:
        raise UsageError("no dead letters are given", hint="Give their ids, or --all.")
    with connect(options) as server:
        path = _named(server, options.stream)
        ids = options.ids
        if options.all:
            letters = server.call("GET", f"{path}/dead-letters").json()["letters"]
            ids = [str(each["id"]) for each in letters if not each.get("entered") or each["reason"] != "late"]
        for each in ids:
            answer = server.call("POST", f"{path}/dead-letters:retry", params={"id": each}).json()
            output.report(options, f"dead letter {each} was retried", answer)
    if not ids:
        output.report(options, f"{options.stream} has no dead letters to retry", {"retried": 0})
    return 0


def _drop(options: argparse.Namespace) -> int:
    path, parameters = stream_address(options.stream)
    with connect(options) as server:
        server.call("DELETE", path, params=parameters)
    output.report(options, f"{options.stream} is dropped", {"dropped": options.stream})
    return 0


def _named(server: ServerConnection, stream: str) -> str:
    """Return the URL path of a stream by name; dead letters cannot be addressed by a stream's IRI."""
    path, parameters = stream_address(stream)
    if parameters:
        name = server.call("GET", path, params=parameters).json()["name"]
        path, _ = stream_address(name)
    return path
