"""The command ``quadrill register``, which registers the query text of a file as a continuous query."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from . import output
from .arguments import (
    DIALECTS,
    add_client_command,
    dialect_of,
    json_of,
    members_of,
    query_path,
    read_text,
)
from .connection import ServerConnection, ServerError, connect
from .plan import ObjectChanges

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
        "alert.cqels is alert. The endings .cqels, .rspql and .csparql select the dialect. A query "
        "that equals the registered one stays as it is, with its windows and its feed",
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
    dialect = dialect_of(file)
    if dialect is not None:
        members.setdefault("dialect", dialect)
    for name in ("name", "dialect", "output"):
        if getattr(options, name) is not None:
            members[name] = getattr(options, name)
    members |= members_of(options.option, "--option")
    with connect(options) as server:
        if "name" not in members and file is not None:
            members |= _named(server, members, file)
        changes = ObjectChanges()
        replaced: str | None = None
        try:
            answer = server.call("POST", "queries", json=members)
            # A failed query that equals the registration is replaced, too, which restarts it.
            replaced = answer.json()["name"] if answer.json()["state"] == "failed" else None
        except ServerError as error:
            if error.document.get("code") != "query-exists":
                raise
            changes, replaced = ObjectChanges.of_query(error.document), error.document["name"]
            if not options.replace:
                raise _refused(error, changes) from error
        if options.replace and replaced is not None:
            answer = server.call("PUT", query_path(replaced), params={"replace": "true"}, json=members)
    document = answer.json()
    done = "same" if answer.status == 200 else "replaced" if replaced is not None else "registered"
    if options.json:
        output.print_json(document | {"change": done})
    else:
        print(f"{document['name']} {done}")
        for line in changes.lines():
            print(f"  {line}")
    output.warn(document.get("warnings", ()))
    return 0


def _refused(error: ServerError, changes: ObjectChanges) -> ServerError:
    """Return the error of a different query of the same name, with a line for each difference."""
    lines = [f"\n  {line}" for line in changes.lines()]
    return ServerError(f"{error.message}{''.join(lines)}", hint=error.hint, document=error.document)


def _named(server: ServerConnection, members: dict[str, Any], file: Path) -> dict[str, str]:
    """Return a query name derived from the file name; empty if the query text itself contains a name."""
    name = _NOT_IN_NAMES.sub("-", file.stem).strip("._-")[:_LONGEST_NAME]
    if not name or server.call("POST", "queries:validate", json=members).json()["name"] is not None:
        return {}
    return {"name": name}
