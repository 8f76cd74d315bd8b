"""The commands ``quadrill apply`` and ``quadrill dump``, which read and write declaration files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quadrill.store.errors import UnsupportedError

from . import output
from . import plan as planning
from .arguments import add_client_command
from .connection import ServerConnection, ServerError, connect
from .declared import SECTIONS, Declared, read_files
from .plain_http import HttpAnswer
from .plan import Action, ApplyStep, ObjectChanges
from .toml_text import write_toml

_OF_SHAPES = ("shapes", "on_violation")
"""Members of a stream that names shapes."""
_DONE: dict[Action, str] = {"create": "created", "change": "changed", "same": "same", "remove": "removed"}


def add_commands(commands: Any) -> None:
    """Add the commands ``apply`` and ``dump`` to the command line parser."""
    summary = (
        "make a server match declaration files: prefixes, rules, shapes, streams, queries, sources, sinks"
    )
    apply = add_client_command(
        commands,
        "apply",
        _apply,
        summary,
        "apply quadrill.toml --dry-run",
        "apply streams.yaml queries.yaml --prune",
    )
    apply.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a TOML or YAML file, by its ending; - for standard input",
    )
    apply.add_argument(
        "--format", choices=("toml", "yaml"), default="toml", help="format of standard input; default: toml"
    )
    apply.add_argument("--dry-run", action="store_true", help="show the steps without executing them")
    apply.add_argument(
        "--prune",
        action="store_true",
        help="remove the server's objects that no file declares, in sections that a file has",
    )
    summary = (
        "print a server's prefixes, rules, shapes, streams, queries, sources and sinks as a file for apply"
    )
    dump = add_client_command(commands, "dump", _dump, summary, "dump > quadrill.toml", "dump --format yaml")
    dump.add_argument("--format", choices=("toml", "yaml"), default="toml", help="default: toml")


def _apply(options: argparse.Namespace) -> int:
    declared, sections = read_files(options.files, os.environ, options.format)
    with connect(options) as server:
        has = _present(server, sections)
        new_sets = _new_names("rules", declared, has)
        differing = {
            (each.section, each.name): _differences(server, each, has[each.section].get(each.name), new_sets)
            for each in declared
        }
        if options.dry_run:
            _check_streams(server, declared, has, _new_names("shapes", declared, has))
        removable = {section: _removable(section, has[section]) for section in sections}
        steps = planning.plan(declared, has, differing, removable if options.prune else {})
        left = len(_removable_names(removable) - {(each.section, each.name) for each in declared})
        report = _ApplyReport(steps, dry_run=options.dry_run, as_json=options.json)
        report.plan(0 if options.prune else left)
        if not options.dry_run:
            _execute_steps(server, steps, has, report)
    report.end()
    return 0


def _new_names(
    section: str, declared: Iterable[Declared], has: Mapping[str, Collection[str]]
) -> Collection[str]:
    """Return the names in a section that the files declare and the server does not have."""
    return {each.name for each in declared if each.section == section}.difference(has.get(section, ()))


def _removable_names(removable: Mapping[str, Collection[str]]) -> set[tuple[str, str]]:
    """Return the pairs (section, name) of all objects that ``apply --prune`` may remove."""
    return {(section, name) for section, names in removable.items() for name in names}


# --- requests for the objects of the server ----------------------------------------------------------------


def _present(server: ServerConnection, sections: Collection[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Request the objects of the given sections from a server; return descriptions by section and name."""
    found = {}
    for section in SECTIONS:
        if section in sections:
            answer = server.call("GET", section).json()
            key, rows = ("prefix", answer) if section == "prefixes" else ("name", answer[section])
            found[section] = {row[key]: row for row in rows}
    return found


def _removable(section: str, has: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of the objects in a section that ``apply --prune`` may remove.

    Rule sets and shapes stand after those whose graphs they read. A stream that a query derives, or that a
    first push created without a declaration, is not included.
    """
    if section == "rules":
        return planning.by_reading(has, "from")
    if section == "shapes":
        return planning.by_reading(has, "data")
    if section != "streams":
        return list(has)
    return [name for name, each in has.items() if each["declared"] and each["derived_from"] is None]


def _differences(
    server: ServerConnection,
    declared: Declared,
    described: Mapping[str, Any] | None,
    new_sets: Collection[str],
) -> ObjectChanges:
    """Return the changes from the server's object to a declaration; the server is not changed.

    ``new_sets`` are the rule sets that the files declare and the server does not have.

    Raises: ServerError when the server would reject the declaration.
    """
    given = declared.members
    with _with_place(declared.place):
        if declared.section == "queries":
            if described is None and given.get("entailment") in new_sets:
                given = {name: value for name, value in given.items() if name != "entailment"}
            return _query_changes(server, declared.name, given, described)
    return ObjectChanges.of(_differing_members(server, declared, described), described or {}, given)


def _differing_members(
    server: ServerConnection, declared: Declared, described: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the members in which a declaration that is no query differs from the server's object."""
    given = declared.members
    with _with_place(declared.place):
        if declared.section == "rules":
            server.call("PUT", _path("rules", declared.name), params={"dry_run": "true"}, json=given)
            return () if described is None else planning.rules_differences(given, described)
        if declared.section == "shapes":
            answer = _put_shapes(server, declared.name, given, dry_run="true")
            if described is None or answer.json()["change"] == "same":
                return ()
            return planning.shapes_differences(given, described)
        if declared.section in ("sources", "sinks"):
            path = _path(declared.section, declared.name)
            answer = server.call("PUT", path, params={"dry_run": "true"}, json=given)
            if described is None or answer.json()["change"] == "same":
                return ()
            return planning.connector_differences(given, described)
    if described is None:
        return ()
    if declared.section == "prefixes":
        return () if given["uri"] == described["uri"] else ("uri",)
    return planning.stream_differences(given, described)


def _put_shapes(
    server: ServerConnection, name: str, given: Mapping[str, Any], **parameters: str
) -> HttpAnswer:
    """Put shapes from the members of their declaration."""
    params = planning.shapes_parameters(given) | parameters
    return server.call("PUT", _path("shapes", name), params=params, **planning.shapes_body(given))


def _check_streams(
    server: ServerConnection,
    declared: Iterable[Declared],
    has: Mapping[str, Mapping[str, dict[str, Any]]],
    new_shapes: Collection[str],
) -> None:
    """Send each stream declaration as a dry run; raise ServerError if the server would reject one.

    ``new_shapes`` are the shapes that the files declare and the server does not have.
    """
    for each in declared:
        if each.section == "streams":
            described = has["streams"].get(each.name)
            members = planning.stream_declaration(each.members, described)
            if members.get("shapes") in new_shapes:
                members = {name: value for name, value in members.items() if name not in _OF_SHAPES}
            with _with_place(each.place):
                server.call("PUT", _path("streams", each.name), params={"dry_run": "true"}, json=members)


def _query_changes(
    server: ServerConnection, name: str, given: Mapping[str, Any], described: Mapping[str, Any] | None
) -> ObjectChanges:
    """Return the changes from a registered query to its declaration, and what the changes cost.

    The server compares registrations: a PUT of a registration equal to the query's changes nothing, and a PUT
    of a different registration returns 409 with the differences. A declared query that the server does not
    have is only validated.
    """
    try:
        if described is None:
            server.call("POST", "queries:validate", params={"name": name}, json=dict(given))
        else:
            server.call("PUT", _path("queries", name), json=dict(given))
    except ServerError as error:
        if error.status != 409:
            raise
        # A conflict of a new query with a server object is ignored here: apply may remove that object before
        # the registration.
        if described is not None:
            return ObjectChanges.of_query(error.document)
    return ObjectChanges()


# --- execution of the steps of an apply --------------------------------------------------------------------


@dataclass
class _ApplyReport:
    """Printer of the output of ``apply``: the planned steps before the execution, and the counts after it."""

    steps: list[ApplyStep]
    dry_run: bool
    as_json: bool
    done: int = 0

    def plan(self, left: int) -> None:
        """Print the planned steps and the number ``left`` of server objects that no file declares."""
        if not self.as_json:
            for each in self.steps:
                print(f"{each.action:6}  {each.section}.{each.name}", flush=True)
                for line in each.changes.lines():
                    print(f"{'':8}{line}", flush=True)
        if left:
            undeclared = output.counted(left, "object")
            print(
                f"{undeclared} on the server in no file; --prune removes undeclared objects", file=sys.stderr
            )

    def end(self) -> None:
        """Print the counts of apply's actions, or with ``--json`` a document of all steps."""
        if self.as_json:
            steps = [each.to_json() | {"done": place < self.done} for place, each in enumerate(self.steps)]
            output.print_json({"dry_run": self.dry_run, "steps": steps})
        else:
            counts = Counter(each.action for each in self.steps)
            shown = ", ".join(f"{counts[action]} {_DONE[action]}" for action in _DONE)
            print(f"would be: {shown}" if self.dry_run else shown)

    def before(self) -> str:
        """Return a text on apply's steps executed before an error, for the end of the error's message."""
        done = [
            f"{_DONE[each.action]} {each.section}.{each.name}"
            for each in self.steps[: self.done]
            if each.action != "same"
        ]
        return f"; done before: {', '.join(done)}" if done else "; nothing was done before"


def _execute_steps(
    server: ServerConnection,
    steps: list[ApplyStep],
    has: Mapping[str, Mapping[str, Mapping[str, Any]]],
    report: _ApplyReport,
) -> None:
    """Execute the steps of an apply in their order; an error of a step ends the execution."""
    for step in steps:
        place = step.place or f"{step.section}.{step.name}"
        try:
            with _with_place(place, report.before()):
                _execute(server, step, has[step.section].get(step.name))
        except ServerError:
            if report.as_json:
                report.end()
            raise
        report.done += 1


def _execute(server: ServerConnection, step: ApplyStep, described: Mapping[str, Any] | None) -> None:
    """Send the request that creates, changes or removes the object of an apply's step."""
    if step.action == "same":
        return
    path, members = _path(step.section, step.name), dict(step.members)
    if step.section == "prefixes":
        parameters = {"prefix": step.name, **members}
        server.call("DELETE" if step.action == "remove" else "POST", "prefixes", params=parameters)
    elif step.action == "remove":
        server.call("DELETE", path)
    elif step.section == "queries":
        parameters = {"replace": "true"} if step.action == "change" else {}
        for warning in server.call("PUT", path, params=parameters, json=members).json()["warnings"]:
            print(f"warning: {step.place}: {warning}", file=sys.stderr)
    elif step.section == "shapes":
        _put_shapes(server, step.name, members)
    else:
        if step.section == "streams":
            members = planning.stream_declaration(members, described)
        server.call("PUT", path, json=members)


@contextmanager
def _with_place(place: str, before: str = "") -> Iterator[None]:
    """Begin the message of a ServerError with the place of a declaration, and append ``before`` to it."""
    try:
        yield
    except ServerError as error:
        found = {name: getattr(error, name) for name in ("status", "line", "column", "excerpt")}
        raise ServerError(f"{place}: {error.message}{before}", hint=error.hint, document=found) from error


def _path(section: str, name: str) -> str:
    return f"{section}/{quote(name, safe='')}"


# --- dump --------------------------------------------------------------------------------------------------


def _dump(options: argparse.Namespace) -> int:
    with connect(options) as server:
        has = _present(server, SECTIONS)
        # The list of shapes does not have their graphs.
        has["shapes"] = {name: server.call("GET", _path("shapes", name)).json() for name in has["shapes"]}
    variables: dict[str, str] = {}
    document = {
        section: {
            name: _as_file(section, name, has[section][name], variables)
            for name in _removable(section, has[section])
        }
        for section in SECTIONS
    }
    document = {section: entries for section, entries in document.items() if entries}
    if options.json:
        text = json.dumps(document, ensure_ascii=False) + "\n"
    elif options.format == "toml":
        text = write_toml(document)
    else:
        text = _yaml_of(document)
    sys.stdout.write(text)
    for variable, place in variables.items():
        print(f"{variable} stands for the secret of {place}", file=sys.stderr)
    return 0


def _as_file(section: str, name: str, described: Mapping[str, Any], variables: dict[str, str]) -> Any:
    """Return an object's members as a declaration file lists them, with variables in place of secrets."""
    members: dict[str, Any] = {"uri": described.get("uri")}
    if section == "streams":
        members = planning.stream_members(described)
    elif section == "queries":
        members = planning.query_members(described)
    elif section == "rules":
        members = planning.rules_members(described)
    elif section == "shapes":
        members = planning.shapes_members(described)
    elif section != "prefixes":
        members = planning.connector_members(described)
    found = planning.with_references(section, name, members, variables)
    return found["uri"] if section == "prefixes" else found


def _yaml_of(document: Mapping[str, Any]) -> str:
    try:
        from .yaml_text import write_yaml
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "YAML",
            f"YAML needs the library {error.name}, which is not installed",
            hint="pip install 'quadrill[yaml]', or take --format toml",
        ) from error
    return write_yaml(document)
