"""The input log: what the engine accepted, in one order, durable before it is answered.

    folder/00000000000000000001.log    records 1 ... n
    folder/0000000000000000<n+1>.log   records n+1 ...      the number is that of the first record

Records are collected in memory and written by whoever waits first (group commit): everything collected by
then shares one write and one fsync. Who waits alone syncs at once; where several wait, half as many are
waited for a moment. A record is whole or absent; a tail torn by a crash is put aside when
the log is opened, and said so, but only where nothing shows that it was durable. A failed write leaves the
file as it was and the records in memory, to be written when there is space again; until then the log says
that it cannot be written.
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
from .marks import MARK, LogMark
from .segments import HEAD, Damage, damage_of, first_number, records, whole_part

log = logging.getLogger("quadrill.store")

Sync = OneOf["always", "interval", "off"]
SYNCS: tuple[Sync, ...] = ("always", "interval", "off")

SPACE = "Make space on the disk, or mend what made it read-only; nothing else has to be done"


class SegmentedLog:
    """An append-only log of numbered records in files of bounded size. Every method may be called anywhere.

    Attributes:
        cut_bytes: bytes of a torn tail that opening cut away.
        failure: why nothing can be written now, None when all is well.
        waiting_bytes: what is not written yet.
        appended_bytes: what was put behind the last record since the log was opened.
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
        """Open or make a log.

        Args:
            folder: holds the files; made when it is not there.
            sync: ``always`` is one fsync per group at once; ``interval`` waits for half as many records as
                waited before, at most ``interval_ms`` from one fsync to the next; ``off`` leaves it to the
                operating system: a killed process loses nothing, a power cut may.
            interval_ms: see above.
            segment_bytes: a file that has grown so large is followed by a new one.
            marked: what is durable is noted beside the folder, unless ``sync`` is ``off``: a log that lacks
                some of it is refused.
            aside: where what is cut away is kept; by default a folder ``damaged`` in that of the log.
            reached: told the name of each step; for tests of crashes.

        Raises:
            StoreUnwritableError: the folder cannot be made or written.
            StoreFormatError: records that were durable are damaged or missing; nothing was changed.
        """
        self._folder = folder
        self._sync = sync
        self._interval_s = interval_ms / 1000
        self._segment_bytes = segment_bytes
        self._aside = aside or folder / "damaged"
        self._reached = reached
        self._lock = threading.Lock()
        self._state = threading.Condition(self._lock)
        # Whoever writes the next group waits until it has so many records.
        self._gathered = threading.Condition(self._lock)
        self._expected = 1
        self._gathering = False
        # Threads that wait for the one that writes.
        self._waiters = 0
        self._waiting: list[bytes] = []
        self.waiting_bytes = 0
        self.appended_bytes = 0
        self._writing = False
        # True while the file may hold a part of a group that could not be written.
        self._torn = False
        self._synced_at = 0.0
        self._closed = False
        self.cut_bytes = 0
        self.failure: str | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._segments = sorted(map(first_number, folder.glob("*.log"))) or [1]
            self._remove_unused()
            path = self._path(self._segments[-1])
            self._length, self.last = whole_part(path) if path.exists() else (0, self._segments[-1] - 1)
            self._mark = LogMark(LogMark.beside(folder)) if marked else None
            try:
                self._require_durable(path)
            except StoreFormatError:
                if self._mark is not None:
                    self._mark.close()
                raise
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if os.fstat(self._file).st_size > self._length:
                self._cut_tail(path)
            os.fsync(self._file)
            sync_folder(self._folder)
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
        """Raise StoreFormatError where records that were durable are missing or damaged."""
        torn = path.exists() and path.stat().st_size > self._length
        damage = damage_of(path) if torn else None
        if self._mark is None or self._mark.last == 0:
            # Nothing is known: what is whole was durable, and with it what is before that.
            if damage is not None and damage.behind:
                raise damaged(damage)
            return
        first, last = self._mark.first, self._mark.last
        if last > self.last:
            raise damaged(damage) if damage is not None else _missing(self._folder, self.last + 1, last)
        if 0 < first < self._segments[0]:
            raise _missing(self._folder, first, self._segments[0] - 1)

    def _cut_tail(self, path: Path) -> None:
        """Cut away what was being written when the process or the machine ended; a copy is kept."""
        tail = path.read_bytes()[self._length :]
        self.cut_bytes = len(tail)
        kept = self._aside / f"{time.strftime('%Y%m%dT%H%M%S')}-{path.name}-{self._length}"
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
        os.ftruncate(self._file, self._length)

    def _note_durable(self, last: int) -> bool:
        """Write the mark; False where the disk refuses: it stays behind, harmless while no file goes."""
        if self._mark is not None:
            first = self._segments[0]
            try:
                os.pwrite(self._mark.file, MARK.pack(first, last, first ^ last), 0)
            except OSError:
                return False
        return True

    def _remove_unused(self) -> None:
        """Delete an empty last file whose records are in the one before it, which grew on."""
        if len(self._segments) > 1 and self._path(self._segments[-1]).stat().st_size == 0:
            _, last = whole_part(self._path(self._segments[-2]))
            if last >= self._segments[-1]:
                self._path(self._segments.pop()).unlink()

    # --- writing --------------------------------------------------------------------------------

    def append(self, payload: bytes) -> int:
        """Put a record behind the last one; its number. It is durable once `wait` has returned."""
        with self._lock:
            self.last += 1
            number = self.last
            self._waiting.append(
                HEAD.pack(len(payload), zlib.crc32(payload, number & 0xFFFFFFFF), number) + payload
            )
            self.waiting_bytes += HEAD.size + len(payload)
            self.appended_bytes += HEAD.size + len(payload)
            if self._gathering and len(self._waiting) >= self._expected:
                self._gathered.notify()
        return number

    def wait(self, number: int) -> None:
        """Return when every record up to ``number`` is durable as the sync policy has it.

        Raises:
            StoreUnwritableError: it cannot be written now; it stays in line and may become durable later.
        """
        while True:
            with self._lock:
                if self.durable < number and self._writing:
                    self._waiters += 1
                    while self.durable < number and self._writing:
                        self._state.wait()
                    self._waiters -= 1
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
        """True when records wait and nobody has written any for this long."""
        waits = self.durable < self.last and not self._writing
        return waits and time.monotonic() - self._synced_at >= seconds

    def sync(self) -> None:
        """Make every record so far survive a power failure, whatever the policy.

        Raises:
            StoreUnwritableError: not now.
        """
        self.wait(self.last)
        if self._sync == "off":
            os.fdatasync(self._file)

    def _write_group(self) -> None:
        """Only one thread at a time is here."""
        with self._lock:
            if self._sync == "interval" and len(self._waiting) < self._expected:
                self._gather()
            group, self._waiting = self._waiting, []
            last = self.last
        try:
            if self._torn:
                self._cut_torn()
            if self._reached is not None:
                self._reached("before-write")
            self._torn = True
            left = memoryview(b"".join(group))
            while left:
                left = left[os.write(self._file, left) :]
            if self._reached is not None:
                self._reached("after-write")
            if self._sync != "off":
                os.fdatasync(self._file)
            self._torn = False
            if self._reached is not None:
                self._reached("after-sync")
        except OSError as error:
            with self._lock:
                self._waiting[:0] = group
            # What cannot be cut away now is cut away before the next write.
            if self._torn:
                with contextlib.suppress(OSError):
                    self._cut_torn()
            self.failure = f"the input log cannot be written: {error.strerror}"
            raise StoreUnwritableError(self.failure, hint=SPACE) from error
        self._synced_at = time.monotonic()
        written = sum(map(len, group))
        self._length += written
        self.failure = None
        with self._lock:
            self._note_durable(last)
            self.durable = last
            self.waiting_bytes -= written
            # While one half of those who wait is written, the other half can get ready.
            self._expected = (1 + self._waiters) // 2
        if self._length >= self._segment_bytes:
            self._begin_segment(last + 1)

    def _gather(self) -> None:
        """Wait a moment for others: those who waited for the last group may come again."""
        until = self._synced_at + self._interval_s
        self._gathering = True
        while len(self._waiting) < self._expected and (pause := until - time.monotonic()) > 0:
            self._gathered.wait(pause)
        self._gathering = False

    def _cut_torn(self) -> None:
        """Leave the file as it was before a write that failed; its pages may be anything then."""
        os.ftruncate(self._file, self._length)
        self._torn = False

    def _begin_segment(self, first: int) -> None:
        path = self._path(first)
        file = -1
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            sync_folder(self._folder)
        except OSError:
            # No space for a new file: the present one grows on, and an empty one must not follow it.
            if file >= 0:
                os.close(file)
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return
        if self._sync == "off":
            os.fdatasync(self._file)
        os.close(self._file)
        self._file, self._length = file, 0
        with self._lock:
            self._segments.append(first)

    # --- reading and forgetting -----------------------------------------------------------------

    @property
    def earliest(self) -> int:
        """The number of the oldest record kept; that of the next one when there is none."""
        return self._segments[0]

    def size(self) -> int:
        """Size of all files in bytes."""
        total = 0
        for first in list(self._segments):
            # A file may just be forgotten in another thread.
            with contextlib.suppress(FileNotFoundError):
                total += self._path(first).stat().st_size
        return total

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """The durable records behind number ``after``, oldest first.

        Raises:
            StoreFormatError: a record is damaged.
        """
        segments = list(self._segments)
        for place, first in enumerate(segments):
            following = segments[place + 1] if place + 1 < len(segments) else None
            if following is not None and following <= after + 1:
                continue
            end = first - 1
            for number, payload, _ in records(self._path(first)):
                end = number
                if after < number <= self.durable:
                    yield number, payload
            if following is not None and end != following - 1:
                damage = damage_of(self._path(first))
                raise _missing(self._folder, end + 1, following - 1) if damage is None else damaged(damage)

    def trim(self, before: int) -> bool:
        """Delete the files that hold only records before number ``before``; False where some must stay.

        A file stays while the mark cannot say that it goes: the next start would miss it.
        """
        while len(self._segments) > 1 and self._segments[1] <= before:
            with self._lock:
                gone = self._segments.pop(0)
                noted = self._note_durable(self.durable)
                if not noted:
                    self._segments.insert(0, gone)
            if noted and self._mark is not None:
                # Also after a power failure nobody may look for what is deleted here.
                try:
                    self._mark.sync()
                except OSError:
                    noted = False
                    with self._lock:
                        self._segments.insert(0, gone)
                        self._note_durable(self.durable)
            if not noted:
                log.warning("the mark of the input log cannot be written: %s stays", self._path(gone))
                return False
            self._path(gone).unlink(missing_ok=True)
            if self._reached is not None:
                self._reached("in-trim")
        return True

    def trim_to_size(self, most: int, before: int) -> None:
        """Delete the oldest files until ``most`` bytes are left, never a record from ``before`` on."""
        while len(self._segments) > 1 and self._segments[1] <= before and self.size() > most:
            if not self.trim(self._segments[1]):
                return

    def close(self) -> None:
        """Write what waits and close the files."""
        try:
            self.wait(self.last)
        finally:
            with self._lock:
                if not self._closed:
                    self._closed = True
                    os.close(self._file)
                    if self._mark is not None:
                        self._mark.close()

    # --- files ----------------------------------------------------------------------------------

    def _path(self, first: int) -> Path:
        return self._folder / f"{first:020d}.log"


def damaged(damage: Damage) -> StoreFormatError:
    """The error for records that cannot be read and may not be cut away."""
    return StoreFormatError(f"the input log {damage}", hint=DAMAGED)


def _missing(folder: Path, first: int, last: int) -> StoreFormatError:
    return StoreFormatError(
        f"the input log {folder} lacks its records {first} to {last}, which were durable", hint=DAMAGED
    )
