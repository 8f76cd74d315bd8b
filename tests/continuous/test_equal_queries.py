"""Which registrations of one name are equal: a law over the examples of the language page."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from quadrill.continuous.language.context import NOISE
from quadrill.continuous.language.registration import Registration, registration_members
from quadrill.continuous.queries.prepare import PreparedQuery, prepare
from quadrill.continuous.queries.same import _options, differences, differences_as_written
from quadrill.continuous.settings import EngineSettings
from tests.continuous.language.test_examples_run import EXAMPLES, members

TEXTS = list(dict.fromkeys((parameters, text) for parameters, text, _ in EXAMPLES))


def prepared(text: str, parameters: str = "", **more: Any) -> PreparedQuery:
    given = {"query": text, "parameters": members(parameters), **more}
    return prepare(Registration.from_json(given, name="q"), EngineSettings()).under_name("q")


def respelled(text: str, rng: random.Random) -> str:
    """The same query with other white space, comments and prefixes."""
    for name in re.findall(r"PREFIX\s+(\w+):", text):
        text = (
            re.sub(rf"(?<![\w?$:/#<\"]){name}:", f"{name}x{rng.randrange(9)}:", text)
            if _free(name, text)
            else text
        )
    pieces, place = [], 0
    for noise in NOISE.finditer(text):
        pieces += [_spaced(text[place : noise.start()], rng), noise.group()]
        place = noise.end()
    return "".join((*pieces, _spaced(text[place:], rng), "\n# the end"))


def _free(name: str, text: str) -> bool:
    """Whether no string or IRI has the name of a prefix before a colon."""
    return all(f"{name}:" not in noise.group() for noise in NOISE.finditer(text))


def _spaced(text: str, rng: random.Random) -> str:
    spaces = ("\n", "  ", ' # a comment: SELECT * { " }\n', "\t", "\n\n")
    return re.sub(r"\s+", lambda _: rng.choice(spaces), text)


@pytest.mark.parametrize("seed", range(3))
def test_a_query_equals_every_other_spelling_of_it(seed: int) -> None:
    rng, tried = random.Random(seed), 0
    for parameters, text in TEXTS:
        other = respelled(text, rng)
        assert other != text
        assert differences(prepared(text, parameters), prepared(other, parameters)) == (), other
        tried += 1
    assert tried > 20


def test_two_examples_that_answer_differently_are_different() -> None:
    known = [prepared(text, parameters) for parameters, text in TEXTS]
    for place, one in enumerate(known):
        for other in known[:place]:
            assert differences(other, one), (one.query.text, other.query.text)


def test_each_changed_word_of_a_text_is_a_difference_of_the_query() -> None:
    block = "STREAM <urn:s> [RANGE 10s SLIDE 5s] { ?a <urn:p> ?v FILTER(?v > 3) }"
    text = f"SELECT ?a (SUM(?v) AS ?n) WHERE {{ {block} }} GROUP BY ?a"
    changes = {
        "SUM": "AVG", "urn:s": "urn:t", "10s": "11s", "5s": "6s", "urn:p": "urn:q", "> 3": ">= 3",
        "?n": "?m", "SLIDE 5s": "", "FILTER(?v > 3)": "", "SELECT": "SELECT DISTINCT",
    }  # fmt: skip
    for old, new in changes.items():
        (found,) = differences(prepared(text), prepared(text.replace(old, new)))
        assert found.member == "query", old


@pytest.mark.parametrize(
    "clause",
    ["ONCE PER ?a", "ONCE PER ?a EVERY 5s", "ONCE PER ?a UNTIL GONE", "ONCE PER ?a UNTIL GONE RESOLVED"],
)
def test_each_clause_of_emission_is_a_difference_of_the_query(clause: str) -> None:
    text = "SELECT ?a ?v WHERE { STREAM <urn:s> [RANGE 10s] { ?a <urn:p> ?v } }"
    other = prepared(f"{text} {clause}")
    assert [each.member for each in differences(prepared(text), other)] == ["query"]
    assert differences(other, prepared(f"# x\n{other.query.text}")) == ()


def test_variables_of_window_bounds_are_a_difference() -> None:
    text = "SELECT ?a ?o ?c WHERE { STREAM <urn:s> [RANGE 10s SLIDE 5s BOUNDS ?o ?c] { ?a <urn:p> ?v } }"
    assert differences(prepared(text), prepared(text.replace("BOUNDS ?o ?c", "BOUNDS ?c ?o")))
    assert differences(prepared(text), prepared(text.replace(" {", "\n{"))) == ()


def test_every_member_of_a_registration_is_compared() -> None:
    compared = set(_options(prepared("SELECT * { STREAM <urn:s> [NOW] { ?a ?b ?c } }")))
    assert compared | {"query", "name", "parameters"} == registration_members().keys()


def test_registrations_that_cannot_be_prepared_are_compared_as_they_were_written() -> None:
    one, other = Registration("SELECT", "q", "cqels"), Registration("SELECT ", "q", output="changes")
    found = [(each.member, each.old, each.new) for each in differences_as_written(one, other)]
    assert found == [("query", "SELECT", "SELECT "), ("dialect", "cqels", None), ("output", None, "changes")]
    assert differences_as_written(one, one) == ()
