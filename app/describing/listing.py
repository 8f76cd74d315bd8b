"""A part of the list of queries: those of a name and a state, so many at a time, with how many there are."""

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
    """Which queries are wanted, in the order of registration; ``contains`` is of their names, in any case."""

    contains: str = ""
    state: str | None = None
    offset: int = 0
    limit: int | None = None


def list_part(engine: Engine, part: QuerySelection) -> dict[str, Any]:
    """The descriptions of a part of all queries, how many there are of each state, and how many match.

    Only queries of the part are described, so that its cost is that of what is seen.
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
        with suppress(NotFoundError):  # dropped in the meantime
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
