"""Where a pattern stands never changes its answer: one-shot, static part, window, recomputed.

Each case is a SELECT whose one column is `?x`; the data is the default graph, and one element of a stream.
"""

from __future__ import annotations

from typing import Any

import pytest

from quadrill.continuous.algebra.corrections import CORRECTIONS, may_need
from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.codepoints import without_escapes
from quadrill.store.sparql.query import QueryRequest
from tests.continuous.engines import PREFIX, S, bench, reference_evaluator

XSD = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
DATA = """:a :p :b ; :q :b ; :n 1 , 2 , "x" . :b :p :c . :c :label "x"@en-US , "y"@en , "w" ; :n 4 .
  :e :time "2024-06-01T22:30:00Z"^^xsd:dateTime ; :day "2024-01-31"^^xsd:date ; :clock "23:30:00"^^xsd:time ;
     :month "P1M"^^xsd:yearMonthDuration ; :hour "PT2H"^^xsd:dayTimeDuration ; :both "P1MT1H"^^xsd:duration ;
     :text "abcab" ; :pattern "(a)" , "\\\\i" ; :put "$1x" , "$10" ."""

GROUPS = [
    ("SELECT (GROUP_CONCAT(?n) AS ?x)", "{ :a :n ?n FILTER(isNumeric(?n) && ?n = 1) }", "", ["1"]),
    ("SELECT (GROUP_CONCAT(?n) AS ?x)", "{ ?s :p ?n FILTER(?s = :a) }", "", ["http://example.org/b"]),
    ("SELECT (GROUP_CONCAT(?n; SEPARATOR=',') AS ?x)", "{ :e :day ?n }", "GROUP BY ?s", ["2024-01-31"]),
]
COUNTS = [
    ("SELECT (COUNT(?n + 1) AS ?x)", "{ ?s :n ?n }", "", ["3"]),
    ("SELECT (COUNT(?n / 1) AS ?x)", "{ ?s :n ?n }", "GROUP BY ?s", ["1", "2"]),
    ("SELECT (COUNT(DISTINCT STRLEN(?n)) AS ?x)", "{ ?s :n ?n }", "", ["1"]),
]
MOMENTS = [
    ("?t + ?d", ":time", ":hour", ["2024-06-02T00:30:00Z"]),
    ("?d + ?t", ":time", ":hour", ["2024-06-02T00:30:00Z"]),
    ("?t + ?d", ":day", ":month", ["2024-02-29"]),
    ("?d + ?t", ":day", ":month", ["2024-02-29"]),
    ("?t - ?d", ":day", ":month", ["2023-12-31"]),
    ("?t + ?d", ":time", ":both", ["2024-07-01T23:30:00Z"]),
    ("?t + ?d", ":clock", ":hour", ["01:30:00"]),
    ("?t + ?d", ":clock", ":month", [None]),
    ("?t + ?d + ?d + ?d + ?d", ":day", ":month", ["2024-05-29"]),
    ("HOURS(?t + ?d)", ":time", ":hour", ["0"]),
    ("?d + ?d", ":time", ":hour", ["PT4H"]),
    ("?t + 1", ":time", ":hour", [None]),
]
ZONES = [
    ('ADJUST(?t, "PT2H"^^xsd:dayTimeDuration)', ":time", ["2024-06-02T00:30:00+02:00"]),
    ('ADJUST(?t, "-PT5H30M"^^xsd:dayTimeDuration)', ":time", ["2024-06-01T17:00:00-05:30"]),
    ('ADJUST(?t, "")', ":time", ["2024-06-01T22:30:00"]),
    ('ADJUST(ADJUST(?t, "PT2H"^^xsd:dayTimeDuration), "")', ":time", ["2024-06-02T00:30:00"]),
    ('ADJUST(ADJUST(?t, "PT2H"^^xsd:dayTimeDuration))', ":time", ["2024-06-01T22:30:00Z"]),
    ("ADJUST(ADJUST(?t, ?d))", ":time", ["2024-06-01T22:30:00Z"]),
    ("ADJUST(?t, ?d)", ":time", ["2024-06-02T00:30:00+02:00"]),
    ("ADJUST(?t)", ":day", ["2024-01-31Z"]),
    ("ADJUST(?t, ?d)", ":day", ["2024-01-31+02:00"]),
    ("ADJUST(?t, SUBSTR('x', 2))", ":day", ["2024-01-31"]),
    ("ADJUST('2002-03-07-07:00'^^xsd:date, '-PT10H'^^xsd:dayTimeDuration)", ":day", ["2002-03-06-10:00"]),
    ("ADJUST('2002-03-07-07:00'^^xsd:date, '')", ":day", ["2002-03-07"]),
    ("ADJUST(?t, ?d)", ":clock", ["23:30:00+02:00"]),
    ("ADJUST('23:30:00-01:00'^^xsd:time, ?d)", ":clock", ["02:30:00+02:00"]),
    ("ADJUST('23:30:00-01:00'^^xsd:time, SUBSTR('x', 2))", ":clock", ["23:30:00"]),
    ("ADJUST(?t, 'PT14H1M'^^xsd:dayTimeDuration)", ":time", [None]),
    ("ADJUST(?t, 'PT1H1S'^^xsd:dayTimeDuration)", ":time", [None]),
    ("ADJUST(?t, 'PT1H')", ":time", [None]),
    ("ADJUST(?t, ?unbound)", ":time", [None]),
    ("ADJUST(STR(?t), '')", ":time", [None]),
    ("HOURS(ADJUST(?t, ?d))", ":time", ["0"]),
]
EXPRESSIONS = [
    (r'REPLACE(?t, "(a)", "<$10>")', ":text", ["<a0>bc<a0>b"]),
    (r'REPLACE(?t, "(a)", "$1x")', ":text", ["axbcaxb"]),
    (r'REPLACE(?t, "(a)(b)", "$2T$1")', ":text", ["bTacbTa"]),
    (r'REPLACE(?t, "\\i", "-")', ":text", ["-----"]),
    (r'REGEX(?t, "^\\i\\c*$")', ":text", ["true"]),
    (r'REGEX(?t, "^[\\I\\d]")', ":text", ["false"]),
    (r'REGEX(?t, "\\C")', ":text", ["false"]),
    (r'REPLACE("a", ?t, "b")', ":pattern", ["b", "b"]),
    (r'REGEX("a", ?t)', ":pattern", ["true", "true"]),
    (r'REPLACE("ab", "(a)", ?t)', ":put", ["a0b", "axb"]),
    (r'REPLACE(?t, "(a)", "\\$1")', ":text", ["$1bc$1b"]),
    (r'REPLACE(?t, "a", "\\\\")', ":text", [r"\bc\b"]),
    ('REPLACE(?t, "a", "$x")', ":text", [None]),
    (r'REPLACE(?t, "a", "\\x")', ":text", [None]),
    ('REPLACE(?t, "a", "$1", "q")', ":text", ["$1bc$1b"]),
    (r'REPLACE("ab", "(a)", CONCAT("\\", ?t))', ":put", ["$10b", "$1xb"]),
    ('REPLACE("ab", "a", ?t, SUBSTR("q", 1))', ":put", ["$10b", "$1xb"]),
    ("LANG(?t) = 'en-US'", ":label", ["false", "false", "true"]),
    ("LANG(?t) IN ('EN', 'En-Us')", ":label", ["false", "true", "true"]),
    ("LANG(?t) NOT IN ('EN', 'En-Us')", ":label", ["false", "false", "true"]),
    ("STRSTARTS(LANG(?t), 'EN')", ":label", ["false", "true", "true"]),
    ("LANG(?t) = LANG('x'@EN)", ":label", ["false", "false", "true"]),
    ("?t = 'x'@EN-us", ":label", ["false", "false", "true"]),
    ("SAMETERM(?t, STRLANG('x', 'EN-us'))", ":label", ["false", "false", "true"]),
    ("LANGMATCHES(LANG(?t), 'EN')", ":label", ["false", "true", "true"]),
    ("LANG(?t) = 5", ":label", ["false", "false", "false"]),
    ("COALESCE(LANG(?t), '') = 'en-US'", ":label", ["false", "false", "true"]),
    ("IF(ISLITERAL(?t), LANG(?t), LANG(?s)) IN ('En-Us')", ":label", ["false", "false", "true"]),
    ("REGEX(LANG(?t), '^en-US$')", ":label", ["false", "false", "true"]),
    ("REGEX(LANG(?t), 'N-U', 's')", ":label", ["false", "false", "true"]),
    ("REGEX(STR(LANG(?t)), 'N-U', STR(''))", ":label", ["false", "false", "true"]),
]
TAGGED_VARIABLES = [
    ("{ ?x :label ?t BIND(LANG(?t) AS ?u) BIND(?u AS ?v) FILTER(?v = 'EN-us') }", ["c"]),
    ("{ ?x :label ?t BIND(LANG(?t) AS ?u) VALUES ?u { 'EN-us' } }", ["c"]),
    ("{ VALUES ?u { 'EN-us' } { SELECT ?x (LANG(?t) AS ?u) { ?x :label ?t } } }", ["c"]),
    ("{ VALUES ?u { 'EN-us' } ?x :label ?u }", []),
    # A variable that holds other texts too is compared as it is.
    ("{ { ?s :label ?t BIND(LANG(?t) AS ?x) } UNION { VALUES ?x { 'Bob' } } FILTER(?x = 'Bob') }", ["Bob"]),
    (
        "{ { ?s :label ?t BIND(LANG(?t) AS ?x) } UNION { ?s :put ?x } FILTER(?x = '$1x' || ?x = 'EN') }",
        ["$1x"],
    ),
]
LATERALS = [
    ("{ ?s :q ?z LATERAL { SELECT ?s (COUNT(?n + 1) AS ?x) { ?s :n ?n } GROUP BY ?s } }", ["2"]),
    ("{ ?s :label ?t LATERAL { BIND(STR(?t) AS ?x) FILTER(LANG(?t) = 'EN-us') } }", ["x"]),
    ("{ VALUES ?s { :a } lateral { ?s (:p|:q) ?x } }", ["b", "b"]),
    ("{ VALUES ?x { 'LATERAL { }' } LATERAL { :a (:p|:q) :b } # LATERAL {\n }", ["LATERAL { }"] * 2),
    ("{ :z :p* ?x LATERAL { ?s :q ?w } }", ["z"]),
    ("{ VALUES ?s { 1 2 } LATERAL { :z :p* ?x } }", ["z", "z"]),
    ("{ VALUES ?x { :z :y } LATERAL { :z :p* ?x } }", ["z"]),
    ("{ VALUES ?x { :z :y } LATERAL { ?x :p? :z } }", ["z"]),
    ("{ VALUES ?x { :b :c } LATERAL { :z (:p|:q)? :z } }", ["b", "c"]),
    ("{ VALUES ?x { :z :y } LATERAL { ?s :q ?w LATERAL { :z :p* ?x } } }", ["z"]),
    ("{ LATERAL { :z :p* ?x } }", ["z"]),
    ("{ ?s :day ?t LATERAL { ?e :month ?d BIND(?t + ?d AS ?x) } }", ["2024-02-29"]),
]
PATHS = [
    ("{ :a :p|:q ?x }", ["b", "b"]),
    ("{ ?s (:p|:q)/:p ?x }", ["c", "c"]),
    ("{ :a (:p|:q|^:p) ?x }", ["b", "b"]),
    ("{ :a (:p|:q)+ ?x }", ["b", "c"]),
    ("{ :c ^(:p|:q)/^(:p|:q) ?x }", ["a", "a"]),
    ("{ { SELECT (COUNT(*) AS ?x) { ?s :p|:q ?o } } }", ["3"]),
]
ZERO = [
    ("{ :zz :p* ?x }", ["zz"]),
    ("{ ?x :p? :zz }", ["zz"]),
    ("{ ?x :p* 'lit' }", ["lit"]),
    ("{ :a :p* ?x }", ["a", "b", "c"]),
    ("{ :a :p? ?x }", ["a", "b"]),
    ("{ ?x :p* :b }", ["a", "b"]),
    ("{ :zz (:p*)+ ?x }", ["zz"]),
    ("{ :zz (:p|:q)? ?x }", ["zz"]),
    ("{ :zz :p*|:q ?x }", ["zz"]),
    ("{ ?x :p/:q* :c }", ["b"]),
    ("{ :a :p ?x FILTER EXISTS { :zz :p* :zz } }", ["b"]),
    ("{ :a :p ?x FILTER EXISTS { :zz :p* :yy } }", []),
    ("{ :a :n ?x OPTIONAL { :zz :p* ?z } FILTER(?z = :zz && ?x = 1) }", ["1"]),
]


def _short(value: str | None) -> str | None:
    return None if value is None else value.rpartition("example.org/")[2]


def _one_shot(text: str, data: str) -> list[str | None]:
    store = QuadStore.open(None, StoreOptions(clock_ms=lambda: 0))
    try:
        store.writer.update(PREFIX + XSD + f"INSERT DATA {{ {data} }}")
        whole = PREFIX + XSD + text
        found = corrected_text(whole, "http://localhost/")
        functions: Any = None if found is None else dict(found.functions)
        _, rows = store.reader.solutions(
            QueryRequest(whole if found is None else found.with_base, custom_functions=functions)
        )
        return sorted((None if row[0] is None else row[0].value for row in rows), key=str)  # type: ignore[union-attr]
    finally:
        store.close()


def _continuous(text: str, data: str, *, window: bool, **options: Any) -> list[str | None]:
    with bench(**options) as one:
        if not window:
            one.store.writer.update(PREFIX + XSD + f"INSERT DATA {{ {data} }}")
        one.register("q", XSD + text, output="rstream")
        if window:
            body = PREFIX_TTL + data.replace("GRAPH ", "")
            one.engine.streams.push(PushCall(S, "application/trig", at=1000), body.encode())
        document = one.engine.queries.current_answer("q")
        return sorted(
            (row["x"]["value"] if "x" in row else None for row in document["results"]["bindings"]), key=str
        )


PREFIX_TTL = "@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"


def everywhere(head: str, group: str, tail: str = "", data: str = DATA) -> dict[str, list[str | None]]:
    """The values of ?x, sorted, by the place where the query was evaluated."""
    windowed = f"{head} {{ STREAM :s [ALL] {group} }} {tail}"
    return {
        "one-shot": _one_shot(f"{head} {group} {tail}", data),
        "static part": _continuous(f"{head} {group} {tail}", data, window=False),
        "window": _continuous(windowed, data, window=True),
        "recomputed": _continuous(windowed, data, window=True, make_evaluator=reference_evaluator),
    }


def _check(found: dict[str, list[str | None]], expected: list[Any]) -> None:
    for place, values in found.items():
        assert [_short(each) for each in values] == sorted(map(_short, expected), key=str), place


@pytest.mark.parametrize(("head", "group", "tail", "expected"), GROUPS)
def test_group_concat(head: str, group: str, tail: str, expected: list[str]) -> None:
    _check(everywhere(head, group, tail), expected)


@pytest.mark.parametrize(("head", "group", "tail", "expected"), COUNTS)
def test_count_of_expressions(head: str, group: str, tail: str, expected: list[str]) -> None:
    _check(everywhere(head, group, tail), expected)


@pytest.mark.parametrize(("expression", "moment", "duration", "expected"), MOMENTS)
def test_moments_and_durations(
    expression: str, moment: str, duration: str, expected: list[str | None]
) -> None:
    group = f"{{ :e {moment} ?t ; {duration} ?d BIND({expression} AS ?x) }}"
    _check(everywhere("SELECT ?x", group), expected)


@pytest.mark.parametrize(("expression", "moment", "expected"), ZONES)
def test_time_zones(expression: str, moment: str, expected: list[str | None]) -> None:
    group = f"{{ :e {moment} ?t ; :hour ?d BIND({expression} AS ?x) }}"
    _check(everywhere("SELECT ?x", group), expected)


@pytest.mark.parametrize(("expression", "predicate", "expected"), EXPRESSIONS[:17])
def test_regular_expressions(expression: str, predicate: str, expected: list[str]) -> None:
    _check(everywhere("SELECT ?x", f"{{ ?s {predicate} ?t BIND({expression} AS ?x) }}"), expected)


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


@pytest.mark.parametrize(
    ("datatype", "expected"),
    [
        (f"<{RDF}langString>", None),
        (f"<{RDF}dirLangString>", None),
        (f'IRI(CONCAT("{RDF}", "langString", SUBSTR(?t, 1, 0)))', None),
        (f'IRI(CONCAT("{RDF}", "HTML", SUBSTR(?t, 1, 0)))', "z"),
        ("<urn:t>", "z"),
    ],
)
def test_datatypes_of_language_strings(datatype: str, expected: str | None) -> None:
    group = f'{{ :e :text ?t BIND(STR(STRDT("z", {datatype})) AS ?x) }}'
    _check(everywhere("SELECT ?x", group), [expected])


@pytest.mark.parametrize(("expression", "predicate", "expected"), EXPRESSIONS[17:])
def test_language_tags(expression: str, predicate: str, expected: list[str]) -> None:
    _check(everywhere("SELECT ?x", f"{{ ?s {predicate} ?t BIND({expression} AS ?x) }}"), expected)


@pytest.mark.parametrize(("group", "expected"), LATERALS)
def test_lateral(group: str, expected: list[str]) -> None:
    """No continuous query has LATERAL."""
    assert corrected_text(f"{PREFIX}SELECT ?x {group}", "http://localhost/") is not None
    assert [_short(each) for each in _one_shot(f"SELECT ?x {group}", DATA)] == sorted(expected)


@pytest.mark.parametrize(("group", "expected"), TAGGED_VARIABLES)
def test_variables_of_language_tags(group: str, expected: list[str]) -> None:
    _check(everywhere("SELECT ?x", group), expected)


@pytest.mark.parametrize(("group", "expected"), PATHS)
def test_alternative_paths(group: str, expected: list[str]) -> None:
    _check(everywhere("SELECT ?x", group), expected)


@pytest.mark.parametrize(("group", "expected"), ZERO)
def test_paths_of_length_zero(group: str, expected: list[str]) -> None:
    _check(everywhere("SELECT ?x", group), expected)


NAMED = """GRAPH :g1 { :r1 :cap 2 . :k :p :k2 } GRAPH :g2 { :r1 :cap 2 . :r2 :cap 3 ; :in :g2 . :k :p :k2 }"""
SCOPES = [
    ("SELECT (?g AS ?x)", "{ GRAPH ?g { ?s :cap ?o FILTER(!BOUND(?g)) } }", ["g1", "g2", "g2"]),
    ("SELECT ?x", "{ GRAPH ?g { ?s :cap 3 BIND(COALESCE(?g, 'no') AS ?x) } }", ["no"]),
    ("SELECT (?g AS ?x)", "{ GRAPH ?g { ?s :cap ?o } FILTER(?g = :g1) }", ["g1"]),
    (
        "SELECT (?g AS ?x)",
        "{ GRAPH ?g { ?s :cap 3 FILTER EXISTS { ?s :cap ?o FILTER(!BOUND(?g)) } } }",
        ["g2"],
    ),
    ("SELECT (?g AS ?x)", "{ GRAPH ?g { ?s :in ?g } }", ["g2"]),
    (
        "SELECT ?x",
        "{ GRAPH ?g { ?s :cap ?x OPTIONAL { ?s :in ?n FILTER(BOUND(?g)) } FILTER(BOUND(?n)) } }",
        [],
    ),
    ("SELECT (?g AS ?x)", "{ GRAPH ?g { { ?s :cap 3 FILTER(!BOUND(?g)) } } }", ["g2"]),
    ("SELECT (COUNT(*) AS ?x)", "{ GRAPH ?g { ?s :cap 2 FILTER(!BOUND(?g)) } }", ["2"]),
    ("SELECT (?g AS ?x)", "{ GRAPH ?g { ?s :cap ?o MINUS { ?g :in ?n } } }", ["g1", "g2", "g2"]),
    ("SELECT (?g AS ?x)", "{ GRAPH ?g { ?s :cap ?o MINUS { :r2 :in ?n } } }", ["g1", "g2", "g2"]),
    ("SELECT (?o AS ?x)", "{ GRAPH ?g { ?s :cap ?o MINUS { ?s :in ?g } } }", ["2", "2"]),
    (
        "SELECT (?o AS ?x)",
        "{ GRAPH ?g { ?s :cap ?o OPTIONAL { ?s :in ?n } MINUS { ?k :in ?n FILTER(!BOUND(?s)) } } }",
        ["2", "2"],
    ),
    (
        "SELECT (?g AS ?x)",
        "{ GRAPH ?g { :k :p ?o FILTER EXISTS { ?s :cap 3 MINUS { ?t :cap 2 } } } }",
        ["g2"],
    ),
]


@pytest.mark.parametrize(("head", "group", "expected"), SCOPES)
def test_graph_variables(head: str, group: str, expected: list[str]) -> None:
    assert [_short(each) for each in _one_shot(f"{head} {group}", NAMED)] == expected
    assert [_short(each) for each in _continuous(f"{head} {group}", NAMED, window=False)] == expected
    windowed = f"{head} {{ STREAM :s [ALL] {group} }}"
    for options in ({}, {"make_evaluator": reference_evaluator}):
        found = _continuous(windowed, NAMED, window=True, **options)
        assert [_short(each) for each in found] == expected


def test_a_filter_in_a_continuous_query_sees_what_a_pattern_outside_binds() -> None:
    # docs/semantics.md, section 5; one-shot SPARQL has no such rule.
    text = "SELECT (?g AS ?x) { ?s :in ?g GRAPH ?g { ?s :cap 3 FILTER(?g = :g2) } }"
    data = f"{NAMED} :r2 :in :g2 ."
    assert _continuous(text, data, window=False) == ["http://example.org/g2"]
    assert _one_shot(text, data) == []


MERGED = "FROM :g1 FROM :g2"
SETS = [
    ("SELECT (COUNT(*) AS ?x)", "{ :r1 :cap ?c }", ["1"]),
    ("SELECT (SUM(?c) AS ?x)", "{ ?s :cap ?c }", ["5"]),
    ("SELECT (?s AS ?x)", "{ ?s :cap ?c OPTIONAL { ?s :in ?g } FILTER EXISTS { ?s :cap 2 } }", ["r1"]),
    ("SELECT ?x", "{ :k :p|:p ?x }", ["k2", "k2"]),
    ("SELECT ?x", "{ :k :p/^:p ?x }", ["k"]),
    ("SELECT ?x", "{ :k !:q ?x }", ["k2"]),
    ("SELECT ?x", "{ ?x !^:q :k }", ["k2"]),
    ("SELECT (COUNT(*) AS ?x)", "{ [] :cap [] }", ["2"]),
    ("SELECT (COUNT(*) AS ?x)", "{ :r1 :cap 2 }", ["1"]),
    ("SELECT ?x", "{ ?x :cap ?c MINUS { ?x :cap 3 } }", ["r1"]),
    ("SELECT ?x", "{ { SELECT ?x { ?x :cap ?c } ORDER BY DESC(?c) LIMIT 2 } }", ["r1", "r2"]),
    ("SELECT (COUNT(*) AS ?x)", "{ { ?s :cap 2 } UNION { ?s :p :k2 } GRAPH ?g { ?s ?p ?o } }", ["4"]),
]


@pytest.mark.parametrize(("head", "group", "expected"), SETS)
def test_merged_graphs(head: str, group: str, expected: list[str]) -> None:
    named = "FROM NAMED :g1 FROM NAMED :g2"
    text = f"{head} {MERGED} {named} {group}"
    assert [_short(each) for each in _one_shot(text, NAMED)] == expected
    assert [_short(each) for each in _continuous(text, NAMED, window=False)] == expected


def test_each_correction_names_a_test_that_is_here() -> None:
    assert all(each.test in globals() for each in CORRECTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s ?p ?o }",
        "SELECT DISTINCT * { ?s ?p ?o } ORDER BY ?s LIMIT 3",
        "SELECT (COUNT(*) AS ?n) (COUNT(?s) AS ?m) (COUNT(DISTINCT ?s) AS ?k) { ?s ?p ?o }",
        "SELECT ?s { ?s :p/:q ?o FILTER(?o > 1 || ?o * 2 < 3) }",
        "SELECT ?s ?g { GRAPH <http://e/g> { ?s :p ?o } }",
        "SELECT ?s FROM <http://e/g> { ?s :p -1 , +2 FILTER(?s = 1 - 2) }",
        "SELECT ?s { ?s :p ?o FILTER(LANGMATCHES(?o, 'en')) }",
    ],
)
def test_a_plain_text_has_no_mark(text: str) -> None:
    assert not may_need(text)
    assert corrected_text(f"PREFIX : <http://e/> {text}", "http://localhost/") is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?s ?g { GRAPH ?g { ?s :p ?o } FILTER(?g != :x) }",
        "SELECT ?s { ?s :p+ ?o FILTER(?o + 1 > 2) }",
        "SELECT ?s { ?s :p* ?o FILTER(LANG(?o) = 'en') }",
        "SELECT ?s { ?s :p ?o FILTER REGEX(?o, '^a') BIND(REPLACE(?o, 'a', 'b') AS ?x) }",
        r"SELECT ?s { ?s :p ?o FILTER REGEX(?o, '\\d+', 'i') }",
        "SELECT (GROUP_CONCAT(STR(?o)) AS ?n) { ?s :p ?o }",
    ],
)
def test_a_text_whose_algebra_needs_none_stays(text: str) -> None:
    assert corrected_text(f"PREFIX : <http://e/> {text}", "http://localhost/") is None


def test_back_references_are_refused() -> None:
    for call in (r'REGEX(?o, "(a)\\1")', r'REPLACE(?o, "(a)\\1", "b")'):
        text = f"SELECT ?s {{ ?s ?p ?o FILTER({call} = 1) }}"
        with pytest.raises(UnsupportedError) as refused:
            corrected_text(text, "http://localhost/")
        assert refused.value.details["column"] == text.index(call) + 1
        with pytest.raises(UnsupportedError):
            _continuous(text, "", window=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"SELECT (:e\u0078ample AS ?x) {}", "SELECT (:example      AS ?x) {}"),
        (r"\u0053ELECT ?\U00000061\u0062{}", "SELECT      ?ab              {}"),
        (r'SELECT ("\u0041" AS ?x) { <a\u0041> ?p """\u0041""" } # \u0041', None),
        (r"SELECT :a\ud800 \U00110000 {}", None),
        ("SELECT * { ?s ?p ?o }", None),
    ],
)
def test_code_point_escapes_are_replaced_outside_of_strings(text: str, expected: str | None) -> None:
    found = without_escapes(text)
    assert found == (text if expected is None else expected)
    assert len(found) == len(text)
