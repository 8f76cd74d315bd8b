"""The built-in rule sets ``rdfs`` and ``owl2-rl``, under the names that W3C gives their rules.

Table numbers in comments are those of OWL 2 Profiles, section 4.3. Each body has its schema patterns first,
because the planner keeps the order of patterns whose cost estimates are equal. In a body, the pattern
``?list list:cell ?cell`` matches each cell of a well-formed RDF list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import cast

from pyoxigraph import NamedNode

from quadrill.store.errors import QueryTextError

from ..algebra import nodes as n
from ..language.context import LanguageLimits
from .definition import BUILT_IN, RuleSetDefinition
from .interfaces import Evaluable
from .list_rules import ChainRule, IntersectionRule, KeyRule
from .lists import ListCells
from .rule import Rule, parse_rule, parse_rules
from .terms import RuleTerms
from .triggers import occurrences

_LIST = "urn:quadrill:list:"
_PREFIXES = f"""PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
PREFIX list: <{_LIST}>
"""
_CELLS = {NamedNode(_LIST + "cell"): ListCells(), NamedNode(_LIST + "later"): ListCells(later=True)}

Texts = dict[str, tuple[str, str]]
"""The head and the body of each rule, by the rule's name."""

RDFS: Texts = {
    "rdfs2": ("?x a ?c", "?p rdfs:domain ?c . ?x ?p ?y"),
    "rdfs3": ("?y a ?c", "?p rdfs:range ?c . ?x ?p ?y"),
    "rdfs5": ("?p rdfs:subPropertyOf ?r", "?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?r"),
    "rdfs7": ("?x ?q ?y", "?p rdfs:subPropertyOf ?q . ?x ?p ?y"),
    "rdfs9": ("?x a ?d", "?c rdfs:subClassOf ?d . ?x a ?c"),
    "rdfs11": ("?c rdfs:subClassOf ?e", "?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?e"),
}

_SOME = "?x owl:someValuesFrom ?y . ?x owl:onProperty ?p"
_ALL = "?x owl:allValuesFrom ?y . ?x owl:onProperty ?p"
_VALUE = "?x owl:hasValue ?y . ?x owl:onProperty ?p"
_ONE = '?x owl:maxCardinality "1"^^xsd:nonNegativeInteger . ?x owl:onProperty ?p'
_ONE_OF_CLASS = '?x owl:maxQualifiedCardinality "1"^^xsd:nonNegativeInteger . ?x owl:onProperty ?p'

_EQUALITY: Texts = {  # table 4
    "eq-sym": ("?y owl:sameAs ?x", "?x owl:sameAs ?y"),
    "eq-trans": ("?x owl:sameAs ?z", "?x owl:sameAs ?y . ?y owl:sameAs ?z"),
    "eq-rep-s": ("?t ?p ?o", "?s owl:sameAs ?t . ?s ?p ?o"),
    "eq-rep-p": ("?s ?q ?o", "?p owl:sameAs ?q . ?s ?p ?o"),
    "eq-rep-o": ("?s ?p ?q", "?o owl:sameAs ?q . ?s ?p ?o"),
}
_PROPERTIES: Texts = {  # table 5
    "prp-dom": ("?x a ?c", "?p rdfs:domain ?c . ?x ?p ?y"),
    "prp-rng": ("?y a ?c", "?p rdfs:range ?c . ?x ?p ?y"),
    "prp-fp": ("?y owl:sameAs ?z", "?p a owl:FunctionalProperty . ?x ?p ?y . ?x ?p ?z"),
    "prp-ifp": ("?x owl:sameAs ?z", "?p a owl:InverseFunctionalProperty . ?x ?p ?y . ?z ?p ?y"),
    "prp-symp": ("?y ?p ?x", "?p a owl:SymmetricProperty . ?x ?p ?y"),
    "prp-trp": ("?x ?p ?z", "?p a owl:TransitiveProperty . ?x ?p ?y . ?y ?p ?z"),
    "prp-spo1": ("?x ?q ?y", "?p rdfs:subPropertyOf ?q . ?x ?p ?y"),
    "prp-eqp1": ("?x ?q ?y", "?p owl:equivalentProperty ?q . ?x ?p ?y"),
    "prp-eqp2": ("?x ?p ?y", "?p owl:equivalentProperty ?q . ?x ?q ?y"),
    "prp-inv1": ("?y ?q ?x", "?p owl:inverseOf ?q . ?x ?p ?y"),
    "prp-inv2": ("?y ?p ?x", "?p owl:inverseOf ?q . ?x ?q ?y"),
}
_CLASSES: Texts = {  # table 6
    "cls-int2": ("?y a ?m", "?c owl:intersectionOf ?l . ?l list:cell ?z . ?z rdf:first ?m . ?y a ?c"),
    "cls-uni": ("?y a ?c", "?c owl:unionOf ?l . ?l list:cell ?z . ?z rdf:first ?m . ?y a ?m"),
    "cls-svf1": ("?u a ?x", f"{_SOME} . ?u ?p ?v . ?v a ?y"),
    "cls-svf2": ("?u a ?x", "?x owl:someValuesFrom owl:Thing . ?x owl:onProperty ?p . ?u ?p ?v"),
    "cls-avf": ("?v a ?y", f"{_ALL} . ?u a ?x . ?u ?p ?v"),
    "cls-hv1": ("?u ?p ?y", f"{_VALUE} . ?u a ?x"),
    "cls-hv2": ("?u a ?x", f"{_VALUE} . ?u ?p ?y"),
    "cls-maxc2": ("?v owl:sameAs ?w", f"{_ONE} . ?u a ?x . ?u ?p ?v . ?u ?p ?w"),
    "cls-maxqc3": (
        "?v owl:sameAs ?w",
        f"{_ONE_OF_CLASS} . ?x owl:onClass ?c . ?u a ?x . ?u ?p ?v . ?v a ?c . ?u ?p ?w . ?w a ?c",
    ),
    "cls-maxqc4": (
        "?v owl:sameAs ?w",
        f"{_ONE_OF_CLASS} . ?x owl:onClass owl:Thing . ?u a ?x . ?u ?p ?v . ?u ?p ?w",
    ),
    "cls-oo": ("?m a ?c", "?c owl:oneOf ?l . ?l list:cell ?z . ?z rdf:first ?m"),
}
_CLASS_AXIOMS: Texts = {  # table 7
    "cax-sco": ("?x a ?d", "?c rdfs:subClassOf ?d . ?x a ?c"),
    "cax-eqc1": ("?x a ?d", "?c owl:equivalentClass ?d . ?x a ?c"),
    "cax-eqc2": ("?x a ?c", "?c owl:equivalentClass ?d . ?x a ?d"),
}
_SCHEMA: Texts = {  # table 9
    "scm-cls": (
        "?c rdfs:subClassOf ?c , owl:Thing ; owl:equivalentClass ?c . owl:Nothing rdfs:subClassOf ?c",
        "?c a owl:Class",
    ),
    "scm-sco": ("?c rdfs:subClassOf ?e", "?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?e"),
    "scm-eqc1": ("?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?c", "?c owl:equivalentClass ?d"),
    "scm-eqc2": ("?c owl:equivalentClass ?d", "?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?c"),
    "scm-op": ("?p rdfs:subPropertyOf ?p ; owl:equivalentProperty ?p", "?p a owl:ObjectProperty"),
    "scm-dp": ("?p rdfs:subPropertyOf ?p ; owl:equivalentProperty ?p", "?p a owl:DatatypeProperty"),
    "scm-spo": ("?p rdfs:subPropertyOf ?r", "?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?r"),
    "scm-eqp1": ("?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?p", "?p owl:equivalentProperty ?q"),
    "scm-eqp2": ("?p owl:equivalentProperty ?q", "?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?p"),
    "scm-dom1": ("?p rdfs:domain ?d", "?p rdfs:domain ?c . ?c rdfs:subClassOf ?d"),
    "scm-dom2": ("?p rdfs:domain ?c", "?q rdfs:domain ?c . ?p rdfs:subPropertyOf ?q"),
    "scm-rng1": ("?p rdfs:range ?d", "?p rdfs:range ?c . ?c rdfs:subClassOf ?d"),
    "scm-rng2": ("?p rdfs:range ?c", "?q rdfs:range ?c . ?p rdfs:subPropertyOf ?q"),
    "scm-hv": (
        "?x rdfs:subClassOf ?z",
        f"{_VALUE} . ?z owl:hasValue ?y . ?z owl:onProperty ?q . ?p rdfs:subPropertyOf ?q",
    ),
    "scm-svf1": (
        "?x rdfs:subClassOf ?z",
        f"{_SOME} . ?z owl:onProperty ?p . ?z owl:someValuesFrom ?w . ?y rdfs:subClassOf ?w",
    ),
    "scm-svf2": (
        "?x rdfs:subClassOf ?z",
        f"{_SOME} . ?z owl:someValuesFrom ?y . ?z owl:onProperty ?q . ?p rdfs:subPropertyOf ?q",
    ),
    "scm-avf1": (
        "?x rdfs:subClassOf ?z",
        f"{_ALL} . ?z owl:onProperty ?p . ?z owl:allValuesFrom ?w . ?y rdfs:subClassOf ?w",
    ),
    "scm-avf2": (
        "?z rdfs:subClassOf ?x",
        f"{_ALL} . ?z owl:allValuesFrom ?y . ?z owl:onProperty ?q . ?p rdfs:subPropertyOf ?q",
    ),
    "scm-int": (
        "?c rdfs:subClassOf ?m",
        "?c owl:intersectionOf ?l . ?l list:cell ?z . ?z rdf:first ?m",
    ),
    "scm-uni": ("?m rdfs:subClassOf ?c", "?c owl:unionOf ?l . ?l list:cell ?z . ?z rdf:first ?m"),
}
_ALL_MEMBERS: dict[str, tuple[str, str, Callable[[Rule, RuleTerms], Evaluable]]] = {
    "prp-spo2": (
        "?u ?p ?w",
        "?p owl:propertyChainAxiom ?l . ?l rdf:rest ?z . ?z rdf:first ?q . ?u ?q ?w",
        ChainRule,
    ),
    "prp-key": (
        "?x owl:sameAs ?y",
        "?c owl:hasKey ?l . ?l rdf:rest ?z . ?z rdf:first ?p . ?x a ?c . ?x ?p ?v . ?y a ?c . ?y ?p ?v",
        KeyRule,
    ),
    "cls-int1": (
        "?y a ?c",
        "?c owl:intersectionOf ?l . ?l rdf:rest ?z . ?z rdf:first ?m . ?y a ?m",
        IntersectionRule,
    ),
}
"""Rules that need all members of a list: head, body, and the class that evaluates the rule.

The body is never evaluated. It only shows which predicates the rule reads.
"""

_PAIR = "?l list:cell ?i . ?i rdf:first ?v . ?i list:later ?j . ?j rdf:first ?w"
_DENIED = "?x owl:sourceIndividual ?s . ?x owl:assertionProperty ?p"
_NONE = '?x owl:maxCardinality "0"^^xsd:nonNegativeInteger . ?x owl:onProperty ?p'
_NONE_OF_CLASS = '?x owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger . ?x owl:onProperty ?p'
INCONSISTENCIES: dict[str, str] = {
    "eq-diff1": "?x owl:differentFrom ?y . ?x owl:sameAs ?y",
    "eq-diff2": f"?x a owl:AllDifferent . ?x owl:members ?l . {_PAIR} . ?v owl:sameAs ?w",
    "eq-diff3": f"?x a owl:AllDifferent . ?x owl:distinctMembers ?l . {_PAIR} . ?v owl:sameAs ?w",
    "prp-irp": "?p a owl:IrreflexiveProperty . ?x ?p ?x",
    "prp-asyp": "?p a owl:AsymmetricProperty . ?x ?p ?y . ?y ?p ?x",
    "prp-pdw": "?p owl:propertyDisjointWith ?q . ?x ?p ?y . ?x ?q ?y",
    "prp-adp": f"?z a owl:AllDisjointProperties . ?z owl:members ?l . {_PAIR} . ?x ?v ?y . ?x ?w ?y",
    "prp-npa1": f"{_DENIED} . ?x owl:targetIndividual ?o . ?s ?p ?o",
    "prp-npa2": f"{_DENIED} . ?x owl:targetValue ?o . ?s ?p ?o",
    "cls-nothing2": "?x a owl:Nothing",
    "cls-com": "?c owl:complementOf ?d . ?x a ?c . ?x a ?d",
    "cls-maxc1": f"{_NONE} . ?u a ?x . ?u ?p ?y",
    "cls-maxqc1": f"{_NONE_OF_CLASS} . ?x owl:onClass ?c . ?u a ?x . ?u ?p ?y . ?y a ?c",
    "cls-maxqc2": f"{_NONE_OF_CLASS} . ?x owl:onClass owl:Thing . ?u a ?x . ?u ?p ?y",
    "cax-dw": "?c owl:disjointWith ?d . ?x a ?c . ?x a ?d",
    "cax-adc": f"?y a owl:AllDisjointClasses . ?y owl:members ?l . {_PAIR} . ?x a ?v . ?x a ?w",
}
"""Bodies of the rules that conclude ``false``, by name."""

OWL2_RL: Texts = {**_EQUALITY, **_PROPERTIES, **_CLASSES, **_CLASS_AXIOMS, **_SCHEMA}


def rules_of(definition: RuleSetDefinition, base_iri: str, limits: LanguageLimits | None) -> list[Rule]:
    """Return the parsed rules of a set, those of built-in sets after the client's.

    Raises:
        QueryTextError, UnsupportedError: a rule is refused.
    """
    return [
        *parse_rules(definition.rules, base_iri=base_iri, limits=limits),
        *built_in_rules(definition.include),
    ]


def built_in_rules(include: Iterable[str]) -> list[Rule]:
    """Return the rules of the built-in sets with the names ``include``.

    Raises:
        QueryTextError: there is no built-in set with one of the names.
    """
    rules: list[Rule] = []
    for name in dict.fromkeys(include):
        if name not in BUILT_IN:
            raise QueryTextError(
                f"unknown built-in rules {name!r}", hint=f"include one of {', '.join(BUILT_IN)}"
            )
        rules += _rdfs() if name == "rdfs" else _owl2_rl()
    return rules


@cache
def _rdfs() -> tuple[Rule, ...]:
    return tuple(_rule(name, head, body) for name, (head, body) in RDFS.items())


@cache
def _owl2_rl() -> tuple[Rule, ...]:
    rules = [_rule(name, head, body) for name, (head, body) in OWL2_RL.items()]
    rules += [
        replace(_rule(name, head, body), compile=compiled)
        for name, (head, body, compiled) in _ALL_MEMBERS.items()
    ]
    return tuple(rules)


@cache
def inconsistency_rules() -> tuple[Rule, ...]:
    """Return the OWL 2 RL rules that conclude ``false``; their heads are empty."""
    return tuple(_rule(name, "", body) for name, body in INCONSISTENCIES.items())


def _rule(name: str, head: str, body: str) -> Rule:
    text = f"{_PREFIXES}CONSTRUCT {{ {head} }} WHERE {{ {body} }}"
    rule = parse_rule(text, base_iri="urn:quadrill:", name=name)
    walked = _with_cells(rule.body)
    return replace(rule, body=walked, patterns=tuple(occurrences(walked)))


def _with_cells(body: n.Algebra) -> n.Algebra:
    """Return a body in which each pattern with a ``list:`` predicate is a path over the cells of a list."""
    assert isinstance(body, n.Bgp)
    cells = [each for each in body.patterns if each.predicate in _CELLS]
    if not cells:
        return body
    result: n.Algebra = n.Bgp(tuple(each for each in body.patterns if each not in cells))
    for each in cells:
        # No query text can contain a `ListCells`, so the type of paths in the algebra does not include it.
        path = cast("n.PathExpr", _CELLS[cast("NamedNode", each.predicate)])
        result = n.Join(result, n.Path(each.subject, path, each.object))
    return result
