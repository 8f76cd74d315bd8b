"""Every example of docs/language.md parses in its dialect and is recognised as such."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from quadrill.continuous.algebra.set_functions import STANDARD, STATISTICAL
from quadrill.continuous.language import detect_dialect, parse
from quadrill.continuous.language.context import LanguageLimits

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^```(cqels|rspql|csparql|sparql)(?: parameters=([^\n]*))?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(("dialect", "parameters", "text"), EXAMPLES)
def test_an_example_of_the_page_parses(dialect: Any, parameters: str, text: str) -> None:
    query = parse(text, parameters=json.loads(parameters) if parameters else {})
    assert query.dialect == detect_dialect(text) == dialect
    assert bool(query.windows) == (dialect != "sparql")
    assert all("not used" not in warning for warning in query.warnings)


def test_the_page_has_an_example_of_every_construct() -> None:
    texts = " ".join(text for _, _, text in EXAMPLES)
    words = """NOW ALL TRIPLES RANGE SLIDE STEP TUMBLING ELEMENTS LATENESS STARTING REPORT
        TICK REGISTER COMPUTED
        WINDOW STREAM MEDIAN STDDEV VARIANCE PERCENTILE timestamp OPTIONAL EXISTS CONSTRUCT GRAPH""".split()
    assert [word for word in words if not re.search(rf"\b{word}\b", texts)] == []


def test_the_page_has_an_example_of_every_aggregate_that_sparql_does_not_have() -> None:
    ours = STANDARD - {"SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"}
    assert ours == STATISTICAL
    texts = " ".join(text for _, _, text in EXAMPLES)
    assert [name for name in sorted(ours) if f"{name}(" not in texts] == []
    assert [name for name in sorted(ours) if not re.search(rf":{name.lower()}\b", PAGE)] == []


def test_the_page_states_the_limits_in_force() -> None:
    limits = LanguageLimits()
    for number in (limits.characters, limits.nesting, limits.patterns, limits.operators):
        assert f"{number:,}" in PAGE
