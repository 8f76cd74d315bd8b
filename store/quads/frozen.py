"""Frozen copies of the dataset at one version, for readers that outlast later commits.

On disk, a frozen copy is a RocksDB checkpoint of the database: hard links and a new log, made in a tenth of a
second at any size. A frozen copy of a store in memory copies all quads. The files of a frozen copy are
removed with the last reference to its reader, at the latest at the next opening of the store.
"""

from __future__ import annotations

import shutil
import weakref
from itertools import count
from pathlib import Path

from pyoxigraph import Store

from ..changes.apply import apply_change
from ..changes.commit import NetChange
from ..errors import StoreUnwritableError
from ..hosts import AllowedHosts
from ..sparql.guard import TextLimits
from ..sparql.query import Querier, QueryRequest, QueryResult

_FOLDER = "frozen"
_numbers = count(1)


class FrozenReader:
    """Evaluates queries on a frozen copy of the dataset, which never changes."""

    def __init__(self, querier: Querier, version: int, place: Path | None = None) -> None:
        """Make a reader of a frozen copy; the folder ``place``, if not None, is removed with the reader."""
        self.version = version
        self._querier = [querier]
        if place is not None:
            weakref.finalize(self, _remove, self._querier, place)

    @property
    def database(self) -> Store:
        """The database of the copy, which must not be changed."""
        return self._querier[0].database

    def query(self, request: QueryRequest) -> QueryResult:
        """Evaluate a query on the frozen copy; see `quadrill.store.quads.reading.StoreReader.query`."""
        return self._querier[0].evaluate(request, self.version)


def frozen(
    store: Store,
    folder: Path | None,
    version: int,
    limits: TextLimits,
    hosts: AllowedHosts,
    undo: NetChange | None,
) -> FrozenReader:
    """Copy a database and return a reader of the copy; the caller must hold the writer lock.

    Args:
        store: the database.
        folder: the data folder; None for a store in memory.
        version: the version of the copy.
        limits: limits on the texts of queries.
        hosts: hosts that queries may reach.
        undo: a change that is undone in the copy; None for an exact copy.

    Raises:
        StoreUnwritableError: the copy cannot be written.
    """
    if folder is None:
        copy, place = copy_in_memory(store), None
    else:
        place = new_place(folder)
        try:
            place.parent.mkdir(exist_ok=True)
            store.backup(str(place))
            copy = Store.read_only(str(place)) if undo is None else Store(str(place))
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise StoreUnwritableError(f"the dataset cannot be copied to {place}: {error}") from error
    if undo is not None:
        apply_change(copy, undo.inverse())
    return FrozenReader(Querier(copy, limits, hosts), version, place)


def new_place(folder: Path) -> Path:
    """Return a new path for a temporary database in a data folder; the next opening removes leftovers."""
    return folder / _FOLDER / str(next(_numbers))


def copy_in_memory(store: Store) -> Store:
    """Copy all quads and graph names into a new in-memory store."""
    copy = Store()
    copy.extend(store)
    for name in store.named_graphs():
        copy.add_graph(name)
    return copy


def _remove(querier: list[Querier], place: Path) -> None:
    # The database closes, and still writes, its files with its last reference, so drop that before the files
    # are removed.
    querier.clear()
    shutil.rmtree(place, ignore_errors=True)


def remove_copies(folder: Path) -> None:
    """Remove the frozen copies of the dataset that a killed process left in a data folder."""
    shutil.rmtree(folder / _FOLDER, ignore_errors=True)
