"""Check of a data folder for damaged files; the check writes nothing.

The check reads each file, then compares the versions and numbers that files state about each other.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyoxigraph import Store

from quadrill.continuous.recovery.checkpoint import read_state
from quadrill.continuous.recovery.state import EngineSnapshot, EntrySnapshot
from quadrill.store.documents.parsing import is_untagged
from quadrill.store.errors import ReportedError
from quadrill.store.folder import format_of
from quadrill.store.logs import change_faults, result_log
from quadrill.store.logs.manifest import require_manifest
from quadrill.store.logs.marks import LogMark
from quadrill.store.logs.reading import faults_of, reading
from quadrill.store.logs.segments import Damage, damage_of, first_number, whole_part
from quadrill.store.registry import REGISTRY, default_url, integrity

FOREIGN = ("damaged", "frozen", "mirror")
"""Folders in the data folder that a check skips: damaged files moved away, and reproducible copies."""
_MOST_FAULTS = 5
_INDEXES = [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)]
"""Bound positions of the quad patterns with which the check makes the database read each of its indexes."""
_MOST_PATTERNS = 1_000_000
_UNTAGGED = "a language string without a tag, exported as a plain string"


@dataclass(slots=True)
class Finding:
    """Result of the check of one file or folder.

    Attributes:
        file: path of the checked file in the data folder.
        what: kind of the checked file, for instance "change log".
        faults: descriptions of the file's damages; empty for an undamaged file.
        facts: versions and counts that the file states.
        notes: sentences on matters of the file that need attention but are no damage.
    """

    file: str
    what: str
    faults: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the result of the check of this file as a JSON document."""
        return {"whole": not self.faults, **asdict(self)}


@dataclass(slots=True)
class Findings:
    """Results of the check of a data folder, with the details that a repair needs."""

    findings: list[Finding] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    checkpoint: EngineSnapshot | None = None

    @property
    def whole(self) -> bool:
        """True if the check found no damaged file in the data folder."""
        return not any(each.faults for each in self.findings)

    def of(self, file: str) -> Finding | None:
        """Return the check's result of one file; None if the data folder has no such file."""
        return next((each for each in self.findings if each.file == file), None)


def check(folder: Path, registry_url: str = "") -> Findings:
    """Check every file of a data folder that no process uses, but no registry outside of the folder.

    ``registry_url`` is the setting of that name; a check skips a registry outside of the data folder.
    """
    found = Findings()
    changes = _changes(folder)
    parts: Iterable[Finding | None] = (
        _format(folder),
        changes,
        _quads(folder, changes),
        _registry(folder) if registry_url in ("", default_url(folder)) else None,
        *_journal(folder, found),
        _checkpoint(folder, found, changes),
        _results(folder, found),
        _results_of_shapes(folder),
        _tables(folder),
        *_sources(folder),
    )
    found.findings = [each for each in parts if each is not None]
    return found


def _format(folder: Path) -> Finding:
    finding = Finding("FORMAT", "format of the data folder")
    try:
        finding.facts["format"] = format_of(folder)
    except ReportedError as error:
        finding.faults.append(error.message)
    return finding


def _changes(folder: Path) -> Finding:
    finding = Finding("changes.sqlite", "change log")
    path = folder / finding.file
    mark = LogMark(LogMark.mark_path(path), write=False)
    try:
        with reading(path) as db:
            facts = change_faults.facts_of(db)
            finding.facts = {name: facts[name] for name in ("version", "checkpoint")}
            finding.facts["earliest"] = db.execute("SELECT min(version) FROM commits").fetchone()[0]
            with suppress(ReportedError):
                finding.faults += faults_of(db, most=_MOST_FAULTS)
            change_faults.require_sound(db, path, mark.last)
            finding.faults += list(change_faults.faults_of_rows(db))[:_MOST_FAULTS]
    except ReportedError as error:
        finding.faults.append(error.message)
    except (sqlite3.Error, LookupError, ValueError, TypeError) as error:
        finding.faults.append(f"it cannot be read: {error}")
    finally:
        mark.close()
    return finding


def _quads(folder: Path, changes: Finding) -> Finding:
    """Read every quad through each index, so that the database verifies its checksums."""
    finding = Finding("quads", "quads")
    path = folder / finding.file
    if not path.exists():
        if changes.facts.get("version"):
            finding.faults.append("it is gone")
        return finding
    try:
        require_manifest(path)
        store = Store.read_only(str(path))
        number = untagged = 0
        patterns: list[set[tuple[Any, ...]]] = [set() for _ in _INDEXES]
        for quad in store:
            number += 1
            if is_untagged(quad.object):
                untagged += 1
                if untagged <= _MOST_FAULTS:
                    finding.notes.append(
                        f"a language string without a tag, exported as a plain string: {quad}"
                    )
            for index, pattern in zip(_INDEXES, patterns, strict=True):
                if len(pattern) < _MOST_PATTERNS:
                    pattern.add(tuple(each if used else None for each, used in zip(quad, index, strict=True)))
        finding.facts["quads"] = number
        if untagged > _MOST_FAULTS:
            finding.notes.append(f"{untagged} such literals in all")
        for pattern in patterns:
            counted = sum(1 for each in pattern for _ in store.quads_for_pattern(*each))
            if counted != number and len(pattern) < _MOST_PATTERNS:
                finding.faults.append(f"an index has {counted} quads, the database has {number}")
        facts = changes.facts
        if not changes.faults and facts["version"] == facts["checkpoint"]:
            with reading(folder / changes.file) as db:
                (counted,) = db.execute("SELECT coalesce(sum(quads), 0) FROM counts").fetchone()
            if counted != number:
                finding.faults.append(f"there are {number} quads, the change log counts {counted}")
    except ReportedError as error:
        finding.faults.append(error.message)
    except (OSError, RuntimeError, ValueError, SyntaxError) as error:
        finding.faults.append(f"it cannot be read: {error}")
    return finding


def _registry(folder: Path) -> Finding | None:
    finding = Finding(REGISTRY, "registry")
    path = folder / REGISTRY
    mark = LogMark(LogMark.mark_path(path), write=False)
    try:
        if not path.exists() and not mark.last:
            if any((folder / "engine" / "input").glob("*.log")):
                finding.faults.append("the file is missing, although queries ran here")
                return finding
            return None
        integrity.require_intact(path, mark)
        finding.facts, faults = integrity.rows_of(path)
        finding.faults += faults[:_MOST_FAULTS]
    except ReportedError as error:
        finding.faults.append(error.message)
    except sqlite3.Error as error:
        finding.faults.append(f"it cannot be read: {error}")
    finally:
        mark.close()
    return finding


def _journal(folder: Path, found: Findings) -> Iterator[Finding]:
    log = folder / "engine" / "input"
    mark = LogMark(LogMark.mark_path(log), write=False)
    mark.close()
    expected = mark.first
    last = 0
    for path in sorted(log.glob("*.log")):
        finding = Finding(path.relative_to(folder).as_posix(), "input log")
        first, (_, last) = first_number(path), whole_part(path)
        finding.facts = {"first": first, "last": last, "bytes": path.stat().st_size}
        if expected and first > expected:
            finding.faults.append(f"records {expected} to {first - 1} before it are missing")
        damage = damage_of(path)
        if damage is not None:
            found.damages.append(damage)
            last = damage.last
            torn = not damage.behind and last >= mark.last
            finding.faults.append(f"{damage}{' (incomplete last write)' if torn else ''}")
        expected = last + 1
        yield finding
    if last < mark.last:
        yield Finding("engine/input", "input log", [f"records {last + 1} to {mark.last} are missing"])


def _checkpoint(folder: Path, found: Findings, changes: Finding) -> Finding | None:
    finding = Finding("engine/checkpoint", "checkpoint")
    try:
        state = found.checkpoint = read_state(folder / finding.file)
        if state is None:
            return None
        finding.facts = {
            "record": state.processed,
            "version": state.version,
            "queries": len(state.queries),
            "streams": len(state.streams),
        }
        numbers = sorted(map(first_number, (folder / "engine" / "input").glob("*.log"))) or [1]
        last = [*(each.last for each in found.damages if first_number(each.path) == numbers[-1])]
        newest = folder / "engine" / "input" / f"{numbers[-1]:020d}.log"
        end = last[0] if last else whole_part(newest)[1] if newest.exists() else 0
        state.require_followed(numbers[0], end, changes.facts.get("version", state.version))
    except ReportedError as error:
        finding.faults.append(error.message)
    return finding


def _results(folder: Path, found: Findings) -> Finding | None:
    finding = Finding("engine/results.sqlite", "events of feeds")
    path = folder / finding.file
    if not path.exists():
        if found.checkpoint is None or not found.checkpoint.queries:
            return None
        finding.faults.append("it is gone")
        return finding
    return _check_events(finding, path, () if found.checkpoint is None else found.checkpoint.queries)


def _results_of_shapes(folder: Path) -> Finding | None:
    finding = Finding("engine/shapes.sqlite", "events of the feeds of shapes")
    path = folder / finding.file
    return _check_events(finding, path, ()) if path.exists() else None


def _check_events(finding: Finding, path: Path, queries: Iterable[EntrySnapshot]) -> Finding:
    """Check a result log, which must have the newest events of these queries; return the finding."""
    try:
        with reading(path) as db:
            finding.faults += faults_of(db, most=_MOST_FAULTS)
            events = damaged = 0
            places: dict[int, list[int]] = {}
            for *row, digest in db.execute("SELECT feed, place, id, kind, data, digest FROM events"):
                events += 1
                damaged += digest is not None and digest != result_log.check_sum(tuple(row))
                places.setdefault(row[0], []).append(row[1])
            finding.facts["events"] = events
            if damaged:
                finding.faults.append(f"{damaged} events differ from their check sums")
            for feed, kept in places.items():
                if len(kept) != max(kept) - min(kept) + 1:
                    finding.faults.append(f"events of the feed {feed} are missing")
            for entry in queries:
                number, _, place, reset_place, *_ = entry.feed
                if place > reset_place and max(places.get(number, [place])) < place:
                    finding.faults.append(f"events of the feed of {entry.name} are missing")
    except sqlite3.Error as error:
        finding.faults.append(f"it cannot be read: {error}")
    return finding


def _tables(folder: Path) -> Finding | None:
    finding = Finding("engine/tables.sqlite", "rows of static parts, which the server can recompute")
    path = folder / finding.file
    if not path.exists():
        return None
    try:
        with reading(path) as db:
            finding.faults += faults_of(db, most=_MOST_FAULTS)
    except sqlite3.Error as error:
        finding.faults.append(f"it cannot be read: {error}")
    return finding


def _sources(folder: Path) -> Iterator[Finding]:
    """Check the documents fetched from other servers, each stored under the digest of its content."""
    for path in sorted((folder / "engine" / "sources").glob("*")):
        if path.suffix != ".new":
            finding = Finding(path.relative_to(folder).as_posix(), "a document fetched from another server")
            if hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
                finding.faults.append("the content differs from the fetched document")
            yield finding
