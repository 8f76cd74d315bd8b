"""Lines of JSON: what is put together from remembered pieces is what a JSON encoder gives for the whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.continuous.algebra.reports import Interval
from quadrill.continuous.evaluate.recomputing import RecomputedAnswer
from quadrill.continuous.output.emission import EvaluationInfo, SelectEmission
from quadrill.store.results import one_line, solutions

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
literals = st.one_of(
    texts.map(Literal),
    st.builds(lambda text: Literal(text, language="en"), texts),
    st.builds(lambda text: Literal(text, datatype=NamedNode("http://e/type")), texts),
    st.integers().map(Literal),
    st.booleans().map(Literal),
)
terms = st.recursive(
    st.one_of(literals, st.sampled_from([NamedNode("http://e/x"), BlankNode("x")])),
    lambda inner: inner.map(lambda term: Triple(NamedNode("http://e/s"), NamedNode("http://e/p"), term)),
    max_leaves=3,
)
heads = st.tuples(
    st.integers(),
    st.integers(0),
    st.none() | st.builds(Interval, st.integers(), st.integers()),
    st.none() | st.integers(1),
    st.none() | st.dictionaries(texts, texts, max_size=2),
)


@given(heads, st.lists(texts, min_size=1, max_size=3, unique=True), st.data())
def test_a_line_of_solutions_is_the_document_on_one_line(
    head: tuple[int, int, Interval | None, int | None, Any], names: list[str], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.none() | terms for _ in names)), max_size=4))
    at, version, window, revises, sources = head
    document: dict[str, Any] = {"at": at, "version": version}
    if window is not None:
        document["window"] = {"open": window.open, "close": window.close}
    if revises is not None:
        document["revises"] = revises
    if sources is not None:
        document["sources"] = sources
    emission, answer = (
        SelectEmission("rstream", tuple(names), ordered=True),
        RecomputedAnswer(tuple(names), rows),
    )
    line = emission.current(EvaluationInfo(*head), answer)
    assert line == one_line(document | solutions(names, rows))
    assert json.loads(line)["head"] == {"vars": names}
    assert "\n" not in line
