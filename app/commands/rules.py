"""The command ``quadrill rules``, which lists, shows, puts and deletes the rule sets of a server."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import output
from .arguments import (
    OfflineError,
    UsageError,
    add_action,
    add_actions,
    add_client_command,
    json_of,
    read_text,
)
from .connection import ServerConnection, ServerError, connect
from .progress import followed


def add_commands(commands: Any) -> None:
    """Add the command ``rules`` with its actions ``list``, ``show``, ``put`` and ``delete``."""
    rules = add_client_command(
        commands,
        "rules",
        _list,
        "list the rule sets of a server; show, put or delete one",
        "rules",
        "rules put family grand.rq --into http://example.org/inferred",
        "rules delete family",
    )
    actions = add_actions(rules, _list)
    add_action(actions, "list", _list, "list the rule sets", "rules list --json")
    show = add_action(actions, "show", _show, "show a rule set", "rules show family")
    show.add_argument("name", help="the name of the rule set")
    put = add_action(
        actions,
        "put",
        _put,
        "create or replace a rule set, and wait until its graph is complete",
        "rules put family grand.rq aunts.rq --into http://example.org/inferred",
        "rules put schema --include rdfs --into http://example.org/inferred",
        "rules put family family.json --no-wait",
    )
    put.add_argument("name", help="the name of the rule set")
    put.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="a file with a CONSTRUCT query, which is one rule; a file with the ending .json has an object "
        "with members of the rule set; - reads a CONSTRUCT query from standard input",
    )
    put.add_argument(
        "--include",
        action="append",
        metavar="SET",
        help="a built-in rule set, rdfs or owl2-rl; repeatable",
    )
    put.add_argument("--into", metavar="IRI", help="the graph of the inferred triples")
    put.add_argument(
        "--from",
        dest="sources",
        action="append",
        metavar="GRAPH",
        help="an input graph, `default` for the default graph; can be repeated (default: the default graph "
        "and all named graphs that no rule set, shapes or view owns)",
    )
    put.add_argument("--max-inferred", type=int, metavar="N", help="maximum number of inferred triples")
    put.add_argument(
        "--max-time", metavar="TIME", help="maximum time for the consequences of one commit, for example 10s"
    )
    put.add_argument(
        "--on-budget",
        choices=("reject", "suspend"),
        help="what a commit over one of these two limits does: it fails, or it suspends the rule set",
    )
    put.add_argument("--no-wait", action="store_true", help="print the job without waiting for its end")
    delete = add_action(
        actions, "delete", _delete, "delete a rule set and its inferred triples", "rules delete family"
    )
    delete.add_argument("name", help="the name of the rule set")


def _list(options: argparse.Namespace) -> int:
    with connect(options) as server:
        found = server.call("GET", "rules").json()["rules"]
    names = ("name", "state", "graph", "inferred", "rules", "cost", "error")
    output.listing(options, names, found, _row)
    return 0


def _row(each: dict[str, Any]) -> list[str]:
    rules = [*each.get("include", ()), output.counted(len(each["rules"]), "rule")]
    return [
        each["name"],
        each["state"],
        each["into"],
        output.shown(each["inferred"]),
        ", ".join(rules if each["rules"] else rules[:-1]),
        f"{each['cost_ms']:.1f} ms",
        each["error"] or "",
    ]


def _show(options: argparse.Namespace) -> int:
    with connect(options) as server:
        document = server.call("GET", _path(options.name)).json()
    if options.json:
        output.print_json(document)
    else:
        print(json.dumps(document, ensure_ascii=False, indent=2))
    return 1 if document["state"] == "failed" else 0


def _put(options: argparse.Namespace) -> int:
    members = _members(options)
    with connect(options) as server:
        answer = server.call("PUT", _path(options.name), params={"wait": "false"}, json=members)
        if answer.status == 202:
            job = answer.json()
            if options.no_wait:
                output.report(options, f"job {job['id']} is {job['state']}", job)
                return 0
            _wait(server, options.name, job)
        document = server.call("GET", _path(options.name)).json()
    if answer.status == 202:
        count = output.counted(document["inferred"], "inferred triple")
        output.report(options, f"{options.name} is {document['state']}: {count}", document)
    else:
        output.report(options, f"{options.name} is unchanged", document)
    return 0


def _wait(server: ServerConnection, name: str, job: dict[str, Any]) -> None:
    ended = followed(server, job)
    if ended["state"] != "done":
        raise ServerError(f"the rule set {name} was not put: {ended.get('error', ended['state'])}")


def _members(options: argparse.Namespace) -> dict[str, Any]:
    """Return the members of a rule set from files and options; an option overrides a member of a file."""
    members: dict[str, Any] = {}
    rules: list[str] = []
    for file in options.files:
        try:
            text = read_text(None if file == "-" else Path(file))
        except OSError as error:
            raise OfflineError(f"{file}: {error.strerror or error}") from error
        if not file.endswith(".json"):
            rules.append(text)
            continue
        found = json_of(text, file)
        if not isinstance(found, dict):
            raise OfflineError(f"{file} must hold a JSON object")
        members |= found
    if rules:
        members["rules"] = [*members.get("rules", ()), *rules]
    given = {
        "include": options.include,
        "into": options.into,
        "from": options.sources,
        "max_inferred": options.max_inferred,
        "max_time": options.max_time,
        "on_budget": options.on_budget,
    }
    members |= {name: value for name, value in given.items() if value is not None}
    if not members:
        raise UsageError("a rule set needs a FILE or --include", hint="quadrill rules put --help shows both.")
    return members


def _delete(options: argparse.Namespace) -> int:
    with connect(options) as server:
        server.call("DELETE", _path(options.name))
    output.report(options, f"{options.name} is deleted", {"deleted": options.name})
    return 0


def _path(name: str) -> str:
    return f"rules/{quote(name, safe='')}"
