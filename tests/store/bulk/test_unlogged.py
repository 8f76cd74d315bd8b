"""A bulk load that was made but could not be logged: nothing of it is lost to those who follow the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.quads.quad_store import QuadStore

GRAPH = NamedNode("urn:g")
LOADED = [Quad(NamedNode("urn:a"), NamedNode("urn:p"), NamedNode(f"urn:o{n}"), GRAPH) for n in range(3)]
UPDATE = "INSERT DATA { <urn:b> <urn:p> 1 }"


@contextmanager
def full_disk() -> Iterator[None]:
    """The log takes no commit."""

    def refused(_log: SqliteChangeLog, _commits: Sequence[Commit], _counts: Mapping[str, int | None]) -> None:
        raise StoreUnwritableError("no space")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteChangeLog, "append", refused)
        yield


def unlogged(folder: Path) -> QuadStore:
    """A store at version 1 with a load that was made and is in no version."""
    store = QuadStore.open(folder)
    store.writer.update(UPDATE)
    with full_disk(), pytest.raises(StoreUnwritableError):
        store.writer.bulk_extend(LOADED)
    return store


def told(store: QuadStore, version: int) -> list[tuple[int, bool, dict[str, int]]]:
    """The commits behind a version: their version, whether their quads are known, what they added."""
    return [
        (each.version, each.exact, {graph: change.added for graph, change in each.graphs.items()})
        for each in store.commits_after(version)
    ]


def test_the_next_update_logs_it_first(tmp_path: Path) -> None:
    with unlogged(tmp_path) as store:
        with full_disk(), pytest.raises(StoreUnwritableError):
            store.writer.update("INSERT DATA { <urn:b> <urn:p> 2 }")
        assert store.reader.version == 1
        store.writer.update("INSERT DATA { <urn:b> <urn:p> 3 }")
        commits = told(store, 1)
        assert [(version, exact) for version, exact, _ in commits] == [(2, False), (3, True)]
        assert commits[0][2] == {"urn:g": 3}
        assert store.reader.quad_count == 5
    with QuadStore.open(tmp_path) as store:
        assert (store.reader.version, store.reader.quad_count, store.reader.graph_counts()[GRAPH]) == (
            3,
            5,
            3,
        )


def test_a_start_that_cannot_log_it_leaves_it_to_the_next(tmp_path: Path) -> None:
    unlogged(tmp_path).close()
    with full_disk(), pytest.raises(StoreUnwritableError):
        QuadStore.open(tmp_path)
    with QuadStore.open(tmp_path) as store:
        assert (store.reader.version, store.reader.quad_count) == (2, 4)
        assert told(store, 1) == [(2, False, {"urn:g": 3})]
