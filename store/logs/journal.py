"""The journal: every input of an engine, durable and in the order of execution.

    data folder/engine/
        input/*.log         the journal's records (input_log.py)
        results.sqlite      the events of all feeds of queries (result_log.py)
        shapes.sqlite       the events of all feeds of shapes, and their newest answers (result_log.py)
        tables.sqlite       rows of static parts (store/blobs/blob_store.py)
        sources/            documents and answers of remote sources (store/payloads.py)
        grammars            the parsers of the dialects, as built by the library lark
        analyses            the analyses of query texts
        checkpoint          the engine's state after one record (checkpoint_file.py)

A record of the journal is one line of JSON, followed by N-Quads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from .input_log import SegmentedLog, Sync
from .pinned_files import PinnedFiles
from .result_log import ResultLog

_line_of = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record read from the journal: ``members`` of its JSON line, and N-Quads in ``body``."""

    number: int
    kind: str
    members: dict[str, Any]
    body: bytes


@dataclass(slots=True, eq=False)
class Journal:
    """The durable files of an engine; callers of `note` hold the ingest lock, which fixes one order."""

    folder: Path
    log: SegmentedLog
    results: ResultLog
    # Maximum size in bytes of log files kept for registrations with ``start``, beyond the needs of recovery.
    keep_bytes: int
    # The number of quads in windows from which a forked process writes checkpoints.
    copy_from: int
    # A callback that receives the name of each write step, for tests of crashes.
    on_step: Callable[[str], None] | None
    # True during replay, when nothing is written to the journal.
    silent: bool = False

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
        """Open or create the journal in ``folder``; `SegmentedLog` describes the parameters of the input log.

        Raises:
            StoreUnwritableError: the journal's folder cannot be written.
            StoreFormatError: a file of the engine's journal (input log, result log) is damaged.
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
        """Report a reached step of a write to the crash test that runs, if any."""
        if self.on_step is not None:
            self.on_step(point)

    def note(self, kind: str, members: dict[str, Any]) -> int:
        """Append a record without quads to the journal; return the number of the record."""
        document = {"kind": kind, **members}
        try:
            line = orjson.dumps(document)
        except TypeError:  # the JSON library orjson rejects integers over 64 bits and keys that are numbers
            line = _line_of(document).encode()
        return self.log.append(line + b"\n")

    def read(self) -> Iterator[JournalRecord]:
        """Read all durable records of the journal, oldest first."""
        for number, payload in self.log.read():
            head, _, body = payload.partition(b"\n")
            members = json.loads(head)
            yield JournalRecord(number, members.pop("kind"), members, body)

    def close(self) -> None:
        """Close the input log and the result log."""
        try:
            self.log.close()
        finally:
            self.results.close()


def held_files(folder: Path) -> PinnedFiles:
    """Open the journal's files for a backup, which copies their present content."""
    digest = "[0-9a-f]" * 64
    files = ("checkpoint", "input.mark", "input/*.log", f"sources/{digest}")
    return PinnedFiles(folder, files, ("results.sqlite", "shapes.sqlite"))
