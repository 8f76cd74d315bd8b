"""RSP-QL*: the listings of the paper, annotations in windows, filters that leave their block."""

from __future__ import annotations

import pytest

from quadrill.store.errors import QueryTextError
from tests.continuous.whole_contents import recomputed

from .helpers import answer, background, content, evaluator, iri, rows, table

PROLOGUE = "PREFIX sosa: <http://www.w3.org/ns/sosa/> "
SOSA = "\nPREFIX sosa: <http://www.w3.org/ns/sosa/>\n"

LISTING_1 = (
    PROLOGUE
    + """
REGISTER STREAM <warning/oxygen> COMPUTED EVERY PT10S AS
SELECT ?value
FROM NAMED WINDOW <w> ON <http://stream/oxygen> [RANGE PT10S STEP PT10S]
WHERE {
  WINDOW <w> {
    GRAPH ?g {
      ?o sosa:hasSimpleResult ?value .
      << ?o sosa:hasSimpleResult ?value >> rspu:uncertainty ?unc .
      BIND(rspu:add(?unc, ?value) AS ?d)
      FILTER(rspu:greaterThan(?d, 0.195) > 0.90)
    }
  }
}
"""
)

LISTING_2 = (
    PROLOGUE
    + """
REGISTER STREAM <warning/tvs> COMPUTED EVERY PT4S AS
SELECT ?location ?oxValue ?tempValue
FROM NAMED WINDOW <w1> ON <http://stream/oxygen> [RANGE PT10S STEP PT1S]
FROM NAMED WINDOW <w2> ON <http://stream/temperature> [RANGE PT10S STEP PT1S]
WHERE {
  WINDOW <w1> {
    GRAPH ?g1 {
      ?o1 sosa:hasSimpleResult ?oxValue ;
        sosa:hasFeatureOfInterest ?location .
      << ?o1 sosa:hasSimpleResult ?oxValue >> rspu:uncertainty ?unc .
      # The oxygen is below 0.18 with a probability of at least 80%
      FILTER(rspu:lessThan(rspu:add(?unc, ?oxValue), 0.18) >= 0.80)
    }
  }
  WINDOW <w2> {
    GRAPH ?g2 {
      ?o2 sosa:hasSimpleResult ?tempValue ;
        sosa:hasFeatureOfInterest ?location .
      # The reported temperature is greater than 30
      FILTER(?tempValue > 30)
    }
  }
}
"""
)


def observation(name: str, value: str, uncertainty: str = "", at: str = "") -> str:
    triples = f":{name} sosa:hasSimpleResult {value} ."
    if uncertainty:
        triple = f":{name} sosa:hasSimpleResult {value}"
        triples += f' << {triple} >> rspu:uncertainty "{uncertainty}"^^rspu:distribution .'
    if at:
        triples += f" :{name} sosa:hasFeatureOfInterest :{at} ."
    return f"{SOSA} :graph_{name} {{ {triples} }}"


def test_listing_1_passes_what_is_probably_above_the_threshold() -> None:
    # sigma = 0.01: P(0.21 + N > 0.195) = Phi(1.5) = 0.933, P(0.2 + N > 0.195) = Phi(0.5) = 0.691
    data = observation("o1", "0.21", "N(0, 0.0001)") + observation("o2", "0.2", "N(0, 0.0001)")
    assert table(answer(LISTING_1, data)) == rows("0.21")


def test_listing_2_joins_both_windows_by_location() -> None:
    # P(0.17 + U(-0.02, 0.02) < 0.18) = 0.75 fails, P(0.165 + U(-0.02, 0.02) < 0.18) = 0.875 passes
    oxygen = (
        observation("o1", "0.17", "U(-0.02, 0.02)", "north")
        + observation("o2", "0.165", "U(-0.02, 0.02)", "north")
        + observation("o3", "0.1", "N(0, 0.0001)", "south")
    )
    warm = (
        observation("t1", "31", at="north")
        + observation("t2", "30", at="north")
        + observation("t3", "40", at="east")
    )
    assert table(answer(LISTING_2, oxygen, warm)) == rows("north 0.165 31")


def windowed(pattern: str, select: str = "*", outside: str = "") -> str:
    return (
        f"REGISTER STREAM :o AS SELECT {select} FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S] "
        f"WHERE {{ {outside} WINDOW :w {{ {pattern} }} }}"
    )


def test_annotations_of_one_triple_from_two_elements_join() -> None:
    data = content("<< :a :p 1 >> :unc 5 .") | content("<< :a :p 1 >> :source :x .")
    with background() as store:
        engine, query = evaluator(windowed("<< ?s :p ?o >> :unc ?u ; :source ?c"), store)
        assert table(recomputed(engine, 0, {query.windows[0].name: data})) == rows("a 1 5 x")


def test_equal_annotated_triples_of_two_elements_are_one() -> None:
    data = content("<< :a :p 1 >> :unc 5 .") | content("<< :a :p 1 >> :unc 5 .")
    with background() as store:
        engine, query = evaluator(windowed("<< ?s :p ?o >> :unc ?u"), store)
        assert table(recomputed(engine, 0, {query.windows[0].name: data})) == rows("a 1 5")


def test_the_quoted_triple_is_not_asserted_unless_the_stream_says_so() -> None:
    text, data = windowed("?s :p ?o", "?s ?o"), "<< :a :p 1 >> :unc 5 . :b :p 2 ."
    assert table(answer(text, data)) == rows("b 2")
    assert table(answer(text, data, quoted_asserted=True)) == rows("a 1", "b 2")
    assert table(answer(text, data, quoted_asserted=frozenset({iri("s")}))) == rows("a 1", "b 2")
    assert table(answer(text, data, quoted_asserted=frozenset({iri("other")}))) == rows("b 2")


def test_triple_patterns_nest_in_subject_and_object() -> None:
    data = "<< << :a :p 1 >> :unc 5 >> :by :x . :y :says << :a :p 1 >> ."
    assert table(answer(windowed("<< << ?s :p ?o >> :unc ?u >> :by ?b"), data)) == rows("a 1 5 x")
    assert table(answer(windowed("?who :says << ?s :p ?o >>"), data)) == rows("y a 1")


def test_variables_may_bind_triples_that_join_and_group() -> None:
    data = ":r1 rdf:reifies <<( :a :p 1 )>> . :r2 rdf:reifies <<( :a :p 1 )>> ."
    data += " :r3 rdf:reifies <<( :a :p 2 )>> ."
    text = windowed("?r rdf:reifies ?t", "(OBJECT(?t) AS ?o) (COUNT(?r) AS ?n)") + " GROUP BY ?t"
    assert table(answer(text, data)) == rows("1 2", "2 1")


def test_a_filter_by_a_threshold_of_the_background_leaves_its_block() -> None:
    text = windowed("GRAPH ?g { ?x :v ?v FILTER(?v > ?limit) }", "?x ?v", "?x :limit ?limit .")
    data = ":e1 { :a :v 5 } :e2 { :b :v 5 }"
    assert table(answer(text, data, data=":a :limit 3 . :b :limit 7 .")) == rows("a 5")


def test_a_bind_that_needs_the_background_leaves_its_block() -> None:
    text = windowed("GRAPH ?g { ?x :v ?v BIND(?v + ?offset AS ?sum) }", "?x ?sum", "?x :offset ?offset .")
    assert table(answer(text, ":e { :a :v 5 }", data=":a :offset 3 .")) == rows("a 8")


def test_a_bind_that_can_not_move_is_an_error_that_says_so() -> None:
    text = windowed("?x :v ?v BIND(?v + ?offset AS ?sum) FILTER(?sum > 3)", "?x", "?x :offset ?offset .")
    with pytest.raises(QueryTextError, match="used in it"):
        answer(text, ":a :v 5 .", data=":a :offset 3 .")


def test_a_variable_bound_nowhere_fails_the_row() -> None:
    assert table(answer(windowed("?x :v ?v FILTER(?v > ?nowhere)", "?x"), ":a :v 5 .")) == rows()


def test_in_optional_the_filter_is_the_condition_of_the_left_join() -> None:
    text = (
        "REGISTER STREAM :o AS SELECT ?x ?v FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S] "
        "WHERE { ?x :limit ?limit OPTIONAL { WINDOW :w { ?x :v ?v FILTER(?v > ?limit) } } }"
    )
    assert table(answer(text, ":a :v 5 . :b :v 5 .", data=":a :limit 3 . :b :limit 7 .")) == rows(
        "a 5", "b -"
    )


def test_in_not_exists_the_outer_row_is_substituted() -> None:
    text = (
        "REGISTER STREAM :o AS SELECT ?x FROM NAMED WINDOW :w ON :s [RANGE PT1S STEP PT1S] "
        "WHERE { ?x :limit ?limit FILTER NOT EXISTS { WINDOW :w { ?x :v ?v FILTER(?v > ?limit) } } }"
    )
    assert table(answer(text, ":a :v 5 . :b :v 5 .", data=":a :limit 3 . :b :limit 7 .")) == rows("b")
