"""The command ``quadrill jobs``, which lists, shows and cancels the jobs of a server, such as bulk loads."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from . import output
from .arguments import add_action, add_actions, add_client_command
from .connection import connect
from .progress import followed

_TIMES = ("created", "updated")


def add_commands(commands: Any) -> None:
    """Add the command ``jobs`` with its actions ``list``, ``show`` and ``cancel``."""
    jobs = add_client_command(
        commands,
        "jobs",
        _list,
        "list the jobs of a server, such as bulk loads; show or cancel one",
        "jobs",
        "jobs show 5f0c2a --follow",
        "jobs cancel 5f0c2a",
    )
    actions = add_actions(jobs, _list)
    add_action(actions, "list", _list, "list the jobs", "jobs list --json")
    show = add_action(actions, "show", _show, "show a job", "jobs show 5f0c2a --follow")
    show.add_argument("id", help="the job's id")
    show.add_argument("--follow", action="store_true", help="show the job's progress until the job has ended")
    cancel = add_action(actions, "cancel", _cancel, "cancel a job that has not ended", "jobs cancel 5f0c2a")
    cancel.add_argument("id", help="the job's id")


def _list(options: argparse.Namespace) -> int:
    with connect(options) as server:
        found = server.call("GET", "jobs").json()["jobs"]
    output.listing(options, ("id", "kind", "state", "stage", "quads", "created", "what"), found, _row)
    return 0


def _row(each: dict[str, Any]) -> list[str]:
    progress = each.get("progress") or {}
    asked = each.get("request") or {}
    return [
        each["id"],
        each["kind"],
        each["state"],
        str(progress.get("stage", "")),
        output.shown(progress.get("rows")),
        output.instant(each.get("created")),
        str(each.get("error") or asked.get("source") or asked.get("folder") or asked.get("rules") or ""),
    ]


def _show(options: argparse.Namespace) -> int:
    with connect(options) as server:
        job = server.call("GET", _path(options)).json()
        if options.follow:
            job = dict(followed(server, job))
    output.describe(options, job, times=_TIMES)
    return 1 if job["state"] == "failed" else 0


def _cancel(options: argparse.Namespace) -> int:
    with connect(options) as server:
        job = server.call("DELETE", _path(options)).json()
    output.report(options, f"job {job['id']} is {job['state']}", job)
    return 0


def _path(options: argparse.Namespace) -> str:
    return f"jobs/{quote(options.id, safe='')}"
