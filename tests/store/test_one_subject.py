"""Statements about one subject as columns are what a tuple of them is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import RdfFormat

from quadrill.continuous.durable.tasks import weight_of
from quadrill.continuous.inputs import Element
from quadrill.store.documents import subject_columns
from quadrill.store.documents.statements import lines_of, read_statements
from quadrill.store.documents.subject_columns import Statement, SubjectColumns, as_columns, predicates_of
from quadrill.store.pushes.decode import DecodeOptions, decode, decode_lines

nodes = st.sampled_from([f"<http://e/{name}>" for name in "abcd"])
objects = nodes | st.sampled_from(['"x"', '"7"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a b"@en'])
graphs = st.sampled_from(["", "", "", "<http://e/g>"])
statements = st.lists(st.tuples(nodes, nodes, objects, graphs), max_size=6)
about_one = st.lists(st.tuples(nodes, objects), min_size=2, max_size=6).map(
    lambda rows: [("<http://e/s>", predicate, object_, "") for predicate, object_ in rows]
)


def columns(rows: list[Statement]) -> SubjectColumns:
    subjects, predicates, found, _ = zip(*rows, strict=True)
    known = predicates_of(predicates)
    assert known is not None
    return SubjectColumns(subjects[0], known, found, sum(map(len, (*subjects, *predicates, *found))))


@given(about_one, st.integers(-7, 7), st.integers(-7, 7))
def test_columns_are_equal_to_the_tuple_and_read_like_it(rows: list[Statement], one: int, other: int) -> None:
    found, whole = columns(rows), tuple(rows)
    assert found == whole and whole == found and hash(found) == hash(whole)
    assert len(found) == len(whole) and list(found) == rows and repr(found) == repr(whole)
    assert found[one:other] == whole[one:other] and found[-1] == whole[-1]
    assert found.characters == sum(len(text) for row in rows for text in row)
    assert found == columns(rows) and found != columns([*rows, rows[0]]) and found != whole[1:]
    elements = [Element(given, 1, 1) for given in (found, whole)]
    assert elements[0] == elements[1] and weight_of(elements[:1]) == weight_of(elements[1:])
    assert elements[0].quads == elements[1].quads


@given(statements | about_one)
def test_what_is_gathered_has_each_statement_once(rows: list[Statement]) -> None:
    found = as_columns(tuple(rows))
    assert found == tuple(dict.fromkeys(rows))
    if isinstance(found, SubjectColumns):
        assert found.characters == sum(len(text) for row in rows for text in row)
    alone = {(subject, graph) for subject, _, _, graph in rows} in [{(row[0], "")} for row in rows]
    distinct = len({row[1] for row in rows}) == len(rows) > 1
    assert isinstance(found, SubjectColumns) is (alone and distinct)


@given(st.lists(about_one, min_size=1, max_size=6))
def test_lines_about_one_subject_are_columns_whatever_came_before(several: list[list[Statement]]) -> None:
    for rows in several:
        read = read_statements(lines_of(rows).strip(), RdfFormat.N_TRIPLES)
        assert read is not None and isinstance(read[0], SubjectColumns) and read[0] == tuple(rows)
        assert read[0].characters == sum(len(text) for row in rows for text in row)


@pytest.mark.parametrize(
    "bad", ["<http://e/p> <http://e/o> <http://e/g>", "<http://e/p> x", "p <http://e/o>", "<http://e/p>"]
)
def test_what_is_wrong_behind_known_predicates_is_no_columns(bad: str) -> None:
    first, second = (f"<http://e/s> <http://e/{each}> <http://e/o> ." for each in "pq")
    read = read_statements(f"{first}\n{second}", RdfFormat.N_TRIPLES)
    assert read is not None and isinstance(read[0], SubjectColumns)
    for text in (f"{first}\n{second}\n<http://e/s> {bad} .", f"<http://e/s> {bad} .\n{second}"):
        assert read_statements(text, RdfFormat.N_TRIPLES) is None


def test_elements_of_every_format_are_columns_where_they_are_about_one_subject() -> None:
    options = DecodeOptions(at=1)
    lines = "<http://e/s> <http://e/p> <http://e/o> .\n<http://e/s> <http://e/q> <http://e/o> .\n"
    turtle = "<http://e/s> <http://e/p> <http://e/o> ; <http://e/q> <http://e/o> ."
    one_line = lines.replace("\n", "\\n")
    bodies = {
        "application/n-triples": lines,
        "text/turtle": turtle,
        "application/x-ndjson": f'{{"at": 1, "data": "{one_line}"}}\n{{"at": 1, "data": "{one_line}"}}',
    }
    short = decode_lines(lines.encode(), "application/n-triples", 1, "", True)
    assert short is not None
    found = [short, *(decode(body.encode(), media_type, options) for media_type, body in bodies.items())]
    kinds = {type(element.statements) for decoded in found for element in decoded.elements}
    assert kinds == {SubjectColumns}
    lists = {id(element.statements.predicates) for decoded in found for element in decoded.elements}  # type: ignore[union-attr]
    assert len(lists) == 1


def test_lists_of_predicates_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_columns, "MOST_KNOWN", 10)
    for number in range(100):
        known = predicates_of((f"<http://e/{number}>",))
        assert known is not None and known.texts == (f"<http://e/{number}>",)
        assert len(subject_columns._known) <= 10


def test_statements_with_long_predicates_are_no_columns() -> None:
    rows = [("<http://e/s>", f"<http://e/{number}/{'p' * 1000}>", "<http://e/o>", "") for number in range(5)]
    before = dict(subject_columns._known)
    assert as_columns(tuple(rows)) == tuple(rows) and not isinstance(as_columns(tuple(rows)), SubjectColumns)
    read = read_statements(lines_of(rows).strip(), RdfFormat.N_TRIPLES)
    assert read is not None and read[0] == tuple(rows) and not isinstance(read[0], SubjectColumns)
    assert subject_columns._known == before
