"""The journal: everything that moves an engine, in the order in which it is worked off, durable.

    data folder/engine/
        input/*.log         the journal's records (input_log.py)
        results.sqlite      the events of the feeds (result_log.py)
        tables.sqlite       rows of static parts (store/blobs/blob_store.py)
        grammars            those of the dialects as lark has built them
        analyses            what the texts of queries mean
        checkpoint          the state after some record (checkpoint_file.py)

A record is one line of JSON and N-Quads behind it.
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
    on_step: Callable[[str], None] | None  # receives the name of each step, for tests of crashes
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
        """Report to a test of crashes, if one runs, that a step is reached."""
        if self.on_step is not None:
            self.on_step(point)

    def note(self, kind: str, members: dict[str, Any]) -> int:
        """Put a record without quads behind the last one; its number."""
        document = {"kind": kind, **members}
        try:
            line = orjson.dumps(document)
        except TypeError:  # numbers of more than 64 bits, and keys that are numbers
            line = _line_of(document).encode()
        return self.log.append(line + b"\n")

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


def held_files(folder: Path) -> PinnedFiles:
    """What a backup keeps of a journal and the state beside it, as they are now."""
    digest = "[0-9a-f]" * 64
    files = ("checkpoint", "input.mark", "input/*.log", f"sources/{digest}")
    return PinnedFiles(folder, files, ("results.sqlite",))
