"""All scenarios that are recorded."""

from __future__ import annotations

from collections.abc import Iterator

from . import content, engine, operations, pages, transport
from .replay import Scenario


def all_scenarios() -> Iterator[Scenario]:
    """The scenarios, each with a name of its own."""
    for module in (operations, content, transport, engine, pages):
        yield from module.scenarios()
