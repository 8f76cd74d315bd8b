"""A copy of the dataset at one version, for whoever must read on while the store moves on.

On disk it is a checkpoint of the database: hard links and a new log, a tenth of a second whatever the size.
In memory it is a copy. It is gone with the last reference to it, at the latest when the store is opened anew.
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
    """Asks queries of a dataset that stays as it is."""

    def __init__(self, querier: Querier, version: int, place: Path | None = None) -> None:
        """Make a reader of a copy, whose files at ``place``, if any, are removed with the reader."""
        self.version = version
        self._querier = [querier]
        if place is not None:
            weakref.finalize(self, _remove, self._querier, place)

    def query(self, request: QueryRequest) -> QueryResult:
        """See `quadrill.store.quads.reading.StoreReader.query`."""
        return self._querier[0].evaluate(request, self.version)


def frozen(
    store: Store,
    folder: Path | None,
    version: int,
    limits: TextLimits,
    hosts: AllowedHosts,
    undo: NetChange | None,
) -> FrozenReader:
    """A copy of a database that nobody writes meanwhile.

    Args:
        store: the database.
        folder: the data folder; None for a store in memory.
        version: of the copy.
        limits: on the texts that it is asked.
        hosts: that these may reach.
        undo: a change that the copy is not to have.

    Raises:
        StoreUnwritableError: there is no room for it.
    """
    if folder is None:
        copy, place = copy_in_memory(store), None
    else:
        place = folder / _FOLDER / str(next(_numbers))
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


def copy_in_memory(store: Store) -> Store:
    """A copy in memory: the quads and the graph names."""
    copy = Store()
    copy.extend(store)
    for name in store.named_graphs():
        copy.add_graph(name)
    return copy


def _remove(querier: list[Querier], place: Path) -> None:
    # The database closes its files with the last reference to it, and writes some when it does.
    querier.clear()
    shutil.rmtree(place, ignore_errors=True)


def remove_copies(folder: Path) -> None:
    """Remove what a process left behind that was killed."""
    shutil.rmtree(folder / _FOLDER, ignore_errors=True)
