"""Prepares a load with Spark in a child process."""

from __future__ import annotations

from ..errors import UnsupportedError
from .direct import Advance
from .work import Work


def prepare_spark(work: Work, master: str | None, memory: str, max_bad: int | None, advance: Advance) -> None:
    """The Spark counterpart of `direct.prepare_direct`."""
    raise UnsupportedError("engine: spark", hint="The engine oxigraph needs no Java.")
