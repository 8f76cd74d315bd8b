"""Upkeep of the mirror: what is due when, and compaction, which gives what making it anew would give."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.mirror import Mirror, PredicateFacts, swap_in
from quadrill.store.bulk.upkeep import MirrorState, make_mirror, state
from quadrill.store.quads.quad_store import QuadStore
from tests.continuous.spark.random_patterns import random_quads
from tests.store.bulk.mirrored import content, lines, lines_of

needs_spark = pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")


def quad(number: int, predicate: str = "p") -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode(f"urn:{predicate}"), Literal(number))


def empty_mirror(folder: Path, version: int, rows: int = 0) -> None:
    (folder / "quads-0").mkdir(parents=True)
    swap_in(folder, "quads-0", version, {"urn:p": PredicateFacts(0, rows, 1, 1)})


def test_a_folder_without_a_mirror_has_no_state(tmp_path: Path) -> None:
    assert state(QuadStore.open(None), tmp_path) is None


def test_changes_since_the_mirror_are_counted(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    store.writer.apply(add=[quad(1)])
    empty_mirror(tmp_path, store.reader.version, rows=1)
    assert state(store, tmp_path) == MirrorState(1, 1, 0, None)
    store.writer.apply(add=[quad(2), quad(3)])
    store.writer.apply(remove=[quad(2)])
    assert state(store, tmp_path) == MirrorState(1, 1, 3, None)


def test_a_bulk_load_makes_a_mirror_stale_and_its_upkeep_due(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    empty_mirror(tmp_path, 0)
    store.writer.bulk_extend([quad(1)])
    found = state(store, tmp_path)
    assert found is not None
    assert (found.changes, found.stale) == (
        1,
        "the commit of version 1 was a bulk load, which has only counts",
    )
    assert found.is_due(0.1)


def test_a_share_of_the_quads_makes_compaction_due_within_bounds() -> None:
    assert MirrorState(1, 1_000, 9_999, None).limit(0.1) == 10_000
    assert MirrorState(1, 500_000, 0, None).limit(0.1) == 50_000
    assert MirrorState(1, 90_000_000, 0, None).limit(0.1) == 100_000
    assert not MirrorState(1, 500_000, 49_999, None).is_due(0.1)
    assert MirrorState(1, 500_000, 50_000, None).is_due(0.1)


def test_more_changes_than_can_be_laid_over_a_mirror_make_it_stale(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    empty_mirror(tmp_path, 0)
    store.writer.apply(add=[quad(number) for number in range(3)])
    found = state(store, tmp_path, most=2)
    assert found is not None
    assert found.stale == "more than 2 quads changed since"


def test_a_mirror_of_commits_that_the_store_has_lost_is_stale(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "one") as one, QuadStore.open(tmp_path / "other") as other:
        one.writer.apply(add=[quad(1)])
        folder = tmp_path / "mirror"
        (folder / "quads-1").mkdir(parents=True)
        swap_in(folder, "quads-1", 1, {"urn:p": PredicateFacts(0, 1, 1, 1)}, one.log.mark(1))
        mirror = Mirror.open(folder)
        assert mirror is not None
        one.writer.apply(add=[quad(2)])
        assert mirror.changes(one) == (2, {quad(2)}, set())
        for number in (3, 4):  # its versions are those of other commits
            other.writer.apply(add=[quad(number)])
        assert mirror.changes(other) is None
        found = state(other, folder)
        assert found is not None
        assert found.stale == "it is of another history of the store"


def test_a_mirror_that_is_being_read_is_whole_until_two_have_come_after_it(tmp_path: Path) -> None:
    found: list[bool] = []
    for version in range(3):
        (tmp_path / f"quads-{version}" / "k=0").mkdir(parents=True)
        swap_in(tmp_path, f"quads-{version}", version, {})
        if not version:
            first = Mirror.open(tmp_path)
            assert first is not None
        found.append(first.is_whole)
    assert found == [True, True, False]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["meta.json", "quads-1", "quads-2"]


def test_commits_that_undo_each_other_only_move_the_version_of_a_mirror(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    store.writer.apply(add=[quad(1)])
    empty_mirror(tmp_path, store.reader.version, rows=1)
    store.writer.apply(remove=[quad(1)])
    store.writer.apply(add=[quad(1)])
    compacted = make_mirror(store, tmp_path, compact=True)
    assert (compacted.version, compacted.quads.name) == (3, "quads-0")
    assert compacted.quads.exists()
    assert compacted.predicates["urn:p"].rows == 1


@pytest.mark.slow
@pytest.mark.spark
@needs_spark
@pytest.mark.timeout(600)
def test_compaction_gives_what_making_the_mirror_anew_gives(tmp_path: Path) -> None:
    random = Random(5)
    store = QuadStore.open(None)
    store.writer.apply(add=[*random_quads(random, 150), quad(1), quad(2, "gone")])
    folder = tmp_path / "mirror"
    first = make_mirror(store, folder, memory="1g")
    assert lines(first) == lines_of(store)
    # One predicate keeps its quads, one loses all, one is new, others change.
    kept = next(iter(first.predicates))
    changing = [
        each for each in store.reader.quads_for_pattern() if each.predicate.value not in (kept, "urn:gone")
    ]
    removed = random.sample(changing, 20)
    store.writer.apply(remove=removed)
    added = [each for each in random_quads(random, 40) if each.predicate.value != kept]
    store.writer.apply(add=[*added, removed[0], quad(3, "new")], remove=[quad(2, "gone")])
    stages: list[str] = []
    merged: list[int] = []

    def advance(rows: int, size: int, bad: int) -> None:
        if stages == ["merge"]:
            merged.append(rows)

    compacted = make_mirror(store, folder, memory="1g", advance=advance, staged=stages.append, compact=True)
    assert stages == ["merge", "write", "swap", "done"]
    # The quads that are read to be written anew: all of the predicates that changed.
    touched = {each.predicate.value for each in [*removed, *added]} | {"urn:gone"}
    assert merged[-1] == sum(each.rows for name, each in first.predicates.items() if name in touched)
    assert compacted.version == store.reader.version
    assert lines(compacted) == lines_of(store)
    assert "urn:gone" not in compacted.predicates
    assert compacted.predicates["urn:new"].rows == 1
    assert first.quads.exists()
    linked = f"k={compacted.predicates[kept].key}"
    assert {each.stat().st_ino for each in (first.quads / linked).iterdir()} == {
        each.stat().st_ino for each in (compacted.quads / linked).iterdir()
    }
    anew = make_mirror(store, tmp_path / "other", memory="1g")
    assert content(compacted) == content(anew)
    figures = [
        {name: (facts.rows, facts.subjects, facts.objects, facts.kinds) for name, facts in each.items()}
        for each in (compacted.predicates, anew.predicates)
    ]
    assert figures[0] == figures[1]
    assert not list(tmp_path.glob("*-work-*"))


@pytest.mark.slow
@pytest.mark.spark
@needs_spark
@pytest.mark.timeout(600)
def test_a_stale_mirror_is_made_anew(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    empty_mirror(tmp_path / "mirror", 0)
    store.writer.bulk_extend([quad(1)])
    stages: list[str] = []
    shown: dict[str, tuple[int, int]] = {}

    def advance(rows: int, size: int, bad: int) -> None:
        shown[stages[-1]] = rows, size

    made = make_mirror(
        store, tmp_path / "mirror", memory="1g", staged=stages.append, advance=advance, compact=True
    )
    assert stages == ["dump", "parse", "write", "swap", "done"]
    size = len(lines_of(store)[0]) + 1
    assert shown == dict.fromkeys(stages, (1, size))
    assert Mirror.open(tmp_path / "mirror") == made
    assert lines(made) == lines_of(store)
