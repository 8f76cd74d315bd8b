"""Rows of Parquet files: every row as often as it is there, unbound places, rows without columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.continuous.spark.results import rows_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

IRI, NODE, TEXT = NamedNode("urn:a"), BlankNode("b1"), Literal('x "y"\n', language="en")


def test_rows_of_several_files_are_read_with_all_kinds_of_terms_and_unbound_places(tmp_path: Path) -> None:
    quoted = Triple(IRI, IRI, NODE)
    columns = (
        [str(IRI), str(NODE), None, str(IRI)],
        [str(TEXT), None, f"<<( {IRI} {IRI} {NODE} )>>", str(TEXT)],
    )
    for number in range(2):
        pq.write_table(
            pa.table(dict(zip(("c0", "c1"), columns, strict=True))), tmp_path / f"part-{number}.parquet"
        )
    assert rows_of(tmp_path, 2) == 2 * [(IRI, TEXT), (NODE, None), (None, quoted), (IRI, TEXT)]


def test_rows_without_columns_are_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c": [1, 1, 1]}), tmp_path / "part-0.parquet")
    assert rows_of(tmp_path, 0) == [(), (), ()]


def test_a_part_without_rows_has_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"c0": pa.array([], pa.string())}), tmp_path / "part-0.parquet")
    assert rows_of(tmp_path, 1) == []
