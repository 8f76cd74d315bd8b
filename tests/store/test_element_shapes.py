"""Elements that look like many before them are read by one expression, and are what they are line by line."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import RdfFormat

from quadrill.store.documents import element_shapes, statements
from quadrill.store.documents.element_shapes import ElementShapes
from quadrill.store.documents.statements import _IRI, _PLAIN, _of_one_subject, _predicates
from quadrill.store.documents.statements import read_statements as read
from quadrill.store.documents.subject_columns import SubjectColumns, predicates_of
from quadrill.store.terms import CANONICAL
from tests.examples import examples

XSD = "http://www.w3.org/2001/XMLSchema#"
LINE = "<http://e/s> <http://e/{}> {} .\n"
OBJECTS = {
    "iri": ["<http://e/o>", "<urn:x>", "<no iri>", "<http://e/\u00e4>", "<relative>", "<http://e/{}>"],
    "text": ['"kitchen"', '""', '"a b"', '"a\\"b"', '"a\nb"', '"\u00e9"', '"a"@en'],
    "decimal": [
        f'"{each}"^^<{XSD}decimal>' for each in ("20.5", "-1", "0", "1.50", "+1", "x", "1." + "1" * 12)
    ],
    "integer": [f'"{each}"^^<{XSD}integer>' for each in ("7", "-7", "007", "1" * 30, "")],
    "time": [f'"{each}"^^<{XSD}dateTime>' for each in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00")],
    "boolean": [f'"{each}"^^<{XSD}boolean>' for each in ("true", "1")],
    "other": ['"a"@en', '"a"^^<http://e/datatype>', "_:b", f'"1.5"^^<{XSD}float>'],
}


@pytest.fixture(autouse=True)
def learned_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_shapes, "_READS_BEFORE_SHAPE", 3)
    _predicates.cache_clear()


def element(objects: list[str], name: str = "p") -> str:
    return "".join(LINE.format(f"{name}{place}", each) for place, each in enumerate(objects))


def shapes() -> ElementShapes:
    return ElementShapes(re.compile(_IRI).fullmatch, _PLAIN, CANONICAL)


alike = st.lists(st.sampled_from(sorted(OBJECTS)), min_size=2, max_size=4).flatmap(
    lambda kinds: st.tuples(
        st.just([OBJECTS[kind][0] for kind in kinds]),
        st.tuples(*(st.sampled_from(OBJECTS[kind]) for kind in kinds)),
    )
)


@settings(max_examples=examples(400))
@example((["<http://e/o>", '"kitchen"'], ("<relative>", '"kitchen"')), 4, "<http://e/s>", "")
@given(
    alike,
    st.integers(0, 4),
    st.sampled_from(["<http://e/s>", "<http://e/s>", "<relative>", "<http://e/{}>", "<s>"]),
    st.sampled_from(["", "\n", "\n\n", " ", "x", "\n<http://e/s> <http://e/p9> <http://e/o> ."]),
)
def test_an_expression_reads_what_lines_are_read_as(
    objects: tuple[list[str], tuple[str, ...]], other: int, subject: str, end: str
) -> None:
    """Whatever the elements before were like; ``other``: the place of an object that is of another kind."""
    _predicates.cache_clear()
    before, now = objects[0], [*objects[1]]
    if other < len(now):
        now[other] = OBJECTS["text"][0]
    text = element(now).rstrip("\n").replace("<http://e/s>", subject) + end
    expected = _of_one_subject(text)
    _predicates.cache_clear()
    for _ in range(3 * element_shapes._READS_BEFORE_SHAPE):
        _of_one_subject(element(before))
    found = _of_one_subject(text)
    assert found == expected
    if isinstance(expected, SubjectColumns):
        assert isinstance(found, SubjectColumns)
        assert found.characters == expected.characters and found.predicates is expected.predicates


@pytest.mark.parametrize("kind", sorted(OBJECTS))
def test_elements_of_one_kind_get_an_expression(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for objects of rare kinds."""
    good = element([OBJECTS[kind][0], "<http://e/o>"], kind)
    line_by_line: list[str] = []
    by_line = statements._Predicates.line_by_line

    def counted(self: statements._Predicates, text: str, subject: str) -> object:
        line_by_line.append(subject)
        return by_line(self, text, subject)

    monkeypatch.setattr(statements._Predicates, "line_by_line", counted)
    for _ in range(10):
        found = read(good, RdfFormat.N_TRIPLES)
        assert found is not None and isinstance(found[0], SubjectColumns)
        assert found[0].objects == (OBJECTS[kind][0], "<http://e/o>")
    assert len(line_by_line) == (10 if kind == "other" else 3)


def test_an_expression_that_does_not_fit_is_given_up() -> None:
    """Then elements with that first predicate are read line by line for long."""
    known, subject = shapes(), "<http://e/s>"
    good, bad = (element([first, '"b"']).rstrip("\n") for first in ('"a"', "<http://e/o>"))
    names = predicates_of(("<http://e/p0>", "<http://e/p1>"))
    assert names is not None
    names.times_read = 0
    for _ in range(3):
        assert known.read(good, subject) is None
        known.learn(names, ('"a"', '"b"'))
    for _ in range(50):
        assert known.read(good, subject) == (names, ('"a"', '"b"'))
        assert known.read(bad, subject) is None
    for _ in range(150):
        assert known.read(bad, subject) is None
        known.learn(names, ('"a"', '"b"'))
    assert known.read(good, subject) is None
    for _ in range(3 * element_shapes._RETRY_FACTOR):
        known.learn(names, ("<http://e/o>", '"b"'))
    assert known.read(bad, subject) == (names, ("<http://e/o>", '"b"'))


def test_elements_of_many_triples_have_no_expression() -> None:
    """It would be large."""
    known, number = shapes(), element_shapes._MOST_OBJECTS + 1
    for count, there in ((number, False), (number - 1, True)):
        names = predicates_of(tuple(f"<http://e/p{place}>" for place in range(count)))
        assert names is not None
        names.times_read = 0
        for _ in range(10):
            known.learn(names, ('"a"',) * count)
        assert bool(known._known) == there


def test_expressions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_shapes, "_MOST", 5)
    monkeypatch.setattr(element_shapes, "_READS_BEFORE_SHAPE", 1)
    known = shapes()
    for number in range(40):
        names = predicates_of((f"<http://e/{number}>", "<http://e/q>"))
        assert names is not None
        known.learn(names, ('"a"', '"b"'))
        assert len(known._known) <= 5
