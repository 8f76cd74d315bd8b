"""What docs/compatibility.md calls stable is still there: names of interfaces as earlier releases had them.

``tests/data/interfaces/RELEASE.json`` was written by that release, by
``python -m tests.test_compatibility tests/data/interfaces/RELEASE.json``. Additions need no change here.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quadrill.client
from quadrill.app.cli import build_parser
from quadrill.app.config import SETTINGS
from quadrill.app.connectors.catalogue import described_kinds
from quadrill.app.front.openapi import document
from quadrill.app.routes import all_routes
from quadrill.client.sync import Connectors
from tests.app.routes import no_page
from tests.test_docs import codes_in_program, keywords

RELEASES = sorted((Path(__file__).parent / "data" / "interfaces").glob("*.json"))
APP = Path(__file__).parents[1] / "app"
METRIC = re.compile(r'"(quadrill_\w+)"')
DIALECTS = ("sparql", "cqels", "csparql", "rspql")


def interfaces() -> dict[str, Any]:
    """The names that clients, scripts and files use."""
    described = document(all_routes(no_page), "0", "")
    return {
        "operations": dict(operations(described["paths"])),
        "registration": described["components"]["schemas"]["Registration"]["properties"],
        "settings": [each.name for each in SETTINGS],
        "commands": dict(commands(build_parser(""))),
        "client": dict(client_methods()),
        "sources": kinds("source"),
        "sinks": kinds("sink"),
        "error codes": sorted(codes_in_program()),
        "metrics": sorted(
            set().union(*(METRIC.findall(path.read_text("utf-8")) for path in APP.rglob("*.py")))
        ),
        "keywords": {dialect: sorted(keywords(dialect)) for dialect in DIALECTS},
    }


def operations(paths: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            yield (
                f"{method} {path}",
                {
                    "role": operation["x-role"],
                    "parameters": [each["name"] for each in operation["parameters"]],
                    "body": sorted(operation.get("requestBody", {}).get("content", ())),
                    "answers": {
                        status: sorted(answer.get("content", ()))
                        for status, answer in operation["responses"].items()
                    },
                },
            )


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    yield parser.prog, [name for action in parser._actions for name in action.option_strings or [action.dest]]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from commands(each)


def client_methods() -> Iterator[tuple[str, list[str]]]:
    """The parameters of what `quadrill.client` has; a default is marked by ``=``."""
    public = {name: getattr(quadrill.client, name) for name in quadrill.client.__all__}
    for name, value in (*public.items(), ("Client.sources", Connectors), ("Client.sinks", Connectors)):
        yield name, parameters(value)
        for member, method in inspect.getmembers(value, inspect.isfunction):
            if not member.startswith("_"):
                yield f"{name}.{member}", parameters(method)


def parameters(value: Any) -> list[str]:
    found = inspect.signature(value).parameters.values()
    return [f"{each.name}{'' if each.default is each.empty else '='}" for each in found]


def kinds(role: Any) -> dict[str, list[str]]:
    return {
        each["kind"]: [member["name"] for member in each["members"]]
        for each in described_kinds(role)
        if each["needs"] is None
    }


def missing(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield the places of what an earlier release has and this one has not, or has otherwise."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            if name in new:
                yield from missing(value, new[name], f"{place}/{name}")
            else:
                yield f"{place}/{name}"
    elif isinstance(old, list) and isinstance(new, list):
        yield from (f"{place}: {each}" for each in old if each not in new)
    elif old != new:
        yield f"{place}: {old} is {new}"


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_what_an_earlier_release_had_is_still_there(release: Path) -> None:
    old, new = json.loads(release.read_text("utf-8")), json.loads(json.dumps(interfaces()))
    for role in ("sources", "sinks"):  # the library of a kind may be missing here
        old[role] = {kind: members for kind, members in old[role].items() if kind in new[role]}
    assert list(missing(old, new)) == []


def test_what_is_gone_or_has_changed_is_found() -> None:
    old = {"settings": ["data", "port"], "operations": {"get /a": {"role": "read"}, "get /b": {}}}
    new = {"settings": ["port", "host"], "operations": {"get /a": {"role": "write"}}, "more": []}
    assert list(missing(old, new)) == [
        "/settings: data",
        "/operations/get /a/role: read is write",
        "/operations/get /b",
    ]


def test_there_is_a_list_and_a_folder_of_the_first_release() -> None:
    assert [path.stem for path in RELEASES][:1] == ["0.1.0"]
    assert (Path(__file__).parent / "data" / "folders" / "0.1.0.tar.xz").exists()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(interfaces(), indent=1) + "\n", "utf-8")
