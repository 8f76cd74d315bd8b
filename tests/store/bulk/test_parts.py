"""Parts as one stream, and which way they go into the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.bulk.parts import PartsStream, may_have_blank_nodes
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.writing import StoreWriter


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(1, 30))
def test_parts_are_read_one_behind_the_other(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], size: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    files = [folder / str(number) for number in range(len(parts))]
    for file, data in zip(files, parts, strict=True):
        file.write_bytes(data)
    with PartsStream(files) as stream:
        assert b"".join(iter(lambda: stream.read(size), b"")) == b"".join(parts)


def test_labels_of_blank_nodes_are_found_also_between_blocks(tmp_path: Path) -> None:
    for text, found in (("ab_:c", True), ("_:", True), ("ab_c:d", False), ("", False), ("abcde_", False)):
        (tmp_path / "part").write_text(text)
        assert may_have_blank_nodes([tmp_path / "part"], block_bytes=3) is found


@pytest.mark.parametrize(("subject", "way"), [("<urn:s>", "bulk_load"), ("_:s", "bulk_extend")])
def test_only_parts_with_blank_nodes_are_given_quad_by_quad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: str, way: str
) -> None:
    taken = []
    for name in ("bulk_load", "bulk_extend"):
        original = getattr(StoreWriter, name)

        def noted(
            store: StoreWriter, *given: object, name: str = name, original: object = original, **more: object
        ) -> object:
            taken.append(name)
            return original(store, *given, **more)  # type: ignore[operator]

        monkeypatch.setattr(StoreWriter, name, noted)
    for name in "ab":
        (tmp_path / f"{name}.nq").write_text(f"{subject} <urn:p> 'x' <urn:{name}> .\n".replace("'", '"'))
    store = QuadStore.open(None)
    options = LoadOptions((str(tmp_path / "*.nq"),), exact_bytes=0)
    summary = BulkLoader(store, tmp_path / "work").run(options)
    assert taken == [way]
    assert (summary.added, summary.exact, store.reader.quad_count) == (2, False, 2)
    assert {str(name) for name, count in store.reader.graph_counts().items() if count} == {
        "<urn:a>",
        "<urn:b>",
    }
