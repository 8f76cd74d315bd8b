"""Versions of the installed Python distributions."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

UNKNOWN = "unknown"
"""The version of a distribution that is not installed, when code runs from a folder of sources."""


@cache
def release_of(distribution: str = "quadrill") -> str:
    """Return the version of an installed Python distribution, such as "0.1.0"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return UNKNOWN
