"""Texts that differ in rows of inline data alone are judged once, and as each of them would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Triple

from quadrill.continuous.algebra.printer import row_text
from quadrill.store.errors import NetworkRefusedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.guard import TextFacts, TextLimits
from quadrill.store.sparql.query import QueryRequest
from quadrill.store.sparql.scan import SimilarTexts, inspect_text

LIMITS = TextLimits(inline_height=1)
"""Everything is measured."""
terms = st.one_of(
    st.integers(0, 9).map(lambda number: NamedNode(f"http://e/{number}")),
    st.text(max_size=12).map(Literal),
    st.builds(lambda text: Literal(text, language="en-GB"), st.text(max_size=5)),
    st.integers().map(Literal),
    st.sampled_from([Literal("SERVICE <http://e> {"), Literal('load "x" \\'), Literal("\n\r}{")]),
)
patterns = st.sampled_from(
    [
        "?x <p> ?y",
        "OPTIONAL { ?x <p> ?y } OPTIONAL { ?y <q> ?z FILTER(?z > 1 && ?z < 3) }",
        "{ ?x <p> ?y } UNION { VALUES (?x ?y) { ROWS } { ?x <q> ?y } UNION { ?y (<r>/<s>)* ?x } }",
    ]
)


def text_of(pattern: str, rows: list[str]) -> str:
    block = " ".join(rows)
    return f"SELECT * WHERE {{ VALUES (?x ?y) {{ {block} }} {pattern.replace('ROWS', block)} }}"


@given(patterns, st.lists(st.lists(st.tuples(terms, terms), min_size=1, max_size=4), min_size=2, max_size=4))
def test_a_text_is_judged_as_by_itself(
    pattern: str, each_time: list[list[tuple[NamedNode | Literal, NamedNode | Literal]]]
) -> None:
    texts = SimilarTexts(LIMITS)
    for rows in each_time:
        written = list(map(row_text, rows))
        text = text_of(pattern, written)
        judged = texts.facts_of(text, written)
        assert judged is not None
        alone = inspect_text(text.replace("SERVICE", "").replace("load", ""), LIMITS)
        assert alone.height <= judged.height <= alone.height + 1
        assert judged.services == alone.services == ()


def test_a_text_is_looked_at_once() -> None:
    seen: list[str] = []

    def counted(text: str, limits: TextLimits) -> TextFacts:
        seen.append(text)
        return inspect_text(text, limits)

    texts = SimilarTexts(LIMITS, most=1, inspect=counted)
    for name in ("a", "b", "c"):
        texts.facts_of(
            text_of("?x <p> ?y", [f"(<{name}> <{name}>)", "(<z> <z>)"]), [f"(<{name}> <{name}>)", "(<z> <z>)"]
        )
    assert seen == [text_of("?x <p> ?y", ["(<x:x> <x:x>)"])]
    texts.facts_of("SELECT * { VALUES ?x { (<a>) } }", ["(<a>)"])
    texts.facts_of(text_of("?x <p> ?y", ["(<a> <b>)"]), ["(<a> <b>)"])
    assert len(seen) == 3


@pytest.mark.parametrize(
    "row",
    [
        "(<http://e/> } SERVICE <http://e>)",
        "(<a\\u003E>)",
        '("a" } { "b")',
        '("a\nb")',
        '("a"^^<x y>)',
        "(UNDEF)",
        "()",
        "(?x)",
        row_text((Triple(NamedNode("http://a"), NamedNode("http://a"), Literal("1")),)),
    ],
)
def test_a_row_that_is_not_plain_terms_is_not_vouched_for(row: str) -> None:
    assert SimilarTexts(LIMITS).facts_of(f"SELECT * {{ VALUES ?x {{ {row} }} }}", [row]) is None


def test_calls_are_refused_however_often_the_text_comes() -> None:
    texts = SimilarTexts(TextLimits())
    with QuadStore.open(None) as store:
        for name in "ab":
            row = f"(<{name}>)"
            text = (
                f"SELECT * {{ VALUES (?x) {{ {row} }} SERVICE <http://elsewhere.example/> {{ ?x ?p ?o }} }}"
            )
            with pytest.raises(NetworkRefusedError):
                store.reader.query(
                    QueryRequest(text, base_iri="http://e/", text_facts=texts.facts_of(text, [row]))
                )


def test_rows_of_a_store_with_strange_names_are_read_all_the_same() -> None:
    with QuadStore.open(None) as store:
        store.writer.update('INSERT DATA { <http://e/s> <http://e/p> "SERVICE <http://x> { }", "load" }')
        texts = SimilarTexts(TextLimits())
        row = row_text((Literal("SERVICE <http://x> { }"),))
        text = f"SELECT ?x {{ VALUES (?v) {{ {row} }} ?x <http://e/p> ?v }}"
        with store.reader.query(QueryRequest(text, text_facts=texts.facts_of(text, [row]))) as result:
            assert [found.value for (found,) in result.rows()] == ["http://e/s"]
