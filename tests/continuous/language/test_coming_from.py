"""Every text that docs/coming-from.md gives for another system's construct is one of ours.

tests/test_coming_from.py checks the section on stores.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quadrill.continuous.engine import Registration
from quadrill.continuous.language import parse
from quadrill.continuous.rules.definition import read_definition
from quadrill.continuous.rules.rule import parse_rule

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from.md").read_text("utf-8")
RULES = PAGE.partition("## Reasoning")[2].partition("\n## ")[0]
STORES = PAGE.partition("## Stores")[2].partition("\n## ")[0]
CELL = re.compile(r"^\| .* \| `([^`]+)`[^|]*\|$", re.MULTILINE)
OURS = CELL.findall(PAGE.replace(RULES, "").replace(STORES, ""))
OF_RULE_SETS = CELL.findall(RULES)
MEMBERS = [each for each in OURS if each.startswith('"')]
ANY = "{ ?a ?b ?c }"


def whole(text: str) -> str:
    """A query of what the page shows: a block or a clause is one with the least around it."""
    if text.startswith("STREAM"):
        text = f"SELECT * WHERE {{ {text} }}"
    elif text.startswith("FROM NAMED WINDOW"):
        text = f"SELECT * {text} WHERE {{ WINDOW :w {ANY} }}"
    elif text.startswith("FROM STREAM"):
        text = f"SELECT * {text} WHERE {ANY}"
    return "PREFIX : <http://example.org/>\n" + text


@pytest.mark.parametrize("text", [each for each in OURS if each not in MEMBERS])
def test_a_text_of_the_page_is_understood(text: str) -> None:
    query = parse(whole(text))
    assert query.windows
    assert query.warnings == ()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_of_the_page_is_one_of_a_registration_or_a_stream(member: str) -> None:
    given = json.loads("{" + member + "}")
    if "late" in given:
        assert given == {"late": "admit"}
    else:
        Registration.from_json({"query": whole("STREAM :s [RANGE 10s SLIDE 5s] " + ANY), **given}, name="q")


@pytest.mark.parametrize("text", OF_RULE_SETS)
def test_a_text_of_the_section_on_reasoning_is_a_rule_or_a_member(text: str) -> None:
    if text.startswith("CONSTRUCT"):
        parse_rule("PREFIX : <http://example.org/>\n" + text, base_iri="http://example.org/")
    else:
        read_definition({"into": "http://example.org/inferred", **json.loads("{" + text + "}")})


def test_the_page_has_texts_of_all_systems() -> None:
    assert len(OURS) > 30
    assert len(OF_RULE_SETS) > 10
