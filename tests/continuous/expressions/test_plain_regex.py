"""Regular expressions that Python matches: the answers of Oxigraph, in bounded time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.continuous.expressions.oxigraph import ask
from quadrill.continuous.expressions.plain_regex import LONGEST_TEXT, plain_search

ATOMS = st.sampled_from(
    [
        "a",
        "B",
        "0",
        "-",
        " ",
        "@",
        ".",
        r"\.",
        r"\$",
        r"\\",
        "[a-c]",
        "[^a-c]",
        "[A-Z0-9_]",
        "[.]",
        "[^@]",
        r"[\-a]",
    ]
)
QUANTIFIERS = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{1,2}", "{2,}", "{0}"])
PATTERNS = st.builds(
    lambda start, parts, end: start + "".join(atom + quantifier for atom, quantifier in parts) + end,
    st.sampled_from(["", "^"]),
    st.lists(st.tuples(ATOMS, QUANTIFIERS), max_size=5),
    st.sampled_from(["", "$"]),
)
TEXTS = st.text(alphabet="aAbBcd01-_ @.$\\\n\r\u0130\u2028é𝒳", max_size=8)


@settings(max_examples=3_000, deadline=None)
@given(PATTERNS, TEXTS)
def test_answers_are_those_of_oxigraph(pattern: str, text: str) -> None:
    search = plain_search(pattern)
    if search is not None:
        assert (search(text) is not None) is ask("REGEX", text, pattern)


@pytest.mark.parametrize("pattern", ["^[0-9]{9}$", "^[^@]+@[^@]+$", "abc", "^[A-Z][a-z]+$", "^a?b?c?$", ""])
def test_usual_patterns_are_plain(pattern: str) -> None:
    assert plain_search(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$", "a|b", r"\d", r"\w+", "a*?", "a++", "^a*a*a*$", "a*a*", "a?a?a?a?", "[a-]", "[z-a]",
        "[a&&b]", "[[:alpha:]]", "a{2}{3}", "a{3,2}", "{", "a{,2}", "*", "x" * 201, "^$^", "é",
    ],
)  # fmt: skip
def test_other_patterns_are_left_to_oxigraph(pattern: str) -> None:
    assert plain_search(pattern) is None


def test_longest_texts_take_little_time() -> None:
    text = "a" * LONGEST_TEXT
    began = time.process_time()
    for pattern in ("a*b", "^a*a*b", "^[^@]+a+@", "a{0,999}b", "^.*.*b", "^a?a?a?.*.*b"):
        search = plain_search(pattern)
        assert search is not None and search(text) is None
    assert time.process_time() - began < 1
