"""A server that a test can kill: by itself at a named point, or from outside.

The module is loaded once, by the process that all servers are copies of; see test_crashes.py.
"""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from quadrill.app.config import Settings
from quadrill.app.running import serve
from quadrill.continuous.language import warm_up
from quadrill.store.logs.journal import Journal

warm_up()  # what a server does at its start, and what takes longest


def main(ready: Connection, folder: Path, port: int, point: str, passes: int, copy_from: int) -> None:
    """Serve until killed.

    Args:
        ready: gets the address.
        folder: of the data.
        port: to listen on.
        point: where to kill itself, or ``-``.
        passes: how often to pass there before.
        copy_from: from how many quads on a copy of the process writes the checkpoints.
    """
    left = [passes]

    def reached(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    original = Journal.open

    def opened(path: Path, **options: Any) -> Journal:
        return original(path, **options, reached=reached, segment_bytes=8192, copy_from=copy_from)

    Journal.open = opened  # type: ignore[method-assign]
    settings = Settings(
        data=str(folder), port=port, checkpoint_interval="200ms", idle_timeout="0ms", retention="2s"
    )
    with serve(settings) as running:
        ready.send(running.url)
        threading.Event().wait()
