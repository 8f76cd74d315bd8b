"""Commands that list, declare, start, stop and delete the sources and sinks of a running server."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import output, tables
from .arguments import OfflineError, UsageError, add_client_command, json_of, members_of, read_text
from .connection import ServerConnection, connect


def add_commands(commands: Any) -> None:
    """Add the commands ``sources``, ``source``, ``sinks`` and ``sink`` to the command line parser."""
    purposes = (
        ("source", "read elements from other systems into streams", "access-log"),
        ("sink", "write the events of feeds to other systems", "pager"),
    )
    for one, what, example in purposes:
        listed = add_client_command(
            commands,
            f"{one}s",
            _list,
            f"list the {one}s, which {what}",
            f"{one}s",
            further="With --json, the descriptions are one array",
        )
        listed.set_defaults(which=f"{one}s")
        single = add_client_command(
            commands,
            one,
            _show_or_change,
            f"show, declare, start, stop or delete a {one}",
            f"{one} {example}",
            f"{one} {example} --stop",
            f"{one} {example} --file {example}.json --set batch=100",
        )
        single.set_defaults(which=f"{one}s")
        single.add_argument("name", help=f"the {one}'s name")
        action = single.add_mutually_exclusive_group()
        action.add_argument(
            "--file",
            metavar="FILE",
            help=f"declare the {one} with the members in a JSON file; - for standard input",
        )
        for word, summary in (
            ("start", f"start the {one}, also after a failure"),
            ("stop", f"stop the {one}; it stays stopped when the server restarts"),
            ("delete", f"stop the {one} and delete its declaration"),
            ("dead-letters", "print the records or events that could not be read or delivered, one per line"),
        ):
            action.add_argument(f"--{word}", dest="action", action="store_const", const=word, help=summary)
        output.add_letters_limit(single)
        single.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="MEMBER=VALUE",
            help=f"declare the {one} with this member; the value is JSON or text; can be repeated",
        )


def _list(options: argparse.Namespace) -> int:
    with connect(options) as server:
        found = server.call("GET", options.which).json()[options.which]
    if options.json:
        output.print_json(found)
        return 0
    end = "stream" if options.which == "sources" else "query"
    names = ["name", "kind", "state", "health", end, "position", "rate", "lag", "refused", "error"]
    tables.print_table(
        names, [["" if each.get(name) is None else str(each[name]) for name in names] for each in found]
    )
    return 0


def _show_or_change(options: argparse.Namespace) -> int:
    """Declare, delete, start, stop or show one source or sink; return 1 if it has failed."""
    path = f"{options.which}/{quote(options.name, safe='')}"
    declaring = options.file is not None or options.set
    if declaring and options.action is not None:
        raise UsageError(f"--{options.action} and a declaration are two commands")
    with connect(options) as server:
        if declaring:
            answer = server.call("PUT", path, json=_members(options))
            print(
                f"{options.name} {'declared' if answer.status == 201 else 'is declared'}",
                file=sys.stderr,
            )
            document = answer.json()
        elif options.action == "delete":
            server.call("DELETE", path)
            output.report(options, f"{options.name} is deleted", {"deleted": options.name})
            return 0
        elif options.action == "dead-letters":
            letters = server.call("GET", f"{path}/dead-letters").json()["letters"]
            for letter in output.newest_letters(options, letters):
                output.print_json(letter)
            return 0
        else:
            document = _description_after(server, path, options.action)
    if options.json:
        output.print_json(document)
    else:
        print(json.dumps(document, ensure_ascii=False, indent=2))
    return 1 if document.get("state") == "failed" else 0


def _description_after(server: ServerConnection, path: str, action: str | None) -> dict[str, Any]:
    """Start or stop a source or sink if ``action`` says so, and return its description."""
    if action is None:
        return dict(server.call("GET", path).json())
    return dict(server.call("POST", f"{path}:{action}").json())


def _members(options: argparse.Namespace) -> dict[str, Any]:
    """Return the source or sink declaration of ``--file`` and ``--set``; ``--set`` overrides members."""
    members: dict[str, Any] = {}
    if options.file is not None:
        text = read_text(None if options.file == "-" else Path(options.file))
        members = json_of(text, options.file)
        if not isinstance(members, dict):
            raise OfflineError(f"{options.file} must hold a JSON object")
    return members | members_of(options.set, "--set", "MEMBER=VALUE")
