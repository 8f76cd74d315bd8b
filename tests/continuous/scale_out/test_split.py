"""Which queries split into key groups, by which key, in how many stages, and why others do not."""

from __future__ import annotations

import pytest

from quadrill.continuous.scale_out.split import split_of

from .documented import prepared, windowed

HEAD = "PREFIX : <http://example.org/>\n"
W = "FROM NAMED WINDOW :w ON :s [RANGE 10s STEP 10s]\n"
S = frozenset({"http://example.org/s"})


def test_most_texts_of_the_documentation_split() -> None:
    """Blocks of observations come from one element each, as the promise says."""
    texts = [one for _, one in windowed()]
    assert len(texts) > 50
    splits = [split_of(each, frozenset(each.streams)) for each in texts]
    assert sum(each.splits for each in splits) / len(texts) > 65 / 79
    assert {each.stages for each in splits if each.splits} == {1, 2}
    assert all(each.why for each in splits if not each.splits)
    assert all(each.routes for each in splits if each.splits)


CASES = [
    ("SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 1),
    ("SELECT ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 1),
    ("REGISTER ISTREAM :o AS SELECT ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 2),
    ("REGISTER ISTREAM :o AS SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 1),
    ("SELECT ?v (COUNT(?x) AS ?n) " + W + "WHERE { WINDOW :w { ?x :p ?v } } GROUP BY ?v", "v", 1),
    ("SELECT (COUNT(?x) AS ?n) " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 2),
    ("SELECT DISTINCT ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 2),
    ("SELECT DISTINCT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 1),
    ("SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } } ORDER BY ?v LIMIT 3", "x", 2),
    ("SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } FILTER NOT EXISTS { ?x :off true } }", "x", 1),
    (
        "SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v } FILTER NOT EXISTS { WINDOW :w { ?x :q ?o } } }",
        "x",
        1,
    ),
    ("ASK " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "x", 2),
    ("SELECT ?x ?n " + W + "WHERE { { SELECT ?x (COUNT(*) AS ?n) { WINDOW :w { ?x :p ?v } } GROUP BY ?x } }",
     "x", 1),
    ("SELECT ?x ?y " + W + "WHERE { WINDOW :w { ?x (:p|:q) ?y } }", "x", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "stages"), CASES)
def test_a_query_splits_by_its_key(text: str, key: str, stages: int) -> None:
    found = split_of(prepared(HEAD + text))
    assert (found.splits, found.why) == (True, None)
    assert found.key is not None
    assert (found.key.name, found.stages) == (key, stages)
    assert found.to_json()["key"] == [f"?{key}"]


REFUSED = [
    ("SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p ?v . ?y :q ?z } }",
     ("?y", "lacks ?x", "--self-contained")),
    ("SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p+ ?v } }", ("path", "several steps")),
    ("SELECT ?x ?v " + W + "WHERE { WINDOW :w { ?x :p/:q ?v } }", ("lacks ?x",)),
    ("SELECT ?x ?v " + W + "WHERE { OPTIONAL { WINDOW :w { ?x :p ?v } } }", ("may leave ?x unbound",)),
    (
        "SELECT ?x " + W + "WHERE { WINDOW :w { ?x :p ?v } "
        "{ SELECT (MAX(?m) AS ?v) { WINDOW :w { ?y :p ?m } } } }",
        ("sub-select", "does not select ?x"),
    ),
    (
        "SELECT ?x " + W + "WHERE { { SELECT ?x ?v { WINDOW :w { ?x :p ?v } } LIMIT 2 } ?x :q ?y }",
        ("LIMIT", "--key-groups 1"),
    ),
    ("SELECT ?x FROM NAMED WINDOW :w ON :s [ELEMENTS 3 STEP 1] WHERE { WINDOW :w { ?x :p ?v } }",
     ("ELEMENTS 3",)),
    ("SELECT ?x { STREAM :s [TRIPLES 3] { ?x :p ?v } }", ("TRIPLES 3",)),
    ("SELECT ?t { STREAM :s [NOW] { :a :p 1 } AT ?t }", ("?t",)),
    ("SELECT ?x { STREAM :s [RANGE 3s BOUNDS ?o ?c] { ?x :p ?v } }", ("BOUNDS", "RANGE 3")),
    ("SELECT ?x { STREAM :s [SESSION 3s] { ?x :p ?v } }", ("SESSION", "lacks ?x")),
    ("SELECT ?x { STREAM :s [LATEST 1 BY ?v] { ?x :p ?v } STREAM :s [LATEST 1 BY ?x] { ?x :p ?v } }",
     ("LATEST",)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_a_query_that_does_not_split_says_what_it_lacks(text: str, words: tuple[str, ...]) -> None:
    found = split_of(prepared(HEAD + text))
    assert not found.splits
    assert found.runs
    assert found.why is not None
    assert [word for word in words if word not in found.why] == []
    assert "--key-groups 1" in found.why


NEVER = [
    ("SELECT ?x (RAND() AS ?r) " + W + "WHERE { WINDOW :w { ?x :p ?v } }", "RAND()"),
    ("SELECT ?x " + W + "WHERE { WINDOW :w { ?x :p ?v } BIND(BNODE() AS ?b) }", "BNODE()"),
    ("SELECT ?x " + W + "WHERE { WINDOW :w { ?x :p ?v } SERVICE <http://e/> { ?x :q ?y } }", "SERVICE"),
]


@pytest.mark.parametrize(("text", "word"), NEVER)
def test_a_query_that_no_batch_can_repeat_never_runs(text: str, word: str) -> None:
    found = split_of(prepared(HEAD + text))
    assert not found.runs
    assert found.why is not None
    assert word in found.why


def test_a_promise_lets_a_block_bind_the_key_once() -> None:
    text = (
        HEAD + "SELECT ?s ?v { STREAM :s [RANGE 5s] { ?o :sensor ?s } "
        "STREAM :s [NOW] { ?q :sensor ?s ; :value ?v } }"
    )
    assert not split_of(prepared(text)).splits
    found = split_of(prepared(text), S)
    assert found.key is not None
    assert found.key.name == "s"


def test_a_step_of_a_sequence_must_bind_the_key() -> None:
    steps = "STREAM :s { ?x :a ?v } ; NOT STREAM :s { ?x :b ?w } ; STREAM :s { ?x :c ?u }"
    kept = f"SELECT ?x {{ SEQ {{ {steps} }} WITHIN 5s }}"
    assert split_of(prepared(HEAD + kept)).splits
    found = split_of(prepared(HEAD + kept.replace("?x :b ?w", "?y :b ?w")))
    assert not found.splits
    assert found.why is not None
    assert "NOT step" in found.why


def test_deleted_quads_without_the_key_are_counted_in_a_second_stage() -> None:
    text = HEAD + "CONSTRUCT { %s } { STREAM :s [RANGE 5s] { ?x :p ?v } }"
    assert split_of(prepared(text % "?x :q ?v", output="changes")).stages == 1
    assert split_of(prepared(text % ":a :q ?v", output="changes")).stages == 2
    assert split_of(prepared(text % ":a :q ?v")).stages == 1


def test_groups_without_elements_run_where_static_rows_need_no_element() -> None:
    text = HEAD + "SELECT ?x ?v " + W + "WHERE { ?x :in :room . OPTIONAL { WINDOW :w { ?x :p ?v } } }"
    assert split_of(prepared(text)).everywhere
    assert not split_of(prepared(text.replace("OPTIONAL ", ""))).everywhere
