"""Mappings by CONSTRUCT: what is refused with its place, and that records give what SPARQL says."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Store

from quadrill.continuous.language.mapping.declaration import read_declaration
from quadrill.continuous.language.mapping.mapping import RecordMapping, compiled
from quadrill.continuous.language.mapping.memoised import MemoisedFunction
from quadrill.store.documents.statements import quads_of
from quadrill.store.errors import InputError, LimitError, QueryTextError
from tests.examples import examples

E = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"


def mapping(construct: str, **members: Any) -> RecordMapping:
    given = {"construct": f"PREFIX : <{E}> {construct}", **members}
    return compiled(read_declaration(given).text(), "http://localhost/")


def lines(made: RecordMapping, record: dict[str, Any]) -> list[str]:
    return sorted(" ".join(each).strip().replace(E, "") for each in made.apply(record).statements)


def objects(record: dict[str, Any], field: str) -> set[Any]:
    made = mapping(f"CONSTRUCT {{ :s :p ?{field} }} WHERE {{}}")
    return {quad.object for quad in quads_of(made.apply(record).statements)}


@pytest.mark.parametrize(
    ("value", "text", "datatype"),
    [
        (21, "21", "integer"),
        (-(2**70), str(-(2**70)), "integer"),
        (21.0, "21", "double"),
        (21.5, "21.5", "double"),
        (True, "true", "boolean"),
        (False, "false", "boolean"),
        ("x", "x", "string"),
        ('a "b"\n\\ \x01 ü', 'a "b"\n\\ \x01 ü', "string"),
        ("", "", "string"),
    ],
)
def test_values_are_typed_by_how_they_are_written(value: Any, text: str, datatype: str) -> None:
    assert objects({"v": value}, "v") == {Literal(text, datatype=NamedNode(XSD + datatype))}


def test_names_of_nested_fields_are_joined_and_other_characters_become_underscores() -> None:
    assert objects({"value": {"c": 1}}, "value_c") == {Literal(1)}
    assert objects({"a-b": {"c.d": "x"}}, "a_b_c_d") == {Literal("x")}
    assert objects({"value": {"c": 1}}, "value") == set()
    assert objects({"v": None}, "v") == objects({}, "v") == set()


def test_an_array_gives_a_solution_for_each_member_and_several_their_product() -> None:
    made = mapping("CONSTRUCT { :s ?p ?b } WHERE { BIND(IRI(CONCAT(STR(:), ?a)) AS ?p) }")
    found = lines(made, {"a": ["x", "y"], "b": ["1", "2"]})
    assert found == ['<s> <x> "1"', '<s> <x> "2"', '<s> <y> "1"', '<s> <y> "2"']
    assert objects({"r": [{"v": "x"}, {"v": ["y", None]}, ["z"], {}]}, "r_v") == {Literal("x"), Literal("y")}
    assert lines(mapping('CONSTRUCT { :s :p "x" ; :t ?t } WHERE {}'), {"t": []}) == ['<s> <p> "x"']
    pairs = mapping("CONSTRUCT { ?s :v ?r_v } WHERE { BIND(IRI(CONCAT(STR(:), ?r_k)) AS ?s) }")
    records = [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]
    assert lines(pairs, {"r": records}) == ['<a> <v> "1"', '<b> <v> "2"']


def test_arrays_with_too_many_solutions_and_fields_of_one_name_are_refused() -> None:
    made = mapping("CONSTRUCT { :s :p ?a , ?b } WHERE {}")
    with pytest.raises(LimitError, match="more than 10,000 solutions"):
        made.apply({"a": list(range(101)), "b": list(range(100))})
    with pytest.raises(LimitError, match="more than 10,000 members"):
        made.apply({"a": list(range(10_001))})
    assert made.apply({"other": list(range(20_000)), "a": 1}).statements
    nested = mapping("CONSTRUCT { :s :p ?a_b } WHERE {}")
    for record in ({"a_b": 1, "a": {"b": 2}}, {"a-b": 1, "a.b": 2}, {"a_b": 1, "a": [{"b": 2}]}):
        with pytest.raises(InputError, match=r"two fields of the record are both \?a_b"):
            nested.apply(record)
    assert nested.apply({"a_b": 1, "c_d": 1, "c": {"d": 2}}).statements


def test_blank_nodes_of_the_template_are_the_record_s_own() -> None:
    made = mapping("CONSTRUCT { [] :v ?v ; :n _:n . _:n :of ?o } WHERE {}")
    assert made.apply({"v": 1}).blank
    assert not mapping("CONSTRUCT { :s :v ?v } WHERE {}").apply({"v": 1}).blank
    found = made.apply({"v": ["1", "2"], "o": "x"}).statements
    assert len({subject for subject, predicate, _, _ in found if predicate == f"<{E}v>"}) == 1
    assert len(found) == 4


def test_only_statements_of_bound_terms_of_the_right_kind_are_made() -> None:
    made = mapping("CONSTRUCT { ?v :p 1 . :s ?v 2 . :s :p ?v . GRAPH ?v { :s :q 4 } :s :p ?never } WHERE {}")
    assert lines(made, {"v": "x"}) == ['<s> <p> "x"']
    made = mapping("CONSTRUCT { GRAPH ?g { :s :p <<( :a :b ?v )>> } } WHERE { BIND(IRI(?v) AS ?g) }")
    assert lines(made, {"v": "urn:x"}) == ['<s> <p> <<( <a> <b> "urn:x" )>> <urn:x>']
    assert lines(made, {}) == []


def test_a_variable_that_bind_sets_is_not_taken_from_the_record() -> None:
    made = mapping("CONSTRUCT { ?s :v ?v } WHERE { BIND(IRI(CONCAT(STR(:), ?id)) AS ?s) }")
    assert lines(made, {"id": "a", "s": "no", "v": "1"}) == ['<a> <v> "1"']


def test_fields_are_bound_in_nested_groups() -> None:
    made = mapping(
        "CONSTRUCT { :s :p ?x } WHERE { { FILTER(?k = 1) BIND(?v + 1 AS ?x) }"
        " UNION { FILTER(?k = 2) BIND(?v * 2 AS ?x) } OPTIONAL { FILTER(BOUND(?v)) } }"
    )
    assert lines(made, {"k": 1, "v": 5}) == [f'<s> <p> "6"^^<{XSD}integer>']
    assert lines(made, {"k": 2, "v": 5}) == [f'<s> <p> "10"^^<{XSD}integer>']
    assert lines(made, {"k": 3, "v": 5}) == []


def test_records_of_the_same_keys_may_differ_in_all_the_rest() -> None:
    made = mapping("CONSTRUCT { :s :a ?a ; :b ?b_c ; :b ?b } WHERE {}")
    each = {
        '<s> <a> "x"|<s> <b> "y"': {"a": "x", "b": {"c": "y"}},
        '<s> <a> "z"|<s> <b> "b"': {"a": "z", "b": "b"},
        '<s> <a> "x"|<s> <a> "z"': {"a": ["x", "z"], "b": {"d": "y"}},
        '<s> <b> "v"|<s> <b> "w"': {"a": None, "b": {"c": ["v", "w"]}},
        '<s> <a> "u"|<s> <b> "v"': {"a": "u", "b": [{"c": "v"}]},
    }
    # Whichever comes first, and a second time.
    for first in each.values():
        made = mapping(f"CONSTRUCT {{ :s :a ?a ; :b ?b_c ; :b ?b ; :first ?{len(str(first))} }} WHERE {{}}")
        made.apply(first)
        assert ["|".join(lines(made, record)) for record in (*each.values(), *each.values())] == [
            *each,
            *each,
        ]


def test_values_that_are_equal_in_python_are_terms_of_their_own() -> None:
    made = mapping("CONSTRUCT { :s :p ?v ; :q ?w } WHERE { BIND(STR(?v) AS ?w) }")
    for _ in range(2):
        for value, text in ((1, "1"), (2.0, "2"), ("1", "1"), (2, "2"), (True, "true")):
            assert {quad.object.value for quad in quads_of(made.apply({"v": value}).statements)} == {text}
        kinds = [made.apply({"v": value}).statements[0][2] for value in (1, 1.0, True, "1", 0.0, -0.0, 2**63)]
        assert [each.replace(XSD, "") for each in kinds] == [
            '"1"^^<integer>', '"1"^^<double>', '"true"^^<boolean>', '"1"', '"0"^^<double>', '"-0"^^<double>',
            '"9223372036854775808"^^<integer>',
        ]  # fmt: skip


def test_what_is_remembered_of_fields_stays_small() -> None:
    made = MemoisedFunction(lambda text: text * 2, most=3)
    for text in ("a", "b", "a", "x" * 400, "y" * 200):
        assert made[text] == text * 2
    assert list(made) == ["a", "b"]
    assert [made[text] for text in "cde"] == ["cc", "dd", "ee"]
    assert list(made) == ["d", "e"]


def test_values_is_a_table_that_fields_are_looked_up_in() -> None:
    made = mapping('CONSTRUCT { :s a ?class } WHERE { VALUES (?k ?class) { ("a" :A) ("b" :B) (1 :One) } }')
    assert lines(made, {"k": "a"}) == ["<s> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <A>"]
    assert lines(made, {"k": 1}) == ["<s> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <One>"]
    assert lines(made, {"k": "c"}) == lines(made, {"k": "1"}) == []
    assert len(lines(made, {})) == 3


def test_functions_that_differ_from_call_to_call_are_made_for_each_record() -> None:
    made = mapping(
        "CONSTRUCT { ?s :p ?r ; :q ?t } WHERE { BIND(UUID() AS ?s) BIND(RAND() AS ?r) BIND(STRUUID() AS ?t) }"
    )
    assert len({*made.apply({}).statements, *made.apply({}).statements}) == 4


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("CONSTRUCT { ?s ?p ?o }\nWHERE { ?s ?p ?o }", "no graph patterns", 12),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { GRAPH :g { } }", "no GRAPH pattern", 9),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { MINUS { } }", "no MINUS", 9),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { { SELECT * {} } }", "no sub-queries", 11),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { SERVICE :x {} }", "no SERVICE", 9),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { STREAM :x [NOW] {} }", "no STREAM block", 9),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { FILTER EXISTS { } }", "no EXISTS", 16),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { OPTIONAL { BIND(NOW() AS ?o) } }", r"no NOW\(\)", 25),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { BIND(STR(?s) AS ?s) }", r"BIND cannot set \?s from itself", 25),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { } LIMIT 1", "no GROUP BY, HAVING, ORDER BY, LIMIT", 17),
        ("CONSTRUCT { ?s :p ?o }\nWHERE { BIND(1 AS ?o }", "expected", 22),
    ],
)
def test_what_a_record_cannot_answer_is_refused_at_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(QueryTextError, match=message) as refused:
        mapping(text)
    assert (refused.value.line, refused.value.column) == (2, column)


@pytest.mark.parametrize(
    "text", ["SELECT * {}", "ASK {}", "CONSTRUCT FROM :g WHERE {}", "CONSTRUCT WHERE { }"]
)
def test_a_mapping_is_a_construct_with_a_template(text: str) -> None:
    with pytest.raises(QueryTextError, match="a mapping"):
        mapping(text)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "must be a JSON object"),
        ({}, "needs one of construct and jsonld"),
        ({"construct": "x", "jsonld": {}}, "needs one of construct and jsonld"),
        ({"construct": "x", "format": "xml"}, "must be one of json, csv"),
        ({"construct": "x", "time": "t", "time_format": "h"}, "must be one of iso, s, ms, us"),
        ({"construct": "x", "time_format": "s"}, "needs time"),
        ({"construct": "x", "header": "no"}, "must be true or false"),
        ({"construct": 1}, "must be a text"),
        ({"construct": "x", "other": 1}, "no member 'other'"),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(members: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_declaration(members)


# --- the same as SPARQL: the record is a VALUES at the beginning of each group --------------------

FIELDS = ("a", "b", "c")
_values = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["", "x", "y z", "1"]),
    st.booleans(),
    st.sampled_from([0.5, -2.0, 1.0]),
)
_records = st.fixed_dictionaries(
    {}, optional={name: st.one_of(_values, st.lists(_values, min_size=1, max_size=2)) for name in FIELDS}
)
_terms = st.sampled_from(["?a", "?b", "?c", "?x", "?y", "1", "2.5", '"x"', "true", ":n"])
_expressions = st.one_of(
    _terms,
    st.builds("({} {} {})".format, _terms, st.sampled_from(["+", "*", "<", "=", "||", "&&"]), _terms),
    st.builds("{}({})".format, st.sampled_from(["STR", "DATATYPE", "!", "IRI", "UCASE", "ABS"]), _terms),
    st.builds("IF({}, {}, {})".format, _terms, _terms, _terms),
    st.builds("COALESCE({}, {})".format, _terms, _terms),
    st.builds('CONCAT("urn:x:", STR({}))'.format, _terms),
    st.builds("BOUND({})".format, st.sampled_from(["?a", "?b", "?x", "?y"])),
)
_tables = st.sampled_from(
    [
        'VALUES ?a { 1 "x" UNDEF }',
        'VALUES (?a ?z) { (1 :one) ("x" :ex) (true :yes) }',
        "VALUES (?z ?b) { (:one 1) (UNDEF 2) (:three UNDEF) }",
        "VALUES ?z { :one :two }",
        "VALUES ?a { }",
    ]
)


def _groups(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Groups that bind at most these variables, each with a place for the record at its beginning."""
    simple = st.one_of(st.builds("FILTER({})".format, _expressions), _tables)
    bind = st.builds("BIND({} AS ?{})".format, _expressions, st.sampled_from(names or ("w",)))
    inner = st.builds("{{ %V {} {} }}".format, simple, bind)
    nested = st.one_of(
        inner,
        st.builds("OPTIONAL {}".format, inner),
        st.builds("{} UNION {}".format, inner, inner),
        st.builds("OPTIONAL {{ %V {} OPTIONAL {} }}".format, inner, inner),
    )
    return st.lists(st.one_of(simple, bind, nested), max_size=5).map(lambda parts: " ".join(parts))


def _values_of(row: dict[str, Any]) -> str:
    if not row:
        return ""
    made = {name: quads_of([("<urn:s>", "<urn:p>", text, "")])[0].object for name, text in row.items()}
    return f"VALUES ({' '.join(f'?{name}' for name in row)}) {{ ({' '.join(map(str, made.values()))}) }}"


def _text(value: Any) -> str:
    kind = {bool: "boolean", int: "integer", float: "double"}.get(type(value))
    return f'"{value}"' if kind is None else f'"{str(value).lower()}"^^<{XSD}{kind}>'


@settings(max_examples=examples(300), deadline=None)
@given(record=_records, body=_groups(("x", "y")))
def test_a_mapping_gives_what_oxigraph_gives(record: dict[str, Any], body: str) -> None:
    template = "{ :s :x ?x ; :y ?y ; :z ?z ; :a ?a . ?x :is ?b . :s ?y ?c }"
    text = f"CONSTRUCT {template} WHERE {{ %V {body} }}"
    try:
        made = mapping(text.replace("%V", ""))
    except QueryTextError as error:
        assert "BIND cannot set" in error.message
        return
    listed = [[(name, each) for each in (v if isinstance(v, list) else [v])] for name, v in record.items()]
    expected: set[Quad] = set()
    for solution in product(*listed):
        row = {name: _text(value) for name, value in solution}
        query = f"PREFIX : <{E}> {text.replace('%V', _values_of(row))}"
        expected |= {Quad(*triple) for triple in Store().query(query, base_iri="http://localhost/")}
    assert set(quads_of(made.apply(record).statements)) == expected
