"""The rules that a rule set refuses, and the details of the errors."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.rules.rule import BindCycleError, parse_rules
from quadrill.continuous.rules.strata import _dependencies, _may_derive, strata
from quadrill.store.errors import LimitError, QueryTextError, ReportedError, UnsupportedError

from ...examples import examples
from .served import BASE, Served, definition, rule
from .test_fixpoint_law import random_rules

REFUSED: list[tuple[str, str, type[ReportedError]]] = [
    (rule("?x :r ?z", "?x :p ?y"), "rule-unsafe", QueryTextError),
    (rule("?x :r ?z", "?x :p ?y FILTER NOT EXISTS { ?x :q ?z }"), "rule-unsafe", QueryTextError),
    (rule("?x :r ?z", "{ SELECT ?x { ?x :p ?z } }"), "rule-unsafe", QueryTextError),
    (rule("?x :r _:b", "?x :p ?y"), "rule-blank-node", QueryTextError),
    (rule("?x :r [ :s ?y ]", "?x :p ?y"), "rule-blank-node", QueryTextError),
    (rule("GRAPH :g { ?x :r ?y }", "?x :p ?y"), "query-syntax", QueryTextError),
    ("SELECT ?x { ?x ?y ?z }", "query-syntax", QueryTextError),
    (rule("?x :r ?y", "SERVICE :s { ?x :p ?y }"), "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?y") + " LIMIT 1", "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?y") + " OFFSET 1", "unsupported", UnsupportedError),
    (rule("?x :r ?y", "{ SELECT ?x ?y { ?x :p ?y } LIMIT 2 }"), "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?z BIND(NOW() AS ?y)"), "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?y FILTER(RAND() < 1)"), "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?z BIND(UUID() AS ?y)"), "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?z BIND(CONCAT(STRUUID(), 'a') AS ?y)"), "unsupported", UnsupportedError),
    (rule("?x :r ?y", "?x :p ?z BIND(BNODE() AS ?y)"), "unsupported", UnsupportedError),
    (
        rule("?x :r ?y", "?x :p ?y FILTER EXISTS { ?x :q ?z FILTER(NOW() > ?z) }"),
        "unsupported",
        UnsupportedError,
    ),
    ("CONSTRUCT { ?x ?p ?y } FROM <http://e/g> WHERE { ?x ?p ?y }", "unsupported", UnsupportedError),
]


@pytest.mark.parametrize(("text", "code", "kind"), REFUSED)
def test_a_refused_rule(text: str, code: str, kind: type[ReportedError]) -> None:
    with pytest.raises(kind) as error:
        parse_rules([rule("?x :s ?y", "?x :p ?y"), text], base_iri=BASE)
    assert error.value.code == code or code == "query-syntax", error.value.code
    assert error.value.details["rule"] == 1


A = rule("?x :r ?y", "?x :p ?y FILTER NOT EXISTS { ?x :s ?y }")
B = rule("?x :s ?y", "?x :t ?y")
C = rule("?x :t ?y", "?x :r ?y")
NEXT = rule("?x :n ?y", "?x :n ?z BIND(?z + 1 AS ?y)")

CYCLES: list[tuple[list[str], str | None, list[int]]] = [
    ([A, B], None, []),
    ([A, B, C], "rule-negation-cycle", [0, 1, 2]),
    ([NEXT], "rule-bind-cycle", [0]),
    (
        [rule("?x :n ?y", "?x :m ?z BIND(?z + 1 AS ?y)"), rule("?x :m ?y", "?x :n ?y")],
        "rule-bind-cycle",
        [0, 1],
    ),
    (
        [rule("?x :c ?n", "{ SELECT ?x (COUNT(*) AS ?n) { ?x :c ?y } GROUP BY ?x }")],
        "rule-negation-cycle",
        [0],
    ),
    ([rule("?x :r ?y", "?x :p ?y MINUS { ?x :r ?z }")], "rule-negation-cycle", [0]),
    ([rule("?x :r ?y", "?x :p ?y OPTIONAL { ?x :r ?z }")], "rule-negation-cycle", [0]),
    # A path depends on its predicates; a negated or zero-length path depends on every predicate.
    ([rule("?x :r ?y", "?x :p ?y MINUS { ?x :q+/^:s ?z }")], None, []),
    ([rule("?x :s ?y", "?x :p ?y MINUS { ?x :q+/^:s ?z }")], "rule-negation-cycle", [0]),
    ([rule("?x :r ?y", "?x :p ?y MINUS { ?x !:r ?z }")], "rule-negation-cycle", [0]),
    ([rule("?x :r ?y", "?x :p ?y MINUS { ?x :q* ?z }")], "rule-negation-cycle", [0]),
    ([rule("?x :r ?y", "?x :p ?y MINUS { ?x :q? ?z }")], "rule-negation-cycle", [0]),
    # Unification: constants, repeated variables, and triple terms.
    ([rule("?x :r :a", "?x :p ?y MINUS { ?x :r :b }")], None, []),
    ([rule("?x :r :a", "?x :p ?y MINUS { ?x ?q :b }")], None, []),
    ([rule("?x :r 1", "?x :p ?y MINUS { ?x :r 2 }")], None, []),
    ([rule(":a :r :b", "?x :p ?y MINUS { ?x :r ?x }")], None, []),
    ([rule(":a :r :a", "?x :p ?y MINUS { ?x :r ?x }")], "rule-negation-cycle", [0]),
    ([rule("?x :r ?x", "?x :p ?y MINUS { :a :r :b }")], None, []),
    ([rule("?x ?y ?y", "?x :p ?y MINUS { ?z :r :s }")], None, []),
    ([rule("?x ?y ?z", "?x ?y ?z MINUS { ?x :r :s }")], "rule-negation-cycle", [0]),
    ([rule("?x :r <<( ?x :p :a )>>", "?x :p ?y MINUS { ?x :r <<( ?x :p :b )>> }")], None, []),
    (
        [rule("?x :r <<( ?x :p :a )>>", "?x :p ?y MINUS { ?x :r <<( :b ?q ?z )>> }")],
        "rule-negation-cycle",
        [0],
    ),
    ([rule("?x :r <<( ?x :p :a )>>", "?x :p ?y MINUS { ?x :r :b }")], None, []),
    # A triple term of a head is a computed term, unless the body matches it.
    ([rule("?x :p <<( ?x :p ?y )>>", "?x :p ?y")], "rule-bind-cycle", [0]),
    (
        [rule("?x :p <<( ?s ?p <<( ?x :p ?y )>> )>>", "?x :p ?y . ?x :q <<( ?s ?p ?y )>>")],
        "rule-bind-cycle",
        [0],
    ),
    (
        [rule("?x :p <<( ?s ?p ?o )>>", "{ ?x :p <<( ?s ?p ?o )>> } UNION { ?x :p ?s, ?p, ?o }")],
        "rule-bind-cycle",
        [0],
    ),
    ([rule("?x :p <<( ?x :p ?y )>>", "?x :q ?y")], None, []),
    ([rule("?x :p <<( :a :p :b )>>", "?x :p ?y")], None, []),
    ([rule("?x :p <<( ?s ?p ?o )>>", "?x :q ?y . ?y :p <<( ?s ?p ?o )>> FILTER(?s != ?x)")], None, []),
    (
        [
            rule(
                "?x :p <<( ?s ?p ?o )>>",
                "?y :q ?x OPTIONAL { ?y :r ?z } ?y :p <<( :a :b <<( ?s ?p ?o )>> )>>",
            )
        ],
        None,
        [],
    ),
    # A GRAPH pattern never matches the graph of the set, so it causes no dependency.
    ([rule("?x :r ?y", "?x :p ?y FILTER NOT EXISTS { GRAPH ?g { ?x :r ?y } }")], None, []),
]


@pytest.mark.parametrize(("texts", "code", "cycle"), CYCLES)
def test_cycles_through_closed_dependencies(texts: list[str], code: str | None, cycle: list[int]) -> None:
    rules = parse_rules(texts, base_iri=BASE)
    if code is None:
        strata(rules)
        return
    with pytest.raises(QueryTextError) as error:
        strata(rules)
    assert error.value.code == code
    named = error.value.details["rules"]
    assert sorted(each["rule"] for each in named) == cycle
    assert [each["text"] for each in named] == [texts[each["rule"]] for each in named]


def test_terms_keep_their_identity_and_the_form_of_the_store() -> None:
    with Served() as served:
        served.put(
            "one",
            definition(
                rule("?y :back ?x", "?x :p ?y"),  # literals and triple terms as subjects are skipped
                rule("?x ?y :made", "?x :p ?y"),
                rule("?x :one 01", "?x :p ?y"),
                rule("?x :says <<( ?x :p ?y )>>", "?x :p ?y"),
                rule("?s :said ?o", "?x :says <<( ?s :p ?o )>>"),
                rule("?x :sum ?z", "?x :n ?y BIND(?y + 1.50 AS ?z)"),
            ),
        )
        served.update('INSERT DATA { _:b :p _:b . :a :p "x" ; :n 01 . :c :p <<( :a :p 01 )>> }')
        (blank,) = (
            quad.subject
            for quad in served.store.reader.quads_for_pattern(graph=DefaultGraph())
            if quad.subject == quad.object
        )
        into = NamedNode(f"{BASE}into")

        def found(name: str) -> set[Any]:
            quads = served.store.reader.quads_for_pattern(None, NamedNode(BASE + name), None, into)
            return {(quad.subject, quad.object) for quad in quads}

        a, c = NamedNode(f"{BASE}a"), NamedNode(f"{BASE}c")
        assert found("back") == {(blank, blank)}
        assert {each for _, each in found("one")} == {Literal(1)}
        assert found("said") == {
            (blank, blank),
            (a, Literal("x")),
            (c, Triple(a, NamedNode(f"{BASE}p"), Literal(1))),
        }
        decimal = NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
        assert found("sum") == {(a, Literal("2.5", datatype=decimal))}
        served.store.writer.apply(remove=[Quad(blank, NamedNode(f"{BASE}p"), blank)])
        assert found("back") == set()
        served.update("CLEAR DEFAULT")
        assert served.inferred() == set()


@pytest.mark.parametrize("seed", range(examples(200)))
def test_the_index_of_heads_finds_every_dependency(seed: int) -> None:
    rng = random.Random(seed)
    rules = [each for _ in range(4) for each in random_rules(rng)]
    for reader, found in zip(rules, _dependencies(rules), strict=True):
        expected = {
            number
            for number, other in enumerate(rules)
            for occurrence in reader.patterns
            if occurrence.graph is None and any(_may_derive(head, occurrence) for head in other.head)
        }
        assert found.keys() == expected


def test_many_rules_are_ordered_in_a_short_time() -> None:
    chain = [rule(f"?x :p{number + 1} ?y", f"?x :p{number} ?y") for number in range(3_000)]
    assert strata(parse_rules(chain, base_iri=BASE)) == [list(range(3_000))]
    same = parse_rules([rule("?x ?p ?z", "?x ?p ?y . ?y ?q ?z")] * 1_500, base_iri=BASE)
    with pytest.raises(LimitError, match="2,000,000 pairs"):
        strata(same)
    counts = parse_rules([rule("?x ?p ?z", "?x ?p ?y BIND(?y + 1 AS ?z)")] * 1_000, base_iri=BASE)
    with pytest.raises(BindCycleError):
        strata(counts)
