"""Repair of a data folder: drops damaged parts, moves the original files away, and reports the losses.

input log         damaged and missing records are replaced by `lost` records, so that no number is reused
change log        restarts after the newest known version, with the counts of the quads
registry          keeps undamaged rows; queries are also recovered from checkpoint and journal
quads             rebuilt from the change log if it reaches back to the first version
other files       are moved away: the server creates them again, and reports this
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from pyoxigraph import Store

from quadrill.continuous.recovery.state import EngineSnapshot
from quadrill.store.changes.commit import Commit
from quadrill.store.changes.counts import bulk_commit, count_store, keys_of_counts
from quadrill.store.errors import ReportedError, StoreFormatError
from quadrill.store.folder import write_format
from quadrill.store.logs import change_faults
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.logs.history import Retention
from quadrill.store.logs.marks import LogMark
from quadrill.store.logs.reading import reading
from quadrill.store.logs.result_log import ResultLog
from quadrill.store.logs.segments import first_number, records, records_behind, whole_part, write_records
from quadrill.store.quads.options import system_clock_ms
from quadrill.store.registry import REGISTRY, QueryRecord, Registry, default_url, integrity
from quadrill.store.registry.session import Database

from .check import Findings, check

LOST = b'{"kind":"lost"}\n'
"""Journal record that replaces an unreadable record."""
_ELEMENT_BYTES = 16
"""Minimum bytes of an element in a journal record, which bounds the number of elements in lost bytes."""
_UNKNOWN_BYTES = 1 << 24
"""Assumed bytes of lost journal records whose size is unknown."""


class Repair:
    """One repair of a data folder that no process uses.

    Attributes:
        report: sentences for users on what was repaired and what is lost.
    """

    def __init__(self, folder: Path, registry_url: str) -> None:
        self._folder = folder
        self._registry_url = registry_url
        self._aside = folder / "damaged" / time.strftime("%Y%m%dT%H%M%S")
        self.report: list[str] = []

    def run(self) -> Findings:
        """Drop the data folder's damaged parts; return the results of a check afterwards."""
        found = check(self._folder, self._registry_url)
        if found.whole:
            self.report.append("nothing is damaged")
            return found
        damaged = [each.file for each in found.findings if each.faults]
        if "FORMAT" in damaged:
            self._move_away("FORMAT")
            write_format(self._folder)
        for file in damaged:
            if file.startswith("engine/") and not file.startswith("engine/input"):
                if file != "engine/checkpoint" or found.checkpoint is None:
                    self._move_away(file, f"{file}-wal", f"{file}-shm")
        if "engine/results.sqlite" in damaged:
            ResultLog(self._folder / "engine" / "results.sqlite").close()
            self.report.append("the history of feeds is lost: a subscriber that resumes gets a reset")
        if "engine/shapes.sqlite" in damaged:
            self.report.append("the feeds of shapes begin again with all results")
        if any(file.startswith("engine/input") or file == "engine/checkpoint" for file in damaged):
            self._repair_journal(found.checkpoint)
        if "changes.sqlite" in damaged or self._version() < self._newest(found.checkpoint):
            self._repair_changes(found)
        if "quads" in damaged:
            self._repair_quads()
        if REGISTRY in damaged:
            self._repair_registry(found.checkpoint)
        return check(self._folder, self._registry_url)

    def _move_away(self, *files: str) -> None:
        """Move damaged files into this repair's folder below `damaged/`, under their relative paths."""
        for file in files:
            path = self._folder / file
            if path.exists():
                target = self._aside / file
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.move(path, target)
                self.report.append(f"{file} is now {target}")

    # --- the journal ----------------------------------------------------------------------------

    def _repair_journal(self, checkpoint: EngineSnapshot | None) -> None:
        log = self._folder / "engine" / "input"
        with closing(LogMark(LogMark.mark_path(log))) as mark:
            newest = max(mark.last, 0 if checkpoint is None else checkpoint.last)
            begin = 0 if checkpoint is None else checkpoint.processed + 1
            files = sorted(log.glob("*.log"))
            first = first_number(files[0]) if files else newest + 1
            if begin and first > begin:
                first = begin
            figures = {} if checkpoint is None else {i: s.figures for i, s in checkpoint.streams.items()}
            lost, lost_bytes = [], 0
            expected = first
            for place, path in enumerate(files):
                following = first_number(files[place + 1]) if place + 1 < len(files) else newest + 1
                kept, damaged_bytes = _readable(path)
                lost_bytes += damaged_bytes
                end = max([following - 1, *kept])
                missing = [number for number in range(expected, end + 1) if number not in kept]
                # the file was cut off, so the lost records had more bytes than it has
                if missing and end not in kept:
                    lost_bytes += _UNKNOWN_BYTES
                if missing or damaged_bytes:
                    self._move_away(path.relative_to(self._folder).as_posix())
                    target = log / f"{expected:020d}.log"
                    write_records(target, {number: LOST for number in missing} | kept)
                    lost += missing
                for number, payload in kept.items():
                    _take_figures(figures, payload, found_at=number, checkpoint=checkpoint)
                expected = end + 1
            if not files and newest:
                lost = list(range(first, newest + 1))
                write_records(log / f"{first:020d}.log", dict.fromkeys(lost, LOST))
                expected = newest + 1
            if lost:
                self.report.append(f"records of the journal lost: {_ranges(lost)}")
                if checkpoint is None or lost[-1] > checkpoint.last:
                    skipped = (lost_bytes or _UNKNOWN_BYTES) // _ELEMENT_BYTES + 1
                    expected += self._skip_seqs(sorted(log.glob("*.log"))[-1], expected, figures, skipped)
            mark.note(expected - 1)

    def _skip_seqs(self, path: Path, number: int, figures: dict[str, list[Any]], skipped: int) -> int:
        """Write records that raise each stream's next sequence number above those of lost elements."""
        notes = {}
        for place, (stream, each) in enumerate(sorted(figures.items())):
            ahead = [*each[:3], each[3] + skipped, *each[4:]]
            note = {"kind": "input", "stream": stream, "elements": [], "figures": ahead}
            notes[number + place] = json.dumps(note, separators=(",", ":")).encode() + b"\n"
            self.report.append(f"seqs of the stream {stream} continue at {ahead[3]}")
        if notes:
            write_records(path, {at: payload for at, payload, _ in records(path)} | notes)
        return len(notes)

    # --- the store ------------------------------------------------------------------------------

    def _version(self) -> int:
        with suppress(sqlite3.Error, LookupError, ValueError), reading(self._folder / "changes.sqlite") as db:
            return change_faults.facts_of(db)["version"]
        return 0

    def _newest(self, checkpoint: EngineSnapshot | None) -> int:
        """Return the newest store version that any file of the data folder mentions."""
        path = self._folder / "changes.sqlite"
        versions = [self._version(), 0 if checkpoint is None else checkpoint.version]
        with closing(LogMark(LogMark.mark_path(path), write=False)) as mark:
            versions.append(mark.last)
        for members in _journal_of(self._folder):
            if members["kind"] == "commit":
                versions.append(members["version"])
        return max(versions)

    def _repair_changes(self, found: Findings) -> None:
        quads = found.of("quads")
        if quads is not None and any("gone" in fault or "read" in fault for fault in quads.faults):
            self.report.append("neither the change log nor the quads can be read: restore a backup")
            return
        version = self._newest(found.checkpoint) + 1
        path = self._folder / "changes.sqlite"
        self._move_away(*(f"changes.sqlite{suffix}" for suffix in ("", "-wal", "-shm", ".mark")))
        store = Store(str(self._folder / "quads"))
        counts = keys_of_counts(count_store(store))
        del store
        now = system_clock_ms()
        commit = bulk_commit(version, now, {}, counts, "repaired")
        log = SqliteChangeLog(path, durable=True, retention=Retention())
        with closing(log):
            log.append([commit or Commit(version, now, exact=False)], counts)
            log.mark_checkpoint(version)
        self.report.append(
            f"the change log starts again at version {version} with {sum(counts.values())} quads: earlier "
            "changes cannot be read any more, and the newest of them may be lost"
        )

    def _repair_quads(self) -> None:
        path = self._folder / "changes.sqlite"
        with reading(path) as db:
            whole = db.execute("SELECT min(version) = 1 AND min(exact) = 1 FROM commits").fetchone()[0]
        if not whole:
            self.report.append("the quads cannot be rebuilt from the change log: restore a backup")
            return
        self._move_away("quads", "quads.mark")
        Store(str(self._folder / "quads")).flush()
        log = SqliteChangeLog(path, durable=True, retention=Retention())
        with closing(log):
            log.mark_checkpoint(0)
        self.report.append("the quads are rebuilt from the change log at the next start")

    # --- the registry ---------------------------------------------------------------------------

    def _repair_registry(self, checkpoint: EngineSnapshot | None) -> None:
        self._move_away(*(f"{REGISTRY}{suffix}" for suffix in ("", "-wal", "-shm", ".mark")))
        aside = self._aside / REGISTRY
        with Registry.open(default_url(self._folder)) as registry:
            if aside.exists():
                with closing(Database(default_url(self._folder))) as database:
                    kept, lost = integrity.salvage(aside, database)
                self.report.append(
                    f"of the registry {kept} rows are kept, {lost} were damaged or cannot be read"
                )
            known = {record.name for record in registry.queries.all()}
            for members in _registered(self._folder, checkpoint):
                name = members["name"]
                if name not in known and not registry.queries.was_dropped(name):
                    options = {"options": members["options"], "created_ms": members["created"]}
                    registry.queries.add(
                        QueryRecord(name=name, text=members["text"], dialect=members["dialect"], **options)
                    )
                    self.report.append(f"the query {name} is registered again from the journal")


def _readable(path: Path) -> tuple[dict[int, bytes], int]:
    """Return the readable records of a journal file by number, and the number of unreadable bytes."""
    kept = {number: payload for number, payload, _ in records(path)}
    offset, last = whole_part(path)
    data = path.read_bytes()
    behind = dict(records_behind(data, offset, last + 1))
    size = sum(16 + len(payload) for payload in behind.values())
    return kept | behind, len(data) - offset - size


def _journal_of(folder: Path) -> Iterable[dict[str, Any]]:
    """Yield the heads of all readable journal records, oldest first."""
    for path in sorted((folder / "engine" / "input").glob("*.log")):
        for payload in _readable(path)[0].values():
            with suppress(ValueError):
                yield json.loads(payload.partition(b"\n")[0])


def _take_figures(
    figures: dict[str, list[Any]], payload: bytes, *, found_at: int, checkpoint: EngineSnapshot | None
) -> None:
    """Update the newest counters of a stream from one journal record."""
    if checkpoint is None or found_at > checkpoint.last:
        with suppress(ValueError):
            members = json.loads(payload.partition(b"\n")[0])
            if members["kind"] == "input" and "figures" in members:
                figures[members["stream"]] = members["figures"]


def _registered(folder: Path, checkpoint: EngineSnapshot | None) -> list[dict[str, Any]]:
    """Return the registrations of the queries that exist according to checkpoint and journal."""
    known = {} if checkpoint is None else {each.name: each.members for each in checkpoint.queries}
    for members in _journal_of(folder):
        match members["kind"]:
            case "attach" | "reserve":
                known[members["name"]] = members
            case "detach" if members["dropped"]:
                known.pop(members["name"], None)
    return list(known.values())


def _ranges(numbers: list[int]) -> str:
    """Format record numbers as ranges, for instance "3 to 5, 9"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in parts)


def repair(folder: Path, registry_url: str = "") -> tuple[Findings, list[str]]:
    """Drop a data folder's damaged parts; return the results of a check afterwards, and a report.

    ``registry_url`` is the setting of that name; a repair changes no registry outside of the data folder.

    Raises:
        StoreFormatError: the data folder has damage that only a backup can repair.
    """
    work = Repair(folder, registry_url)
    try:
        found = work.run()
    except (OSError, RuntimeError, sqlite3.Error) as error:
        done = "; ".join(work.report) or "nothing was changed"
        raise StoreFormatError(
            f"{folder} cannot be repaired: {error} ({done})", hint="restore the folder from a backup"
        ) from error
    except ReportedError as error:
        raise StoreFormatError(f"{folder} cannot be repaired: {error.message}", hint=error.hint) from error
    return found, work.report
