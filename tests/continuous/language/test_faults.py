# ruff: noqa: E501  # tables of query texts, one a line
"""Errors for people: each known slip has its place, its words and its hint."""

from __future__ import annotations

from typing import Any

import pytest

from quadrill.continuous.language import parse
from quadrill.continuous.language.mistakes import SLIPS
from quadrill.continuous.language.parser import grammar_of
from quadrill.store.errors import QueryTextError


def faults(text: str, dialect: Any = None, **options: Any) -> list[dict[str, Any]]:
    with pytest.raises(QueryTextError) as caught:
        parse(text, dialect=dialect, **options)
    error = caught.value
    assert error.faults
    first = error.faults[0]
    assert (error.line, error.column, error.excerpt, error.hint) == (
        first["line"], first["column"], first["excerpt"], first["hint"],
    )  # fmt: skip
    assert error.message.startswith(f"line {error.line}, column {error.column}: ")
    return list(error.faults)


def fault(text: str, dialect: Any = None, **options: Any) -> dict[str, Any]:
    """The only fault of a text in which ▲ marks the place where it should be told."""
    at = text.index("▲")
    text = text.replace("▲", "")
    found = faults(text, dialect, **options)
    assert len(found) == 1, [each["message"] for each in found]
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    assert (found[0]["line"], found[0]["column"]) == (line, column), found[0]["excerpt"]
    return found[0]


SLIPS_OF_PEOPLE = {
    "byte-order-mark": ("cqels", "▲\ufeffSELECT * { STREAM <s> [NOW] { ?x ?p ?o } }", "U+FEFF is no white space", "remove it"),
    "space-of-a-web-page": ("cqels", "SELECT▲\u00a0* { STREAM <s> [NOW] { ?x ?p ?o } }", "U+00A0 is no white space", "plain space"),
    "name-without-colon": (
        "rspql", "REGISTER RSTREAM ▲out AS SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1H] { WINDOW <w> { ?r ?p ?o } }",
        'unexpected "out"', "prefix:out",
    ),
    "aggregate-without-parentheses": (
        "sparql", "SELECT ?x ▲COUNT(?y) AS ?n WHERE { ?x <p> ?y } GROUP BY ?x",
        "an aggregate in SELECT needs parentheses", "(COUNT(?x) AS ?n)",
    ),
    "aggregate-without-parentheses-rspql": (
        "rspql", "SELECT ▲COUNT(?r) as ?n FROM NAMED WINDOW <w> ON <s> [RANGE PT1H] { WINDOW <w> { ?r ?p ?o } }",
        "an aggregate in SELECT needs parentheses", "(COUNT(?x) AS ?n)",
    ),
    "median-without-parentheses": (
        "rspql", "SELECT ?a ▲MEDIAN(?x) AS ?n { }", "an aggregate in SELECT needs parentheses", "(MEDIAN(?x) AS ?n)",
    ),
    "aggregate-without-name": (
        "cqels", "SELECT COUNT(?x) ▲WHERE { STREAM <s> [NOW] { ?x ?p ?o } }", "needs a name", "COUNT(?x) AS ?n",
    ),
    "expression-without-name": ("sparql", "SELECT (?x + 1▲) { ?x ?p ?o }", "needs a name", "(expression AS ?name)"),
    "commas-in-select": ("sparql", "SELECT ?x▲, ?y { ?x ?p ?y }", 'unexpected ","', "without commas"),
    "typographic-quotes": (
        "cqels", "SELECT ?x {\n  STREAM <s> [NOW] { ?x ?p ?o }\n  ?x <name> ▲“Axel” .\n}",
        "typographic quote “", "straight quotes",
    ),
    "typographic-quote-in-a-name": ("sparql", "PREFIX f: <x:> SELECT ?x { ?x f:name▲“Axel” ?y }", "“", "straight quotes"),
    "missing-question-mark": (
        "cqels", "SELECT ?loc2 { STREAM <s> [NOW] { ?a <at> ?loc2 } GRAPH <g> { ▲loc2 <connected> ?b } }",
        '"loc2" is neither a keyword nor a variable', "?loc2",
    ),
    "bare-word": ("sparql", "SELECT ?x { ?x ▲knows ?y }", 'unexpected "knows"', "?knows"),
    "missing-dot": ("sparql", "SELECT * { ?a <p> ?b\n▲?c <q> ?d }", "two triples need a dot", "dot"),
    "missing-object": ("sparql", "SELECT * { ?a <p> ▲. ?c <q> ?d }", "has no object", "subject predicate object"),
    "missing-predicate": ("sparql", "SELECT * { ?a ▲. ?c <q> ?d }", "no predicate", "subject predicate object"),
    "words-for-a-duration": (
        "rspql", "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE ▲30 seconds STEP PT1S] { WINDOW <w> { ?a ?b ?c } }",
        "xsd:duration", "PT30S",
    ),
    "unknown-unit": ("cqels", "SELECT * { STREAM <s> [RANGE 3 ▲parsecs] { ?a ?b ?c } }", 'unexpected "parsecs"', None),
    "from-stream-in-rspql": (
        "rspql", "SELECT * FROM ▲STREAM <s> [RANGE PT1S] { ?a ?b ?c }", "FROM STREAM is C-SPARQL", "FROM NAMED WINDOW",
    ),
    "from-stream-in-cqels": ("cqels", "SELECT * FROM ▲STREAM <s> [RANGE 1s] { ?a ?b ?c }", "C-SPARQL", "STREAM <stream>"),
    "from-window-in-cqels": (
        "cqels", "SELECT * FROM NAMED ▲WINDOW <w> ON <s> [RANGE 1s] { ?a ?b ?c }", "unexpected", "STREAM <stream>",
    ),
    "stream-block-in-rspql": (
        "rspql", "SELECT * { ?a <p> ?b . ▲STREAM <s> [NOW] { ?a ?b ?c } }", "STREAM blocks are CQELS-QL", "WINDOW <w>",
    ),
    "stream-block-in-sparql": ("sparql", "SELECT * { ▲STREAM <s> [NOW] { ?a ?b ?c } }", "unexpected", "POST /queries"),
    "window-block-in-cqels": ("cqels", "SELECT * { ▲WINDOW <w> { ?a ?b ?c } }", "unexpected", "STREAM <stream>"),
    "register-in-cqels": ("cqels", "▲REGISTER STREAM <x> AS SELECT * { }", "unexpected", "POST /queries?name="),
    "stream-outside-where": (
        "cqels", "SELECT ?x ▲STREAM <s> [NOW] { ?x ?p ?o }", "only where a graph pattern can", "braces of WHERE",
    ),
    "stream-in-a-filter": (
        "cqels", "SELECT ?x { FILTER(▲STREAM <s> [NOW] { ?x ?p ?o }) }", "only where a graph pattern can", "braces",
    ),
    "stream-in-a-template": (
        "cqels", "CONSTRUCT { ▲STREAM <s> [NOW] { ?a ?b ?c } } WHERE { }", "only where a graph pattern can", "braces",
    ),
    "stream-in-graph": (
        "cqels", "SELECT * { GRAPH <g> { ▲STREAM <s> [NOW] { ?a ?b ?c } } }", "STREAM cannot stand inside a GRAPH", "side",
    ),
    "stream-in-service": (
        "cqels", "SELECT * { SERVICE <e> { ▲STREAM <s> [NOW] { ?a ?b ?c } } }", "inside a SERVICE block", "side by side",
    ),
    "window-in-graph": (
        "rspql", "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] { GRAPH ?g { ▲WINDOW <w> { ?a ?b ?c } } }",
        "WINDOW cannot stand inside a GRAPH", "side by side",
    ),
    "window-in-window": (
        "rspql",
        "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] { WINDOW <w> { ?a ?b ?c OPTIONAL { ▲WINDOW <w> { ?d ?e ?f } } } }",
        "WINDOW cannot stand inside a WINDOW block", "side by side",
    ),
    "stream-in-stream": (
        "cqels", "SELECT * { STREAM <s> [NOW] { ?a ?b ?c { ▲STREAM <t> [NOW] { ?d ?e ?f } } } }",
        "STREAM cannot stand inside a STREAM block", "side by side",
    ),
    "stream-in-exists-of-a-stream": (
        "cqels", "SELECT * { STREAM <s> [NOW] { ?a ?b ?c FILTER NOT EXISTS { ▲STREAM <t> [NOW] { ?d ?e ?f } } } }",
        "STREAM cannot stand inside a STREAM block", "side by side",
    ),
    "undeclared-window": (
        "rspql", "SELECT * FROM NAMED WINDOW <wind> ON <s> [RANGE PT1S] { ▲WINDOW <win> { ?a ?b ?c } }",
        "the window <http://localhost/win> is not declared", "Did you mean <http://localhost/wind>?",
    ),
    "window-declared-twice": (
        "rspql",
        "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] ▲FROM NAMED WINDOW <w> ON <t> [RANGE PT1S] { WINDOW <w> {} }",
        "declared twice", None,
    ),
    "window-of-another-dialect": (
        "rspql", "SELECT * FROM NAMED WINDOW <w> ON <s> ▲[TRIPLES 3] { WINDOW <w> { ?a ?b ?c } }",
        "[TRIPLES n] is not a window of RSP-QL*", "[ELEMENTS n STEP m]",
    ),
    "width-of-nothing": ("cqels", "SELECT * { STREAM <s> [RANGE ▲0s] { ?a ?b ?c } }", "must be longer than 0", None),
    "no-triples": ("cqels", "SELECT * { STREAM <s> [TRIPLES ▲0] { ?a ?b ?c } }", "from 1 to", None),
    "months": (
        "rspql", "SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE ▲P1M] { WINDOW <w> { ?a ?b ?c } }",
        "years or months", "days",
    ),
    "stream-without-window": ("cqels", "SELECT * { STREAM <s> ▲{ ?a ?b ?c } }", "window of a STREAM block", "[NOW]"),
    "unbound-stream": ("cqels", "SELECT * { ▲STREAM ?s [NOW] { ?sa ?b ?c } }", "bound by no pattern", "hasStream"),
    "window-variable-elsewhere": (
        "cqels", "SELECT * FROM NAMED <s> [NOW] AS ?v { GRAPH ?v { ?a ?b ?c } ?a <in> ▲?v }", "?v names a window", None,
    ),
    "filter-without-parentheses": ("sparql", "SELECT * { ?x <p> ?y FILTER ▲?y > 3 }", "FILTER needs parentheses", "(?x > 1)"),
    "group-by-in-where": ("sparql", "SELECT ?x { ?x <p> ?y ▲GROUP BY ?x }", "unexpected", "after the closing brace"),
    "order-of-modifiers": ("sparql", "SELECT ?x { ?x <p> ?y } LIMIT 3 ▲ORDER BY ?x", "unexpected", "The order is"),
    "double-equals": ("sparql", "SELECT * { ?x <p> ?y FILTER(?x =▲= ?y) }", 'unexpected "="', "single ="),
    "and": ("sparql", "SELECT * { ?x <p> ?y FILTER(?x = 1 ▲and ?y = 2) }", 'unexpected "and"', "&&"),
    "not-exist": ("sparql", "SELECT * { ?x <p> ?y FILTER NOT ▲EXIST { ?x <q> ?z } }", 'unexpected "EXIST"', "EXISTS"),
    "prefix-without-colon": ("sparql", "PREFIX ▲foaf <http://x/> ASK { }", 'unexpected "foaf"', "foaf:"),
    "turtle-prefix": ("sparql", "▲@prefix foaf: <http://x/> . ASK { }", "form of Turtle", "PREFIX"),
    "undeclared-prefix": ("sparql", "ASK { ?x ▲foaf:name ?y }", "the prefix foaf: is not declared", "xmlns.com/foaf/0.1/"),
    "space-in-iri": ("sparql", "ASK { ?x ?p ▲<a b> }", "an IRI cannot contain spaces", "%20"),
    "open-string": ("sparql", "ASK { ?x ?p ▲'abc }", "not closed on its line", "'''"),
    "unknown-escape": ("sparql", "ASK { ?x ?p 'a▲\\d' }", "\\d is not an escape", "\\\\d"),
    "open-brace": ("sparql", "ASK { ?x ?p ?o▲", "ends too early", "line 1, column 5 is not closed"),
    "empty": ("sparql", "▲", "the query is empty", "SELECT"),
    "update": ("sparql", "▲INSERT DATA { <a> <b> <c> }", "unexpected", "/update"),
    "output-operator": ("rspql", "CONSTRUCT ▲ISTREAM { ?a ?b ?c } { ?a ?b ?c }", "unexpected", "REGISTER ISTREAM"),
    "bind-in-scope": ("sparql", "SELECT * { ?x <p> ?y BIND(1 AS ▲?y) }", "BIND cannot set ?y", "another name"),
    "blank-node-of-two-patterns": (
        "sparql", "SELECT * { _:a <p> ?y OPTIONAL { ▲_:a <q> ?z } }", "two basic graph patterns", "?a",
    ),
    "ungrouped": ("sparql", "SELECT ?x (COUNT(?y) AS ?n) ▲?z { ?x <p> ?y, ?z } GROUP BY ?x", "?z is neither", "SAMPLE(?z)"),
    "star-with-groups": ("sparql", "▲SELECT * { ?x <p> ?y } GROUP BY ?x", "SELECT * cannot stand", "grouped"),
    "name-of-a-grouped-variable": (
        "sparql",
        "SELECT (MAX(?y) AS ▲?y) { ?x <p> ?y }",
        "SELECT cannot set ?y",
        "another name",
    ),
    "name-of-a-hidden-variable": (
        "cqels",
        "SELECT (COUNT(*) AS ▲?y) { STREAM <s> [NOW] { ?x <p> ?y } }",
        "SELECT cannot set ?y",
        "another name",
    ),
    "name-taken": ("sparql", "SELECT ?x (1 AS ▲?x) { ?x <p> ?y }", "SELECT cannot set ?x", "another name"),
    "aggregate-in-filter": ("sparql", "SELECT * { ?x <p> ?y FILTER(▲COUNT(?y) > 1) }", "cannot stand in FILTER", "HAVING"),
    "nested-aggregates": ("sparql", "SELECT (SUM(▲COUNT(?x)) AS ?n) { }", "cannot stand in the argument of SUM", None),
    "arity": ("sparql", "SELECT * { FILTER(▲STRLEN('a', 'b') = 1) }", "STRLEN takes 1 argument, 2 given", None),
    "values-arity": ("sparql", "SELECT * { VALUES (?a ?b) { ▲(1) } }", "2 variables, this row has 1", None),
    "percentile": ("cqels", "SELECT (▲PERCENTILE(?x, 101) AS ?p) { STREAM <s> [NOW] { ?a ?b ?x } }", "from 0 to 100", "95"),
    "missing-parameter": ("cqels", 'SELECT * { ?x <p> ▲"$First Name$" }', "the parameter First Name has no value", "First Name"),
    "path-in-template": ("sparql", "CONSTRUCT { ?x ▲<a>/<b> ?y } { ?x <p> ?y }", "a template cannot hold a property path", None),
    "literal-subject": ("sparql", "SELECT * { ▲1 <p> ?y }", "a literal cannot be the subject", None),
    "block-without-window": (None, "SELECT ?s { STREAM <s> ▲{ ?s ?p ?o } }", "the window of a STREAM block is missing", "[NOW]"),
    "variable-block-without-window": (None, "SELECT ?s { STREAM ?x ▲{ ?s ?p ?o } }", "the window of a STREAM block", "[ALL]"),
    "window-of-another-language": (
        "cqels", "SELECT ?s { STREAM <s> [▲ROWS 5] { ?s ?p ?o } }", "expected ALL, ELEMENTS, NOW, RANGE, SLIDING, TRIPLES", None,
    ),
    "window-without-word": ("cqels", "SELECT ?s { STREAM <s> [▲10s] { ?s ?p ?o } }", "needs the word", "[RANGE 10s]"),
    "window-without-word-rspql": ("rspql", "SELECT ?s FROM NAMED WINDOW <w> ON <s> [▲PT5S] { }", "needs the word", "ELEMENTS"),
    "window-without-word-csparql": ("csparql", "SELECT ?s FROM STREAM <s> [▲100] { ?s ?p ?o }", "needs the word", "TRIPLES"),
    "median-in-sparql": ("sparql", "SELECT (▲MEDIAN(?x) AS ?m) { ?a ?b ?x }", "unexpected", "urn:quadrill:aggregate:median"),
    "stream-without-colon": (None, "SELECT * { STREAM ▲obs [NOW] { ?s ?p ?o } }", '"obs" is not the name of a stream', "Write <obs>"),
    "stream-without-colon-rspql": (
        None, "SELECT * FROM NAMED WINDOW <w> ON ▲obs [RANGE PT1S] { WINDOW <w> { ?s ?p ?o } }", '"obs" is not the name', "Write <obs>",
    ),
    "stream-without-colon-csparql": (
        None, "SELECT * FROM STREAM ▲obs [RANGE 1s] { ?s ?p ?o }", '"obs" is not the name', ":obs with PREFIX",
    ),
    "stream-as-string": (None, "SELECT * { STREAM ▲'urn:s' [NOW] { ?s ?p ?o } }", "not by a string", "Write <urn:s>."),
    "stream-without-angle-brackets": (None, "SELECT * { STREAM ▲urn:s [NOW] { ?s ?p ?o } }", "the prefix urn:", "<urn:s>"),
    "round-brackets": (None, "SELECT * { STREAM <s> ▲(RANGE 10s) { ?s ?p ?o } }", "in square brackets", "[RANGE 10s]"),
    "round-brackets-rspql": (
        None, "SELECT * FROM NAMED WINDOW <w> ON <s> ▲(RANGE PT1S) { WINDOW <w> { ?s ?p ?o } }", "in square brackets", "[RANGE PT10S",
    ),
    "round-brackets-csparql": (
        None, "SELECT * FROM STREAM <s> ▲(RANGE 1s) { ?s ?p ?o }", "in square brackets", "[RANGE 10s STEP 5s]",
    ),
    "no-brackets": (None, "SELECT * { STREAM <s> ▲RANGE 10s { ?s ?p ?o } }", "before RANGE, are missing", "[RANGE 10s]"),
    "fortnights": (None, "SELECT * { STREAM <s> [RANGE 2 ▲fortnights] { ?s ?p ?o } }", "no unit of time", "Write 28d"),
    "unknown-unit-csparql": (None, "SELECT * FROM STREAM <s> [RANGE 3 ▲weeks STEP 1d] { ?s ?p ?o }", "no unit", "Write 21d"),
    "no-unit-at-all": (None, "SELECT * { STREAM <s> [RANGE 2 ▲jiffies] { ?s ?p ?o } }", "no unit of time", "Units are ns"),
    "every-in-window": (None, "SELECT * { STREAM <s> [RANGE 10s ▲EVERY 5s] { ?s ?p ?o } }", "unexpected", "SLIDE 5s"),
    "every-behind": (None, "SELECT * { STREAM <s> [RANGE 10s] { ?s ?p ?o } } ▲EVERY 5s", "unexpected", '{"periodic": "5s"}'),
    "every-rspql": (
        None, "REGISTER STREAM <o> ▲EVERY PT5S AS SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] { WINDOW <w> { ?s ?p ?o } }",
        "unexpected", "COMPUTED EVERY PT5S",
    ),
    "every-csparql": (None, "REGISTER QUERY q ▲EVERY 5s AS SELECT * FROM STREAM <s> [RANGE 1s] { ?s ?p ?o }", "unexpected", "COMPUTED EVERY"),
    "emit": (None, "SELECT * { STREAM <s> [RANGE 10s ▲EMIT ON CLOSE] { ?s ?p ?o } }", "unexpected", "behind the whole query"),
    "emit-before-the-brace": (None, "SELECT * { STREAM <s> [RANGE 10s] { ?s ?p ?o } ▲EMIT ON CLOSE }", "unexpected", "behind the whole query"),
    "once-without-per": (None, "SELECT * { STREAM <s> [RANGE 10s] { ?s ?p ?o } } ONCE ▲?s", "unexpected", None),
    "slide-first": (None, "SELECT * { STREAM <s> [▲SLIDE 5s RANGE 10s] { ?s ?p ?o } }", "stands before the step", "SLIDE 5s]"),
    "last": (None, "SELECT * { STREAM <s> [▲LAST 5m] { ?s ?p ?o } }", "unexpected", "[RANGE 10s]"),
    "negative-width": (None, "SELECT * { STREAM <s> [RANGE ▲-5m] { ?s ?p ?o } }", "has no sign", "10s"),
    "decimal-comma": (None, "SELECT * { STREAM <s> [RANGE 1▲,5s] { ?s ?p ?o } }", "a point, not a comma", "1.5"),
    "open-window": (None, "SELECT * { STREAM <s> [RANGE 1s ▲{ ?s ?p ?o } }", "is not closed", "]"),
    "no-braces": (None, "SELECT * { STREAM <s> [RANGE 1s] ▲?s ?p ?o }", "stands in braces", "{ ?s ?p ?o }"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS_OF_PEOPLE)
def test_a_known_slip_is_told_at_its_place_in_words(name: str) -> None:
    dialect, text, message, hint = SLIPS_OF_PEOPLE[name]
    found = fault(text, dialect)
    assert message in found["message"]
    assert hint is None or hint in (found["hint"] or ""), found["hint"]


def test_the_caret_stands_under_the_fault_also_behind_tabs() -> None:
    found = faults("SELECT * {\n\t\t?x knows ?y\n}", "sparql")[0]
    assert (found["line"], found["column"]) == (2, 6)
    assert found["excerpt"] == "\t\t?x knows ?y\n\t\t   ^"


def test_independent_faults_are_told_at_once() -> None:
    text = """SELECT ?x, ?y WHERE {
  ?x foaf:name “Axel” .
  ?x <p> .
  FILTER(?x > )
  OPTIONAL { ?y <q> ?z ?z <r> ?w }
}"""
    found = faults(text, "sparql")
    assert [each["line"] for each in found] == [1, 2, 2, 3, 4, 5]
    assert "foaf:" in found[1]["message"]


def test_independent_faults_of_meaning_are_told_at_once() -> None:
    text = """PREFIX : <http://e/>
SELECT ?x (1 AS ?x) FROM NAMED WINDOW :w ON :s [RANGE PT0S]
{ WINDOW :v { ?x ex:p ?y } BIND(2 AS ?b) BIND(3 AS ?b) }"""
    found = faults(text, "rspql")
    assert [each["line"] for each in found] == [2, 2, 3, 3, 3]


def test_a_fault_has_no_echoes() -> None:
    assert len(faults("SELECT ?x WHERE { ?x <p> ; ; <q> } ORDER BY ?x LIMIT 3", "sparql")) == 1
    assert len(faults("SELECT ?x WHERE { ?x <p> ?y } }", "sparql")) == 1


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.hint[:40])
def test_every_sample_of_a_slip_fails_in_its_dialects(slip: Any) -> None:
    from lark.exceptions import UnexpectedToken

    for dialect in slip.dialects:
        for sample in slip.samples:
            with pytest.raises(UnexpectedToken):
                grammar_of(dialect).parse(sample)


def test_any_prefix_of_a_query_is_refused_without_a_crash() -> None:
    text = (
        "PREFIX f: <http://f/> SELECT ?a (COUNT(?b) AS ?n) FROM NAMED <g> WHERE { STREAM <s> [RANGE 3s SLIDE 1s] "
        "{ ?a f:p+/^f:q ?b ; a f:C . FILTER(?b > 3 && NOT EXISTS { << ?a f:p ?b >> f:r \"x\"@en }) } "
        "GRAPH ?g { ?a f:r [ f:s (1 2) ] } OPTIONAL { VALUES ?z { 1 UNDEF } } } GROUP BY ?a HAVING (?n > 1) LIMIT 3"
    )  # fmt: skip
    parse(text, dialect="cqels")
    for end in range(len(text) - 30):
        with pytest.raises(QueryTextError):
            parse(text[:end], dialect="cqels")
