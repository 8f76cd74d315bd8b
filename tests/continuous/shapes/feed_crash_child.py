"""Kills a store with shapes at random steps of commits and PUTs, and folds the feed after each restart.

A step is a point of `StoreOptions.reached`, or the time before or after a write of the feeds' log. Each life
runs in a copy of this process, which itself opens no store. The arguments are the folder and the number of
lives; the process prints the number of events. A test starts this module as a process.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from quadrill.store.logs.result_log import ResultLog
from quadrill.store.quads.options import StoreOptions
from tests.continuous.rules.crash_child import in_copy

from .test_feeds import NAMED, OTHER, Client, current, random_update, stored


def steps(killed_at: int) -> StoreOptions:
    """Kill this process at a step; return the options of its store."""
    count = 0

    def step(_: str) -> None:
        nonlocal count
        if count == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    def around(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            step("before the log")
            result = work(*arguments)
            step("after the log")
            return result

        return call

    ResultLog.append = around(ResultLog.append)  # type: ignore[method-assign]
    return StoreOptions(durable=False, reached=step)


def live(folder: Path, seed: int) -> None:
    """Make commits and PUTs until the kill."""
    chance = random.Random(seed)
    with stored(folder, steps(chance.randrange(60))) as server:
        if "s" not in server.shapes.consequences.sets:
            server.put("s", into="http://e/r")
        for _ in range(30):
            if chance.random() < 0.1:
                server.put("s", chance.choice([NAMED, OTHER]), into="http://e/r")
            else:
                server.update(random_update(chance))


def check(folder: Path) -> None:
    """Fold the feed from its first event: ids without a gap, and the rows of the report."""
    with stored(folder) as server:
        if "s" not in server.shapes.consequences.sets:
            return
        client = Client()
        client.attach(server)
        client.read()
        assert client.rows == current(server)
        assert client.versions == sorted(client.versions)
        (folder / "events").write_text(str(client.last))


def main(folder: Path, lives: int) -> None:
    before = 0
    for seed in range(lives):
        in_copy(partial(live, folder, seed))
        assert not in_copy(partial(check, folder)), seed
        counted = folder / "events"
        events = int(counted.read_text()) if counted.exists() else 0
        assert events >= before
        before = events
    print(before)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
