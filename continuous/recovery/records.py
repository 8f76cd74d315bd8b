"""What the members of journal records say, those that earlier releases wrote included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..queries.registration import Registration


def parts_looked_up(kept: dict[Any, Any] | None) -> dict[int, str | None] | None:
    """The static parts that were looked up; None of a journal that does not say."""
    if kept is None:
        return None
    # Earlier releases wrote how many rows there were and since when, too.
    return {int(place): left[-1] if isinstance(left, list) else left for place, left in kept.items()}


def registration_of(members: dict[str, Any]) -> Registration:
    """The registration that a record or a checkpoint holds."""
    document = {"query": members["text"], "dialect": members["dialect"], **members["options"]}
    return Registration.from_json(document, name=members["name"])


def tables_of(members: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The tables that a record names, each with its version; older journals have one a record."""
    names = members["tables"] if "tables" in members else [members["table"]]
    return [(name, members["version"]) for name in names]
