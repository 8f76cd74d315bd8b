"""Known mistakes in query texts: malformed samples with a message and a hint.

`lark`'s ``match_examples`` parses the samples and compares the parser state and token at which they fail, so
a known mistake is recognised anywhere in a query text.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..algebra.query import Dialect

_ALL: tuple[Dialect, ...] = ("cqels", "rspql", "csparql", "sparql")
_STRICT: tuple[Dialect, ...] = ("rspql", "csparql", "sparql")


@dataclass(frozen=True, slots=True)
class KnownMistake:
    """A known mistake in query texts with its hint; ``message`` replaces the usual "unexpected …"."""

    message: str | None
    hint: str
    samples: tuple[str, ...]
    dialects: tuple[Dialect, ...] = _ALL


SLIPS: tuple[KnownMistake, ...] = (
    KnownMistake(
        "an aggregate in SELECT needs parentheses and a name",
        "Write (COUNT(?x) AS ?n).",
        (
            "SELECT COUNT(?x) AS ?n WHERE {}",
            "SELECT COUNT(*) AS ?n WHERE {}",
            "SELECT SUM(?x) AS ?n {}",
            "SELECT GROUP_CONCAT(?x) AS ?n {}",
            "SELECT ?a COUNT(?x) AS ?n WHERE {}",
            "SELECT ?a SUM(?x) AS ?n WHERE {}",
            "SELECT ?a GROUP_CONCAT(?x) AS ?n {}",
            "SELECT (?a AS ?b) COUNT(?x) {}",
            "SELECT (?a AS ?b) SUM(?x) {}",
        ),
        _STRICT,
    ),
    KnownMistake(
        "an aggregate in SELECT needs parentheses and a name",
        "Write (MEDIAN(?x) AS ?n).",
        ("SELECT MEDIAN(?x) AS ?n WHERE {}", "SELECT ?a MEDIAN(?x) AS ?n WHERE {}"),
        ("rspql", "csparql"),
    ),
    KnownMistake(
        "an aggregate in SELECT needs a name",
        "Write COUNT(?x) AS ?n.",
        (
            "SELECT COUNT(?x) WHERE {}",
            "SELECT COUNT(*) WHERE {}",
            "SELECT COUNT(*) {}",
            "SELECT COUNT(?x) FROM <g> {}",
            "SELECT COUNT(?x) ?y {}",
        ),
        ("cqels",),
    ),
    KnownMistake(
        "an expression in SELECT needs a name",
        "Write (expression AS ?name).",
        (
            "SELECT (?x + 1) WHERE {}",
            "SELECT (COUNT(?x)) {}",
            "SELECT (?x) {}",
            "SELECT (STR(?x)) {}",
            "SELECT (1) {}",
        ),
    ),
    KnownMistake(
        None,
        "Separate the variables of SELECT by spaces, without commas.",
        ("SELECT ?x, ?y WHERE {}", "SELECT (1 AS ?x), ?y {}"),
    ),
    KnownMistake(
        "the expression of a FILTER needs parentheses",
        "Write FILTER(?x > 1).",
        (
            "SELECT * { FILTER ?x > 1 }",
            "SELECT * { FILTER 'a' = ?x }",
            "SELECT * { FILTER !?x }",
            "SELECT * { FILTER 1 < ?x }",
        ),
    ),
    KnownMistake(
        "two triples need a dot between them",
        "Put a dot after the first triple, or ; before a further property of the same subject.",
        (
            "SELECT * { ?a <p> ?b ?c <p> ?d }",
            "SELECT * { ?a <p> ?b <c> <p> ?d }",
            "SELECT * { ?a <p> <b> ?c <p> ?d }",
            "SELECT * { ?a <p> <b> <c> <p> ?d }",
            "SELECT * { ?a <p> p:b ?c <p> ?d }",
            "SELECT * { ?a <p> p:b p:c <p> ?d }",
            "SELECT * { ?a <p> p:b <c> <p> ?d }",
            "SELECT * { ?a <p> ?b p:c <p> ?d }",
            "SELECT * { ?a <p> 'b' ?c <p> ?d }",
            "SELECT * { ?a <p> 'b' p:c <p> ?d }",
            "SELECT * { ?a <p> 1 ?c <p> ?d }",
            "SELECT * { ?a <p> ?b _:c <p> ?d }",
            "SELECT * { ?a <p> ?b [] <p> ?d }",
        ),
    ),
    KnownMistake(
        "this triple has no object",
        "A triple is: subject predicate object .",
        (
            "SELECT * { ?a <p> . }",
            "SELECT * { ?a <p> }",
            "SELECT * { ?a ?p . }",
            "SELECT * { ?a ?p }",
            "SELECT * { ?a p:p . }",
            "SELECT * { ?a a . }",
        ),
    ),
    KnownMistake(
        "this triple has no predicate and no object",
        "A triple is: subject predicate object .",
        ("SELECT * { ?a . }", "SELECT * { <a> . }", "SELECT * { p:a . }", "SELECT * { ?a }"),
    ),
    KnownMistake(
        None,
        "The prefix ends in a colon: PREFIX foaf: <http://xmlns.com/foaf/0.1/>",
        ("PREFIX <http://xmlns.com/foaf/0.1/> ASK {}",),
    ),
    KnownMistake(
        None,
        "GROUP BY, HAVING, ORDER BY and LIMIT stand after the closing brace of WHERE.",
        (
            "SELECT ?a { ?a <p> ?b GROUP BY ?a }",
            "SELECT ?a { ?a <p> ?b . GROUP BY ?a }",
            "SELECT ?a { ?a <p> ?b ORDER BY ?a }",
            "SELECT ?a { ?a <p> ?b . ORDER BY ?a }",
            "SELECT ?a { ?a <p> ?b HAVING (?a) }",
            "SELECT ?a { { ?a <p> ?b } GROUP BY ?a }",
            "SELECT ?a { FILTER(?a) GROUP BY ?a }",
        ),
    ),
    KnownMistake(
        None,
        "The order is GROUP BY, HAVING, ORDER BY, LIMIT or OFFSET, VALUES.",
        (
            "SELECT ?a {} LIMIT 1 ORDER BY ?a",
            "SELECT ?a {} ORDER BY ?a GROUP BY ?a",
            "SELECT ?a {} HAVING (?a) GROUP BY ?a",
            "SELECT ?a {} LIMIT 1 GROUP BY ?a",
            "SELECT ?a {} ORDER BY ?a HAVING (?a)",
        ),
    ),
    KnownMistake(
        None,
        "Write BIND(expression AS ?name).",
        (
            "SELECT * { BIND(?x + 1) }",
            "SELECT * { BIND(?x) }",
            "SELECT * { BIND(1) }",
            "SELECT * { BIND(STR(?x)) }",
            "SELECT * { BIND ?x }",
        ),
    ),
    KnownMistake(
        "FROM STREAM is C-SPARQL",
        "In RSP-QL* write FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S] and WINDOW <w> {…}.",
        ("SELECT * FROM STREAM <s> [RANGE 1s] {}",),
        ("rspql",),
    ),
    KnownMistake(
        "FROM STREAM is C-SPARQL",
        "In CQELS-QL write STREAM <stream> [RANGE 10s] {…} inside WHERE.",
        ("SELECT * FROM STREAM <s> [RANGE 1s] {}",),
        ("cqels",),
    ),
    KnownMistake(
        "STREAM blocks are CQELS-QL",
        "In RSP-QL* declare FROM NAMED WINDOW <w> ON <stream> […] and write WINDOW <w> {…} here.",
        (
            "SELECT * { STREAM <s> [NOW] {} }",
            "SELECT * { ?a <p> ?b . STREAM <s> [NOW] {} }",
            "SELECT * { ?a <p> ?b STREAM <s> [NOW] {} }",
            "SELECT * { {} STREAM <s> [NOW] {} }",
        ),
        ("rspql",),
    ),
    KnownMistake(
        "STREAM blocks are CQELS-QL",
        "In C-SPARQL declare FROM STREAM <stream> […] and write the patterns directly in WHERE.",
        (
            "SELECT * { STREAM <s> [NOW] {} }",
            "SELECT * { ?a <p> ?b . STREAM <s> [NOW] {} }",
            "SELECT * { ?a <p> ?b STREAM <s> [NOW] {} }",
            "SELECT * { {} STREAM <s> [NOW] {} }",
        ),
        ("csparql",),
    ),
    KnownMistake(
        "the window of a STREAM block is missing",
        "Write STREAM <stream> [RANGE 10s] {…}, [NOW], [TRIPLES n] or [ALL].",
        ("SELECT * { STREAM <s> { } }", "SELECT * { STREAM ?s { } }", "SELECT * { STREAM p:s { } }"),
        ("cqels",),
    ),
    KnownMistake(
        "a window needs the word for what it measures",
        "Write [RANGE 10s], [TRIPLES 10], [NOW] or [ALL].",
        (
            "SELECT * { STREAM <s> [10s] {} }",
            "SELECT * { STREAM <s> [PT10S] {} }",
            "SELECT * { STREAM <s> [10] {} }",
        ),
        ("cqels",),
    ),
    KnownMistake(
        "a window needs the word for what it measures",
        "Write [RANGE PT10S STEP PT5S] or [ELEMENTS 10].",
        (
            "SELECT * FROM NAMED WINDOW <w> ON <s> [10s] {}",
            "SELECT * FROM NAMED WINDOW <w> ON <s> [PT10S] {}",
            "SELECT * FROM NAMED WINDOW <w> ON <s> [10] {}",
        ),
        ("rspql",),
    ),
    KnownMistake(
        "a window needs the word for what it measures",
        "Write [RANGE 10s STEP 5s] or [RANGE TRIPLES 10].",
        (
            "SELECT * FROM STREAM <s> [10s] {}",
            "SELECT * FROM STREAM <s> [PT10S] {}",
            "SELECT * FROM STREAM <s> [10] {}",
        ),
        ("csparql",),
    ),
    KnownMistake(
        "a STREAM block can stand only where a graph pattern can",
        "Put STREAM <stream> [window] {…} inside the braces of WHERE.",
        (
            "SELECT * STREAM <s> [NOW] {}",
            "SELECT ?x STREAM <s> [NOW] {}",
            "SELECT ?x WHERE STREAM <s> [NOW] {}",
            "SELECT ?x { FILTER(STREAM <s> [NOW] {}) }",
            "SELECT ?x { FILTER STREAM <s> [NOW] {} }",
            "SELECT ?x { } STREAM <s> [NOW] {}",
            "CONSTRUCT { STREAM <s> [NOW] {} } WHERE {}",
            "CONSTRUCT { ?a ?b ?c . STREAM <s> [NOW] {} } WHERE {}",
            "SELECT * { OPTIONAL STREAM <s> [NOW] {} }",
            "SELECT * { {} UNION STREAM <s> [NOW] {} }",
            "SELECT * { FILTER NOT EXISTS STREAM <s> [NOW] {} }",
            "SELECT * { ?a STREAM <s> [NOW] {} }",
            "SELECT * { ?a <p> STREAM <s> [NOW] {} }",
            "SELECT * { GRAPH <g> STREAM <s> [NOW] {} }",
        ),
        ("cqels",),
    ),
    KnownMistake(
        None,
        "The output operator belongs to REGISTER: REGISTER ISTREAM <name> AS CONSTRUCT {…}",
        ("CONSTRUCT ISTREAM {} WHERE {}", "SELECT ISTREAM ?x {}", "SELECT RSTREAM ?x {}"),
        ("rspql",),
    ),
    KnownMistake(
        "the window of FROM NAMED WINDOW is missing",
        "Write FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S].",
        ("SELECT * FROM NAMED WINDOW <w> ON <s> {}", "SELECT * FROM NAMED WINDOW <w> ON <s> WHERE {}"),
        ("rspql",),
    ),
    KnownMistake(
        "the window of FROM STREAM is missing",
        "Write FROM STREAM <stream> [RANGE 10s STEP 5s].",
        ("SELECT * FROM STREAM <s> {}", "SELECT * FROM STREAM <s> WHERE {}"),
        ("csparql",),
    ),
)


def slips_of(dialect: Dialect) -> list[tuple[KnownMistake, tuple[str, ...]]]:
    """Return the known mistakes of a dialect with their samples, as ``match_examples`` expects them."""
    return [(slip, slip.samples) for slip in SLIPS if dialect in slip.dialects]
