"""A copy of a folder goes its own way: its versions are none that its original ever gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.errors import GoneError
from quadrill.store.quads.quad_store import QuadStore


def put(store: QuadStore, *numbers: int) -> None:
    for number in numbers:
        store.writer.apply(add=[Quad(NamedNode("urn:a"), NamedNode("urn:p"), Literal(str(number)))])


def versions(store: QuadStore, after: int) -> list[int]:
    return [commit.version for commit in store.commits_after(after)]


def opened(folder: Path) -> QuadStore:
    store = QuadStore.open(folder)
    store.begin_epoch_of_copy()
    return store


def copied(folder: Path, how: str, target: Path) -> None:
    if how == "copy":
        shutil.copytree(folder, target)
    else:
        with QuadStore.open(folder) as store:
            store.backup(target)


@pytest.mark.parametrize("how", ["copy", "backup"])
def test_a_copy_gives_versions_that_its_original_never_gives(tmp_path: Path, how: str) -> None:
    with QuadStore.open(tmp_path / "old") as store:
        put(store, 1, 2, 3)
    copied(tmp_path / "old", how, tmp_path / "new")
    with opened(tmp_path / "new") as store:
        assert (store.reader.version, store.reader.quad_count) == (3, 3)
        with pytest.raises(GoneError):
            versions(store, 7)
        put(store, 4, 5)
        first = store.reader.version - 1
        assert 2**40 < first < 2**53
        assert versions(store, 0) == [1, 2, 3, first, first + 1]
        assert versions(store, 3) == [first, first + 1]
        for foreign in (4, 7, first - 2):
            with pytest.raises(GoneError):
                versions(store, foreign)
    with opened(tmp_path / "new") as store:
        put(store, 6)
        assert versions(store, 3) == [first, first + 1, first + 2]
        store.committer.rewind(2)
        assert len(list(store.reader.quads_for_pattern())) == 2
        store.committer.forward(first)
        assert (store.reader.version, len(list(store.reader.quads_for_pattern()))) == (first, 4)
        store.committer.forward(first + 2)
        assert len(list(store.reader.quads_for_pattern())) == 6
    with QuadStore.open(tmp_path / "old") as store:
        put(store, 7)
        assert versions(store, 0) == [1, 2, 3, 4]


def test_a_folder_that_is_moved_or_opened_again_goes_on(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "old") as store:
        put(store, 1)
    (tmp_path / "old").rename(tmp_path / "moved")
    (tmp_path / "moved" / "PLACE").rename(tmp_path / "PLACE")  # as earlier releases leave it
    for number in (2, 3):
        with opened(tmp_path / "moved") as store:
            put(store, number)
            assert (store.reader.version, store.epoch) == (number, 0)


def test_copies_of_copies_part_as_well_and_from_an_empty_store(tmp_path: Path) -> None:
    QuadStore.open(tmp_path / "0").close()
    seen: list[int] = []
    for number in range(1, 4):
        shutil.copytree(tmp_path / str(number - 1), tmp_path / str(number))
        with opened(tmp_path / str(number)) as store:
            put(store, number)
            seen.append(store.reader.version)
            assert versions(store, 0) == seen
    assert seen == sorted(set(seen))
    with opened(tmp_path / "3") as store:
        assert versions(store, 0) == seen
        assert versions(store, seen[0]) == seen[1:]
