"""A server that a test can kill: by itself at a named point, or from outside.

Arguments: data folder, port, name of the point or ``-``, how often to pass it before, and from how many quads
on a copy of the process writes the checkpoints.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from quadrill.app.config import Settings
from quadrill.app.running import serve
from quadrill.continuous.durable.journal import Journal
from quadrill.continuous.recovery import checkpointer


def main(folder: str, port: str, point: str, passes: str, copy_from: str) -> None:
    """Serve until killed."""
    left = [int(passes)]
    checkpointer.COPY_FROM = int(copy_from)

    def reached(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    original = Journal.open

    def opened(path: Path, **options: Any) -> Journal:
        return original(path, **options, reached=reached, segment_bytes=8192)

    Journal.open = opened  # type: ignore[method-assign]
    settings = Settings(
        data=folder, port=int(port), checkpoint_interval="200ms", idle_timeout="0ms", retention="2s"
    )
    with serve(settings) as running:
        print(running.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
