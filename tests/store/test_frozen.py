"""A copy of the dataset stays as it was, and goes when nobody has it any more."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.store.errors import StoreUnwritableError
from quadrill.store.quads.frozen import FrozenReader
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query import QueryRequest

P = NamedNode("http://e/p")
ALL = "SELECT ?s ?g { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"


def quad(name: str, graph: NamedNode | DefaultGraph | None = None) -> Quad:
    return Quad(NamedNode("http://e/" + name), P, P, graph or DefaultGraph())


def read(reader: FrozenReader) -> list[str]:
    with reader.query(QueryRequest(ALL)) as result:
        return sorted(" ".join(str(term) for term in row if term is not None) for row in result.rows())


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_copy_stays_as_it_was(tmp_path: Path, on_disk: bool) -> None:
    with QuadStore.open(tmp_path if on_disk else None) as store:
        store.writer.apply(add=[quad("a"), quad("b", NamedNode("http://e/g"))])
        before = store.frozen()
        commit = store.writer.apply(
            add=[quad("c"), Quad(BlankNode("x"), P, P, DefaultGraph())], remove=[quad("a")]
        )
        without = store.frozen(undo=commit)
        store.writer.apply(add=[quad("d")])
        assert read(before) == read(without) == ["<http://e/a>", "<http://e/b> <http://e/g>"]
        assert (before.version, without.version) == (1, 1)
        if on_disk:
            assert len(list((tmp_path / "frozen").iterdir())) == 2
            del before, without
            gc.collect()
            assert list((tmp_path / "frozen").iterdir()) == []


def test_copies_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    (tmp_path / "frozen" / "7").mkdir(parents=True)
    with QuadStore.open(tmp_path):
        assert not (tmp_path / "frozen").exists()


def test_without_room_there_is_no_copy(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path) as store:
        (tmp_path / "frozen").write_text("in the way")
        with pytest.raises(StoreUnwritableError, match="cannot be copied"):
            store.frozen()
