"""The kinds of journal records, and the encoding of stream inputs as records.

input     an arrival, a heartbeat, a tick or an idle mark of a stream, with the stream's figures after it
derived   an input of a stream that a query makes; a replay computes it again, `start` reads it
commit    a version of the store was enqueued as a task
attach, reserve, unready, detach, state, registration, refresh, stream, unstream
          a request of a client to the engine, or its outcome
source    the content of a remote source was fetched
behind    the rows of a table are unknown from a version on, until the table is reloaded
swap      a reloaded table replaced its rows, as of a version
epoch     the folder is a copy; ids and sequence numbers continue after a number
failed    an evaluation took too long or was cancelled; a replay does not repeat it
seen      the version that a refresh of static parts read, if it was not the version of the last commit
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
    """Append an input of a stream to the journal; return the number of the record.

    Args:
        journal: the journal.
        kind: ``input`` or ``derived``.
        event: the input that the readers of the stream get; None if no element of a push was accepted.
        elements: all elements of the push, dropped ones included; by default the elements of ``event``.
        members: further members of the record.
    """
    head: dict[str, Any] = {"kind": kind}
    if event is not None:
        head["stream"], head["event"] = event.stream, _WORDS[type(event)]
        # The fourth figure of a stream is omitted if the stream has no partitions.
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
    """Return a journal record's input (None if no element was accepted) and all elements of its push."""
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
