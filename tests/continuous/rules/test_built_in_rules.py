"""Each rule of the built-in sets by itself: what it concludes, or the inconsistency that it finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyoxigraph import Quad, RdfFormat, Triple, parse

from quadrill.continuous.rules.built_in import INCONSISTENCIES, built_in_rules
from quadrill.continuous.rules.inconsistencies import InconsistencyFinder
from quadrill.continuous.rules.rule import parse_rule
from quadrill.continuous.rules.why import derivations
from quadrill.store.errors import QueryTextError
from quadrill.store.terms import in_store_form

from .rule_store import RuleStore

PREFIXES = """@prefix : <http://e/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
RULES = {rule.text: rule for rule in built_in_rules(["rdfs", "owl2-rl"])}

CONCLUSIONS = {
    "rdfs2": (":p rdfs:domain :C . :a :p 1", ":a a :C"),
    "rdfs3": (":p rdfs:range :C . :a :p :b , 1", ":b a :C"),
    "rdfs5": (":p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :r", ":p rdfs:subPropertyOf :r"),
    "rdfs7": (":p rdfs:subPropertyOf :q . :a :p 1", ":a :q 1"),
    "rdfs9": (":C rdfs:subClassOf :D . :a a :C", ":a a :D"),
    "rdfs11": (":C rdfs:subClassOf :D . :D rdfs:subClassOf :E", ":C rdfs:subClassOf :E"),
    "eq-sym": (":a owl:sameAs :b , 1", ":a owl:sameAs :b . :b owl:sameAs :a"),
    "eq-trans": (":a owl:sameAs :b . :b owl:sameAs :c", ":a owl:sameAs :c"),
    "eq-rep-s": (":a owl:sameAs :b , 1 . :a :p 2", ":b :p 2 . :b owl:sameAs :b , 1"),
    "eq-rep-p": (":p owl:sameAs :q , _:n , 1 . :a :p 2", ":a :q 2"),
    "eq-rep-o": (":b owl:sameAs :c . :a :p :b", ":a :p :c"),
    "prp-dom": (":p rdfs:domain :C . :a :p 1", ":a a :C"),
    "prp-rng": (":p rdfs:range :C . :a :p :b , 1", ":b a :C"),
    "prp-fp": (
        ":p a owl:FunctionalProperty . :a :p :b , 1",
        ":b owl:sameAs :b , 1",
    ),
    "prp-ifp": (
        ":p a owl:InverseFunctionalProperty . :a :p 1 . :b :p 1",
        ":a owl:sameAs :a , :b . :b owl:sameAs :a , :b",
    ),
    "prp-symp": (":p a owl:SymmetricProperty . :a :p :b , 1", ":a :p :b . :b :p :a"),
    "prp-trp": (":p a owl:TransitiveProperty . :a :p :b . :b :p :c . :c :p 1", ":a :p :c , 1 . :b :p 1"),
    "prp-spo1": (":p rdfs:subPropertyOf :q . :a :p 1", ":a :q 1"),
    "prp-spo2": (
        ":p owl:propertyChainAxiom ( :q :r :q ) . :a :q :b . :b :r :c . :c :q 1 , :d . :d :r :e",
        ":a :p 1 , :d",
    ),
    "prp-eqp1": (":p owl:equivalentProperty :q . :a :p 1 . :b :q 2", ":a :q 1"),
    "prp-eqp2": (":p owl:equivalentProperty :q . :a :p 1 . :b :q 2", ":b :p 2"),
    "prp-inv1": (":p owl:inverseOf :q . :a :p :b . :c :q :d", ":b :q :a"),
    "prp-inv2": (":p owl:inverseOf :q . :a :p :b . :c :q :d", ":d :p :c"),
    "prp-key": (
        ":C owl:hasKey ( :p :q ) . :a a :C ; :p 1 ; :q 2 . :b a :C ; :p 1 ; :q 2 , 3 ."
        " :c a :C ; :p 1 ; :q 3 . :d :p 1 ; :q 2",
        ":a owl:sameAs :a , :b . :b owl:sameAs :a , :b , :c . :c owl:sameAs :b , :c",
    ),
    "cls-int1": (":C owl:intersectionOf ( :D :E ) . :a a :D , :E . :b a :D . :c a :E", ":a a :C"),
    "cls-int2": (":C owl:intersectionOf ( :D :E ) . :a a :C . :b a :D", ":a a :D , :E"),
    "cls-uni": (":C owl:unionOf ( :D :E ) . :a a :D . :b a :E", ":a a :C . :b a :C"),
    "cls-svf1": (
        ":R owl:someValuesFrom :C ; owl:onProperty :p . :a :p :b . :b a :C . :c :p :d",
        ":a a :R",
    ),
    "cls-svf2": (":R owl:someValuesFrom owl:Thing ; owl:onProperty :p . :a :p 1", ":a a :R"),
    "cls-avf": (":R owl:allValuesFrom :C ; owl:onProperty :p . :a a :R ; :p :b , 1 . :c :p :d", ":b a :C"),
    "cls-hv1": (":R owl:hasValue 1 ; owl:onProperty :p . :a a :R", ":a :p 1"),
    "cls-hv2": (":R owl:hasValue 1 ; owl:onProperty :p . :a :p 1 . :b :p 2", ":a a :R"),
    "cls-maxc2": (
        ':R owl:maxCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p .'
        " :a a :R ; :p :b , :c . :d :p :a , :c",
        ":b owl:sameAs :b , :c . :c owl:sameAs :b , :c",
    ),
    "cls-maxqc3": (
        ':R owl:maxQualifiedCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p ; owl:onClass :C .'
        " :a a :R ; :p :b , :c , :d . :b a :C . :c a :C",
        ":b owl:sameAs :b , :c . :c owl:sameAs :b , :c",
    ),
    "cls-maxqc4": (
        ':R owl:maxQualifiedCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p .'
        " :R owl:onClass owl:Thing . :a a :R ; :p :b , :c",
        ":b owl:sameAs :b , :c . :c owl:sameAs :b , :c",
    ),
    "cls-oo": (":C owl:oneOf ( :a 1 :b )", ":a a :C . :b a :C"),
    "cax-sco": (":C rdfs:subClassOf :D . :a a :C", ":a a :D"),
    "cax-eqc1": (":C owl:equivalentClass :D . :a a :C . :b a :D", ":a a :D"),
    "cax-eqc2": (":C owl:equivalentClass :D . :a a :C . :b a :D", ":b a :C"),
    "scm-cls": (
        ":C a owl:Class",
        ":C rdfs:subClassOf :C , owl:Thing ; owl:equivalentClass :C . owl:Nothing rdfs:subClassOf :C",
    ),
    "scm-sco": (":C rdfs:subClassOf :D . :D rdfs:subClassOf :E", ":C rdfs:subClassOf :E"),
    "scm-eqc1": (":C owl:equivalentClass :D", ":C rdfs:subClassOf :D . :D rdfs:subClassOf :C"),
    "scm-eqc2": (
        ":C rdfs:subClassOf :D . :D rdfs:subClassOf :C , :E",
        ":C owl:equivalentClass :D . :D owl:equivalentClass :C",
    ),
    "scm-op": (":p a owl:ObjectProperty", ":p rdfs:subPropertyOf :p ; owl:equivalentProperty :p"),
    "scm-dp": (":p a owl:DatatypeProperty", ":p rdfs:subPropertyOf :p ; owl:equivalentProperty :p"),
    "scm-spo": (":p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :r", ":p rdfs:subPropertyOf :r"),
    "scm-eqp1": (":p owl:equivalentProperty :q", ":p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :p"),
    "scm-eqp2": (
        ":p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :p , :r",
        ":p owl:equivalentProperty :q . :q owl:equivalentProperty :p",
    ),
    "scm-dom1": (":p rdfs:domain :C . :C rdfs:subClassOf :D", ":p rdfs:domain :D"),
    "scm-dom2": (":q rdfs:domain :C . :p rdfs:subPropertyOf :q", ":p rdfs:domain :C"),
    "scm-rng1": (":p rdfs:range :C . :C rdfs:subClassOf :D", ":p rdfs:range :D"),
    "scm-rng2": (":q rdfs:range :C . :p rdfs:subPropertyOf :q", ":p rdfs:range :C"),
    "scm-hv": (
        ":R owl:hasValue 1 ; owl:onProperty :p . :S owl:hasValue 1 ; owl:onProperty :q ."
        " :p rdfs:subPropertyOf :q",
        ":R rdfs:subClassOf :S",
    ),
    "scm-svf1": (
        ":R owl:someValuesFrom :C ; owl:onProperty :p . :S owl:someValuesFrom :D ; owl:onProperty :p ."
        " :C rdfs:subClassOf :D",
        ":R rdfs:subClassOf :S",
    ),
    "scm-svf2": (
        ":R owl:someValuesFrom :C ; owl:onProperty :p . :S owl:someValuesFrom :C ; owl:onProperty :q ."
        " :p rdfs:subPropertyOf :q",
        ":R rdfs:subClassOf :S",
    ),
    "scm-avf1": (
        ":R owl:allValuesFrom :C ; owl:onProperty :p . :S owl:allValuesFrom :D ; owl:onProperty :p ."
        " :C rdfs:subClassOf :D",
        ":R rdfs:subClassOf :S",
    ),
    "scm-avf2": (
        ":R owl:allValuesFrom :C ; owl:onProperty :p . :S owl:allValuesFrom :C ; owl:onProperty :q ."
        " :p rdfs:subPropertyOf :q",
        ":S rdfs:subClassOf :R",
    ),
    "scm-int": (":C owl:intersectionOf ( :D :E )", ":C rdfs:subClassOf :D , :E"),
    "scm-uni": (":C owl:unionOf ( :D :E )", ":D rdfs:subClassOf :C . :E rdfs:subClassOf :C"),
}

FALSE = {
    "eq-diff1": ":a owl:sameAs :b ; owl:differentFrom :b",
    "eq-diff2": ":x a owl:AllDifferent ; owl:members ( :a :b :c ) . :a owl:sameAs :c",
    "eq-diff3": ":x a owl:AllDifferent ; owl:distinctMembers ( :a :b :c ) . :b owl:sameAs :c",
    "prp-irp": ":p a owl:IrreflexiveProperty . :a :p :a",
    "prp-asyp": ":p a owl:AsymmetricProperty . :a :p :b . :b :p :a",
    "prp-pdw": ":p owl:propertyDisjointWith :q . :a :p 1 ; :q 1",
    "prp-adp": ":x a owl:AllDisjointProperties ; owl:members ( :p :q :r ) . :a :p 1 ; :r 1",
    "prp-npa1": ":x owl:sourceIndividual :a ; owl:assertionProperty :p ; owl:targetIndividual :b . :a :p :b",
    "prp-npa2": ":x owl:sourceIndividual :a ; owl:assertionProperty :p ; owl:targetValue 1 . :a :p 1",
    "cls-nothing2": ":a a owl:Nothing",
    "cls-com": ":C owl:complementOf :D . :a a :C , :D",
    "cls-maxc1": ':R owl:maxCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p . :a a :R ; :p 1',
    "cls-maxqc1": ':R owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p ;'
    " owl:onClass :C . :a a :R ; :p :b . :b a :C",
    "cls-maxqc2": ':R owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p ;'
    " owl:onClass owl:Thing . :a a :R ; :p :b",
    "cax-dw": ":C owl:disjointWith :D . :a a :C , :D . :b a :C",
    "cax-adc": ":x a owl:AllDisjointClasses ; owl:members ( :C :D :E ) . :a a :C , :E . :b a :D",
}


def quads(turtle: str) -> list[Quad]:
    return in_store_form(parse(PREFIXES + turtle + " .", RdfFormat.TURTLE))


def triples(turtle: str) -> set[Triple]:
    return {quad.triple for quad in quads(turtle)}


def test_every_rule_of_the_sets_has_a_case() -> None:
    assert CONCLUSIONS.keys() == RULES.keys()
    assert FALSE.keys() == INCONSISTENCIES.keys()


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_rule_concludes_after_insertion_and_retracts_after_deletion(name: str) -> None:
    given, conclusion = CONCLUSIONS[name]
    alone = RuleStore([RULES[name]])
    alone.commit(quads(given), [])
    assert alone.inferred() == triples(conclusion)
    assert alone.recomputed() == triples(conclusion)
    alone.commit([], alone.asserted())
    assert alone.inferred() == set()


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_rule_concludes_when_its_premises_arrive_one_by_one_and_leave(name: str) -> None:
    given, conclusion = CONCLUSIONS[name]
    alone = RuleStore([RULES[name]])
    for quad in quads(given):
        alone.commit([quad], [])
    assert alone.inferred() == triples(conclusion)
    for quad in alone.asserted():
        alone.commit([], [quad])
        assert alone.inferred() == alone.recomputed()
        alone.commit([quad], [])
        assert alone.inferred() == triples(conclusion)


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_conclusion_stays_when_another_rule_no_longer_gives_it(name: str) -> None:
    given, conclusion = CONCLUSIONS[name]
    head = " . ".join(" ".join(map(str, triple)) for triple in triples(conclusion))
    text = f"CONSTRUCT {{ {head} }} WHERE {{ <http://e/switch> <http://e/is> <http://e/on> }}"
    switch = quads(":switch :is :on")
    both = RuleStore([RULES[name], parse_rule(text, base_iri="http://e/")])
    both.commit(quads(given) + switch, [])
    for _ in range(2):
        both.commit([], switch)
        assert both.inferred() == both.recomputed() == triples(conclusion)
        both.commit(switch, [])
    both.commit([], both.asserted())
    assert both.inferred() == set()


WITH_PATHS = {"cls-int2", "cls-uni", "cls-oo", "scm-int", "scm-uni"}
"""Rules whose premises leave out the links of a list."""


@pytest.mark.parametrize("name", sorted(CONCLUSIONS.keys() - WITH_PATHS))
def test_premises_alone_give_the_conclusion(name: str) -> None:
    given, conclusion = CONCLUSIONS[name]
    store = RuleStore([RULES[name]])
    store.commit(quads(given), [])
    facts, ids = store.facts(), store.terms.dictionary.ids
    for triple in triples(conclusion):
        fact = ids[triple.subject], ids[triple.predicate], ids[triple.object]
        found = derivations(store.program, fact, facts)
        assert found
        for derivation in found:
            assert derivation.rule == name
            alone = RuleStore([RULES[name]])
            alone.commit([Quad(*premise.triple) for premise in derivation.premises], [])
            assert triple in alone.inferred()


@pytest.mark.parametrize("name", FALSE)
def test_rule_that_concludes_false_lists_what_it_matched(name: str) -> None:
    store = RuleStore([])
    finder = InconsistencyFinder(store.terms)
    store.commit(quads(FALSE[name]), [])
    found = finder.find(store.facts(), 10)
    assert [each.rule for each in found] == [name]
    asserted = {quad.triple for quad in store.asserted()}
    assert set(found[0].triples) <= asserted
    for triple in found[0].triples:
        store.commit([], [Quad(*triple)])
        assert finder.find(store.facts(), 10) == []
        store.commit([Quad(*triple)], [])


def test_inconsistencies_are_limited_and_read_inferred_triples() -> None:
    store = RuleStore(built_in_rules(["owl2-rl"]))
    store.commit(
        quads(":C owl:disjointWith :D . :B rdfs:subClassOf :C , :D . :a a :B . :b a :B . :c a :B"), []
    )
    finder = InconsistencyFinder(store.terms)
    assert {each.rule for each in finder.find(store.facts(), 10)} == {"cax-dw"}
    assert len(finder.find(store.facts(), 10)) == 3
    assert len(finder.find(store.facts(), 2)) == 2


def test_position_of_a_member_twice_in_a_list_counts() -> None:
    store = RuleStore([])
    store.commit(quads(":x a owl:AllDisjointClasses ; owl:members ( :C :C ) . :a a :C"), [])
    assert [each.rule for each in InconsistencyFinder(store.terms).find(store.facts(), 10)] == ["cax-adc"]


@pytest.mark.parametrize(
    "broken",
    [
        ":C owl:unionOf :l . :l rdf:first :D",
        ":C owl:unionOf :l . :l rdf:first :D ; rdf:rest :m . :m rdf:rest rdf:nil",
        ":C owl:unionOf :l . :l rdf:first :D ; rdf:rest :l",
        ":C owl:unionOf rdf:nil",
    ],
)
def test_list_without_an_end_has_no_members(broken: str) -> None:
    store = RuleStore(built_in_rules(["owl2-rl"]))
    store.commit(quads(f"{broken} . :a a :D"), [])
    assert store.inferred() == set()


def test_unknown_set_is_refused() -> None:
    with pytest.raises(QueryTextError, match="unknown built-in rules 'owl'"):
        built_in_rules(["owl"])


W3C_RDFS = """rdfD1 rdfD2 rdfs1 rdfs2 rdfs3 rdfs4a rdfs4b rdfs5 rdfs6 rdfs7 rdfs8 rdfs9 rdfs10 rdfs11 rdfs12
rdfs13"""
"""The entailment patterns of RDF 1.1 Semantics, sections 8.1.1 and 9.2.1."""
W3C_OWL2_RL = """eq-ref eq-sym eq-trans eq-rep-s eq-rep-p eq-rep-o eq-diff1 eq-diff2 eq-diff3
prp-ap prp-dom prp-rng prp-fp prp-ifp prp-irp prp-symp prp-asyp prp-trp prp-spo1 prp-spo2 prp-eqp1 prp-eqp2
prp-pdw prp-adp prp-inv1 prp-inv2 prp-key prp-npa1 prp-npa2
cls-thing cls-nothing1 cls-nothing2 cls-int1 cls-int2 cls-uni cls-com cls-svf1 cls-svf2 cls-avf cls-hv1
cls-hv2 cls-maxc1 cls-maxc2 cls-maxqc1 cls-maxqc2 cls-maxqc3 cls-maxqc4 cls-oo
cax-sco cax-eqc1 cax-eqc2 cax-dw cax-adc dt-type1 dt-type2 dt-eq dt-diff dt-not-type
scm-cls scm-sco scm-eqc1 scm-eqc2 scm-op scm-dp scm-spo scm-eqp1 scm-eqp2 scm-dom1 scm-dom2 scm-rng1 scm-rng2
scm-hv scm-svf1 scm-svf2 scm-avf1 scm-avf2 scm-int scm-uni"""
"""The rules of tables 4 to 9 of OWL 2 Profiles, section 4.3."""


SECTION = (
    (Path(__file__).parents[3] / "docs" / "semantics.md")
    .read_text("utf-8")
    .partition("### Built-in sets")[2]
    .partition("\n## ")[0]
)


def test_the_page_lists_the_rules_that_are_left_out() -> None:
    cells = re.findall(r"^\| ([^|]+) \|", SECTION, re.MULTILINE)[1:]
    listed = {name for cell in cells for name in cell.split(", ")} - {"axiomatic triples"}
    named = {*W3C_RDFS.split(), *W3C_OWL2_RL.split()}
    assert named >= RULES.keys() | INCONSISTENCIES.keys()
    assert listed == named - RULES.keys() - INCONSISTENCIES.keys()


def test_a_rule_that_is_left_out_can_be_added() -> None:
    (text,) = re.findall(r"`(CONSTRUCT [^`]+)`", SECTION)
    prefix = "PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
    rules = RuleStore([*built_in_rules(["rdfs"]), parse_rule(prefix + text, base_iri="urn:")])
    rules.commit(quads(":C rdfs:subClassOf :D . :C a rdfs:Class"), [])
    assert rules.inferred() == triples(":C rdfs:subClassOf :C , :D")
