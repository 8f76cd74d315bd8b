"""``quadrill mirror``: make the Parquet mirror or compact it, by a server or offline; show how it stands."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from quadrill.store.bulk.load import MIRROR, require_mirror
from quadrill.store.bulk.upkeep import compact_mirror, make_mirror
from quadrill.store.errors import UnsupportedError

from ..config import load_settings
from ..upkeep.jobs import progress_of
from ..upkeep.mirror import describe_mirror
from ..wiring import open_store
from .connection import ServerError, add_server_options, connect
from .given import UsageError
from .progress import ProgressLine, followed


def add_commands(commands: Any) -> None:
    """Add the command."""
    summary = "make the Parquet mirror that Spark reads, or compact it"
    parser: argparse.ArgumentParser = commands.add_parser("mirror", help=summary, description=summary)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--compact", action="store_true", help="take the commits since into it; made anew where it is stale"
    )
    what.add_argument("--show", action="store_true", help="only show version, size and changes since")
    parser.add_argument("--data", metavar="DIR", help="the mirror of this data folder, without a server")
    parser.add_argument("--master", metavar="URL", help="Spark master (with --data; a server has a setting)")
    add_server_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.data:
        return _offline(options)
    if options.master:
        raise UsageError("--master is for --data", hint="A server has the setting spark_master.")
    with connect(options) as server:
        if options.show:
            _show(server.call("GET", "mirror").json())
            return 0
        job = server.call("POST", "mirror", params={"compact": "true"} if options.compact else {}).json()
        job = followed(server, job)
    if job["state"] != "done":
        raise ServerError(f"there is no new mirror: {job.get('error', job['state'])}")
    _tell(job["progress"]["rows"], job["progress"]["version"])
    return 0


def _offline(options: argparse.Namespace) -> int:
    settings = load_settings(overrides={"data": options.data})
    folder = settings.data_folder
    if folder is None:
        raise UnsupportedError("a mirror of a store in memory", hint="Name a data folder with --data.")
    if options.show:
        with open_store(settings) as store:
            _show(describe_mirror(store, folder / MIRROR, settings.mirror_compact_ratio))
        return 0
    require_mirror(on_disk=True)
    line, stage, started = ProgressLine(), "dump", time.monotonic()

    def staged(name: str) -> None:
        nonlocal stage
        stage = name

    try:
        with open_store(settings) as store:
            make = compact_mirror if options.compact else make_mirror
            made = make(
                store,
                folder / MIRROR,
                master=options.master or settings.spark_master or None,
                memory=settings.spark_memory,
                advance=lambda rows, size, bad: line.show(progress_of(stage, rows, size, started)),
                staged=staged,
            )
    finally:
        line.end()
    _tell(sum(facts.rows for facts in made.predicates.values()), made.version)
    return 0


def _tell(rows: int, version: int) -> None:
    print(f"the mirror has {rows} quads, version {version}", file=sys.stderr)


def _show(found: dict[str, Any]) -> None:
    print(f"version     {found['version']} of {found['store_version']}")
    print(f"quads       {found['quads']}")
    print(f"changes     {found['changes']}" + (" and more" if found["stale"] else ""))
    if found["compact_at"] is not None:
        print(f"compact at  {found['compact_at']}")
    if found["stale"]:
        print(f"stale       {found['stale']}")
    if found["due"]:
        print("Hint: run quadrill mirror --compact")
