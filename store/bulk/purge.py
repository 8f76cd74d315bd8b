"""Deletion of old folders of bulk loads: quarantines of ended loads and parts of abandoned loads."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The limits on the stored folders of earlier bulk loads.

    Attributes:
        seconds: the maximum age of a folder in seconds since the last change in the folder.
        bytes: the maximum total size in bytes of all folders; the oldest folders are deleted first.
    """

    seconds: float = 30 * 86_400.0
    bytes: int = 4 << 30


KEPT = RetentionLimits()


def purge(
    folder: Path, kept: RetentionLimits, *, spared: Path | None = None, now: float | None = None
) -> list[Path]:
    """Delete load folders that exceed the limits on age or total size; return their paths.

    Args:
        folder: the folder of all loads.
        kept: the limits on the age and total size of folders.
        spared: the folder of the running load, which is never deleted.
        now: the current time in seconds since 1970; used by tests.
    """
    now = time.time() if now is None else now
    loads = sorted(
        ((*_age_and_size(each), each) for each in _folders(folder) if each != spared), reverse=True
    )
    total = 0
    removed = []
    for changed, size, each in loads:  # newest first
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
    """Return the time of the newest change in a load's folder, and the folder's size in bytes."""
    changed, size = folder.stat().st_mtime, 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            facts = file.stat()
            changed, size = max(changed, facts.st_mtime), size + facts.st_size
    return changed, size
