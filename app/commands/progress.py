"""A line of progress on a terminal, for long work here or in a server."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from .connection import ServerConnection

_EVERY_SECONDS = 0.2
_WIDTH = 24


class ProgressLine:
    """One line that is written over; nothing where standard error goes to a file."""

    def __init__(self) -> None:
        self._shown = 0
        self._last = 0.0
        self._on = sys.stderr.isatty()

    def show(self, progress: Mapping[str, Any]) -> None:
        """Show a job's progress; before its first there is nothing to show."""
        now = time.monotonic()
        if not progress or not self._on or now - self._last <= _EVERY_SECONDS:
            return
        self._last = now
        text = f"{progress['stage']}: {_bar(progress)}{progress['rows']:,} quads, {progress['rate']:,}/s"
        if "bad_lines" in progress:
            text += f", {progress['bad_lines']:,} bad lines"
        print("\r" + text.ljust(self._shown), end="", file=sys.stderr, flush=True)
        self._shown = len(text)

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r" + " " * self._shown + "\r", end="", file=sys.stderr, flush=True)
            self._shown = 0


def _bar(progress: Mapping[str, Any]) -> str:
    """A bar of how much of the sources is parsed; empty for work whose end is not known."""
    total = progress.get("total_bytes")
    if progress["stage"] != "parse" or not total:
        return ""
    share = min(1.0, progress["read_bytes"] / total)
    return f"[{'#' * round(share * _WIDTH):-<{_WIDTH}}] {share:4.0%}  "


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
