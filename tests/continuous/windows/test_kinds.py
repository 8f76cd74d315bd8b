"""Each kind of window is documented, written, restored and tested: no part of a new kind is forgotten."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from quadrill.continuous.algebra.query import WindowSpec
from quadrill.continuous.language import parse
from quadrill.continuous.language.write import write
from quadrill.continuous.windows import kinds
from quadrill.continuous.windows.kinds import WindowKind, kind_of, show_window

from ..language.test_documentation import EXAMPLES
from .test_snapshots import SPECS

ROOT = Path(__file__).parents[3]
TESTED_APART = {
    "sequence": "tests/continuous/test_sequences.py",
    "step": "tests/continuous/test_sequences.py",
}
"""Kinds that only SEQ makes: no text has a window of them in brackets."""
KINDS = sorted(kinds._kinds.keys() - TESTED_APART.keys())


@cache
def documented() -> dict[str, WindowSpec]:
    """A window of each kind of the examples of docs/language.md, each read, written and read again."""
    specs: dict[str, WindowSpec] = {}
    for _, parameters, text in EXAMPLES:
        query = parse(text, parameters=json.loads(parameters) if parameters else {})
        assert [each.spec for each in parse(write(query)).windows] == [each.spec for each in query.windows]
        specs.update({window.spec.kind: window.spec for window in query.windows})
    return specs


def word_of(kind: str) -> str:
    """The first word between the brackets."""
    return re.findall(r"\w+", show_window(documented()[kind]))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_an_example_on_the_page_of_the_languages(kind: str) -> None:
    assert kind in documented(), f"docs/language.md has no example with a window of the kind {kind}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_stands_in_the_table_of_the_semantics(kind: str) -> None:
    word = word_of(kind)
    table = (ROOT / "docs" / "semantics.md").read_text("utf-8").partition("## 3. Windows")[2]
    rows = re.findall(r"^\| (.*?) \|", table.partition("\n- ")[0], re.MULTILINE)
    assert any(f"[{word}" in row for row in rows), f"docs/semantics.md does not say what [{word} holds"


@pytest.mark.parametrize("kind", KINDS)
def test_the_editor_of_the_page_knows_the_word_of_a_kind(kind: str) -> None:
    word = word_of(kind)
    assert re.search(rf"\b{word}\b", (ROOT / "static" / "editor" / "keywords.js").read_text("utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_restored_from_its_snapshot(kind: str) -> None:
    assert kind in {spec.kind for spec in SPECS}, (
        "tests/continuous/windows/test_snapshots.py has no spec of it"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_is_compared_with_its_definition(kind: str) -> None:
    entry: WindowKind = kind_of(documented()[kind])
    operator = type(entry.operator(documented()[kind], None, False)).__name__
    texts = [path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    # Windows with keys are tested by their texts, because only a pattern gives the keys.
    tested = (operator, f"[{word_of(kind)} ")
    assert any(name in text for text in texts for name in tested), (
        f"no test of this folder makes a {operator}"
    )


@pytest.mark.parametrize("kind", sorted(TESTED_APART))
def test_a_kind_without_a_text_has_tests_elsewhere(kind: str) -> None:
    assert kind in kinds._kinds
    assert (ROOT / TESTED_APART[kind]).is_file()
