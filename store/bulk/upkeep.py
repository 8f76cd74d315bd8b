"""Makes the mirror, takes commits into it, and says when that is worth its while.

make_mirror   dump of the store -> new files for everything; compact: the mirror and the commits since -> new
              files for the predicates that they touch
state         how many quads changed since, and whether they can still be laid over it
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pyoxigraph import RdfFormat, serialize

from ..errors import GoneError
from ..quads.quad_store import QuadStore
from .direct import Advance
from .mirror import COMPACT_QUADS, Mirror, swap_in
from .mirror_quads import ADDED, REMOVED
from .spark_load import LOG, run_child

FEWEST_CHANGES = 10_000
"""The minimum number of changes for which compaction is due, because Spark takes long to start."""
MOST_CHANGES = COMPACT_QUADS // 2
"""The number of changes at which compaction is due for a mirror of any size."""
_TOLD_S = 0.5
Staged = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MirrorState:
    """A mirror beside the present version of the store.

    Attributes:
        version: the version that the files reflect.
        rows: the quads in the files.
        changes: how many quads commits added and removed since, as far as the change log knows.
        stale: why the commits since cannot be laid over it; None when they can.
    """

    version: int
    rows: int
    changes: int
    stale: str | None

    def limit(self, ratio: float) -> int:
        """Return the number of changes at which compaction is due.

        ``ratio`` is a share of the mirror's quads.
        """
        return max(FEWEST_CHANGES, min(int(self.rows * ratio), MOST_CHANGES))

    def is_due(self, ratio: float) -> bool:
        """Return True if the mirror should be compacted or written completely."""
        return self.stale is not None or self.changes >= self.limit(ratio)


def state(store: QuadStore, folder: Path, *, most: int = COMPACT_QUADS) -> MirrorState | None:
    """The state of a folder's mirror beside its store; None when there is no mirror.

    Above ``most`` changes they cannot be laid over it.

    Raises: StoreFormatError when its description cannot be read.
    """
    mirror = Mirror.open(folder)
    if mirror is None:
        return None
    changes, stale = 0, None
    try:
        for commit in store.commits_after(mirror.version):
            changes += sum(change.added + change.removed for change in commit.graphs.values())
            if not commit.exact:
                stale = f"the commit of version {commit.version} was a bulk load, which has only counts"
    except GoneError:
        stale = "the change log does not reach back to its version any more"
    if not mirror.is_of(store):
        stale = "it is of another history of the store"
    if stale is None and changes > most:
        stale = f"more than {most:,} quads changed since"
    rows = sum(facts.rows for facts in mirror.predicates.values())
    return MirrorState(mirror.version, rows, changes, stale)


def make_mirror(
    store: QuadStore,
    folder: Path,
    *,
    compact: bool = False,
    master: str | None = None,
    memory: str = "2g",
    advance: Advance = lambda rows, size, bad: None,
    staged: Staged = lambda stage: None,
) -> Mirror:
    """Make the mirror of the store's present version, in the place of an older one.

    Args:
        store: the store.
        folder: the mirror's folder.
        compact: write only the predicates that commits have touched since, unless the mirror is stale or
            not there.
        master: a Spark master; None is local mode.
        memory: heap of Spark's driver.
        advance: told how many quads were read or written so far; those of touched predicates in ``merge``.
        staged: told the stage first: ``dump`` and ``parse`` or ``merge``, then ``write``, ``swap``, ``done``.

    Raises:
        LoadError: Spark failed; the older mirror is kept.
    """
    mirror = Mirror.open(folder) if compact else None
    changes = None if mirror is None else mirror.changes(store)
    if mirror is not None and changes is not None:
        version, added, removed = changes
        if not (added or removed):
            if version != mirror.version:
                swap_in(folder, mirror.quads.name, version, mirror.predicates, store.log.mark(version))
            return _made(folder)
    with _work(folder) as work:
        if changes is not None:
            stage, source = "compact", work
            for name, quads in ((ADDED, added), (REMOVED, removed)):
                with (work / name).open("wb") as file:
                    serialize(quads, output=file, format=RdfFormat.N_QUADS)
        else:
            stage, source = "mirror", work / "dump.nq"
            staged("dump")
            advance(0, 0, 0)
            with source.open("wb") as file:
                counting = _Counting(file, advance)
                version = store.reader.dump(counting, RdfFormat.N_QUADS)  # type: ignore[arg-type]
            advance(counting.rows, counting.size, 0)
        arguments = [stage, str(source), str(folder.resolve()), str(version), store.log.mark(version) or ""]
        log = folder.parent / f"{folder.name}-{LOG}"
        run_child(arguments, log, master, memory, advance, staged=staged)
    return _made(folder)


class _Counting:
    """A file writer that reports the number of lines twice a second."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._next = time.monotonic() + _TOLD_S
        self.rows = self.size = 0

    def write(self, block: bytes) -> int:
        self._file.write(block)
        self.rows += block.count(b"\n")
        self.size += len(block)
        if time.monotonic() >= self._next:
            self._advance(self.rows, self.size, 0)
            self._next = time.monotonic() + _TOLD_S
        return len(block)


@contextmanager
def _work(folder: Path) -> Iterator[Path]:
    """A folder beside the mirror for what Spark reads; those of processes that were killed are removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{folder.name}-work-"
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as work:
        yield Path(work)


def _made(folder: Path) -> Mirror:
    mirror = Mirror.open(folder)
    assert mirror is not None
    return mirror
