"""All scenarios that are recorded."""

from __future__ import annotations

from collections.abc import Iterator

from . import operations
from .replay import Scenario


def all_scenarios() -> Iterator[Scenario]:
    """The scenarios, each with a name of its own."""
    yield from operations.scenarios()
