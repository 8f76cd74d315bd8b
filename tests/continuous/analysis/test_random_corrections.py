"""Random texts with the constructs of the list, compared with a second oracle.

Merged graphs: the same text over the union of the graphs as a default graph. Paths: rdflib. Set functions
and sums of dates and durations: plain Python.
"""

from __future__ import annotations

import calendar
import datetime as dt
import random
from collections import Counter
from typing import Any

import pytest
import rdflib

from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query import QueryRequest

E = "http://e/"
PREFIXES = f"PREFIX : <{E}> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
PATHS = [
    ":p|:q",
    "(:p|:q)/:p",
    "^:p|:q",
    ":p*",
    ":q?",
    "(:p|:q)*",
    "(:p|:q|:p)",
    ":p/:q?",
    "^(:p/:q)",
    "(:p|^:q)+",
]


def _store(triples: dict[str, set[str]]) -> QuadStore:
    store = QuadStore.open(None)
    for graph, lines in triples.items():
        inside = " . ".join(sorted(lines))
        store.writer.update(
            f"{PREFIXES} INSERT DATA {{ {f'GRAPH :{graph} {{ {inside} }}' if graph else inside} }}"
        )
    return store


def _answer(store: QuadStore, text: str, **options: Any) -> Counter[tuple[str | None, ...]]:
    merged = bool(options.get("union")) or len(options.get("default_graphs", ())) > 1
    found = corrected_text(PREFIXES + text, "http://localhost/", merged=merged)
    functions: Any = None if found is None else dict(found.functions)
    written = PREFIXES + text if found is None else found.with_base
    _, rows = store.reader.solutions(QueryRequest(written, custom_functions=functions, **options))
    return Counter(tuple(None if term is None else str(term) for term in row) for row in rows)


def _triples(chance: random.Random, count: int) -> set[str]:
    node = lambda: f":s{chance.randrange(5)}"  # noqa: E731
    return {
        f"{node()} :n {chance.randrange(4)}"
        if chance.random() < 0.3
        else f"{node()} :{chance.choice('pq')} {node()}"
        for _ in range(count)
    }


def _pattern(chance: random.Random) -> str:
    ends = [f"?{name}" for name in "abc"] + [":s1", ":s9"]
    parts = []
    for _ in range(chance.randint(1, 3)):
        verb = chance.choice([":p", ":q", *PATHS])
        part = f"{chance.choice(ends)} {verb} {chance.choice(ends)}"
        kind = chance.randrange(9)
        if kind == 0:
            part = f"OPTIONAL {{ {part} }}"
        elif kind == 1:
            part = f"FILTER {chance.choice(['', 'NOT '])}EXISTS {{ {part} }}"
        elif kind == 2:
            part = f"{{ {part} }} UNION {{ ?a :n ?n }}"
        elif kind == 3:
            part = f"MINUS {{ {part} }}"
        elif kind == 4:
            part = "OPTIONAL { ?b :q ?e OPTIONAL { ?e :n ?f } FILTER(?e != ?a || !BOUND(?c)) }"
        elif kind == 5:
            part = f"{part} BIND(STR(?b) AS ?t{chance.randrange(99)})"
        parts.append(part)
    return f"{{ ?a :p ?b . {' . '.join(parts)} }}"


def _head(chance: random.Random) -> str:
    return chance.choice(
        ["SELECT ?a ?b", "SELECT DISTINCT ?a", "SELECT (COUNT(*) AS ?k)", "SELECT (COUNT(?b) AS ?k)"]
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_merged_default_graph_is_a_set(seed: int) -> None:
    chance = random.Random(seed)
    graphs = {f"g{number}": _triples(chance, 8) for number in range(3)}
    together = set().union(*graphs.values())
    apart, merged = _store(graphs), _store({"": together})
    try:
        for _ in range(4):
            text = f"{_head(chance)} {_pattern(chance)}"
            names = " ".join(f"FROM :{name}" for name in graphs)
            clauses = text.replace("{", f"{names} {{", 1)
            expected = _answer(merged, text)
            assert _answer(apart, clauses) == expected, clauses
            assert _answer(apart, text, union=True) == expected, text
    finally:
        apart.close()
        merged.close()


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("?a :p ?b OPTIONAL { ?b :q ?c }", 1),
        ("?a :p ?b OPTIONAL { ?b :q ?c FILTER(?c != ?a) } FILTER EXISTS { ?a :q ?d }", 1),
        ("?a :p ?b BIND(STR(?b) AS ?t) MINUS { ?b :p ?a }", 1),
        ("?a :p ?b BIND(BNODE() AS ?t)", 1),
        ("?a :p ?b BIND(RAND() AS ?t) OPTIONAL { ?b :q ?c }", 2),
        ("{ ?a :p ?b } UNION { ?a :q ?b OPTIONAL { ?b :n ?c } }", 2),
    ],
)
def test_the_patterns_of_a_group_are_made_distinct_together(pattern: str, times: int) -> None:
    """So that a row of one pattern is looked up in the others."""
    found = corrected_text(f"{PREFIXES} SELECT * FROM :g1 FROM :g2 {{ {pattern} }}", "http://localhost/")
    assert found is not None
    assert found.text.count("DISTINCT") == times, found.text


@pytest.mark.always("*0", "*5")
@pytest.mark.parametrize("seed", range(60))
def test_paths_agree_with_rdflib(seed: int) -> None:
    chance = random.Random(seed)
    lines = _triples(chance, 12)
    store, graph = _store({"": lines}), rdflib.Graph()
    graph.parse(data=f"@prefix : <{E}> . " + " . ".join(lines) + " .", format="turtle")
    ends = [":s0", ":s9", "?b"]
    try:
        for _ in range(4):
            # rdflib gives some pairs of `*` and `?` twice.
            path = chance.choice([each for each in PATHS if not {"*", "+", "?"} & set(each)])
            texts = [
                f"SELECT ?a ?b {{ ?a {path} {chance.choice(ends)} }}",
                f"SELECT ?a ?b {{ {chance.choice([':s0', ':s9'])} {path} ?b }}",
                f"SELECT DISTINCT ?b {{ :s9 {chance.choice(PATHS)} ?b }}",
            ]
            for text in texts:
                found = graph.query(PREFIXES + text)
                expected = Counter(
                    tuple(None if each is None else _text(each) for each in row) for row in found
                )  # type: ignore[union-attr]
                assert _answer(store, text) == expected, text
    finally:
        store.close()


@pytest.mark.parametrize("seed", range(20))
def test_set_functions_agree_with_python(seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.choice(["0", "1", "2", "'a'", "<x:y>", "1.5", "'b'@EN"]) for _ in range(8)]
    store = QuadStore.open(None)
    try:
        inside = f"{{ VALUES ?v {{ {' '.join(values)} }} }}"
        numbers = [each for each in values if each[0].isdigit()]
        ((count,),) = _answer(store, f"SELECT (COUNT(?v + 1) AS ?k) {inside}")
        assert count == f'"{len(numbers)}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        ((distinct,),) = _answer(store, f"SELECT (COUNT(DISTINCT ?v / 1) AS ?k) {inside}")
        assert distinct == f'"{len(set(numbers))}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        ((joined,),) = _answer(store, f"SELECT (GROUP_CONCAT(?v; SEPARATOR='|') AS ?k) {inside}")
        assert joined is not None
        plain = [each.removesuffix("@EN").strip("'<>") for each in values]
        assert sorted(joined[1:-1].split("|")) == sorted(plain)
    finally:
        store.close()


def _text(term: Any) -> str:
    text = term.n3()
    return (
        str(text) if text.startswith(("<", '"')) else f'"{text}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    )


def _plus(day: dt.date, months: int, days: int) -> dt.date:
    count = day.year * 12 + day.month - 1 + months
    year, month = count // 12, count % 12 + 1
    return dt.date(year, month, min(day.day, calendar.monthrange(year, month)[1])) + dt.timedelta(days)


def test_sums_of_dates_and_durations_agree_with_python() -> None:
    store = QuadStore.open(None)
    chance = random.Random(7)
    try:
        for _ in range(150):
            day = dt.date(1990, 1, 1) + dt.timedelta(chance.randrange(20_000))
            months, days = chance.choice([(chance.randint(-30, 30), 0), (0, chance.randint(-400, 400))])
            kind = "yearMonthDuration" if months else "dayTimeDuration"
            sign = "-" if months < 0 or days < 0 else ""
            length = f"{sign}P{abs(months)}M" if months else f"{sign}P{abs(days)}D"
            date, duration = f'"{day}"^^xsd:date', f'"{length}"^^xsd:{kind}'
            sums = [f"{date} + {duration}", f"{duration} + {date}", f"{date} - (-({duration}))"]
            for each in [*sums, "?t + ?d", "?d + ?t"]:
                text = f"SELECT ({each} AS ?x) {{ VALUES (?t ?d) {{ ({date} {duration}) }} }}"
                ((found,),) = _answer(store, text)
                assert found == f'"{_plus(day, months, days)}"^^<http://www.w3.org/2001/XMLSchema#date>', text
    finally:
        store.close()
