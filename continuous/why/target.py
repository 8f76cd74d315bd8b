"""The row of an event that is explained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyoxigraph import Quad, QueryResultsFormat, QuerySolutions, parse_query_results

from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.errors import NotFoundError
from quadrill.store.feeds.subscription import StoredEvent

from ..algebra.nodes import Var
from ..rows import Solution


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of an event.

    Attributes:
        at: the instant of the event, in milliseconds.
        version: the version of the store that the event names.
        deleted: True if the event says that the row, or its key under ONCE PER, left the answer.
        value: the terms of the columns of a SELECT, a quad of a CONSTRUCT, the boolean of an ASK.
    """

    at: int
    version: int
    deleted: bool
    value: Solution | Quad | bool


def event_row(event: StoredEvent, number: int, columns: Sequence[Var]) -> EventRow:
    """Return a row of an event by its number, from 0; ``columns`` are those of the query.

    Raises:
        NotFoundError: the event does not have the row.
    """
    document = json.loads(event.data)
    found = None if event.kind == "error" else _value(document, number, columns)
    if found is None:
        raise NotFoundError(
            f"the event {event.id} has no row {number}",
            code="unknown-row",
            hint="rows count from 0, in the order of the event",
        )
    return EventRow(document["at"], document["version"], event.kind in ("delete", "resolved"), found)


def _value(document: dict[str, Any], number: int, columns: Sequence[Var]) -> Solution | Quad | bool | None:
    if "boolean" in document:
        return None if number else bool(document["boolean"])
    if "quads" in document:
        lines = (line for line in document["quads"].split("\n") if line)
        line = next(islice(lines, number, None), None)
        return None if line is None else parse_stored_quads(f"{line}\n".encode())[0]
    bindings = document["results"]["bindings"]
    if number >= len(bindings):
        return None
    names = [column.name for column in columns]
    one = {"head": {"vars": names}, "results": {"bindings": [bindings[number]]}}
    read = parse_query_results(json.dumps(one), QueryResultsFormat.JSON)
    assert isinstance(read, QuerySolutions)
    solution = next(iter(read))
    return tuple(solution[name] for name in names)
