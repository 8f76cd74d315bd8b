"""Records of the journal: which kinds there are, and the inputs of streams as such.

input     an arrival, a heartbeat, a tick or an idle mark of a stream, with the stream's figures after it
derived   an element of a stream that a query makes; replay computes it again, `start` reads it
commit    a version of the store took its turn
attach, reserve, unready, detach, state, registration, refresh, stream, unstream
what was asked of the engine, and what became of it
source    something was fetched from another server
behind    the rows of a static part are not known from a version on
epoch     the folder is a copy and goes its own way: ids and seqs go on behind a number
swap      they were read anew at a version
failed    an evaluation took too long, or was called off: it is not tried again
seen      which version a refresh of static parts read, where that is not the last commit's
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from quadrill.store.documents.statements import read_lines
from quadrill.store.logs.journal import Journal, JournalRecord

from ..inputs import Advance, Arrival, Element, Idle, StreamInput, StreamTime

_WORDS: dict[type, str] = {Arrival: "arrival", Advance: "advance", Idle: "idle"}


def note_input(
    journal: Journal,
    kind: str,
    event: StreamInput | None,
    elements: Sequence[Element] | None = None,
    members: Mapping[str, Any] | None = None,
) -> int:
    """Put an input of a stream behind the last record; the number.

    Args:
        journal: where it goes.
        kind: ``input`` or ``derived``.
        event: what its readers get; None when nothing of a push entered.
        elements: all that came, those that did not enter too; by default those of the event.
        members: what else is kept of it.
    """
    head: dict[str, Any] = {"kind": kind}
    if event is not None:
        head["stream"], head["event"] = event.stream, _WORDS[type(event)]
        # Few streams have partitions, and thus the fourth value.
        head["after"] = event.after[:3] if event.after[3] is None else [*event.after]
        if type(event) is Arrival:
            before = event.before
            head["before"] = before[:3] if before[3] is None else [*before]
            head["admit"] = event.admit_late
            if elements is None:
                elements = event.elements
    elements = elements or ()
    head["elements"] = sizes = []
    if members is not None:
        head.update(members)
    lines = []
    for each in elements:
        statements = each.statements
        sizes.append((each.event_time, each.seq, len(statements)))
        for subject, predicate, value, graph in statements:
            lines.append(
                f"{subject} {predicate} {value} {graph} .\n"
                if graph
                else f"{subject} {predicate} {value} .\n"
            )
    return journal.log.append(orjson.dumps(head) + b"\n" + "".join(lines).encode())


def input_of(record: JournalRecord) -> tuple[StreamInput | None, list[Element]]:
    """The input of a record, None for a push of which nothing entered, and all elements that came."""
    members, statements = record.members, read_lines(record.body)
    elements, place = [], 0
    for event_time, seq, size in members.get("elements", ()):
        elements.append(Element(tuple(statements[place : place + size]), event_time, seq))
        place += size
    if "event" not in members:
        return None, elements
    stream, after = members["stream"], StreamTime(*members["after"])
    match members["event"]:
        case "arrival":
            dropped = set(members.get("dropped", ()))
            entered = tuple(each for at, each in enumerate(elements) if at not in dropped)
            return Arrival(stream, entered, StreamTime(*members["before"]), after, members["admit"]), elements
        case "advance":
            return Advance(stream, after), elements
        case _:
            return Idle(stream, after), elements
