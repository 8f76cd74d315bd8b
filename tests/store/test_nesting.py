"""How deep documents nest, and what it costs to find out about hostile ones."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.store.documents.nesting import deep_line_of_json, deep_line_of_triple_terms, deep_line_of_turtle
from quadrill.store.errors import LimitError
from quadrill.store.formats import parse_rdf, rdf_format


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[[\n[[", 2),
        ("[[ ]] [ ]", None),
        ('"[[[[" [', None),
        ('"a\\"[[[" [', None),
        ('["a\\\\", [[{', 1),
    ],
)
def test_brackets_of_json_outside_of_strings_count(text: str, line: int | None) -> None:
    assert deep_line_of_json(text, 3) == line
    assert deep_line_of_json(text.encode(), 3) == line


TOKENS = ["[", "]", "{", "}", '""', '"x"', '"[{"', '"}"', '"\\\\"', '"\\"["', '"é"', "\n", ","]


@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.integers(0, 5))
def test_json_nests_as_deep_as_its_brackets_say(tokens: list[str], limit: int) -> None:
    line, depth, deep = 1, 0, None
    for token in tokens:
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth > limit and deep is None:
            deep = line
        line += token == "\n"
    assert deep_line_of_json("".join(tokens), limit) == deep


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<< <<\n<< <<", 2),
        ('<< << <urn:a#<<> \'<<\' """<<"<<""" >> >>', None),
        ("# it's \n << << << <<", 2),
        ("#\r<< << << <<", 1),
        ("ex:it\\'s << << << <<", 1),
        ("'open << << <<\n<<", None),
    ],
)
def test_triple_terms_outside_of_strings_comments_and_names_count(text: str, line: int | None) -> None:
    assert deep_line_of_turtle(text, 3) == line
    assert deep_line_of_triple_terms(text.encode(), 3) == line


HOSTILE = {
    "a long literal": "'" + "x" * 1_200_000 + "'",
    "escapes": '"' + "\\n" * 600_000 + '"',
    "a string that does not end": '"' + '\\"' * 600_000,
    "long strings in vain": '"""' + '\\"""\n' * 240_000,
    "quotes in long strings": '"""' + '"" x' * 300_000 + '"""',
    "comments": "# x\n" * 300_000,
    "IRIs in vain": "<a" * 600_000,
    "backslashes": "\\" * 1_200_000,
    "brackets": "[]" * 600_000,
}


@pytest.mark.slow_cases("backslashes", "brackets")
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_document_is_measured_without_memory(kind: str) -> None:
    text = HOSTILE[kind]
    data = text.encode()
    tracemalloc.start()
    try:
        deep_line_of_turtle(text, 100)
        deep_line_of_triple_terms(data, 100)
        deep_line_of_json(data, 100)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(text) + 100_000


@pytest.mark.parametrize("name", ["text/turtle", "application/trig"])
@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("[ <urn:p> ", "]")])
def test_brackets_that_nest_too_deeply_are_refused_before_they_are_parsed(
    name: str, opening: str, closing: str
) -> None:
    kind = rdf_format(name)
    assert kind is not None

    def parsed(levels: int) -> int:
        text = "<urn:s> <urn:p>\n" + opening * levels + "<urn:o>" * (opening == "(") + closing * levels + " ."
        if opening != "(":
            text = text.replace(opening + closing, "[]")
        return sum(1 for _ in parse_rdf(text.encode(), kind))

    assert parsed(9_000) >= 9_000
    with pytest.raises(LimitError, match="deeper than 10000 levels at line 2"):
        parsed(11_000)
