"""Progress line on a terminal, for long operations of a command or for jobs of a server."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .connection import ServerConnection

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY_SECONDS = 0.2
"""Minimum seconds between two updates of a progress line, so that drawing costs little."""


class ProgressLine:
    """Progress line that is redrawn in place on standard error; nothing is printed without a terminal."""

    def __init__(self) -> None:
        self._live: Progress | None = None
        self._last = 0.0
        self._on = sys.stderr.isatty()

    def show(self, progress: Mapping[str, Any]) -> None:
        """Show the progress of a job; an empty progress shows nothing."""
        if not progress:
            return
        text = f"{progress['rows']:,} quads, {progress['rate']:,}/s"
        if "bad_lines" in progress:
            text += f", {progress['bad_lines']:,} bad lines"
        # The total size of a load job is known only in its stage "parse".
        total = (progress.get("total_bytes") or None) if progress["stage"] == "parse" else None
        self._write(progress["stage"], progress["read_bytes"] if total else 0, total, text)

    def show_sent(self, sent: int, total: int | None) -> None:
        """Show how many of ``total`` bytes were sent to a server; ``total`` is None if it is unknown."""
        self._write("sent", sent, total, f"{sent / 1e6:,.0f} MB")

    def _write(self, what: str, completed: int, total: int | None, text: str) -> None:
        now = time.monotonic()
        if not self._on or now - self._last <= _EVERY_SECONDS:
            return
        self._last = now
        if self._live is None:
            self._live = _begun()
        self._live.update(
            self._live.task_ids[0], description=what, total=total, completed=completed, text=text
        )

    def end(self) -> None:
        """Remove the progress line from the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _begun() -> Progress:
    # The library rich is imported here, because its import is slow and only a terminal needs the library.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[text]}"),
    )
    live = Progress(*columns, console=Console(stderr=True), transient=True)
    live.add_task("", total=None, text="")
    live.start()
    return live


def followed(server: ServerConnection, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wait until a job of a server has ended, show its progress, and return the job's last description."""
    line = ProgressLine()
    try:
        while job["state"] in ("queued", "running"):
            line.show(job["progress"])
            time.sleep(0.1)
            job = server.call("GET", f"jobs/{job['id']}").json()
    finally:
        line.end()
    return job
