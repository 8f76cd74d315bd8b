"""Single constraints: messages, blank nodes, datatypes in the store, SPARQL-based constraints."""

from __future__ import annotations

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.continuous.algebra.nodes import Link
from quadrill.continuous.shapes.errors import ShapesFailureError
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.vocabulary import component
from tests.continuous.shapes.running import results_of, turtle

N = "<http://example.org/n>"
P = "<http://example.org/p>"
MESSAGES = [
    ("sh:class :C", ":v", "<http://example.org/v> is not an instance of the class <http://example.org/C>"),
    ("sh:datatype xsd:date", '"x"', '"x" is not a well-formed literal of the datatype xsd:date'),
    ("sh:nodeKind sh:IRI", '"x"', '"x" does not have the node kind sh:IRI'),
    ("sh:minCount 2", '"x"', f"{N} has 1 value of {P}, but needs at least 2"),
    ("sh:maxCount 1", '"x", "y"', f"{N} has 2 values of {P}, but may have at most 1"),
    ("sh:minExclusive 5", "5", None),
    ("sh:maxInclusive 5", "6", None),
    ("sh:minLength 2", '"x"', '"x" is not a text of at least 2 characters'),
    ("sh:maxLength 1", '"xy"', '"xy" is not a text of at most 1 character'),
    ('sh:pattern "^a" ; sh:flags "i"', '"xy"', "\"xy\" does not match the pattern '^a' with the flags 'i'"),
    ('sh:languageIn ( "en" "de" )', '"x"@fr', "\"x\"@fr has no language tag that matches one of 'en', 'de'"),
    ("sh:uniqueLang true", '"x"@en, "y"@en', "2 values have the language tag 'en', but at most one may"),
    ("sh:equals :q", '"x"', '"x" is not a value of <http://example.org/q>, which must have the same values'),
    ("sh:disjoint :p", '"x"', f'"x" is also a value of {P}, but must not be'),
    ("sh:lessThan :p", '"x"', f'"x" is not less than "x", the value of {P}'),
    ("sh:not :Any", '"x"', '"x" conforms to the shape <http://example.org/Any>, but must not'),
    ("sh:and ( :None :Any )", '"x"', None),
    ("sh:or ( :None :None )", '"x"', None),
    ("sh:xone ( :Any :Any )", '"x"', None),
    ("sh:node :None", '"x"', '"x" does not conform to the shape <http://example.org/None>'),
    (
        "sh:qualifiedValueShape :None ; sh:qualifiedMinCount 1",
        '"x"',
        f"{N} has 0 values of {P} with the shape <http://example.org/None>, but needs at least 1",
    ),
    ("sh:hasValue 1", '"x"', f'{N} lacks the value "1"^^<http://www.w3.org/2001/XMLSchema#integer> of {P}'),
    ('sh:in ( "a" "b" )', '"x"', '"x" is not one of "a", "b"'),
]


def of_path(constraint: str, value: str) -> list[Result]:
    shapes = f":S sh:targetNode :n ; sh:path :p ; {constraint} . :Any a sh:NodeShape . :None sh:not :Any ."
    return results_of(turtle(shapes), turtle(f":n :p {value} ."))


@pytest.mark.parametrize(("constraint", "value", "message"), MESSAGES, ids=[each[0] for each in MESSAGES])
def test_messages_say_what_was_found_and_asked(constraint: str, value: str, message: str | None) -> None:
    (result,) = of_path(constraint, value)
    (said,) = result.messages
    assert said.value == message if message is not None else said.value
    assert result.path == Link(NamedNode("http://example.org/p"))


def test_messages_of_the_shape_replace_the_built_in_one() -> None:
    (result,) = of_path('sh:minCount 2 ; sh:message "too few"@en, "zu wenige"@de', '"x"')
    assert set(result.messages) == {Literal("too few", language="en"), Literal("zu wenige", language="de")}


def test_long_terms_are_cut_in_messages() -> None:
    (result,) = of_path("sh:maxLength 1", f'"{"x" * 10_000}"')
    assert len(result.messages[0].value) < 300 and len(str(result.value)) > 10_000


@pytest.mark.parametrize(
    ("value", "datatype", "accepted"),
    [
        ('"7"^^xsd:byte', "xsd:byte", True),
        ("7", "xsd:byte", True),
        ('"300"^^xsd:byte', "xsd:byte", False),
        ("300", "xsd:byte", False),
        ("300", "xsd:unsignedShort", True),
        ("-1", "xsd:nonNegativeInteger", False),
        ("18446744073709551615", "xsd:unsignedLong", True),
        ("18446744073709551616", "xsd:unsignedLong", False),
        (f'"{"9" * 5_000}"^^xsd:integer', "xsd:positiveInteger", True),
        (f'"{"9" * 5_000}"^^xsd:integer', "xsd:long", False),
        ("7", "xsd:decimal", False),
        ("7.0", "xsd:integer", False),
        ('"2020-01-01T00:00:00Z"^^xsd:dateTimeStamp', "xsd:dateTimeStamp", True),
        ('"2020-01-01T00:00:00"^^xsd:dateTime', "xsd:dateTimeStamp", False),
        ('"2020-02-30"^^xsd:date', "xsd:date", False),
        ('"x"^^:type', ":type", True),
        ('"x"@en', "rdf:langString", True),
    ],
)
def test_store_keeps_derived_integers_as_integers(value: str, datatype: str, accepted: bool) -> None:
    shapes = turtle(f":S sh:targetObjectsOf :p ; sh:datatype {datatype} .")
    assert (results_of(shapes, turtle(f":n :p {value} ."), in_store_form=True) == []) == accepted


@pytest.mark.parametrize(
    ("value", "datatype", "accepted"),
    [
        ("7", "xsd:byte", False),
        ('"7"^^xsd:byte', "xsd:integer", False),
        ('"+007"^^xsd:byte', "xsd:byte", True),
        ('"1.5E3"^^xsd:double', "xsd:double", True),
        ('".5"^^xsd:decimal', "xsd:decimal", True),
        ('"."^^xsd:decimal', "xsd:decimal", False),
        ('"1e3"^^xsd:decimal', "xsd:decimal", False),
        ('"TRUE"^^xsd:boolean', "xsd:boolean", False),
        ('"P1D"^^xsd:duration', "xsd:duration", True),
        ('"1 day"^^xsd:duration', "xsd:duration", False),
    ],
)
def test_literals_of_a_file_have_their_own_datatype(value: str, datatype: str, accepted: bool) -> None:
    shapes = turtle(f":S sh:targetObjectsOf :p ; sh:datatype {datatype} .")
    assert (results_of(shapes, turtle(f":n :p {value} .")) == []) == accepted


def test_ill_formed_literal_is_not_comparable() -> None:
    shapes = turtle(":S sh:targetObjectsOf :p ; sh:minInclusive 0 .")
    found = results_of(shapes, turtle(':n :p "300"^^xsd:byte, "7"^^xsd:byte, "x"^^xsd:integer .'))
    assert {str(result.value) for result in found} == {
        '"300"^^<http://www.w3.org/2001/XMLSchema#byte>',
        '"x"^^<http://www.w3.org/2001/XMLSchema#integer>',
    }


def test_blank_nodes_are_focus_nodes_and_values() -> None:
    shapes = turtle(
        ":S sh:targetClass :C ; sh:property :P . :P sh:path :p ; sh:nodeKind sh:IRI ; sh:minLength 1 ."
    )
    data = turtle("_:a a :C ; :p _:b .")
    found = results_of(shapes, data)
    assert {type(result.focus) for result in found} == {type(result.value) for result in found} == {BlankNode}
    assert {result.component for result in found} == {component("NodeKind"), component("MinLength")}


def test_property_shape_that_two_shapes_use_gives_each_result_twice() -> None:
    users = ":S sh:targetNode :n ; sh:property :P . :T sh:targetNode :n ; sh:property :P . "
    shapes = turtle(users + ":P sh:path :p ; sh:minCount 1 .")
    one, other = results_of(shapes, turtle(""))
    assert one == other


# --- SPARQL-based constraints ---

COMPONENT = """
:Longer a sh:ConstraintComponent ;
  sh:parameter [ sh:path :least ], [ sh:path :language ; sh:optional true ] ;
  sh:propertyValidator [ sh:message "{$value} has fewer than {?least} characters {$language}" ;
    sh:select "SELECT $this ?value { $this $PATH ?value FILTER(STRLEN(STR(?value)) < $least) }" ] ;
  sh:nodeValidator [ sh:ask "ASK { FILTER(STRLEN(STR($value)) >= $least) }" ] .
"""


def test_select_validator_of_a_component_gets_path_and_parameters() -> None:
    shapes = turtle(COMPONENT + ":S sh:targetNode :n ; sh:path ( :p :q ) ; :least 3 .")
    (result,) = results_of(shapes, turtle(':n :p [ :q "ab", "abc" ] .'))
    assert result.value == Literal("ab") and result.component == NamedNode("http://example.org/Longer")
    assert result.messages == (Literal("ab has fewer than 3 characters {$language}"),)
    assert result.constraint is None and result.path is not None


def test_ask_validator_of_a_component_decides_on_each_value() -> None:
    shapes = turtle(COMPONENT + ":S sh:targetObjectsOf :p ; :least 3 ; sh:message 'short' .")
    (result,) = results_of(shapes, turtle(':n :p "ab", "abc" .'))
    assert result.focus == result.value == Literal("ab") and result.messages == (Literal("short"),)


def test_component_without_its_parameter_is_no_constraint() -> None:
    shapes = turtle(COMPONENT + ':S sh:targetNode :n ; sh:path :p ; :language "en" .')
    assert results_of(shapes, turtle(':n :p "a" .')) == []


def test_results_take_message_path_and_value_of_the_solution() -> None:
    query = (
        "SELECT $this ?value (<urn:q> AS ?path) (CONCAT('no ', ?value) AS ?message) { $this <urn:p> ?value }"
    )
    shape = ":S sh:targetNode :n ; sh:severity sh:Info ; sh:sparql :Q . "
    shapes = turtle(f'{shape} :Q sh:select "{query}" ; sh:message "m" .')
    (result,) = results_of(shapes, turtle(':n <urn:p> "x" .'))
    assert result.messages == (Literal("no x"),) and result.path == Link(NamedNode("urn:q"))
    assert result.constraint == NamedNode("http://example.org/Q") and result.severity.value.endswith("Info")


def test_times_are_adjusted_to_utc_and_to_no_zone() -> None:
    query = (
        "SELECT $this ?value { $this <urn:p> ?t BIND(ADJUST(?t) AS ?value) "
        'FILTER(STR(ADJUST(?t, "")) = "2026-01-01T10:00:00") }'
    )
    shapes = turtle(f":S sh:targetNode :n ; sh:sparql [ sh:select '{query}' ] .")
    data = turtle(':n <urn:p> "2026-01-01T10:00:00+02:00"^^xsd:dateTime .')
    (result,) = results_of(shapes, data)
    assert isinstance(result.value, Literal) and result.value.value == "2026-01-01T08:00:00Z"


def test_deactivated_constraint_is_left_out() -> None:
    shapes = turtle(":S sh:targetNode :n ; sh:sparql [ sh:deactivated true ; sh:select 'SELECT $this {}' ] .")
    assert results_of(shapes, turtle("")) == []


def test_solution_can_report_a_failure() -> None:
    shapes = turtle(":S sh:targetNode :n ; sh:sparql [ sh:select 'SELECT $this (true AS ?failure) {}' ] .")
    with pytest.raises(ShapesFailureError, match="reports a failure at the node <http://example.org/n>"):
        results_of(shapes, turtle(""))


def test_prefixes_come_from_declarations_and_their_imports() -> None:
    shapes = turtle(
        ":S sh:targetNode :n ; sh:sparql [ sh:prefixes :o ; sh:select 'SELECT $this { $this e:p f:q }' ] . "
        ":o sh:declare [ sh:prefix 'e' ; sh:namespace 'http://example.org/'^^xsd:anyURI ] ; "
        "<http://www.w3.org/2002/07/owl#imports> :other . "
        ":other sh:declare [ sh:prefix 'f' ; sh:namespace 'http://example.org/'^^xsd:anyURI ] ; "
        "<http://www.w3.org/2002/07/owl#imports> :o ."
    )
    assert len(results_of(shapes, turtle(":n :p :q ."))) == 1


def test_path_in_a_string_or_comment_stays() -> None:
    query = 'SELECT $this ?value {\n# $PATH\n$this $PATH ?value FILTER(?value != "$PATH") }'
    shapes = turtle(f":S sh:targetNode :n ; sh:path :p ; sh:sparql [ sh:select '''{query}''' ] .")
    (result,) = results_of(shapes, turtle(':n :p "$PATH", ":p" .'))
    assert result.value == Literal(":p")
