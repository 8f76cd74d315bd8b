"""The journal: everything that moves a query, in the order in which it is worked off, durable.

    data folder/engine/
        input/*.log         the journal's records (store/logs/input_log.py)
        results.sqlite      the events of the feeds (store/logs/result_log.py)
        tables.sqlite       rows of static parts (static/kept.py, store/shelf.py)
        grammars            those of the dialects as lark has built them (language/kept_grammars.py)
        analyses            what the texts of queries mean (language/analysis.py)
        checkpoint          the state after some record (recovery/checkpoint.py)

A record is one line of JSON and N-Quads behind it. Kinds:

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

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from quadrill.store.documents.statements import read_lines
from quadrill.store.logs.held import HeldFiles
from quadrill.store.logs.input_log import SegmentedLog, Sync
from quadrill.store.logs.result_log import ResultLog

from ..inputs import Advance, Arrival, Element, Idle, StreamInput, StreamTime


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record read back. ``members`` are those of its JSON line, ``body`` the N-Quads behind it."""

    number: int
    kind: str
    members: dict[str, Any]
    body: bytes


@dataclass(slots=True, eq=False)
class Journal:
    """The durable side of an engine. `note` is called under the ingest lock, so that order is one."""

    folder: Path
    log: SegmentedLog
    results: ResultLog
    keep_bytes: int  # what is kept for ``start`` beyond what recovery needs, at most
    copy_from: int  # quads in windows from which a checkpoint is written by a copy of the process
    told: Callable[[str], None] | None  # gets the name of each step; for tests of crashes
    silent: bool = False  # nothing is written, as the past is replayed

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        sync: Sync = "interval",
        interval_ms: int = 2,
        keep_bytes: int = 256 * 1024 * 1024,
        segment_bytes: int = 16 * 1024 * 1024,
        copy_from: int = 5_000,
        reached: Callable[[str], None] | None = None,
    ) -> Journal:
        """Open or make the journal of a data folder; the first two and the size of one file are of the log.

        Raises:
            StoreUnwritableError, StoreFormatError: the folder cannot be used.
        """
        log = SegmentedLog(
            folder / "input",
            sync=sync,
            interval_ms=interval_ms,
            segment_bytes=segment_bytes,
            marked=True,
            aside=folder.parent / "damaged",
            reached=reached,
        )
        return cls(folder, log, ResultLog(folder / "results.sqlite"), keep_bytes, copy_from, reached)

    def reached(self, point: str) -> None:
        """Tell a test of crashes, if there is one, that this step is reached."""
        if self.told is not None:
            self.told(point)

    def note(self, kind: str, members: dict[str, Any]) -> int:
        """Put a record without quads behind the last one; its number."""
        head = json.dumps({"kind": kind, **members}, ensure_ascii=False, separators=(",", ":"))
        return self.log.append(head.encode() + b"\n")

    def note_input(
        self,
        kind: str,
        event: StreamInput | None,
        elements: Sequence[Element] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> int:
        """Put an input of a stream behind the last record; the number.

        Args:
            kind: ``input`` or ``derived``.
            event: what its readers get; None when nothing of a push entered.
            elements: all that came, those that did not enter too; by default those of the event.
            members: what else is kept of it.
        """
        head: dict[str, Any] = {"kind": kind}
        if event is not None:
            head["stream"], head["event"] = event.stream, _WORDS[type(event)]
            head["after"] = [*event.after]
            if type(event) is Arrival:
                head["before"], head["admit"] = [*event.before], event.admit_late
                if elements is None:
                    elements = event.elements
        elements = elements or ()
        head["elements"] = [[each.event_time, each.seq, len(each.statements)] for each in elements]
        if members is not None:
            head.update(members)
        lines = [
            f"{subject} {predicate} {value} {graph} .\n" if graph else f"{subject} {predicate} {value} .\n"
            for each in elements
            for subject, predicate, value, graph in each.statements
        ]
        return self.log.append(orjson.dumps(head) + b"\n" + "".join(lines).encode())

    def read(self) -> Iterator[JournalRecord]:
        """All records, oldest first."""
        for number, payload in self.log.read():
            head, _, body = payload.partition(b"\n")
            members = json.loads(head)
            yield JournalRecord(number, members.pop("kind"), members, body)

    def close(self) -> None:
        """Close the files."""
        try:
            self.log.close()
        finally:
            self.results.close()


def held_files(folder: Path) -> HeldFiles:
    """What a backup keeps of a journal and the state beside it, as they are now."""
    digest = "[0-9a-f]" * 64
    files = ("checkpoint", "input.mark", "input/*.log", f"sources/{digest}")
    return HeldFiles(folder, files, ("results.sqlite",))


_WORDS: dict[type, str] = {Arrival: "arrival", Advance: "advance", Idle: "idle"}


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
