"""The Spark engine gives what the direct one gives; the mirror holds what the store holds."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad

from quadrill.store.bulk import BulkLoader, LoadError, LoadOptions
from quadrill.store.bulk.java import java_version, spark_missing
from quadrill.store.bulk.mirror import Mirror, PredicateFacts, swap_in
from quadrill.store.bulk.upkeep import make_mirror
from quadrill.store.errors import StoreFormatError
from quadrill.store.quads.quad_store import QuadStore

needs_spark = pytest.mark.skipif(spark_missing() is not None, reason=spark_missing() or "")

DIRTY = b"""<urn:s> <urn:p> "x y <z> ." .
<urn:s> <urn:p> "01"^^<http://www.w3.org/2001/XMLSchema#integer> <urn:g> .
bad
_:a <urn:p> <<( _:a <urn:p> "q" )>> _:g .
<urn:s> <urn:q> "x \\"y\\"\\n"@EN .
<urn:s> <urn:p> "\xff" .
<urn:s> <urn:p> "x y <z> ." .
"""


def content(store: QuadStore) -> list[str]:
    """The quads without the labels of blank nodes, which differ between loads."""
    return sorted(
        " ".join("_" if part.startswith("_:") else part for part in str(quad).split(" "))
        for quad in store.reader.quads_for_pattern()
    )


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dirty")
    (folder / "a.nq").write_bytes(DIRTY)
    (folder / "b.ttl").write_text('<urn:s> <urn:p> "x"@EN, 1.50 .')
    (folder / "c.ttl").write_text("<urn:s> <urn:p .")
    return folder


@pytest.fixture(scope="module")
def loaded(dirty: Path) -> dict[str, tuple[QuadStore, Any]]:
    result = {}
    for engine in ("oxigraph", "spark"):
        store = QuadStore.open(None)
        options = LoadOptions((str(dirty),), engine=engine, memory="1g")
        result[engine] = store, BulkLoader(store, dirty / ".work").run(options)
    return result


@pytest.mark.spark
@needs_spark
def test_both_engines_give_the_same_store_quarantine_and_figures(
    loaded: dict[str, tuple[QuadStore, Any]],
) -> None:
    (one, direct), (other, by_spark) = loaded["oxigraph"], loaded["spark"]
    assert content(one) == content(other)
    assert one.reader.quad_count == 6
    for name in ("files", "rows", "added", "bad", "version", "exact"):
        assert getattr(direct, name) == getattr(by_spark, name), name
    assert Path(direct.quarantine).read_text() == Path(by_spark.quarantine).read_text()
    lines = [json.loads(line)["line"] for line in Path(direct.quarantine).read_text().splitlines()]
    assert lines == [3, 6, 1]


@pytest.mark.slow
@pytest.mark.spark
@needs_spark
def test_spark_too_loads_nothing_above_the_limit_of_bad_lines(dirty: Path) -> None:
    store = QuadStore.open(None)
    options = LoadOptions((str(dirty / "a.nq"),), engine="spark", max_bad=1, memory="1g")
    with pytest.raises(LoadError, match=r"a\.nq, line 6: .*at most 1"):
        BulkLoader(store, dirty / ".work").run(options)
    assert store.reader.version == 0


@pytest.mark.spark
@needs_spark
def test_a_mirror_holds_the_quads_of_its_version(
    loaded: dict[str, tuple[QuadStore, Any]], tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    store, _ = loaded["spark"]
    mirror = make_mirror(store, tmp_path / "mirror", memory="1g")
    assert mirror.version == store.reader.version
    assert {name: facts.rows for name, facts in mirror.predicates.items()} == {"urn:p": 5, "urn:q": 1}
    table = parquet.read_table(mirror.quads)
    assert table.num_rows == 6
    assert mirror.predicates["urn:p"].kinds == {"string", "integer", "decimal", "language", "triple"}
    numbers = {value for value in table.column("n").to_pylist() if value is not None}
    assert numbers == {Decimal(1), Decimal("1.5")}
    assert '"1"^^<http://www.w3.org/2001/XMLSchema#integer>' in table.column("o").to_pylist()
    quad = Quad(NamedNode("urn:new"), NamedNode("urn:p"), NamedNode("urn:o"))
    store.writer.apply(add=[quad])
    assert mirror.changes(store) == (store.reader.version, {quad}, set())
    store.writer.apply(remove=[quad])
    assert mirror.changes(store) == (store.reader.version, set(), set())


def test_a_bulk_load_makes_a_mirror_stale(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    (tmp_path / "meta.json").write_text('{"version": 0, "quads": "quads-0", "predicates": {}}')
    mirror = Mirror.open(tmp_path)
    assert mirror is not None
    assert mirror.changes(store) == (0, set(), set())
    store.writer.bulk_extend([Quad(NamedNode("urn:s"), NamedNode("urn:p"), NamedNode("urn:o"))])
    assert mirror.changes(store) is None


def test_a_folder_without_a_mirror_has_none(tmp_path: Path) -> None:
    assert Mirror.open(tmp_path) is None


def test_what_is_no_java_has_version_0(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") == 0
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    fake.chmod(0o755)
    assert java_version(fake) == 21
    fake.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    assert java_version(fake) == 8


def swap(folder: Path, version: int) -> None:
    (folder / f"quads-{version}").mkdir(parents=True)
    figures = PredicateFacts(0, version, 1, 1, frozenset({"iri"}))
    swap_in(folder, f"quads-{version}", version, {"urn:p": figures})


def test_a_swap_that_is_cut_off_leaves_the_mirror_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap(tmp_path, 1)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr("os.replace", die)
        with pytest.raises(KeyboardInterrupt):
            swap(tmp_path, 2)
    mirror = Mirror.open(tmp_path)
    assert mirror is not None
    assert (mirror.version, mirror.quads.name, mirror.predicates["urn:p"].rows) == (1, "quads-1", 1)
    assert mirror.quads.exists()


def test_the_mirror_before_stays_for_its_readers_until_the_next_swap(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        swap(tmp_path, version)
    assert sorted(each.name for each in tmp_path.glob("quads-*")) == ["quads-2", "quads-3"]


def test_a_mirror_of_another_layout_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"version": 0, "predicates": {}}')
    with pytest.raises(StoreFormatError, match="cannot be read"):
        Mirror.open(tmp_path)


@given(st.lists(st.tuples(st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4))), max_size=8))
def test_the_changes_since_a_mirror_turn_its_quads_into_those_of_the_store(
    commits: list[tuple[set[int], set[int]]],
) -> None:
    store = QuadStore.open(None)
    quads = [Quad(NamedNode(f"urn:s{n}"), NamedNode("urn:p"), NamedNode("urn:o")) for n in range(5)]
    store.writer.apply(add=quads[:3])
    base = set(store.reader.quads_for_pattern())
    mirror = Mirror(Path("none"), Path("none"), store.reader.version, {})
    for added, removed in commits:
        store.writer.apply(add=[quads[n] for n in added], remove=[quads[n] for n in removed])
    changes = mirror.changes(store)
    assert changes is not None
    _, new, gone = changes
    # No quad twice, and none to be removed that is not there.
    assert not new & base
    assert gone <= base
    assert (base - gone) | new == set(store.reader.quads_for_pattern())


def test_a_mirror_is_brought_to_the_version_asked_for_and_to_no_older_one(tmp_path: Path) -> None:
    store = QuadStore.open(None)
    quads = [Quad(NamedNode(f"urn:s{n}"), NamedNode("urn:p"), NamedNode("urn:o")) for n in range(3)]
    for quad in quads:
        store.writer.apply(add=[quad])
    mirror = Mirror(tmp_path, tmp_path, 1, {})
    assert mirror.changes(store, 2) == (2, {quads[1]}, set())
    assert mirror.changes(store) == (3, set(quads[1:]), set())
    assert mirror.changes(store, 0) is None
    assert mirror.changes(store, 4) is None
