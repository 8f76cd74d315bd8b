"""Tables that fell behind and take what commits have changed have the rows that a whole reading gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static import changed_rows
from quadrill.continuous.static.changed_rows import ChangedRows
from quadrill.store.sparql.query import QueryFailedError
from tests.examples import examples

from ..engines import Bench, E, bench

PARTS = {
    "one": "?x :p ?y",
    "own": "?x :p ?x",
    "constant": "?x :p :a",
    "any": "?x ?p :a",
    "two": "?x :p ?y . ?y :q ?z",
    "hidden": "{ SELECT ?x { ?x :p ?y . ?y :q ?z } }",
    "distinct": "{ SELECT DISTINCT ?x { ?x :p ?y } }",
    "optional": "?x :p ?y OPTIONAL { ?y :q ?z }",
    "union": "{ ?x :p ?y } UNION { ?x :q ?z }",
    "minus": "?x :p ?y MINUS { ?x :q ?y }",
    "exists": "?x :p ?y FILTER NOT EXISTS { ?y :q ?w }",
    "grouped": "{ SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x }",
    "graph": "GRAPH ?g { ?x :p ?y }",
    "path": "?x :p/:q ?y",
    "far": "?x :p+ ?y",
}
nodes = st.sampled_from([NamedNode(E + "a"), NamedNode(E + "b"), NamedNode(E + "c"), BlankNode("n")])
graphs = st.sampled_from([DefaultGraph(), DefaultGraph(), NamedNode(E + "g"), NamedNode(E + "h")])
quads = st.builds(Quad, nodes, st.sampled_from([NamedNode(E + "p"), NamedNode(E + "q")]), nodes, graphs)
commits = st.lists(st.tuples(st.lists(quads, max_size=6), st.lists(quads, max_size=6)), max_size=6)
Commits = list[tuple[list[Quad], list[Quad]]]


def rows_are_those_of_the_store(one: Bench) -> None:
    """The rows of tables and their indexes are those that the store gives."""
    terms = one.engine.parts.statics.terms.dictionary
    terms.sweep()
    for table in one.engine.parts.statics.tables():
        assert table.behind is None and not table.blind
        expected: Counter[Any] = Counter(table.background.whole(one.store.reader, table.part))
        found = {tuple(terms.decode(each) for each in row): n for row, n in table.rows.items()}
        assert found == dict(expected) and table.count == expected.total()
        for index in table.indexes.values():
            assert {row: n for key in index.rows for row, n in index.get(key).items()} == table.rows


@settings(max_examples=examples(60), deadline=None)
@given(name=st.sampled_from(list(PARTS)), given=commits, between=commits)
def test_what_commits_have_changed_leads_to_the_rows_of_a_whole_reading(
    name: str, given: Commits, between: Commits
) -> None:
    """``between``: commits that become visible while rows are read."""
    with pytest.MonkeyPatch.context() as patch, bench(static_limits=StaticLimits(keys=-1)) as one:
        patch.setattr(changed_rows, "KEY_S", 0.0)
        follow, waiting = ChangedRows.follow, list(between)

        def disturbed(self: ChangedRows, reader: Any, commits: Sequence[Any]) -> bool:
            found = follow(self, reader, commits)
            if waiting:
                added, removed = waiting.pop()
                one.store.writer.apply(add=added, remove=removed)
            return found

        patch.setattr(ChangedRows, "follow", disturbed)
        one.register("q", f"SELECT * WHERE {{ STREAM :s [RANGE 1h] {{ ?x :seen ?v }} {PARTS[name]} }}")
        one.push(1, "a")
        for added, removed in given:
            one.store.writer.apply(add=added, remove=removed)
            rows_are_those_of_the_store(one)
            one.push(2, "b")


def test_a_large_commit_reads_only_what_it_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(static_limits=StaticLimits(keys=3)) as one:
        monkeypatch.setattr(changed_rows, "KEY_S", 0.0)
        many = [
            Quad(NamedNode(f"{E}x{n}"), NamedNode(E + "p"), NamedNode(E + "a"), DefaultGraph())
            for n in range(50)
        ]
        one.store.writer.apply(add=many)
        one.register("q", "SELECT * WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :p ?y }")
        recomputer = one.engine.parts.statics.recomputer
        monkeypatch.setattr(recomputer, "_rows", None)
        one.store.writer.apply(remove=many[:10])
        rows_are_those_of_the_store(one)
        (table,) = one.engine.parts.statics.tables()
        assert (table.count, table.reading.problem) == (40, None)


def test_what_cannot_be_read_by_keys_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise QueryFailedError("the query failed")

    with bench(static_limits=StaticLimits(keys=-1)) as one:
        monkeypatch.setattr(changed_rows, "KEY_S", 0.0)
        monkeypatch.setattr(changed_rows, "rows_with", fails)
        one.register("q", "SELECT * WHERE { STREAM :s [RANGE 1h] { ?x :seen ?v } ?x :p ?y }")
        one.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}p> <{E}b> }}")
        rows_are_those_of_the_store(one)
