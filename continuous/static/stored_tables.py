"""Storage of tables on disk, so that a start of the server loads rows instead of evaluating them.

The rows of a table on disk (`store/blobs/kept_rows.py`) have a range of versions, ``since`` to ``until``:

    since ... until         the rows are valid
    after until             the rows are valid if the change log shows that no later commit can have changed
                            them, and if reading these commits costs less than evaluating the rows
    all other versions      the rows are invalid and evaluated again

A table's rows on disk are used only for an equal pattern, dataset clause, program version and Oxigraph
version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from quadrill.store.blobs.blob_store import key_of
from quadrill.store.blobs.kept_rows import KeptFacts, KeptRows, RowsCopy
from quadrill.store.changes.remembered import RememberedCommits
from quadrill.store.documents.packed_rows import PackedRows
from quadrill.store.errors import GoneError
from quadrill.store.quads.quad_store import QuadStore

from ..algebra.columnar import EngineChoice
from ..algebra.extension_calls import calls_extensions
from ..rows import Delta, Solution
from ..settings import StaticLimits
from .table import Table
from .trigger_index import TriggerIndex

log = logging.getLogger("quadrill.continuous")

FORMAT = 2
_AT_LEAST, _EACH_S = 100, 5e-6
"""Limits on the commits and quads that are checked before a table's rows from disk are used.

At most `_AT_LEAST` commits and quads are checked, or one for each `_EACH_S` seconds that the evaluation of
the table took if this is more.
"""


class KeptTables:
    """The tables of static parts of one engine that are stored on disk.

    `keep` is called in the engine's thread; `find`, `unchanged` and `load` are called by threads that
    register queries.
    """

    def __init__(self, rows: KeptRows, store: QuadStore, limits: StaticLimits) -> None:
        """Create the storage; tables that are evaluated in less than ``limits.kept_s`` are not stored."""
        self.rows = rows
        self._limits = limits
        self._commits = RememberedCommits(store.commits_after)
        self.taken = 0
        """Number of tables that were read from disk since the start of the server."""

    # --- writing --------------------------------------------------------------------------------

    def keep(
        self, tables: Iterable[Table], version: int, evaluated: Mapping[str, int], *, at_end: bool = False
    ) -> None:
        """Write tables that have changed since they were last written; delete tables that no query uses.

        After a restart each query begins at the version of its last evaluation, so newer rows on disk would
        be useless. Older rows of a table therefore remain on disk until the query has been evaluated with the
        newer rows.

        Args:
            tables: the tables in memory.
            version: the version of the last commit whose task has run.
            evaluated: the version of the last evaluation of each query.
            at_end: True if the engine stops, so that all tables are written now and the call waits for the
                writes.
        """
        self._commits.forget()
        if self.rows.busy and not at_end:
            return
        self.rows.wait()
        copies: dict[str, RowsCopy] = {}
        notes: dict[str, KeptFacts] = {}
        keys: set[str] = set()
        may_write = at_end or time.monotonic() >= self.rows.not_before
        for table in tables:
            is_ready = table.ready.is_set()
            if is_ready and table.reading.took_s < self._limits.kept_s:
                continue
            if calls_extensions(table.part.pattern):
                # A table whose static part calls an extension function is not stored, because the function
                # may return other values after a restart.
                continue
            key = _key(table)
            keys.add(key)
            if (
                not is_ready
                or not table.live
                or table.behind is not None
                or table.reading.problem is not None
            ):
                continue
            choice = (
                None
                if table.reading.choice is None
                else (table.reading.choice.engine, table.reading.choice.reason)
            )
            facts = KeptFacts(table.since, max(version, table.version), table.reading.took_s, choice)
            since, until = self.rows.on_disk.get(key, (None, None))
            needed = min((evaluated.get(each.name, version) for each in table.readers), default=version)
            if since == facts.since:
                if until != facts.until:
                    notes[key] = facts
            elif facts.since <= needed and may_write:
                copies[key] = RowsCopy(len(table.part.vars), facts, dict(table.rows), table.listed)
        self.rows.put(copies, notes, keys)
        if at_end:
            self.rows.wait()

    # --- reading --------------------------------------------------------------------------------

    def find(self, table: Table) -> KeptFacts | None:
        """Return the metadata of a table's rows on disk; None if there are no usable rows on disk."""
        return self.rows.find(_key(table), table.name)

    def unchanged(self, table: Table, since: int, version: int, read_s: float) -> int:
        """Return the newest version up to which no commit after ``since`` can have changed a table's rows.

        The search in the change log ends at ``version``, or earlier if it would cost more than evaluating the
        rows, which took ``read_s`` seconds.
        """
        if since >= version:
            return since
        index = TriggerIndex()
        index.add(table)
        reached, left = since, max(_AT_LEAST, read_s / _EACH_S)
        try:
            for commit in self._commits.between(since, version):
                left -= 1 + len(commit.added) + len(commit.removed)
                if left < 0 or index.touched(commit, 0):
                    break
                reached = commit.version
        except GoneError:
            return since
        return reached

    def load(self, table: Table, found: KeptFacts, version: int) -> bool:
        """Load a table's rows from disk; delete the rows and return False if they are damaged."""
        key = _key(table)
        try:
            _take(table, self.rows.read(key), version, found)
        except Exception as error:
            log.warning("the static part %s is read again: %s", table.name, error)
            self.rows.forget(key)
            return False
        table.reading.choice = None if found.choice is None else EngineChoice(*found.choice)
        self.rows.on_disk[key] = (found.since, found.until)
        self.taken += 1
        return True


def _take(table: Table, kept: PackedRows, version: int, found: KeptFacts) -> None:
    """Set the rows of a table to rows from disk, which are valid at ``version`` of the store."""
    if kept.width != len(table.part.vars):
        raise ValueError("the rows have another width")
    fresh: Delta = {}
    listed: Sequence[Solution] | None = None
    if table.is_ordered:
        listed = [row for row, _ in kept.rows(kept.terms, None)]
    else:
        dictionary = table.terms.dictionary
        with table.terms.planning:
            fresh.update(kept.rows(list(map(dictionary.texts.__getitem__, kept.texts)), 0))
            dictionary.pin(chain.from_iterable(fresh), compact=True)
    table.begin_at(version, fresh, listed)
    table.since, table.reading.from_disk = found.since, found.until


def _key(table: Table) -> str:
    return key_of(f"{FORMAT} {table.identity.key}")
