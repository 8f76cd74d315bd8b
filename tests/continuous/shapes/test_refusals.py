"""The syntax rules of SHACL (appendix A of SHACL 2017): what is refused, and where the error says it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Quad

from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.shapes.errors import ShapesInvalidError
from quadrill.continuous.shapes.reading.reader import read_shapes
from quadrill.store.errors import LimitError, ReportedError, UnsupportedError
from tests.continuous.shapes.random_graphs import Graphs, graphs
from tests.continuous.shapes.running import turtle

SH = "http://www.w3.org/ns/shacl#"
ILL_FORMED = [
    # rule of appendix A, shapes graph, property, what the message says
    ("targetNode-nodeKind", ":S sh:targetNode [] .", "targetNode", "must be an IRI or a literal"),
    ("targetClass-nodeKind", ":S sh:targetClass 1 .", "targetClass", "must be an IRI"),
    ("targetSubjectsOf-nodeKind", ":S sh:targetSubjectsOf 1 .", "targetSubjectsOf", "must be an IRI"),
    ("targetObjectsOf-nodeKind", ":S sh:targetObjectsOf [] .", "targetObjectsOf", "must be an IRI"),
    ("implicit-targetClass-nodeKind", "[] a rdfs:Class, sh:NodeShape .", None, "so it must be an IRI"),
    ("severity-maxCount", ":S a sh:NodeShape ; sh:severity :a, :b .", "severity", "at most one value, not 2"),
    ("severity-nodeKind", ':S a sh:NodeShape ; sh:severity "x" .', "severity", 'must be an IRI, not "x"'),
    ("message-datatype", ":S a sh:NodeShape ; sh:message 1 .", "message", "must be a string"),
    (
        "deactivated-maxCount",
        ":S a sh:NodeShape ; sh:deactivated true, false .",
        "deactivated",
        "at most one",
    ),
    ("deactivated-datatype", ':S a sh:NodeShape ; sh:deactivated "t" .', "deactivated", "true or false"),
    ("NodeShape-path-maxCount", ":S a sh:NodeShape ; sh:path :p .", "path", "must have no value"),
    ("PropertyShape-path-minCount", ":S a sh:PropertyShape .", "path", "must have one value"),
    ("path-maxCount", ":S a sh:PropertyShape ; sh:path :p, :q .", "path", "must have one value, not 2"),
    ("path-node", ":S sh:minCount 1 ; sh:path 1 .", "path", "must be a path"),
    (
        "path-metarule",
        ":S sh:minCount 1 ; sh:path [ sh:inversePath :p ; sh:oneOrMorePath :q ] .",
        "path",
        "one path",
    ),
    (
        "path-metarule, without a form",
        ":S sh:minCount 1 ; sh:path [ rdfs:label 1 ] .",
        "path",
        "must be a path",
    ),
    ("path-sequence", ":S sh:minCount 1 ; sh:path ( :p ) .", "path", "two or more paths, not a list of 1"),
    (
        "path-alternative",
        ":S sh:minCount 1 ; sh:path [ sh:alternativePath ( :p ) ] .",
        "alternativePath",
        "two or",
    ),
    ("path-inverse", ":S sh:minCount 1 ; sh:path [ sh:inversePath :p, :q ] .", "path", "must be a path"),
    ("path-zero-or-more", ':S sh:minCount 1 ; sh:path [ sh:zeroOrMorePath "x" ] .', "path", "must be a path"),
    (
        "path-non-recursive",
        ":S sh:minCount 1 ; sh:path _:p . _:p sh:inversePath _:p .",
        "path",
        "contain itself",
    ),
    ("SHACL-list", ":S sh:in _:l . _:l rdf:first 1 ; rdf:rest _:l .", "in", "list with an end, not a cyclic"),
    (
        "SHACL-list, two members",
        ":S sh:in _:l . _:l rdf:first 1, 2 ; rdf:rest () .",
        "in",
        "one rdf:first and one",
    ),
    ("class-nodeKind", ":S sh:class 1 .", "class", "must be an IRI"),
    ("datatype-nodeKind", ":S sh:datatype [] .", "datatype", "must be an IRI"),
    ("datatype-maxCount", ":S sh:datatype xsd:int, xsd:byte .", "datatype", "at most one value"),
    ("nodeKind-in", ":S sh:nodeKind :IRI .", "nodeKind", "must be one of sh:BlankNode, sh:IRI"),
    ("nodeKind-maxCount", ":S sh:nodeKind sh:IRI, sh:Literal .", "nodeKind", "at most one value"),
    ("minCount-scope", ":S a sh:NodeShape ; sh:minCount 1 .", "minCount", "for property shapes only"),
    ("minCount-maxCount", ":S sh:path :p ; sh:minCount 1, 2 .", "minCount", "at most one value"),
    ("minCount-datatype", ":S sh:path :p ; sh:minCount 1.0 .", "minCount", "must be an xsd:integer"),
    (
        "minCount, malformed",
        ':S sh:path :p ; sh:minCount "x"^^xsd:integer .',
        "minCount",
        "must be an xsd:integer",
    ),
    ("maxCount-scope", ":S a sh:NodeShape ; sh:maxCount 1 .", "maxCount", "for property shapes only"),
    ("maxCount-maxCount", ":S sh:path :p ; sh:maxCount 1, 2 .", "maxCount", "at most one value"),
    ("maxCount-datatype", ':S sh:path :p ; sh:maxCount "1" .', "maxCount", "must be an xsd:integer"),
    ("minExclusive-maxCount", ":S sh:minExclusive 1, 2 .", "minExclusive", "at most one value"),
    ("minExclusive-nodeKind", ":S sh:minExclusive :a .", "minExclusive", "must be a literal"),
    ("minInclusive-nodeKind", ":S sh:minInclusive [] .", "minInclusive", "must be a literal"),
    ("maxExclusive-maxCount", ":S sh:maxExclusive 1, 2 .", "maxExclusive", "at most one value"),
    ("maxInclusive-nodeKind", ":S sh:maxInclusive :a .", "maxInclusive", "must be a literal"),
    ("minLength-datatype", ':S sh:minLength "1" .', "minLength", "must be an xsd:integer"),
    ("maxLength-maxCount", ":S sh:maxLength 1, 2 .", "maxLength", "at most one value"),
    ("pattern-datatype", ":S sh:pattern 1 .", "pattern", "must be a string"),
    ("pattern-regex", ':S sh:pattern "(" .', "pattern", "must be a regular expression"),
    ("flags-datatype", ':S sh:pattern "a" ; sh:flags 1 .', "flags", "must be a string"),
    ("multiple-parameters", ':S sh:pattern "a", "b" .', "pattern", "at most one value"),
    ("languageIn-maxCount", ':S sh:languageIn ("en"), ("de") .', "languageIn", "at most one value"),
    ("languageIn-node", ':S sh:languageIn "en" .', "languageIn", "must be an RDF list"),
    ("languageIn-members-datatype", ":S sh:languageIn (:en) .", "languageIn", "must be a string"),
    (
        "uniqueLang-scope",
        ":S a sh:NodeShape ; sh:uniqueLang true .",
        "uniqueLang",
        "for property shapes only",
    ),
    ("uniqueLang-datatype", ":S sh:path :p ; sh:uniqueLang 1 .", "uniqueLang", "true or false"),
    ("uniqueLang-maxCount", ":S sh:path :p ; sh:uniqueLang true, false .", "uniqueLang", "at most one value"),
    ("equals-nodeKind", ":S sh:equals 1 .", "equals", "must be an IRI"),
    ("disjoint-nodeKind", ":S sh:disjoint [] .", "disjoint", "must be an IRI"),
    ("lessThan-scope", ":S a sh:NodeShape ; sh:lessThan :p .", "lessThan", "for property shapes only"),
    ("lessThan-nodeKind", ":S sh:path :p ; sh:lessThan 1 .", "lessThan", "must be an IRI"),
    (
        "lessThanOrEquals-scope",
        ":S a sh:NodeShape ; sh:lessThanOrEquals :p .",
        "lessThanOrEquals",
        "property shapes",
    ),
    (
        "lessThanOrEquals-nodeKind",
        ":S sh:path :p ; sh:lessThanOrEquals 1 .",
        "lessThanOrEquals",
        "must be an IRI",
    ),
    ("not-node", ":S sh:not 1 .", "not", "must be a shape"),
    ("and-node", ":S sh:and :a .", "and", "must be an RDF list"),
    ("and-members-node", ":S sh:and ( 1 ) .", "and", "must be a shape"),
    ("or-node", ":S sh:or 1 .", "or", "must be an RDF list"),
    ("or-members-node", ':S sh:or ( "a" ) .', "or", "must be a shape"),
    ("xone-members-node", ":S sh:xone ( 1 ) .", "xone", "must be a shape"),
    ("node-node", ":S sh:node [ sh:path :p ] .", "node", "must be a node shape"),
    ("property-node", ":S sh:property [ sh:class :C ] .", "property", "must be a property shape"),
    (
        "qualifiedValueShape-scope",
        ":S a sh:NodeShape ; sh:qualifiedValueShape :a .",
        "qualifiedValueShape",
        "property",
    ),
    (
        "qualifiedValueShape-node",
        ":S sh:path :p ; sh:qualifiedValueShape 1 .",
        "qualifiedValueShape",
        "be a shape",
    ),
    (
        "qualifiedMinCount-datatype",
        ':S sh:path :p ; sh:qualifiedMinCount "1" .',
        "qualifiedMinCount",
        "xsd:integer",
    ),
    (
        "qualifiedMaxCount-datatype",
        ":S sh:path :p ; sh:qualifiedMaxCount 1.5 .",
        "qualifiedMaxCount",
        "xsd:integer",
    ),
    (
        "qualifiedValueShapesDisjoint-datatype",
        ":S sh:path :p ; sh:qualifiedValueShapesDisjoint 1 .",
        "qualifiedValueShapesDisjoint",
        "true or false",
    ),
    ("closed-datatype", ":S sh:closed 1 .", "closed", "true or false"),
    (
        "ignoredProperties-node",
        ":S sh:closed true ; sh:ignoredProperties :p .",
        "ignoredProperties",
        "RDF list",
    ),
    (
        "ignoredProperties-members-nodeKind",
        ":S sh:closed true ; sh:ignoredProperties (1) .",
        "ignoredProperties",
        "must be an IRI",
    ),
    ("in-maxCount", ":S sh:in (1), (2) .", "in", "at most one value"),
    ("in-node", ":S sh:in 1 .", "in", "must be an RDF list"),
    ("recursion", ":S sh:node :T . :T sh:not :S .", "not", "→ <http://example.org/S> is recursive"),
    (
        "recursion through a property",
        ":S sh:property :P . :P sh:path :p ; sh:node :S .",
        "property",
        "is recursive",
    ),
    ("shapes without targets are checked", ":S sh:nodeKind 1 .", "nodeKind", "must be one of"),
    # SPARQL
    ("sparql-SELECT", ":S sh:sparql [ sh:message 'm' ] .", None, "must have one value of sh:select"),
    ("select-query-valid", ":S sh:sparql [ sh:select 'SELEC' ] .", "select", "must be a SPARQL query"),
    ("select-query-form", ":S sh:sparql [ sh:select 'ASK {}' ] .", "select", "form SELECT, not ASK"),
    (
        "select-query-this",
        ":S sh:sparql [ sh:select 'SELECT ?x { ?x ?y ?z }' ] .",
        "select",
        "return the variable this",
    ),
    (
        "pre-binding, MINUS",
        ":S sh:sparql [ sh:select 'SELECT $this { $this ?p ?o MINUS { ?o ?p 1 } }' ] .",
        "select",
        "must not use MINUS",
    ),
    (
        "pre-binding, VALUES",
        ":S sh:sparql [ sh:select 'SELECT $this { VALUES ?p { 1 } $this ?p ?o }' ] .",
        "select",
        "must not use VALUES",
    ),
    (
        "pre-binding, SERVICE",
        ":S sh:sparql [ sh:select 'SELECT $this { SERVICE <urn:s> { $this ?p ?o } }' ] .",
        "select",
        "must not use SERVICE",
    ),
    (
        "pre-binding, AS",
        ":S sh:sparql [ sh:select 'SELECT $this { BIND(1 AS $this) }' ] .",
        "select",
        "must not assign the pre-bound variable this",
    ),
    (
        "pre-binding, sub-select",
        ":S sh:sparql [ sh:select 'SELECT $this { { SELECT ?o { $this ?p ?o } } }' ] .",
        "select",
        "from each sub-select, not one without this",
    ),
    (
        "prefixes-duplicates",
        ":S sh:sparql [ sh:select 'SELECT $this {}' ; sh:prefixes :o ] . :o sh:declare "
        "[ sh:prefix 'a' ; sh:namespace 'urn:a'^^xsd:anyURI ], "
        "[ sh:prefix 'a' ; sh:namespace 'urn:b'^^xsd:anyURI ] .",
        "prefixes",
        "two namespaces for the prefix 'a'",
    ),
    (
        "prefix-declaration",
        ":S sh:sparql [ sh:select 'SELECT $this {}' ; sh:prefixes :o ] . :o sh:declare "
        "[ sh:prefix 'a' ; sh:namespace 'urn:a' ] .",
        "declare",
        "an xsd:anyURI sh:namespace",
    ),
    (
        "component without parameters",
        ":C a sh:ConstraintComponent .",
        "parameter",
        "a value that is not optional",
    ),
    (
        "reserved parameter",
        ":C a sh:ConstraintComponent ; sh:parameter [ sh:path :value ] .",
        "parameter",
        "a free variable name",
    ),
    (
        "equal parameters",
        ":C a sh:ConstraintComponent ; sh:parameter [ sh:path :a ], [ sh:path <urn:x/a> ] .",
        "parameter",
        "different local names",
    ),
    (
        "ask-validator",
        ":C a sh:ConstraintComponent ; sh:parameter [ sh:path :a ] ; sh:validator [ sh:ask 'x' ] . :S :a 1 .",
        "ask",
        "must be a SPARQL query",
    ),
]


@pytest.mark.parametrize(
    ("text", "name", "said"), [each[1:] for each in ILL_FORMED], ids=[each[0] for each in ILL_FORMED]
)
def test_ill_formed_shapes_are_refused_with_their_place(text: str, name: str | None, said: str) -> None:
    with pytest.raises(ShapesInvalidError) as refused:
        read_shapes(turtle(text), RuleTerms())
    error = refused.value
    assert error.code == "shapes-invalid" and error.status == 400
    assert error.details.get("property") == (None if name is None else SH + name)
    assert said in error.message
    assert error.details["shape"] in error.message and error.details["expected"] in error.message


@pytest.mark.parametrize(
    "text",
    [
        "<urn:g> sh:entailment <http://www.w3.org/ns/entailment/RDFS> .",
        ":S sh:js [ sh:jsFunctionName 'f' ] .",
        ":S sh:target [ sh:select 'SELECT ?this {}' ] .",
        ":S sh:targetNode :n ; sh:sparql [ sh:select 'SELECT $this { FILTER(NOW() > 1) }' ] .",
        ":S sh:sparql [ sh:select 'SELECT $this { { SELECT $this { $this ?p ?o } LIMIT 1 } }' ] .",
    ],
)
def test_unsupported_features_are_501(text: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        read_shapes(turtle(text), RuleTerms())
    assert refused.value.details["shape"]


def test_deep_shapes_and_long_paths_have_a_limit() -> None:
    deep = (
        "".join(f":S{number} sh:node :S{number + 1} . " for number in range(60)) + ":S60 sh:nodeKind sh:IRI ."
    )
    with pytest.raises(LimitError, match="more than 50 levels"):
        read_shapes(turtle(deep), RuleTerms())
    long = f":S sh:minCount 1 ; sh:path ( {':p ' * 300} ) ."
    with pytest.raises(LimitError, match="more than 100 nodes"):
        read_shapes(turtle(long), RuleTerms())


@settings(max_examples=200, deadline=None)
@given(graphs(), st.data())
def test_damaged_shapes_are_read_or_refused(drawn: Graphs, draws: st.DataObject) -> None:
    quads = turtle(drawn.shapes)
    terms = [quad.object for quad in quads] + [BlankNode()]
    for _ in range(3):
        place = draws.draw(st.integers(0, len(quads) - 1))
        quad = quads[place]
        quads[place] = Quad(quad.subject, quad.predicate, draws.draw(st.sampled_from(terms)))
    try:
        read_shapes(quads, RuleTerms())
    except ReportedError as error:
        assert error.message
