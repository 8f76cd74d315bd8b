"""A disk that fails: short writes, no space, errors of sync, and what a power failure leaves of a file."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quadrill.store.logs import checkpoint_file, input_log


class FaultyDisk:
    """Stands in for the module ``os`` where files of the engine are written.

    Attributes:
        chance: how likely each call fails; 0 for a disk that works.
        faults: how often what went wrong.
    """

    def __init__(self, seed: int, chance: float) -> None:
        self.chance = chance
        self.faults: Counter[str] = Counter()
        self._random = random.Random(seed)
        # How much of each open file has been synced.
        self._synced: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """From now on it is the disk of the input log and of checkpoints."""
        patch.setattr(input_log, "os", self)
        patch.setattr(checkpoint_file, "os", self)

    def _fails(self, what: str) -> bool:
        if self._random.random() >= self.chance:
            return False
        self.faults[what] += 1
        return True

    def write(self, file: int, data: Any) -> int:
        """All, a part, or a part and then nothing more."""
        if self._fails("short write"):
            return os.write(file, bytes(data[: max(1, self._random.randrange(len(data)))]))
        if self._fails("no space"):
            os.write(file, bytes(data[: self._random.randrange(len(data))]))
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data)

    def fdatasync(self, file: int) -> None:
        """Done, or an error that says nothing about what is on the disk."""
        if self._fails("sync"):
            raise OSError(errno.EIO, "Input/output error")
        self._synced[os.fstat(file).st_ino] = os.fstat(file).st_size

    def fsync(self, file: int) -> None:
        """The same, also of a folder."""
        if self._fails("sync of a folder or draft"):
            raise OSError(errno.EIO, "Input/output error")
        self._synced[os.fstat(file).st_ino] = os.fstat(file).st_size

    def ftruncate(self, file: int, length: int) -> None:
        """Done or not."""
        if self._fails("truncate"):
            raise OSError(errno.EIO, "Input/output error")
        os.ftruncate(file, length)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """A new file may find no space."""
        if flags & os.O_CREAT and not Path(path).exists() and self._fails("no space for a file"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.open(path, flags, mode)

    def replace(self, source: Any, target: Any) -> None:
        """Done or not, as a whole."""
        if self._fails("rename"):
            raise OSError(errno.EIO, "Input/output error")
        os.replace(source, target)

    def lose_power(self, original: Path, copy: Path) -> str:
        """What is left of a file's copy: all that was synced, some of the rest, perhaps with other bits."""
        size = copy.stat().st_size
        synced = min(size, self._synced.get(original.stat().st_ino, size))
        left = self._random.randint(synced, size)
        data = bytearray(copy.read_bytes()[:left])
        if left > synced and self._random.random() < 0.5:
            data[self._random.randrange(synced, left)] ^= 1 << self._random.randrange(8)
        copy.write_bytes(data)
        # The copy may have the inode of a file that was deleted; all that it has is on the disk.
        self._synced[copy.stat().st_ino] = len(data)
        return f"{size - left} of {size - synced} bytes that were not synced are gone"
