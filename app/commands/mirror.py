"""The command ``quadrill mirror``, which makes, compacts or describes the Parquet mirror of a store."""

from __future__ import annotations

import argparse
from typing import Any

from . import output
from .arguments import UsageError, add_client_command
from .connection import ServerError, connect
from .progress import followed


def add_commands(commands: Any) -> None:
    """Add the command ``mirror`` to the command line parser."""
    summary = "write the Parquet mirror that Spark reads, or compact it"
    parser = add_client_command(
        commands, "mirror", _run, summary, "mirror", "mirror --compact", "mirror --show"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--compact", action="store_true", help="apply later commits to the mirror; rewrite a stale mirror"
    )
    what.add_argument(
        "--show", action="store_true", help="only show the mirror's version, size and later commits"
    )
    parser.add_argument("--data", metavar="DIR", help="use the mirror of this data folder, without a server")
    parser.add_argument(
        "--master", metavar="URL", help="Spark master, only with --data (a server has a setting)"
    )


def _run(options: argparse.Namespace) -> int:
    if options.data:
        # The store is imported here, because its import is slow and only --data needs the store in this
        # process.
        from . import offline_mirror

        if options.show:
            _show(options, offline_mirror.describe(options.data))
        else:
            _report(options, *offline_mirror.make(options.data, options.master, compact=options.compact))
        return 0
    if options.master:
        raise UsageError("--master is for --data", hint="A server has the setting spark_master.")
    with connect(options) as server:
        if options.show:
            _show(options, server.call("GET", "mirror").json())
            return 0
        job = server.call("POST", "mirror", params={"compact": "true"} if options.compact else {}).json()
        job = followed(server, job)
    if job["state"] != "done":
        raise ServerError(f"the mirror was not written: {job.get('error', job['state'])}")
    _report(options, job["progress"]["rows"], job["progress"]["version"])
    return 0


def _report(options: argparse.Namespace, rows: int, version: int) -> None:
    document = {"quads": rows, "version": version}
    output.report(options, f"the mirror has {rows} quads, version {version}", document)


def _show(options: argparse.Namespace, found: dict[str, Any]) -> None:
    if options.json:
        output.print_json(found)
        return
    print(f"version     {found['version']} of {found['store_version']}")
    print(f"quads       {found['quads']}")
    print(f"changes     {found['changes']}" + (" and more" if found["stale"] else ""))
    if found["compact_at"] is not None:
        print(f"compact at  {found['compact_at']}")
    if found["stale"]:
        print(f"stale       {found['stale']}")
    if found["due"]:
        print("Hint: run quadrill mirror --compact")
