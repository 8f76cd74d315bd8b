"""Pages of the list of queries, selected by name and state, with the number of matching queries."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.catalogue import QueryEntry
from quadrill.store.errors import NotFoundError

from .queries import describe_listed

STATES = ("running", "materialising", "paused", "failed")


@dataclass(frozen=True, slots=True)
class QuerySelection:
    """Which queries a list shows, in registration order; ``contains`` matches names, ignoring case."""

    contains: str = ""
    state: str | None = None
    offset: int = 0
    limit: int | None = None


def list_part(engine: Engine, part: QuerySelection) -> dict[str, Any]:
    """Return one page of query descriptions, the number of queries in each state, and the number of matches.

    Only the queries of the page are described, so the cost depends on the length of the page, not of the
    list.
    """
    known = list(engine.queries.inspect_all(_names_and_states))
    wanted = part.contains.casefold()
    matching = [
        name for name, state in known
        if wanted in name.casefold() and part.state in (None, state)
    ]  # fmt: skip
    end = None if part.limit is None else part.offset + part.limit
    found = []
    for name in matching[part.offset : end]:
        with suppress(NotFoundError):  # the query was dropped after the names were read
            found.append(describe_listed(engine, name))
    states = Counter(state for _, state in known)
    return {
        "queries": found,
        "matching": len(matching),
        "total": len(known),
        "states": {state: states[state] for state in STATES if states[state]},
    }


def _names_and_states(entries: list[QueryEntry]) -> list[tuple[str, str]]:
    return [(entry.name, _state(entry)) for entry in entries]


def _state(entry: QueryEntry) -> str:
    running = entry.running
    if running is not None:
        return running.state
    return entry.state if entry.pending is None else "materialising"
