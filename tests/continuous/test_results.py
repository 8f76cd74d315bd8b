"""Lines of JSON: what is put together from remembered pieces is what a JSON encoder gives for the whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.continuous.output.results import one_line, solutions, solutions_line

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
heads = st.one_of(
    st.builds(lambda at, version: {"at": at, "version": version}, st.none() | st.integers(), st.integers(0)),
    st.just({"at": 1, "version": 2, "window": {"open": 0, "close": 1}, "revises": 3}),
)


@given(heads, st.lists(texts, min_size=1, max_size=3, unique=True), st.data())
def test_a_line_of_solutions_is_the_document_on_one_line(
    head: dict[str, Any], names: list[str], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.none() | terms for _ in names)), max_size=4))
    line = solutions_line(head, names, rows)
    assert line == one_line(head | solutions(names, rows))
    assert json.loads(line)["head"] == {"vars": names}
    assert "\n" not in line
