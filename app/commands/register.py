"""The command ``quadrill register``, which registers the query text of a file as a continuous query."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from . import output
from .arguments import DIALECTS, add_client_command, json_of, members_of, query_path, read_text
from .connection import ServerConnection, connect

_DIALECTS = {".cqels": "cqels", ".rspql": "rspql", ".csparql": "csparql"}
"""Dialects of query texts by the ending of a query file's name."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 128


def add_commands(commands: Any) -> None:
    """Add the command ``register`` to the command line parser."""
    register = add_client_command(
        commands,
        "register",
        _register,
        "register a continuous query",
        "register alert.cqels",
        "register alert.cqels --replace --output changes",
        "register - --name warm --option lateness=2s < warm.rspql",
        further="Without a name in --name or in the text, the query gets the name of the file: that of "
        "alert.cqels is alert. The endings .cqels, .rspql and .csparql select the dialect",
    )
    register.add_argument("file", help="the query text, or a JSON registration; - for standard input")
    register.add_argument("--name", help="the query's name")
    register.add_argument(
        "--dialect", choices=DIALECTS, help="default: by the file's ending, else detected from the text"
    )
    register.add_argument(
        "--output",
        choices=("istream", "dstream", "rstream", "changes"),
        help="rows to emit: new rows, removed rows, whole answers, or new and removed rows",
    )
    register.add_argument(
        "--replace",
        action="store_true",
        help="replace a different query that has the same name, instead of failing",
    )
    register.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further registration member, for instance start=when-ready; can be repeated",
    )


def _register(options: argparse.Namespace) -> int:
    file = None if options.file == "-" else Path(options.file)
    text = read_text(file)
    members = json_of(text, options.file) if text.lstrip().startswith("{") else {"query": text}
    if file is not None and file.suffix in _DIALECTS:
        members.setdefault("dialect", _DIALECTS[file.suffix])
    for name in ("name", "dialect", "output"):
        if getattr(options, name) is not None:
            members[name] = getattr(options, name)
    members |= members_of(options.option, "--option")
    with connect(options) as server:
        if "name" not in members and file is not None:
            members |= _named(server, members, file)
        if options.replace and "name" in members:
            answer = server.call("PUT", query_path(members["name"]), params={"replace": "true"}, json=members)
        else:
            answer = server.call("POST", "queries", json=members)
    document = answer.json()
    done = "registered" if answer.status == 201 else "is registered already"
    if options.json:
        output.print_json(document)
    else:
        print(f"{document['name']} {done}")
    output.warn(document.get("warnings", ()))
    return 0


def _named(server: ServerConnection, members: dict[str, Any], file: Path) -> dict[str, str]:
    """Return a query name derived from the file name; empty if the query text itself contains a name."""
    name = _NOT_IN_NAMES.sub("-", file.stem).strip("._-")[:_LONGEST_NAME]
    if not name or server.call("POST", "queries:validate", json=members).json()["name"] is not None:
        return {}
    return {"name": name}
