"""A write that RocksDB could not do: it refuses all others then, and the store opens it once more."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.store.errors import StoreError, StoreUnwritableError
from quadrill.store.quads import committer
from quadrill.store.quads.committer import Committer
from quadrill.store.quads.quad_store import QuadStore

ALL = "SELECT * { ?s ?p ?o }"


@contextmanager
def short_files() -> Iterator[None]:
    """No file of this process grows beyond a few bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QuadStore]:
    with QuadStore.open(tmp_path / "data") as store:
        insert(store, 0, 1)
        yield store


def insert(store: QuadStore, *numbers: int) -> int:
    return store.writer.update(
        "INSERT DATA {" + " . ".join(f"<urn:a> <urn:p> {n}" for n in numbers) + "}"
    ).version


def read(store: QuadStore) -> int:
    with store.reader.query(ALL) as result:
        return len(list(result.rows()))


def test_updates_go_on_behind_a_flush_that_failed(store: QuadStore, tmp_path: Path) -> None:
    with short_files(), pytest.raises(StoreUnwritableError, match="could not be flushed"):
        store.committer.checkpoint()
    assert store.reader.quad_count == read(store) == 2
    assert insert(store, 2) == 2
    store.committer.checkpoint()
    store.backup(tmp_path / "copy")
    with QuadStore.open(tmp_path / "copy") as copy:
        assert (copy.reader.version, copy.reader.quad_count) == (2, 3)


def test_updates_go_on_behind_a_backup_that_failed(store: QuadStore, tmp_path: Path) -> None:
    with short_files(), pytest.raises(StoreUnwritableError, match="backup"):
        store.backup(tmp_path / "one")
    assert insert(store, 2) == 2
    store.backup(tmp_path / "two")


def test_while_the_disk_is_full_updates_are_refused_and_queries_answered(store: QuadStore) -> None:
    with short_files():
        with pytest.raises(StoreUnwritableError):
            store.committer.checkpoint()
        for _ in range(2):
            with pytest.raises(StoreUnwritableError):
                insert(store, 2)
            assert read(store) == 2
    assert insert(store, 3) > 1
    assert store.reader.quad_count == read(store)


def test_a_reader_of_the_old_database_ends_first(store: QuadStore) -> None:
    open_result = store.reader.query(ALL)
    rows = iter(open_result.rows())
    next(rows)
    with short_files(), pytest.raises(StoreUnwritableError):
        store.committer.checkpoint()
    with pytest.raises(StoreUnwritableError, match="cannot be opened again"):
        insert(store, 2)
    assert read(store) == 2, "others read on"
    assert len(list(rows)) == 1
    open_result.close()
    del rows, open_result
    assert insert(store, 2) == 2


def test_a_bulk_load_that_cannot_be_flushed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Committer) -> None:
        raise OSError(28, "No space left on device")

    with QuadStore.open(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Committer, "_flush", refuse)
            with pytest.raises(StoreUnwritableError, match="the bulk load failed"):
                store.writer.bulk_extend([Quad(NamedNode("urn:a"), NamedNode("urn:p"), NamedNode("urn:b"))])
        assert store.writer.update("INSERT DATA { <urn:c> <urn:p> 1 }").version == 2


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("IO error")])
def test_a_bulk_load_names_a_flush_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(_: Path) -> None:
        raise error

    with QuadStore.open(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(committer, "note_manifest", refuse)
            with pytest.raises(StoreUnwritableError, match="could not be flushed"):
                store.writer.bulk_extend([Quad(NamedNode("urn:a"), NamedNode("urn:p"), NamedNode("urn:b"))])
        assert store.writer.update("INSERT DATA { <urn:c> <urn:p> 1 }").version == 2


def test_a_closed_store_cannot_be_optimized() -> None:
    store = QuadStore.open(None)
    store.optimize()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.optimize()
