"""Parse, write, parse, write: the algebra stays the same and the second text is the first."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from quadrill.continuous.algebra.query import ContinuousQuery, Dialect
from quadrill.continuous.language import parse
from quadrill.continuous.language.write import write
from quadrill.store.errors import QueryTextError, UnsupportedError

from .test_documentation import EXAMPLES
from .test_w3c_syntax import BASE, cases

TESTS = Path(__file__).parents[2]
OWN = sorted(path for path in (TESTS / "data").glob("*-queries/*") if path.suffix in (".cqels", ".rspql"))
NOT_THE_TEXT = ("text", "prefixes", "parameters", "named_aliases", "warnings", "base_iri")


def meaning(query: ContinuousQuery) -> str:
    """Everything that a query says, hidden variables numbered in the order of their first appearance."""
    members = {
        each.name: getattr(query, each.name) for each in fields(query) if each.name not in NOT_THE_TEXT
    }
    numbers: dict[str, str] = {}
    return re.sub(
        r"'_:[^']*'", lambda found: numbers.setdefault(found.group(), f"_:{len(numbers)}"), repr(members)
    )


def assert_stable(query: ContinuousQuery, dialect: Dialect | None) -> str:
    first = write(query)
    again = parse(first, dialect=dialect, base_iri=query.base_iri or BASE)
    assert meaning(again) == meaning(query), first
    assert write(again) == first
    return first


def w3c_texts() -> list[str]:
    return sorted({name for name, positive in cases() if positive})


@pytest.mark.parametrize("suite", ["sparql10", "sparql11", "sparql12"])
def test_every_positive_text_of_the_suites_is_a_fixed_point(suite: str) -> None:
    names = [name for name in w3c_texts() if name.startswith(f"sparql/{suite}/")]
    assert len(names) > 100
    wrong = []
    for name in names:
        with (TESTS / "w3c" / "data" / name).open(encoding="utf-8", newline="") as file:
            text = file.read()
        try:
            assert_stable(parse(text, dialect="sparql", base_iri=BASE + name), "sparql")
        except (AssertionError, QueryTextError, UnsupportedError) as error:
            wrong.append(f"{name}: {error}")
    assert wrong == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_texts_of_papers_and_groups_are_fixed_points(path: Path) -> None:
    query = parse(path.read_text(encoding="utf-8"), parameters={"Name": "Axel Polleres"})
    assert_stable(query, None)


@pytest.mark.parametrize(("dialect", "parameters", "text"), EXAMPLES)
def test_the_examples_of_the_reference_are_fixed_points(dialect: Any, parameters: str, text: str) -> None:
    written = assert_stable(parse(text, parameters={"Name": "Axel Polleres"}), dialect)
    assert "BASE" not in written
