"""A line of progress on a terminal, for long work here or in a server."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .connection import ServerConnection

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY_SECONDS = 0.2


class ProgressLine:
    """One line that is written over; nothing where standard error goes to a file."""

    def __init__(self) -> None:
        self._live: Progress | None = None
        self._last = 0.0
        self._on = sys.stderr.isatty()

    def show(self, progress: Mapping[str, Any]) -> None:
        """Show a job's progress; before its first there is nothing to show."""
        if not progress:
            return
        text = f"{progress['rows']:,} quads, {progress['rate']:,}/s"
        if "bad_lines" in progress:
            text += f", {progress['bad_lines']:,} bad lines"
        # Only of parsing it is known how much there is.
        total = (progress.get("total_bytes") or None) if progress["stage"] == "parse" else None
        self._write(progress["stage"], progress["read_bytes"] if total else 0, total, text)

    def show_sent(self, sent: int, total: int | None) -> None:
        """Show how many bytes a server has been sent; ``total`` where it is known."""
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
        """Take the line away."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _begun() -> Progress:
    # Begun only where somebody looks.
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
    """A job of a server once it has ended, its progress shown meanwhile."""
    line = ProgressLine()
    try:
        while job["state"] in ("queued", "running"):
            line.show(job["progress"])
            time.sleep(0.1)
            job = server.call("GET", f"jobs/{job['id']}").json()
    finally:
        line.end()
    return job
