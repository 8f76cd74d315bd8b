"""The member ``progress`` of a job."""

from __future__ import annotations

import time
from typing import Any

PROGRESS_SECONDS = 0.5
"""Shortest time in seconds between two reports of progress."""


def progress_of(stage: str, rows: int, size: int, started: float) -> dict[str, Any]:
    """Return a job's progress member for work started at the monotonic time ``started``."""
    seconds = max(time.monotonic() - started, 1e-6)
    return {
        "stage": stage,
        "rows": rows,
        "bytes": size,
        "rate": round(rows / seconds),
        "seconds": round(seconds, 3),
    }
