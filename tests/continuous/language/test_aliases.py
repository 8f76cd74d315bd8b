"""SELECT aliases in HAVING and ORDER BY, in every dialect of continuous queries."""

from __future__ import annotations

import pytest

from quadrill.continuous.language import parse
from quadrill.store.errors import QueryTextError

WHERE = {
    "cqels": ("", "WHERE {{ STREAM <s> [RANGE 1h] {{ {0} }} }}"),
    "rspql": (
        "REGISTER RSTREAM <o> AS ",
        "FROM NAMED WINDOW <w> ON <s> [RANGE PT10S] WHERE {{ WINDOW <w> {{ {0} }} }}",
    ),
    "csparql": ("REGISTER QUERY q AS ", "FROM STREAM <s> [RANGE 10s STEP 1s] WHERE {{ {0} }}"),
    "sparql": ("", "WHERE {{ {0} }}"),
}
SAME = [
    ("SELECT ?s (AVG(?o) AS ?a) {} GROUP BY ?s HAVING ({})", "?a > 1", "AVG(?o) > 1"),
    (
        "SELECT ?s (AVG(?o) AS ?a) (?a + 1 AS ?b) {} GROUP BY ?s HAVING ({})",
        "?b > ?a",
        "AVG(?o) + 1 > AVG(?o)",
    ),
    ("SELECT ?s (AVG(?o) > 3 AS ?high) {} GROUP BY ?s HAVING {}", "(?high)", "(AVG(?o) > 3)"),
    ("SELECT (COUNT(*) AS ?n) {} HAVING (?n > 1 {})", "&& ?n < 9", "&& COUNT(*) < 9"),
]


def text(dialect: str, select: str, having: str) -> str:
    register, where = WHERE[dialect]
    return register + select.format(where.format("?s <http://e/p> ?o"), having)


@pytest.mark.parametrize("dialect", WHERE)
@pytest.mark.parametrize(("select", "aliased", "written"), SAME)
def test_having_reads_an_alias_as_its_expression(
    dialect: str, select: str, aliased: str, written: str
) -> None:
    named, full = (parse(text(dialect, select, each)) for each in (aliased, written))
    assert named.root == full.root
    assert named.dialect == dialect


@pytest.mark.parametrize("dialect", WHERE)
def test_what_sparql_does_not_see_is_named(dialect: str) -> None:
    found = parse(text(dialect, "SELECT ?s (AVG(?o) AS ?a) {} GROUP BY ?s HAVING ({}) ORDER BY ?a", "?a > 1"))
    assert found.named_aliases == ("a",)
    found = parse(
        text(dialect, "SELECT ?s (AVG(?o) AS ?a) {} GROUP BY ?s HAVING ({}) ORDER BY ?a", "AVG(?o) > 1")
    )
    assert found.named_aliases == ()


@pytest.mark.parametrize("dialect", WHERE)
def test_aliases_of_a_sub_query_and_around_it(dialect: str) -> None:
    register, where = WHERE[dialect]

    def nested(inner: str, outer: str) -> str:
        select = f"SELECT ?s (MAX(?o) AS ?m) {{ ?s <http://e/p> ?o }} GROUP BY ?s HAVING ({inner})"
        around = where.format(f"{{ {select} }}")
        return f"{register} SELECT (COUNT(?s) AS ?n) (SUM(?m) AS ?t) {around} HAVING ({outer})"

    named, full = nested("?m > 1", "?t > ?n"), nested("MAX(?o) > 1", "SUM(?m) > COUNT(?s)")
    assert parse(named).root == parse(full).root


@pytest.mark.parametrize("dialect", WHERE)
@pytest.mark.parametrize("condition", ["?o > 1", "?nothing > 1"])
def test_other_variables_are_faults_still(dialect: str, condition: str) -> None:
    with pytest.raises(QueryTextError, match="neither grouped nor aggregated"):
        parse(text(dialect, "SELECT ?s (AVG(?o) AS ?a) {} GROUP BY ?s HAVING ({})", condition))


@pytest.mark.parametrize("dialect", ["rspql", "csparql", "sparql"])
def test_group_by_names_aliases_in_cqels_alone(dialect: str) -> None:
    with pytest.raises(QueryTextError):
        parse(text(dialect, "SELECT (?o + 1 AS ?v) (COUNT(?s) AS ?n) {} GROUP BY ?v{}", ""))
