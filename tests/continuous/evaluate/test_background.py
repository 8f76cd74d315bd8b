"""The background dataset: FROM clauses by dialect, versions, refresh."""

from __future__ import annotations

from typing import Any

import pytest

from quadrill.app.describing.static_parts import describe_static
from quadrill.continuous.algebra.static import StaticPattern
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.rows import Solution
from quadrill.continuous.static.static_evaluator import EvaluationOptions, StaticEvaluator
from quadrill.store.errors import UnsupportedError
from tests.continuous.whole_contents import recomputed, refresh

from .helpers import PREFIXES, answer, background, content, evaluator, lines, rows, table

DATA = ':a :name "default" . :g { :a :name "g" } :h { :a :name "h" }'
WINDOW = "STREAM :s [NOW] { ?x :v ?v }"


def names(clause: str, pattern: str, **options: object) -> object:
    return table(answer(f"SELECT ?n {clause} {{ {WINDOW} {pattern} }}", ":a :v 1 .", data=DATA, **options))


def test_with_no_clause_the_dataset_is_the_store() -> None:
    assert names("", "?x :name ?n") == rows("default")
    assert names("", "GRAPH ?g { ?x :name ?n }") == rows("g", "h")


def test_from_named_alone_leaves_the_default_graph_in_place_in_cqels_ql() -> None:
    assert names("FROM NAMED :g", "?x :name ?n") == rows("default")
    assert names("FROM NAMED :g", "GRAPH ?g { ?x :name ?n }") == rows("g")


def test_from_alone_leaves_the_named_graphs_in_place_in_cqels_ql() -> None:
    assert names("FROM :h", "?x :name ?n") == rows("h")
    assert names("FROM :h", "GRAPH ?g { ?x :name ?n }") == rows("g", "h")


def test_both_clauses_are_the_whole_dataset() -> None:
    assert names("FROM :h FROM NAMED :g", "?x :name ?n") == rows("h")
    assert names("FROM :h FROM NAMED :g", "GRAPH ?g { ?x :name ?n }") == rows("g")


def test_strict_dataset_gives_sparqls_rule() -> None:
    assert names("FROM NAMED :g", "?x :name ?n", strict_dataset=True) == rows()
    assert names("FROM :h", "GRAPH ?g { ?x :name ?n }", strict_dataset=True) == rows()


@pytest.mark.parametrize("clause", ["FROM NAMED :g", ""])
def test_other_dialects_follow_sparql(clause: str) -> None:
    text = (
        f"REGISTER STREAM :o AS SELECT ?n {clause} FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S] "
        "WHERE { WINDOW :w { ?x :v ?v } ?x :name ?n }"
    )
    assert table(answer(text, ":a :v 1 .", data=DATA)) == (rows() if clause else rows("default"))


def test_refresh_reads_the_newest_version_and_says_whether_rows_changed() -> None:
    with background(DATA) as store:
        engine, query = evaluator(f"SELECT ?n {{ {WINDOW} ?x :name ?n }}", store)
        contents = {query.windows[0].name: content(":a :v 1 . :b :v 1 .")}
        assert engine.statics.version == store.reader.version
        store.writer.update(PREFIXES + 'INSERT DATA { :b :name "B" . GRAPH :g { :z :name "z" } }')
        assert lines(recomputed(engine, 0, contents)) == ["default"]
        assert refresh(engine) is True
        assert engine.statics.version == store.reader.version
        assert table(recomputed(engine, 0, contents)) == rows("default", "B")
        store.writer.update(PREFIXES + "INSERT DATA { :c :other 1 }")
        assert refresh(engine) is False
        assert engine.statics.version == store.reader.version
        store.writer.update(PREFIXES + 'DELETE DATA { :a :name "default" }')
        assert refresh(engine) is True
        assert table(recomputed(engine, 0, contents)) == rows("B")


def test_a_commit_that_can_not_match_a_part_does_not_evaluate_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with background(DATA) as store:
        engine, _ = evaluator(f"SELECT ?n {{ {WINDOW} ?x :name ?n . ?v :kind/:of ?k }}", store)
        evaluated: list[str] = []
        original = StaticEvaluator._rows

        def spy(self: StaticEvaluator, snapshot: Any, part: StaticPattern, dataset: Any) -> list[Solution]:
            evaluated.append(part.name)
            return original(self, snapshot, part, dataset)

        monkeypatch.setattr(StaticEvaluator, "_rows", spy)
        store.writer.update(PREFIXES + "INSERT DATA { :c :other 1 }")
        assert refresh(engine) is False
        assert evaluated == []
        store.writer.update(PREFIXES + 'INSERT DATA { :c :name "C" }')
        assert refresh(engine) is True
        assert len(evaluated) == 1
        store.writer.update(PREFIXES + "INSERT DATA { :k :of :l }")
        assert refresh(engine) is False
        assert len(evaluated) == 2
        assert engine.statics.version == store.reader.version


def test_parts_that_ask_which_graphs_there_are_are_always_evaluated_again() -> None:
    with background(DATA) as store:
        engine, query = evaluator(f"SELECT ?g {{ {WINDOW} GRAPH ?g {{ }} }}", store)
        contents = {query.windows[0].name: content(":a :v 1 .")}
        store.writer.update(PREFIXES + "INSERT DATA { GRAPH :new { :q :r :s } }")
        assert refresh(engine) is True
        assert table(recomputed(engine, 0, contents)) == rows("g", "h", "new")


def test_refresh_counts_duplicate_rows() -> None:
    with background(":a :likes :p .") as store:
        engine, query = evaluator(f"SELECT ?x {{ {WINDOW} ?x :likes ?y }}", store)
        contents = {query.windows[0].name: content(":a :v 1 .")}
        store.writer.update(PREFIXES + "INSERT DATA { :a :likes :q }")
        assert refresh(engine) is True
        assert table(recomputed(engine, 0, contents)) == rows("a", "a")
        store.writer.update(PREFIXES + "DELETE DATA { :a :likes :p }")
        assert refresh(engine) is True
        assert table(recomputed(engine, 0, contents)) == rows("a")


def test_rows_that_bind_different_columns_join_as_sparql_says() -> None:
    data = ':a :kind :k ; :mail "m" . :b :kind :k .'
    text = f"SELECT ?x ?m {{ {WINDOW} {{ ?x :kind ?k OPTIONAL {{ ?x :mail ?m }} }} }}"
    with background(data) as store:
        engine, query = evaluator(text, store)
        contents = {query.windows[0].name: content(":a :v 1 . :b :v 1 .")}
        assert table(recomputed(engine, 0, contents)) == rows("a m", "b -")
        store.writer.update(PREFIXES + "DELETE WHERE { ?x :mail ?m }")
        assert refresh(engine) is True
        assert table(recomputed(engine, 0, contents)) == rows("a -", "b -")


def test_a_query_without_windows_answers_from_the_store_in_order() -> None:
    with background(":a :v 3 . :b :v 1 . :c :v 2 .") as store:
        query = parse(PREFIXES + "SELECT ?x { ?x :v ?v } ORDER BY ?v", dialect="sparql")
        engine = ReferenceEvaluator(query, store, EvaluationOptions())
        assert lines(recomputed(engine, 0, {})) == ["b", "c", "a"]
        store.writer.update(PREFIXES + "DELETE DATA { :b :v 1 } ; INSERT DATA { :b :v 9 }")
        assert refresh(engine) is True
        found = recomputed(engine, 0, {})
        assert found.ordered
        assert lines(found) == ["c", "a", "b"]


def test_a_query_without_windows_whose_order_alone_changes_has_changed() -> None:
    with background(":a :v 3 . :b :v 1 .") as store:
        query = parse(PREFIXES + "SELECT ?x { ?x :v ?v } ORDER BY ?v", dialect="sparql")
        engine = ReferenceEvaluator(query, store, EvaluationOptions())
        store.writer.update(PREFIXES + "DELETE DATA { :a :v 3 } ; INSERT DATA { :a :v 0 }")
        assert refresh(engine) is True
        assert lines(recomputed(engine, 0, {})) == ["a", "b"]


def test_ask_and_now_work_without_windows() -> None:
    with background(":a :v 3 .") as store:
        ask = ReferenceEvaluator(
            parse(PREFIXES + "ASK { ?x :v 3 }", dialect="sparql"), store, EvaluationOptions()
        )
        assert recomputed(ask, 0, {}).boolean is True
        now = ReferenceEvaluator(
            parse(PREFIXES + "SELECT (NOW() AS ?t) { ?x :v 3 }", dialect="sparql"), store, EvaluationOptions()
        )
        assert lines(recomputed(now, 1000, {})) == ["1970-01-01T00:00:01Z"]
        assert lines(recomputed(now, 2000, {})) == ["1970-01-01T00:00:02Z"]


def test_static_parts_tell_their_text_rows_and_version() -> None:
    with background(DATA) as store:
        engine, query = evaluator(f"SELECT ?n {{ {WINDOW} GRAPH :g {{ ?x :name ?n }} }}", store)
        (part,) = describe_static(query, engine, None, 0)
        assert part["pattern"] == "GRAPH :g {\n  ?x :name ?n .\n}"
        assert (part["variables"], part["rows"], part["version"]) == (["n", "x"], 1, store.reader.version)


def test_a_sub_query_in_graph_over_the_background_counts_each_graph_for_itself() -> None:
    found = names("", "GRAPH ?g { SELECT ?x (COUNT(*) AS ?n) { ?x :name ?m } GROUP BY ?x }")
    assert found == rows("1", "1")


def test_graphs_with_blank_names_can_not_be_counted_one_by_one() -> None:
    text = f"SELECT ?n {{ {WINDOW} GRAPH ?g {{ SELECT (COUNT(*) AS ?n) {{ ?x :name ?m }} }} }}"
    with background('_:g { :a :name "A" }') as store, pytest.raises(UnsupportedError, match="blank names"):
        evaluator(text, store)


def csparql(pattern: str, clause: str = "", *contents: str) -> object:
    text = (
        f"REGISTER QUERY q AS SELECT * {clause} FROM STREAM <http://x/s> [RANGE 1s STEP 1s] "
        f"FROM STREAM <http://x/t> [RANGE 1s STEP 1s] WHERE {{ {pattern} }}"
    )
    return table(answer(text, *contents, data=DATA))


def test_c_sparql_merges_its_windows_and_the_default_graph() -> None:
    assert csparql("?x :v ?v . ?x :w ?w . ?x :name ?n", "", ":a :v 1 .", ":a :w 2 .") == rows("a 1 2 default")


def test_c_sparql_merges_the_from_graphs_instead_where_there_are_any() -> None:
    assert csparql("?x :v ?v . ?x :name ?n", "FROM :g", ":a :v 1 .", "") == rows("a 1 g")


def test_c_sparqls_graph_reads_the_background() -> None:
    assert csparql("?x :v ?v GRAPH :h { ?x :name ?n }", "", ":a :v 1 .", "") == rows("a 1 h")


def test_the_merged_background_is_refreshed_and_shared_triples_stay() -> None:
    text = (
        "REGISTER QUERY q AS SELECT ?x ?n FROM STREAM <http://x/s> [RANGE 1s STEP 1s] WHERE { ?x :name ?n }"
    )
    with background(':a :name "A" .') as store:
        engine, query = evaluator(text, store)
        window = query.windows[0].name
        both = {window: content(':a :name "A" . :b :name "B" .')}
        assert table(recomputed(engine, 0, both)) == rows("a A", "b B")
        store.writer.update(PREFIXES + 'DELETE DATA { :a :name "A" } ; INSERT DATA { :c :name "C" }')
        assert refresh(engine) is True
        assert table(recomputed(engine, 1, both)) == rows("a A", "b B", "c C")
        assert table(recomputed(engine, 2, {})) == rows("c C")


def test_timestamp_is_the_greatest_event_time_of_the_triples_that_bind_the_variable() -> None:
    text = (
        "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> REGISTER QUERY q AS "
        "SELECT ?x ?v (f:timestamp(?x) AS ?t) (f:timestamp(?v) AS ?u) "
        "FROM STREAM <http://x/s> [RANGE 9s STEP 9s] "
        "WHERE { ?x :v ?v . ?x :w ?w . OPTIONAL { ?x :late ?l } }"
    )
    early, late = content(":a :v 1 . :b :v 2 .", 10), content(":a :w 1 . :b :w 1 . :b :late 1 .", 25)
    last = content(":b :late 2 .", 40)
    with background() as store:
        engine, query = evaluator(text, store)
        found = recomputed(engine, 0, {query.windows[0].name: {**early, **late, **last}})
    assert table(found) == rows("a 1 25 10", "b 2 25 10", "b 2 40 10")


def test_a_triple_of_the_background_has_no_time() -> None:
    text = (
        "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> REGISTER QUERY q AS "
        "SELECT ?x (f:timestamp(?n) AS ?t) FROM STREAM <http://x/s> [RANGE 9s STEP 9s] "
        "WHERE { ?x :v ?v . ?x :name ?n }"
    )
    assert table(answer(text, ":a :v 1 .", data=DATA)) == rows("a -")
