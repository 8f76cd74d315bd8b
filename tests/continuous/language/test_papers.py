"""The queries of the papers parse, and their several spellings give one algebra."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra.nodes import (
    Bgp,
    Filter,
    Graph,
    Group,
    Join,
    Project,
    TriplePattern,
    TripleTerm,
    Var,
    Window,
)  # fmt: skip
from quadrill.continuous.algebra.query import WindowDeclaration, WindowSpec
from quadrill.continuous.language import parse

DATA = Path(__file__).parents[2] / "data"
PAPERS = sorted((DATA / "paper-queries").glob("*.cqels"))
RSPQL = sorted((DATA / "rspql-queries").glob("*.rspql"))
FIGURES = [path for path in PAPERS if "-figure" in path.name]
GIVEN = {"Name": "Axel Polleres"}
LOCSTREAMS = NamedNode("http://deri.org/locstreams")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_every_query_of_the_papers_parses_as_cqels(path: Path) -> None:
    query = parse(read(path), parameters=GIVEN)
    assert query.dialect == "cqels"
    assert query.windows
    used = {node.value for node in (window.name for window in query.windows)}
    assert used == {f"urn:quadrill:window:{n}" for n in range(1, len(used) + 1)}


@pytest.mark.parametrize("path", RSPQL, ids=lambda path: path.stem)
def test_every_rspql_query_parses(path: Path) -> None:
    assert parse(read(path)).dialect == "rspql"


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_the_syntax_of_2010_gives_the_algebra_of_the_stream_form(path: Path) -> None:
    plain = path.with_name(path.name.rpartition("-")[0] + ".cqels")
    old, new = parse(read(path), parameters=GIVEN), parse(read(plain), parameters=GIVEN)
    assert old.root == new.root
    assert old.windows == new.windows
    assert old.dataset == new.dataset


def test_windows_are_numbered_in_text_order_with_their_specs() -> None:
    query = parse(read(DATA / "paper-queries" / "report2010-Q2-figure2.cqels"))
    assert query.windows == (
        WindowDeclaration(NamedNode("urn:quadrill:window:1"), LOCSTREAMS, WindowSpec("now")),
        WindowDeclaration(
            NamedNode("urn:quadrill:window:2"), LOCSTREAMS, WindowSpec("range", width_ms=30_000)
        ),
    )
    assert query.dataset.named == (NamedNode("http://deri.org/localization/"),)
    assert query.dataset.default == ()


def test_a_parameter_is_bound_as_a_term() -> None:
    text = read(DATA / "paper-queries" / "iswc2011-Q1.cqels")
    assert Literal("Axel Polleres") in objects(parse(text, parameters=GIVEN).root)
    person = {"type": "uri", "value": "http://example.org/axel"}
    assert NamedNode("http://example.org/axel") in objects(parse(text, parameters={"Name": person}).root)


def objects(node: object) -> list[object]:
    if isinstance(node, Bgp):
        return [pattern.object for pattern in node.patterns]
    found: list[object] = []
    for name in ("input", "left", "right"):
        found += objects(getattr(node, name)) if hasattr(node, name) else []
    return found


def test_group_by_on_an_alias_groups_by_its_expression() -> None:
    printed = parse(read(DATA / "paper-queries" / "debs2015-Q1-as-printed.cqels"))
    assert [var.name for var in printed.columns] == ["pE", "pS", "dE", "dS", "freq"]
    normal = """
        PREFIX : <http://debs2015.org/taxi#>
        SELECT ?pE (COUNT(?trip) AS ?freq) WHERE { STREAM <Taxi> [RANGE 30m] { ?trip :pickLat ?pLat } }
        GROUP BY (ROUND(?pLat) AS ?pE) HAVING (?pE > 0 && COUNT(?trip) > 1)"""
    aliased = """
        PREFIX : <http://debs2015.org/taxi#>
        SELECT (ROUND(?pLat) AS ?pE) (COUNT(?trip) AS ?freq) WHERE {
          STREAM <Taxi> [RANGE 30m] { ?trip :pickLat ?pLat } }
        GROUP BY ?pE HAVING (?pE > 0 && ?freq > 1)"""
    assert parse(normal).root == parse(aliased).root


def test_listing_2_has_two_windows_and_the_statement_as_a_triple_term() -> None:
    query = parse(read(DATA / "rspql-queries" / "listing2.rspql"))
    assert query.result.iri == NamedNode("http://localhost/warning/tvs")
    assert (query.result.kind, query.output, query.emission.computed_every_ms) == ("stream", None, 4_000)
    grid = WindowSpec("grid", width_ms=10_000, slide_ms=1_000)
    assert [(w.name.value, w.stream, w.spec) for w in query.windows] == [
        ("http://localhost/w1", NamedNode("http://stream/oxygen"), grid),
        ("http://localhost/w2", NamedNode("http://stream/temperature"), grid),
    ]
    assert isinstance(query.root, Project) and isinstance(query.root.input, Join)
    first = query.root.input.left
    assert (
        isinstance(first, Window) and isinstance(first.input, Graph) and isinstance(first.input.input, Filter)
    )
    bgp = first.input.input.input
    assert isinstance(bgp, Bgp)
    reifies = bgp.patterns[2]
    assert reifies == TriplePattern(
        bgp.patterns[3].subject,
        NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"),
        TripleTerm(Var("o1"), NamedNode("http://www.w3.org/ns/sosa/hasSimpleResult"), Var("oxValue")),
    )


def test_an_aggregate_without_parentheses_equals_the_one_with() -> None:
    pattern = "WHERE { STREAM <s> [NOW] { ?a <p> ?b } } GROUP BY ?a"
    bare = parse(f"SELECT ?a COUNT(DISTINCT ?b) AS ?n {pattern}")
    full = parse(f"SELECT ?a (COUNT(DISTINCT ?b) AS ?n) {pattern}")
    assert bare.root == full.root
    assert isinstance(bare.root, Project) and isinstance(bare.root.input.input, Group)  # type: ignore[union-attr]
