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
from .group_commit import GroupCommitDelay
from .marks import MARK, LogMark
from .segments import HEAD, Damage, damage_of, first_number, records, whole_part

log = logging.getLogger("quadrill.store")

Sync = OneOf["always", "interval", "off"]
SYNCS: tuple[Sync, ...] = ("always", "interval", "off")

SPACE = "Make space on the disk, or mend what made it read-only; nothing else has to be done"


class SegmentFiles:
    """The files of a log, of which the last one is open for writing.

    One thread at a time writes; the log's lock guards changes of ``firsts``.

    Attributes:
        folder: holds the files.
        firsts: the number of the first record of each file, oldest first.
        length: bytes of whole records in the last file.
        file: the descriptor of the last file.
        segment_bytes: length from which on the last file is full.
        torn: whether the last file may hold a part of a group that could not be written.
    """

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        """Find the files of a folder, which is made when it is not there; none is opened yet."""
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.torn = False
        self.length = 0
        self.file = -1
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.firsts = sorted(map(first_number, folder.glob("*.log"))) or [1]
        self._remove_unused()

    def _remove_unused(self) -> None:
        """Delete an empty last file whose records are in the one before it, which grew on."""
        if len(self.firsts) > 1 and self.path(self.firsts[-1]).stat().st_size == 0:
            _, last = whole_part(self.path(self.firsts[-2]))
            if last >= self.firsts[-1]:
                self.path(self.firsts.pop()).unlink()

    def path(self, first: int) -> Path:
        """The path of the file whose first record has this number."""
        return self.folder / f"{first:020d}.log"

    def cut_torn(self) -> None:
        """Leave the file as it was before a write that failed; its pages may be anything then."""
        os.ftruncate(self.file, self.length)
        self.torn = False

    def begin(self, first: int, *, synced: bool) -> bool:
        """Begin a new file, when the last one is full; whether it did. The caller adds it to ``firsts``.

        ``synced``: False where the full file has to be synced before it is closed.
        """
        path = self.path(first)
        file = -1
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            sync_folder(self.folder)
        except OSError:
            # No space for a new file: the present one grows on, and an empty one must not follow it.
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
            self._mark = LogMark(LogMark.beside(folder)) if marked else None
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
        """Raise StoreFormatError where records that were durable are missing or damaged."""
        torn = path.exists() and path.stat().st_size > self._files.length
        damage = damage_of(path) if torn else None
        if self._mark is None or self._mark.last == 0:
            # Nothing is known: what is whole was durable, and with it what is before that.
            if damage is not None and damage.behind:
                raise damaged(damage)
            return
        first, last = self._mark.first, self._mark.last
        if last > self.last:
            raise damaged(damage) if damage is not None else _missing(self._files.folder, self.last + 1, last)
        if 0 < first < self._files.firsts[0]:
            raise _missing(self._files.folder, first, self._files.firsts[0] - 1)

    def _cut_tail(self, path: Path) -> None:
        """Cut away what was being written when the process or the machine ended; a copy is kept."""
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
        """Write the mark; False where the disk refuses: it stays behind, harmless while no file goes."""
        if self._mark is not None:
            first = self._files.firsts[0]
            try:
                os.pwrite(self._mark.file, MARK.pack(first, last, first ^ last), 0)
            except OSError:
                return False
        return True

    # --- writing --------------------------------------------------------------------------------

    def append(self, payload: bytes) -> int:
        """Put a record behind the last one; its number. It is durable once `wait` has returned."""
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
        """Return when every record up to ``number`` is durable as the sync policy has it.

        Raises:
            StoreUnwritableError: it cannot be written now; it stays in line and may become durable later.
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
            os.fdatasync(self._files.file)

    def _write_group(self) -> None:
        """Only one thread at a time is here."""
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
            # What cannot be cut away now is cut away before the next write.
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
            # While one half of the waiting threads is written, the other half can get ready.
            self._delay.expected = (1 + self._delay.waiters) // 2
        if files.length >= files.segment_bytes and files.begin(last + 1, synced=self._sync != "off"):
            with self._lock:
                files.firsts.append(last + 1)

    # --- reading and forgetting -----------------------------------------------------------------

    @property
    def earliest(self) -> int:
        """The number of the oldest record kept; that of the next one when there is none."""
        return self._files.firsts[0]

    def size(self) -> int:
        """Size of all files in bytes."""
        total = 0
        for first in list(self._files.firsts):
            # A file may just be forgotten in another thread.
            with contextlib.suppress(FileNotFoundError):
                total += self._files.path(first).stat().st_size
        return total

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """The durable records behind number ``after``, oldest first.

        Raises:
            StoreFormatError: a record is damaged.
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
        """Delete the files that hold only records before number ``before``; False where some must stay.

        A file stays while the mark cannot say that it goes: the next start would miss it.
        """
        while len(self._files.firsts) > 1 and self._files.firsts[1] <= before:
            with self._lock:
                gone = self._files.firsts.pop(0)
                noted = self._note_durable(self.durable)
                if not noted:
                    self._files.firsts.insert(0, gone)
            if noted and self._mark is not None:
                # Also after a power failure nobody may look for what is deleted here.
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
        """Delete the oldest files until ``most`` bytes are left, never a record from ``before`` on."""
        while len(self._files.firsts) > 1 and self._files.firsts[1] <= before and self.size() > most:
            if not self.trim(self._files.firsts[1]):
                return

    def close(self) -> None:
        """Write what waits and close the files."""
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
    """The error for records that cannot be read and may not be cut away."""
    return StoreFormatError(f"the input log {damage}", hint=DAMAGED)


def _missing(folder: Path, first: int, last: int) -> StoreFormatError:
    return StoreFormatError(
        f"the input log {folder} lacks its records {first} to {last}, which were durable", hint=DAMAGED
    )
