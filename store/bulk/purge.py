"""Lets old folders of loads go: quarantines of ended loads, and what abandoned loads had finished."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The limits on what is kept of earlier loads.

    Attributes:
        seconds: the age up to which a folder stays, counted from the last change in it.
        bytes: the size of all folders up to which they stay; above, the oldest go first.
    """

    seconds: float = 30 * 86_400.0
    bytes: int = 4 << 30


KEPT = RetentionLimits()


def purge(
    folder: Path, kept: RetentionLimits, *, spared: Path | None = None, now: float | None = None
) -> list[Path]:
    """Remove the folders of loads that are too old or too many; returns them.

    Args:
        folder: the folder of all loads.
        kept: what stays.
        spared: the load that is running; the only one that may be.
        now: seconds since the epoch, for tests.
    """
    now = time.time() if now is None else now
    loads = sorted(
        ((*_age_and_size(each), each) for each in _folders(folder) if each != spared), reverse=True
    )
    total = 0
    removed = []
    for changed, size, each in loads:  # the youngest first
        total += size
        if now - changed > kept.seconds or total > kept.bytes:
            shutil.rmtree(each, ignore_errors=True)
            removed.append(each)
    return removed


def _folders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir()]
    except FileNotFoundError:
        return []


def _age_and_size(folder: Path) -> tuple[float, int]:
    """The time of the newest change in a folder, and its size in bytes."""
    changed, size = folder.stat().st_mtime, 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            facts = file.stat()
            changed, size = max(changed, facts.st_mtime), size + facts.st_size
    return changed, size
