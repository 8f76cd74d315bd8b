"""The input log: inputs accepted by the engine, in one order, durable before clients get an answer.

    folder/00000000000000000001.log    records 1 ... n
    folder/0000000000000000<n+1>.log   records n+1 ...      a file is named after its first record

Records of the input log are collected in memory, and the first waiting thread writes all of them with one
write and one fsync (group commit). A single waiting thread syncs the input log immediately; if several
threads waited before, the writer first waits briefly for half as many records. Each record in the input log
is complete. A partial record at the end of the input log, left by a crash, is moved to another folder and
reported when the log is opened, unless the mark file shows that the record was durable. A failed write leaves
the log file unchanged and the records in memory until the disk has space again; until then,
`SegmentedLog.failure` states why the log cannot be written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal as OneOf

from ..errors import DAMAGED, StoreFormatError, StoreUnwritableError
from ..folder import sync_folder
from .group_commit import GroupCommitDelay
from .marks import MARK, LogMark
from .segments import HEAD, Damage, damage_of, first_number, records, whole_part

log = logging.getLogger("quadrill.store")

Sync = OneOf["always", "interval", "off"]
SYNCS: tuple[Sync, ...] = ("always", "interval", "off")

SPACE = "Make space on the disk, or mend what made it read-only; nothing else has to be done"


class SegmentFiles:
    """The files of an input log; the last file is open for writing.

    Only one thread writes the input log's files at a time; the log's lock guards changes of ``firsts``.

    Attributes:
        folder: the folder of the files.
        firsts: the number of the first record of each file, oldest first.
        length: the number of bytes of complete records in the last file.
        file: the descriptor of the last file, negative before it is opened.
        segment_bytes: the length in bytes from which the last file is full.
        torn: True if the last file may contain part of a group of records whose write failed.
    """

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        """List the files of an input log's folder, and create a missing folder; no file stays open.

        An empty last file is deleted if the file before it contains the records of the same numbers.
        """
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.torn = False
        self.length = 0
        self.file = -1
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.firsts = sorted(map(first_number, folder.glob("*.log"))) or [1]
        self._remove_unused()

    def _remove_unused(self) -> None:
        """Delete an empty last log file if the file before it contains the records of the same numbers."""
        if len(self.firsts) > 1 and self.path(self.firsts[-1]).stat().st_size == 0:
            _, last = whole_part(self.path(self.firsts[-2]))
            if last >= self.firsts[-1]:
                self.path(self.firsts.pop()).unlink()

    def path(self, first: int) -> Path:
        """Return the path of the log file whose first record has the number ``first``."""
        return self.folder / f"{first:020d}.log"

    def cut_torn(self) -> None:
        """Cut the last log file to its length before a failed write, which may have written any bytes."""
        os.ftruncate(self.file, self.length)
        self.torn = False

    def begin(self, first: int, *, synced: bool) -> bool:
        """Create a new last file; return False if the disk refuses. The caller adds ``first`` to ``firsts``.

        ``synced``: False if the previous log file has to be synced before it is closed.
        """
        path = self.path(first)
        file = -1
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            sync_folder(self.folder)
        except OSError:
            # Without space for a new log file, records go to the present file; an empty file must not follow
            # it.
            if file >= 0:
                os.close(file)
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return False
        if not synced:
            os.fdatasync(self.file)
        os.close(self.file)
        self.file, self.length = file, 0
        return True


class SegmentedLog:
    """An append-only log of numbered records in files of bounded size, safe to use from any thread.

    Attributes:
        cut_bytes: the number of bytes of a partial record that opening the log cut off.
        failure: why the last write failed; None if it succeeded.
        waiting_bytes: the number of bytes of records that are not written yet.
        appended_bytes: the number of bytes of all records appended since the log was opened.
    """

    def __init__(
        self,
        folder: Path,
        *,
        sync: Sync = "interval",
        interval_ms: int = 2,
        segment_bytes: int = 16 * 1024 * 1024,
        marked: bool = False,
        aside: Path | None = None,
        reached: Callable[[str], None] | None = None,
    ) -> None:
        """Open or create an input log.

        Args:
            folder: the folder of the files, created if missing.
            sync: ``always`` is one fsync per group at once; ``interval`` waits for half as many records as
                threads waited before, at most ``interval_ms`` from one fsync to the next; ``off`` leaves it
                to the operating system: a killed process loses no written record, a power cut may.
            interval_ms: the maximum wait with ``interval``, in milliseconds.
            segment_bytes: the size in bytes from which a new file follows.
            marked: write the durable record numbers to a mark next to the folder, unless ``sync`` is ``off``;
                opening refuses a log that lacks marked records.
            aside: the folder for partial records that opening cuts off; by default ``damaged`` in ``folder``.
            reached: receives the name of each step; for tests of crashes.

        Raises:
            StoreUnwritableError: the folder cannot be created or written.
            StoreFormatError: durable records are damaged or missing; no file was changed.
        """
        self._sync = sync
        self._aside = aside or folder / "damaged"
        self._reached = reached
        self._lock = threading.Lock()
        self._state = threading.Condition(self._lock)
        self._delay = GroupCommitDelay(self._lock, interval_ms)
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self.appended_bytes = 0
        self._writing = False
        self._synced_at = 0.0
        self._closed = False
        self.cut_bytes = 0
        self.failure: str | None = None
        try:
            files = self._files = SegmentFiles(folder, segment_bytes)
            path = files.path(files.firsts[-1])
            files.length, self.last = whole_part(path) if path.exists() else (0, files.firsts[-1] - 1)
            self._mark = LogMark(LogMark.mark_path(folder)) if marked else None
            try:
                self._require_durable(path)
            except StoreFormatError:
                if self._mark is not None:
                    self._mark.close()
                raise
            files.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if os.fstat(files.file).st_size > files.length:
                self._cut_tail(path)
            os.fsync(files.file)
            sync_folder(folder)
        except OSError as error:
            raise StoreUnwritableError(
                f"the input log {folder} cannot be opened: {error.strerror}",
                hint="Check permissions and free space",
            ) from error
        self.durable = self.last
        if self._mark is not None and sync == "off":
            self._mark.remove()
            self._mark = None
        self._note_durable(self.last)

    def _require_durable(self, path: Path) -> None:
        """Raise StoreFormatError if durable records of the input log are missing or damaged."""
        torn = path.exists() and path.stat().st_size > self._files.length
        damage = damage_of(path) if torn else None
        if self._mark is None or self._mark.last == 0:
            # Without a mark file, a complete record after the damage shows that the damaged record was
            # durable, too.
            if damage is not None and damage.behind:
                raise damaged(damage)
            return
        first, last = self._mark.first, self._mark.last
        if last > self.last:
            raise damaged(damage) if damage is not None else _missing(self._files.folder, self.last + 1, last)
        if 0 < first < self._files.firsts[0]:
            raise _missing(self._files.folder, first, self._files.firsts[0] - 1)

    def _cut_tail(self, path: Path) -> None:
        """Cut off the partial record that a crash left at the end of the last log file, and keep a copy."""
        tail = path.read_bytes()[self._files.length :]
        self.cut_bytes = len(tail)
        kept = self._aside / f"{time.strftime('%Y%m%dT%H%M%S')}-{path.name}-{self._files.length}"
        try:
            self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept.write_bytes(tail)
            where = f"are in {kept}"
        except OSError as error:
            where = f"could not be kept: {error.strerror}"
        log.warning(
            "the input log ended within a record: %d bytes after record %d were cut away and %s",
            self.cut_bytes,
            self.last,
            where,
        )
        os.ftruncate(self._files.file, self._files.length)

    def _note_durable(self, last: int) -> bool:
        """Write the input log's mark file; return False if the disk refuses."""
        if self._mark is not None:
            first = self._files.firsts[0]
            try:
                os.pwrite(self._mark.file, MARK.pack(first, last, first ^ last), 0)
            except OSError:
                return False
        return True

    # --- writing --------------------------------------------------------------------------------

    def append(self, payload: bytes) -> int:
        """Append a record to the input log and return its number; `wait` returns when it is durable."""
        with self._lock:
            self.last += 1
            number = self.last
            self._waiting.append(
                HEAD.pack(len(payload), zlib.crc32(payload, number & 0xFFFFFFFF), number) + payload
            )
            size = HEAD.size + len(payload)
            self.waiting_bytes += size
            self.appended_bytes += size
            delay = self._delay
            if delay.gathering and len(self._waiting) >= delay.expected:
                delay.enough.notify()
        return number

    def wait(self, number: int) -> None:
        """Block until all records up to ``number`` are written and, unless ``sync`` is ``off``, synced.

        Raises:
            StoreUnwritableError: the write failed; the records stay queued and may become durable later.
        """
        while True:
            with self._lock:
                if self.durable < number and self._writing:
                    self._delay.waiters += 1
                    while self.durable < number and self._writing:
                        self._state.wait()
                    self._delay.waiters -= 1
                if self.durable >= number:
                    return
                if self._closed:
                    raise StoreUnwritableError("the input log is closed")
                self._writing = True
            try:
                self._write_group()
            finally:
                with self._lock:
                    self._writing = False
                    self._state.notify_all()

    def neglected(self, seconds: float) -> bool:
        """Return True if records are queued and no write of the input log has happened for ``seconds``."""
        waits = self.durable < self.last and not self._writing
        return waits and time.monotonic() - self._synced_at >= seconds

    def sync(self) -> None:
        """Sync every appended record of the input log to disk, even if the sync policy is ``off``.

        Raises:
            StoreUnwritableError: the input log's records cannot be written now.
        """
        self.wait(self.last)
        if self._sync == "off":
            os.fdatasync(self._files.file)

    def _write_group(self) -> None:
        """Write the queued records to the log file as one group; only one thread at a time calls this."""
        files = self._files
        with self._lock:
            if self._sync == "interval" and len(self._waiting) < self._delay.expected:
                self._delay.gather(self._waiting, self._synced_at)
            group, self._waiting = self._waiting, []
            last = self.last
        try:
            if files.torn:
                files.cut_torn()
            if self._reached is not None:
                self._reached("before-write")
            files.torn = True
            left = memoryview(b"".join(group))
            while left:
                left = left[os.write(files.file, left) :]
            if self._reached is not None:
                self._reached("after-write")
            if self._sync != "off":
                os.fdatasync(files.file)
            files.torn = False
            if self._reached is not None:
                self._reached("after-sync")
        except OSError as error:
            with self._lock:
                self._waiting[:0] = group
            # If the partial write cannot be cut off the log file now, the next write cuts it off first.
            if files.torn:
                with contextlib.suppress(OSError):
                    files.cut_torn()
            self.failure = f"the input log cannot be written: {error.strerror}"
            raise StoreUnwritableError(self.failure, hint=SPACE) from error
        self._synced_at = time.monotonic()
        written = sum(map(len, group))
        files.length += written
        self.failure = None
        with self._lock:
            self._note_durable(last)
            self.durable = last
            self.waiting_bytes -= written
            # The records of half of the waiting threads are written while the other threads prepare records.
            self._delay.expected = (1 + self._delay.waiters) // 2
        if files.length >= files.segment_bytes and files.begin(last + 1, synced=self._sync != "off"):
            with self._lock:
                files.firsts.append(last + 1)

    # --- reading records and deleting old files -----------------------------------------------------

    @property
    def earliest(self) -> int:
        """The number of the oldest record in the log; if the log is empty, the number of the next record."""
        return self._files.firsts[0]

    def size(self) -> int:
        """Return the size of all files of the input log in bytes."""
        total = 0
        for first in list(self._files.firsts):
            # Another thread may have deleted the log file.
            with contextlib.suppress(FileNotFoundError):
                total += self._files.path(first).stat().st_size
        return total

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the input log's durable records after number ``after``, oldest first.

        Raises:
            StoreFormatError: a record is damaged or missing.
        """
        segments = list(self._files.firsts)
        for place, first in enumerate(segments):
            following = segments[place + 1] if place + 1 < len(segments) else None
            if following is not None and following <= after + 1:
                continue
            end = first - 1
            for number, payload, _ in records(self._files.path(first)):
                end = number
                if after < number <= self.durable:
                    yield number, payload
            if following is not None and end != following - 1:
                damage = damage_of(self._files.path(first))
                if damage is not None:
                    raise damaged(damage)
                raise _missing(self._files.folder, end + 1, following - 1)

    def trim(self, before: int) -> bool:
        """Delete log files with only records before ``before``; False if the mark file cannot be written.

        A log file is deleted only after the mark file states the new first record; otherwise the next start
        would report missing records.
        """
        while len(self._files.firsts) > 1 and self._files.firsts[1] <= before:
            with self._lock:
                gone = self._files.firsts.pop(0)
                noted = self._note_durable(self.durable)
                if not noted:
                    self._files.firsts.insert(0, gone)
            if noted and self._mark is not None:
                # The mark file must be durable before the log file is deleted, even if a power failure
                # follows.
                try:
                    self._mark.sync()
                except OSError:
                    noted = False
                    with self._lock:
                        self._files.firsts.insert(0, gone)
                        self._note_durable(self.durable)
            if not noted:
                log.warning("the mark of the input log cannot be written: %s stays", self._files.path(gone))
                return False
            self._files.path(gone).unlink(missing_ok=True)
            if self._reached is not None:
                self._reached("in-trim")
        return True

    def trim_to_size(self, most: int, before: int) -> None:
        """Delete the oldest log files down to ``most`` bytes, but none with records from ``before`` on."""
        while len(self._files.firsts) > 1 and self._files.firsts[1] <= before and self.size() > most:
            if not self.trim(self._files.firsts[1]):
                return

    def close(self) -> None:
        """Write the queued records and close the files of the input log."""
        try:
            self.wait(self.last)
        finally:
            with self._lock:
                if not self._closed:
                    self._closed = True
                    os.close(self._files.file)
                    if self._mark is not None:
                        self._mark.close()


def damaged(damage: Damage) -> StoreFormatError:
    """Return the error for durable records of the input log that cannot be read."""
    return StoreFormatError(f"the input log {damage}", hint=DAMAGED)


def _missing(folder: Path, first: int, last: int) -> StoreFormatError:
    return StoreFormatError(
        f"the input log {folder} lacks its records {first} to {last}, which were durable", hint=DAMAGED
    )
