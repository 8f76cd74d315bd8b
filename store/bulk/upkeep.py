"""Upkeep of the mirror: creation, compaction, and the decision when compaction is due.

make_mirror   writes all Parquet files from a dump of the store; with ``compact``, writes only the files of
              the predicates that later commits changed
state         returns the number of quads changed since the mirror's version, and whether queries on the
              mirror can still merge these changes
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
"""The minimum number of changed quads for which compaction is due, because Spark takes long to start."""
MOST_CHANGES = COMPACT_QUADS // 2
"""The number of changed quads at which compaction is due for a mirror of any size."""
_REPORT_S = 0.5
"""Seconds between two progress reports of a dump."""
Staged = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MirrorState:
    """The state of a mirror compared with the newest version of the store.

    Attributes:
        version: the version of the store that the mirror's files reflect.
        rows: the number of quads in the mirror's files.
        changes: the number of quads that later commits added and removed, as far as the change log contains
            the commits; a quad that was added and removed again counts twice.
        stale: the reason why later changes cannot be merged with the mirror; None if they can.
    """

    version: int
    rows: int
    changes: int
    stale: str | None

    def limit(self, ratio: float) -> int:
        """Return the number of changed quads at which compaction of the mirror is due.

        The argument ``ratio`` is the ratio of changed quads to quads of the mirror at which compaction is
        due.
        """
        return max(FEWEST_CHANGES, min(int(self.rows * ratio), MOST_CHANGES))

    def is_due(self, ratio: float) -> bool:
        """Return True if the mirror should be compacted or written again completely."""
        return self.stale is not None or self.changes >= self.limit(ratio)


def state(store: QuadStore, folder: Path, *, most: int = COMPACT_QUADS) -> MirrorState | None:
    """Return the state of the mirror in a folder compared with its store; None if there is no mirror.

    With more than ``most`` changed quads, the mirror counts as stale: queries may not merge so many.

    Raises:
        StoreFormatError: the file meta.json of the mirror cannot be read.
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
    """Create or update the mirror of the store at its newest version.

    Args:
        store: the store to copy.
        folder: the folder of the mirror.
        compact: write only the predicates that later commits changed, unless the mirror is stale or does not
            exist.
        master: the URL of a Spark master; None runs Spark in local mode.
        memory: the heap size of Spark's driver, for instance ``2g``.
        advance: receives the number of quads read or written so far; in the stage ``merge``, the number of
            quads with changed predicates.
        staged: receives the name of each stage at its begin: ``dump`` and ``parse``, or ``merge``; then
            ``write``, ``swap``, ``done``.

    Raises:
        LoadError: Spark failed; the older mirror stays in use.
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
    """A file writer that reports the number of lines and bytes written so far, twice per second."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._next = time.monotonic() + _REPORT_S
        self.rows = self.size = 0

    def write(self, block: bytes) -> int:
        self._file.write(block)
        self.rows += block.count(b"\n")
        self.size += len(block)
        if time.monotonic() >= self._next:
            self._advance(self.rows, self.size, 0)
            self._next = time.monotonic() + _REPORT_S
        return len(block)


@contextmanager
def _work(folder: Path) -> Iterator[Path]:
    """Create a temporary folder for Spark's input, and delete such folders of earlier, killed processes."""
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
