"""Shell completion of commands and options, and of the names of a server's queries, streams and jobs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import argcomplete
from argcomplete.completers import BaseCompleter

from quadrill.store.errors import ReportedError

from .connection import connect

_MOST_SECONDS = 0.5
"""Seconds after which a shell completion stops waiting for the server's names, because a user is typing."""


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions of a command line and exit, if a shell started the process for a completion."""
    for command in _all_parsers(parser):
        for action in command._actions:
            role = _role(command.prog, action.dest)
            if role is not None and not action.option_strings:
                action.completer = _Names(role)  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _all_parsers(each)


def _role(command: str, argument: str) -> str | None:
    """Return the HTTP resource, such as ``queries``, that lists an argument's values; None without one."""
    if argument == "stream" and "declare" not in command:
        return "streams"
    if argument in ("name", "names"):
        group = command.split()[1]
        if group in ("rules", "shapes"):
            return group
        return {"source": "sources", "sink": "sinks"}.get(command.split()[-1], "queries")
    if argument == "query" and command.endswith("explain"):
        return "queries"
    return "jobs" if argument == "id" else None


class _Names(BaseCompleter):
    """Completer that requests the names of one resource, such as ``queries``, from the server."""

    def __init__(self, role: str) -> None:
        self._role = role

    def __call__(self, *, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        try:
            with connect(parsed_args) as server:
                found = server.call("GET", self._role, silence=_MOST_SECONDS).json()[self._role]
        except ReportedError:
            return []
        return [each["id" if self._role == "jobs" else "name"] for each in found]
