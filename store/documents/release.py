"""Versions of the installed distributions."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

UNKNOWN = "unknown"
"""Given for a distribution that is not installed: the code then runs from a folder of sources."""


@cache
def release_of(distribution: str = "quadrill") -> str:
    """Return the version of a distribution, such as "0.1.0"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return UNKNOWN
