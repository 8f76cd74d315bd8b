"""Rows that EXISTS tests have the columns that are asked for, no others."""

from __future__ import annotations

import pytest

from quadrill.continuous.algebra.nodes import Algebra, Filter, Group, Project
from quadrill.continuous.algebra.variables import grouped, in_scope, narrowed
from quadrill.continuous.language import parse

ROWS = "STREAM <urn:s> [NOW] { ?a <urn:p> ?b ; <urn:q> ?c ; <urn:r> ?d }"
ABSENT = "FILTER NOT EXISTS { STREAM <urn:s> [NOW] { ?e <urn:p> ?b } FILTER(?e != ?c) }"


def group_in(node: Algebra) -> Group:
    """The GROUP BY under columns and projections."""
    while not isinstance(node, Group):
        node = node.input  # type: ignore[union-attr]
    return node


@pytest.mark.parametrize(
    ("head", "tail", "columns"),
    [
        ("(COUNT(?a) AS ?n)", "GROUP BY ?b", "abc"),
        ("(SUM(?d) AS ?n)", "", "bcd"),
        ("(COUNT(?a) AS ?n) (MAX(?d) AS ?m)", "", "abcd"),
        ("(COUNT(*) AS ?n)", "GROUP BY ?b", "abcd"),
    ],
)
def test_groups_ask_for_keys_and_what_they_count(head: str, tail: str, columns: str) -> None:
    below = grouped(group_in(parse(f"SELECT {head} {{ {ROWS} {ABSENT} }} {tail}").root))
    assert isinstance(below, Filter)
    assert in_scope(below) == set(columns)


def test_a_projection_asks_for_its_columns() -> None:
    root = parse(f"SELECT ?a {{ {ROWS} {ABSENT} }}").root
    assert isinstance(root, Project)
    assert in_scope(narrowed(root.input, frozenset("a"))) == set("abc")
    assert narrowed(root.input, frozenset("abcd")) is root.input
    plain = parse(f"SELECT ?a {{ {ROWS} FILTER(?d > 1) }}").root
    assert isinstance(plain, Project)
    assert narrowed(plain.input, frozenset("a")) is plain.input
