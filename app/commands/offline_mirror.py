"""Implementation of ``quadrill mirror --data``, for a data folder that no server has open."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from quadrill.store.bulk.load import MIRROR, require_mirror
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.errors import UnsupportedError

from ..config import Settings, load_settings
from ..data_folder import open_store
from ..upkeep.mirror import describe_mirror
from ..upkeep.progress import progress_of
from .progress import ProgressLine


def describe(data: str) -> dict[str, Any]:
    """Describe the Parquet mirror of a data folder, and the commits that it does not contain yet."""
    settings, folder = _folder(data)
    with open_store(settings) as store:
        return describe_mirror(store, folder / MIRROR, settings.mirror_compact_ratio)


def make(data: str, master: str | None, *, compact: bool) -> tuple[int, int]:
    """Create or compact the Parquet mirror of a data folder; return its number of quads and its version."""
    settings, folder = _folder(data)
    require_mirror(on_disk=True)
    line, stage, started = ProgressLine(), "dump", time.monotonic()

    def staged(name: str) -> None:
        nonlocal stage
        stage = name

    try:
        with open_store(settings) as store:
            mirror = make_mirror(
                store,
                folder / MIRROR,
                compact=compact,
                master=master or settings.spark_master or None,
                memory=settings.spark_memory,
                advance=lambda rows, size, bad: line.show(progress_of(stage, rows, size, started)),
                staged=staged,
            )
    finally:
        line.end()
    return sum(facts.rows for facts in mirror.predicates.values()), mirror.version


def _folder(data: str) -> tuple[Settings, Path]:
    settings = load_settings(overrides={"data": data})
    if settings.data_folder is None:
        raise UnsupportedError("a mirror of a store in memory", hint="Name a data folder with --data.")
    return settings, settings.data_folder
