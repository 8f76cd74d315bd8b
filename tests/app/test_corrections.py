"""What Oxigraph evaluates otherwise than SPARQL is right over HTTP: in queries, updates and workers."""

from __future__ import annotations

import pytest

from tests.app.conftest import LiveServer, Start

PREFIXES = "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
DATA = """INSERT DATA {
  :a :p :b ; :q :b . :b :p :c . :c :label "x"@en-US , "y"@en , "z"@de , "w" .
  GRAPH :g1 { :r1 :cap 2 . :r1 :near _:n . :k :p :k2 }
  GRAPH :g2 { :r1 :cap 2 . :r2 :cap 3 . :k :p :k2 } }"""


@pytest.fixture
def filled(server: LiveServer) -> LiveServer:
    assert server.update(PREFIXES + DATA).status_code == 204
    return server


def rows(server: LiveServer, text: str, **parameters: object) -> list[tuple[str | None, ...]]:
    answer = server.query(PREFIXES + text, **parameters)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    if "boolean" in found:
        return [(str(found["boolean"]).lower(),)]
    names = found["head"]["vars"]
    return sorted(
        (
            tuple(row[name]["value"] if name in row else None for name in names)
            for row in found["results"]["bindings"]
        ),
        key=str,
    )


CASES = [
    ("SELECT (GROUP_CONCAT(?o) AS ?m) { VALUES ?o { 1 2 } }", [("1 2",)]),
    (
        "SELECT (GROUP_CONCAT(DISTINCT ?o; SEPARATOR=',') AS ?m) { VALUES ?o { <http://x> 1.5 1.5 } }",
        [("http://x,1.5",)],
    ),
    (
        'SELECT ?s (COUNT(?o+1) AS ?n) { VALUES (?s ?o) { (:g 1) (:g "x") (:g 3) (:h 1) } } GROUP BY ?s',
        [("http://e/g", "2"), ("http://e/h", "1")],
    ),
    ('SELECT (COUNT(DISTINCT ?o+1) AS ?n) { VALUES ?o { 1 1.0 "x" } }', [("2",)]),
    (
        "SELECT ?s { VALUES (?s ?o) { (:g 1) (:g 2) (:h 1) } } GROUP BY ?s HAVING (COUNT(?o/1) > 1)",
        [("http://e/g",)],
    ),
    (
        'SELECT ("2024-01-15T00:00:00Z"^^xsd:dateTime + "P1M"^^xsd:yearMonthDuration AS ?a) '
        '("2024-01-15"^^xsd:date + "P1M"^^xsd:yearMonthDuration AS ?b) '
        '("2024-01-15"^^xsd:date - "P1M"^^xsd:yearMonthDuration AS ?c) {}',
        [("2024-02-15T00:00:00Z", "2024-02-15", "2023-12-15")],
    ),
    ('SELECT ("P1M"^^xsd:yearMonthDuration + "2024-01-31"^^xsd:date AS ?a) {}', [("2024-02-29",)]),
    (
        'SELECT (?t + ?d AS ?a) { VALUES (?t ?d) { ("23:30:00"^^xsd:time "PT1H"^^xsd:dayTimeDuration) } }',
        [("00:30:00",)],
    ),
    (
        "SELECT (?d + ?t + ?d + ?d + ?d AS ?a) { VALUES (?t ?d) { "
        '("2024-01-01"^^xsd:date "P1D"^^xsd:dayTimeDuration) (1 2) } }',
        [("2024-01-05",), ("9",)],
    ),
    (
        'SELECT (REPLACE("abc","(a)","<$10>") AS ?x) (REPLACE("abc","(a)","$1x") AS ?y) '
        '(REPLACE("abc","(a)(b)","$2T$1") AS ?z) {}',
        [("<a0>bc", "axbc", "bTac")],
    ),
    (
        r'SELECT (REPLACE("abc",?p,?r) AS ?x) { VALUES (?p ?r) { ("(a)" "$1x") ("\\i" "-") } }',
        [("---",), ("axbc",)],
    ),
    (
        r'SELECT (REGEX("ab","^\\i\\c$") AS ?x) (REGEX("1b","^\\i") AS ?y) '
        r'(REGEX("1b","^\\I[\\c]+$") AS ?z) {}',
        [("true", "false", "true")],
    ),
    (r'SELECT (REGEX("a1",?p) AS ?x) { VALUES ?p { "^\\i\\c$" "^\\d" } }', [("false",), ("true",)]),
    (r"SELECT (:e\u0078ample AS ?\u0078) {}", [("http://e/example",)]),
    (r"S\u0045LECT * { ?s :\U00000063ap 1 }", []),
    ("SELECT ?l { ?s :label ?l FILTER(LANG(?l) = 'en-US') }", [("x",)]),
    ("SELECT ?l { ?s :label ?l FILTER(LANG(?l) IN ('EN', 'DE')) }", [("y",), ("z",)]),
    ("SELECT ?l { VALUES ?t { 'EN-us' } ?s :label ?l BIND(LANG(?l) AS ?g) FILTER(?g = ?t) }", [("x",)]),
    ("SELECT ?l { ?s :label ?l FILTER(LANG(?l) != 'EN' && LANG(?l) != '') }", [("x",), ("z",)]),
    (
        "SELECT ?g { GRAPH ?g { ?s :cap ?o FILTER(!BOUND(?g)) } }",
        [("http://e/g1",), ("http://e/g2",), ("http://e/g2",)],
    ),
    ("SELECT ?g ?h { GRAPH ?g { ?s :cap 3 BIND(COALESCE(?g, 'no') AS ?h) } }", [("http://e/g2", "no")]),
    ("SELECT ?g { GRAPH ?g { ?s :cap ?o } FILTER(?g = :g1) }", [("http://e/g1",)]),
    (
        "SELECT ?g { GRAPH ?g { :k :p ?o MINUS { :k :p :k2 . ?x :q ?g } } }",
        [("http://e/g1",), ("http://e/g2",)],
    ),
    (
        "SELECT ?g { GRAPH ?g { ?s :cap 3 FILTER EXISTS { ?s :cap ?o FILTER(!BOUND(?g)) } } }",
        [("http://e/g2",)],
    ),
    ("SELECT ?o { :a (:p|:q) ?o }", [("http://e/b",), ("http://e/b",)]),
    ("SELECT ?o { :a (:p|:q)/:p ?o }", [("http://e/c",), ("http://e/c",)]),
    ("SELECT ?o { :a (:p|:q)+ ?o }", [("http://e/b",), ("http://e/c",)]),
    ("SELECT ?o { ?o ^(:p|:q) :a }", [("http://e/b",), ("http://e/b",)]),
    ("SELECT ?o { :zz :p* ?o }", [("http://e/zz",)]),
    ("SELECT ?o { ?o :p? :zz }", [("http://e/zz",)]),
    ("SELECT ?o { :a :p* ?o }", [("http://e/a",), ("http://e/b",), ("http://e/c",)]),
    ("SELECT ?o { :zz (:p*)+ ?o }", [("http://e/zz",)]),
    ("SELECT ?o { :zz (:p*|:q) ?o }", [("http://e/zz",)]),
    ("SELECT ?o { ?o :p? 7 }", [("7",)]),
    ("ASK { :zz :p* :zz }", [("true",)]),
    ("ASK { :zz :p* :yy }", [("false",)]),
    (
        "SELECT ?g ?o { GRAPH ?g { :zz :p* ?o } }",
        [("http://e/g1", "http://e/zz"), ("http://e/g2", "http://e/zz")],
    ),
    (
        "SELECT ?g ?o { GRAPH ?g { :k :p* ?o } }",
        [(f"http://e/g{n}", f"http://e/{o}") for n in (1, 2) for o in ("k", "k2")],
    ),
    ("SELECT ?o { GRAPH :missing { :zz :p* ?o } }", []),
    ("SELECT (COUNT(*) AS ?n) (SUM(?c) AS ?s) FROM :g1 FROM :g2 { :r1 :cap ?c }", [("1", "2")]),
    ("SELECT (COUNT(*) AS ?n) (SUM(?c) AS ?s) FROM :g1 FROM :g1 { :r1 :cap ?c }", [("1", "2")]),
    ("SELECT ?g ?c FROM NAMED :g1 FROM NAMED :g1 { GRAPH ?g { :r1 :cap ?c } }", [("http://e/g1", "2")]),
    (
        "SELECT ?s ?c ?n FROM :g1 FROM :g2 { ?s :cap ?c OPTIONAL { ?s :near ?n FILTER(isBlank(?n)) } "
        "FILTER EXISTS { ?s :cap ?c } } ORDER BY ?s",
        None,
    ),
    ("SELECT ?x ?y FROM :g1 FROM :g2 { ?x :p/^:p ?y }", [("http://e/k", "http://e/k")]),
    ("SELECT ?x ?y FROM :g1 FROM :g2 { ?x !:zz ?y FILTER(?x = :k) }", [("http://e/k", "http://e/k2")]),
    (
        "SELECT ?x ?y FROM :g1 FROM :g2 { ?x (:p|:q)* ?y FILTER(?x = :k) }",
        [("http://e/k", "http://e/k"), ("http://e/k", "http://e/k2")],
    ),
    ("SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 { [] :cap [] }", [("2",)]),
    ("SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 { :r1 :cap 2 }", [("1",)]),
    ("SELECT ?x FROM :g1 FROM :g2 { { SELECT ?x { ?x :cap ?y } } }", [("http://e/r1",), ("http://e/r2",)]),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_queries_over_http(
    filled: LiveServer, text: str, expected: list[tuple[str | None, ...]] | None
) -> None:
    found = rows(filled, text)
    if expected is None:
        assert len(found) == len({row[0] for row in found}) == 2
    else:
        assert found == expected


def test_a_back_reference_is_unsupported(server: LiveServer) -> None:
    for text in (r'ASK { FILTER(REGEX("aa", "(a)\\1")) }', r'SELECT (REPLACE("aa", "(a)\\1", "b") AS ?x) {}'):
        answer = server.query(text)
        assert answer.status_code == 501
        assert answer.json()["code"] == "unsupported"
    assert rows(server, r'ASK { FILTER(REGEX("\\1", "\\1", "q")) }') == [("true",)]


MERGED = "SELECT (COUNT(*) AS ?n) (SUM(?c) AS ?s) { :r1 :cap ?c }"


@pytest.mark.parametrize(
    "parameters",
    [
        {"default-graph-uri": ["http://e/g1", "http://e/g2"]},
        {"default-graph-uri": ["http://e/g1", "http://e/g1"]},
        {"union-default-graph": "true"},
    ],
)
def test_graphs_of_the_request_are_merged(filled: LiveServer, parameters: dict[str, object]) -> None:
    assert rows(filled, MERGED, **parameters) == [("1", "2")]
    joined = "SELECT (COUNT(*) AS ?n) { ?x :cap ?c OPTIONAL { ?x :near ?y } FILTER NOT EXISTS { ?x :cap 3 } }"
    assert rows(filled, joined, **parameters) == [("1",)]
    assert rows(filled, "SELECT ?x { ?x :p|:p :k2 }", **parameters) == [("http://e/k",)] * 2
    # Blank nodes are the same in all graphs.
    assert rows(filled, "ASK { ?x :near ?y . ?x :cap 2 FILTER(isBlank(?y)) }", **parameters) == [("true",)]


def test_a_named_graph_of_the_request_may_be_given_twice(filled: LiveServer) -> None:
    found = rows(
        filled, "SELECT ?g { GRAPH ?g { ?x :cap 3 } }", **{"named-graph-uri": ["http://e/g2", "http://e/g2"]}
    )
    assert found == [("http://e/g2",)]


SUM = "{ SELECT (SUM(?c) AS ?t) (COUNT(*) AS ?n) { :r1 :cap ?c } }"


@pytest.mark.parametrize(
    "before", ["", "INSERT DATA { :other :p 1 } ; ", "INSERT DATA { GRAPH :g1 { :other :cap 1 } } ; "]
)
@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("INSERT { :r :t ?t ; :n ?n } USING :g1 USING :g2 WHERE", {}),
        ("INSERT { :r :t ?t ; :n ?n } USING :g1 USING :g1 WHERE", {}),
        ("INSERT { :r :t ?t ; :n ?n } WHERE", {"using-graph-uri": ["http://e/g1", "http://e/g2"]}),
        ("INSERT { :r :t ?t ; :n ?n } WHERE", {"using-graph-uri": ["http://e/g1", "http://e/g1"]}),
    ],
)
def test_an_update_stores_the_sum_over_a_set(
    filled: LiveServer, text: str, parameters: dict[str, object], before: str
) -> None:
    answer = filled.update(f"{PREFIXES} {before} {text} {SUM}", **parameters)
    assert answer.status_code == 204, answer.text
    assert rows(filled, "SELECT ?t ?n { :r :t ?t ; :n ?n }") == [("2", "1")]


UPDATED = [
    (r'{ BIND(REPLACE("abc", "(a)", "$1x") AS ?v) }', ["axbc"]),
    (r'{ BIND(REPLACE("abc", "b", "\\$1") AS ?v) }', ["a$1c"]),
    ("{ SELECT (GROUP_CONCAT(?o) AS ?v) { VALUES ?o { 1 2 } } }", ["1 2"]),
    ("{ SELECT (COUNT(?o + 1) AS ?v) { VALUES ?o { 1 'x' 2 } } }", ["2"]),
    ('{ BIND("2024-01-15"^^xsd:date + "P1M"^^xsd:yearMonthDuration AS ?v) }', ["2024-02-15"]),
    ("{ :zz :p* ?v }", ["http://e/zz"]),
    ("{ GRAPH ?g { ?s :cap 3 FILTER(!BOUND(?g)) } BIND(?g AS ?v) }", ["http://e/g2"]),
    ("{ ?s :label ?l FILTER(LANG(?l) = 'en-US') BIND(STR(?l) AS ?v) }", ["x"]),
    ("{ SELECT (COUNT(*) AS ?v) { :a :p|:q ?o } }", ["2"]),
    (r"{ BIND(:\u0076 AS ?v) }", ["http://e/v"]),
]


@pytest.mark.parametrize("before", ["", "INSERT DATA { :other :p 1 } ; "])
@pytest.mark.parametrize(("where", "expected"), UPDATED)
def test_updates_over_http(filled: LiveServer, where: str, expected: list[str], before: str) -> None:
    answer = filled.update(f"{PREFIXES} {before} INSERT {{ :new :value ?v }} WHERE {where}")
    assert answer.status_code == 204, answer.text
    assert rows(filled, "SELECT ?v { :new :value ?v }") == [(each,) for each in expected]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT (GROUP_CONCAT(?o) AS ?m)\n{ ?s ?p ?o FILTER(?o = missing:x) }", 2, 24),
        ("SELECT ?g { GRAPH ?g { ?s ?p ?o FILTER(?g = 1) }\n ?x ?y }", 2, 8),
        ("SELECT (<http://e/a\\u0062> AS ?\\u0078\\u0079)\n{ ?x ?y }", 2, 9),
    ],
)
def test_errors_keep_their_place(server: LiveServer, text: str, line: int, column: int) -> None:
    answer = server.query(text)
    assert answer.status_code == 400
    assert (answer.json()["line"], answer.json()["column"]) == (line, column)


def test_a_worker_corrects_as_the_server_does(start_server: Start) -> None:
    server = start_server(workers=1)
    numbers = " ".join(f":s{each} :n {each} ." for each in range(3_000))
    assert (
        server.update(f"{PREFIXES} INSERT DATA {{ {numbers} GRAPH :g1 {{ {numbers} }} }}").status_code == 204
    )
    heavy = "{ SELECT ?a { ?a :n ?x . ?b :n ?y FILTER(?x = 1 && ?y = 2) } }"
    found = rows(
        server,
        "SELECT ?a (COUNT(?c + 1) AS ?n) (GROUP_CONCAT(?c) AS ?t) "
        f"{{ {heavy} VALUES ?c {{ 1 2 <x:y> }} }} GROUP BY ?a",
    )
    assert [(row[0], row[1]) for row in found] == [("http://e/s1", "2")]
    assert rows(server, f"SELECT ?a {heavy}", **{"union-default-graph": "true"}) == [("http://e/s1",)]
    median = (
        "SELECT (<urn:quadrill:aggregate:median>(?x) AS ?m) (COUNT(*) AS ?k) "
        "{ { SELECT ?x { ?a :n ?x . ?b :n ?y FILTER(?x < 3 && ?y = 2) } } }"
    )
    assert rows(server, median, **{"union-default-graph": "true"}) == [("1", "3")]
