"""Mappings by a JSON-LD context: the same as Oxigraph's reader gives, and refused what is not read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import CanonicalizationAlgorithm, Dataset, Quad, RdfFormat, parse

from quadrill.continuous.language.mapping.declaration import read_declaration
from quadrill.continuous.language.mapping.mapping import RecordMapping, compiled
from quadrill.store.documents.statements import quads_of
from quadrill.store.errors import InputError
from quadrill.store.terms import in_store_form
from tests.examples import examples

BASE = "http://localhost/"
XSD = "http://www.w3.org/2001/XMLSchema#"
CONTEXT = {
    "@vocab": "http://e.org/v#",
    "ex": "http://e.org/x/",
    "id": "@id",
    "type": "@type",
    "at": {"@id": "ex:at", "@type": f"{XSD}dateTime"},
    "ref": {"@type": "@id"},
    "word": {"@type": "@vocab"},
    "deci": {"@id": "ex:deci", "@type": "xsd:decimal"},
    "xsd": XSD,
    "double": {"@type": "xsd:double"},
    "fr": {"@language": "fr"},
    "texts": {"@container": "@language"},
    "list": {"@container": "@list"},
    "refs": {"@container": "@list", "@type": "@id"},
    "set": {"@container": ["@set"]},
    "of": {"@reverse": "ex:has", "@type": "@id"},
    "gone": None,
}


def mapping(context: Any, **members: Any) -> RecordMapping:
    return compiled(read_declaration({"jsonld": {"@context": context}, **members}).text(), BASE)


def canonical(quads: list[Quad]) -> set[str]:
    dataset = Dataset(in_store_form(quads))
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return set(map(str, dataset))


def same(context: Any, record: dict[str, Any]) -> None:
    document = json.dumps({"@context": context, **record})
    expected = list(parse(document, RdfFormat.JSON_LD, base_iri=BASE))
    found = quads_of(mapping(context).apply(record).statements)
    assert canonical(found) == canonical(expected), (record, found, expected)


@pytest.mark.parametrize(
    "record",
    [
        {
            "id": "a",
            "v": 21.5,
            "w": 21.0,
            "x": 5,
            "y": 1e30,
            "b": True,
            "n": None,
            "z": 'a "b" ü',
            "e": -1.5e-7,
        },
        {"big": 12345678901234567890123, "neg": -0.0, "edge": 2**63},
        {"id": "http://x/y", "type": ["A", "ex:B", "http://x/C"], "@type": "D"},
        {"at": "2024-05-01T12:00:00Z", "ref": "b", "word": "c", "deci": "5.50", "double": 5},
        {"double": 2.5, "deci": True, "ref": 5, "word": ["a", None, ["b"]]},
        {"fr": "bon", "texts": {"de": ["a", "b"], "en-GB": "c", "@none": "d"}},
        {"list": [1, "a", None, {"v": 1}], "refs": ["a", "b"], "set": [1, 2, 2]},
        {"list": [], "refs": "a", "set": []},
        {"list": [[1], [2, []]], "v": {"@list": [1]}, "w": {"@list": []}, "x": {"@set": [1, 2]}},
        {"id": "a", "of": ["b", "c"]},
        {"id": "a", "of": {"id": "b", "v": 1}, "@reverse": {"ex:r": [{"id": "q"}]}},
        {"n": {"v": 1, "n": {"w": [2, {"id": "_:x", "y": "_:x"}]}}, "ref": "_:x", "e": {}},
        {
            "v": {"@value": "5", "@type": "xsd:integer"},
            "w": {"@value": "x", "@language": "en"},
            "x": {"@value": 5.5},
        },
        {"gone": 1, "gone2": None, "ex:d": 4, "http://f/g": 6, "@unknown": 5},
        {"v": [None, [1, [2]], {"id": "x"}]},
        {},
    ],
)
def test_a_record_is_what_json_ld_says(record: dict[str, Any]) -> None:
    same(CONTEXT, record)


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"@base": "http://b/x/", "v": "http://e/v"},
        {"@base": None, "v": "http://e/v"},
        {"@language": "en", "v": "http://e/v", "w": {"@id": "http://e/w", "@language": None}},
        [
            {"v": "http://e/v"},
            {"v": "http://e/other", "p": {"@id": "http://e/p", "@prefix": True}, "w": "p:w"},
        ],
        {"@vocab": "http://e/", "v": None},
        {"p": "http://e/p-", "w": "p:w", "v": "http://e/v"},
        {"@version": 1.1, "v": {"@id": "http://e/v", "@type": "@id"}},
    ],
)
def test_contexts_are_what_json_ld_says(context: Any) -> None:
    for record in (
        {"@id": "s", "v": "x", "w": "y", "p:q": 1},
        {"@id": "http://a/b", "v": {"w": "z"}, "@type": "T"},
    ):
        same(context, record)


_scalars = st.one_of(
    st.integers(-5, 5),
    st.floats(-100, 100),
    st.booleans(),
    st.none(),
    st.sampled_from(["a", "ex:b", "_:c", "http://x/y"]),
)
_keys = st.sampled_from(["v", "ref", "word", "fr", "list", "set", "of", "ex:w", "gone", "deci", "double"])
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(_keys, inner, max_size=2),
        st.fixed_dictionaries({"id": st.sampled_from(["a", "b"])}, optional={"v": inner}),
    ),
    max_leaves=5,
)


@settings(max_examples=examples(200), deadline=None)
@given(st.dictionaries(_keys, _values, max_size=4))
def test_records_are_what_oxigraph_reads(record: dict[str, Any]) -> None:
    document = json.dumps({"@context": CONTEXT, **record})
    try:
        list(parse(document, RdfFormat.JSON_LD, base_iri=BASE))
    except SyntaxError:
        return
    same(CONTEXT, record)


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ("https://schema.org/", "no context is fetched"),
        ([{}, "https://schema.org/"], "no context is fetched"),
        (5, "must be an object"),
        ({"@import": "x"}, "@import"),
        ({"@propagate": True}, "@propagate"),
        ({"@direction": "ltr"}, "@direction"),
        ({"v": {"@id": "http://e/v", "@context": {}}}, "@context"),
        ({"v": {"@id": "http://e/v", "@nest": "n"}}, "@nest"),
        ({"v": {"@id": "http://e/v", "@index": "n"}}, "@index"),
        ({"v": {"@id": "http://e/v", "@container": "@index"}}, "@index"),
        ({"v": {"@id": "http://e/v", "@container": ["@graph", "@id"]}}, "@graph"),
        ({"v": {"@id": "http://e/v", "@type": "@json"}}, "@json"),
        ({"v": "relative"}, "no absolute IRI"),
        ({"v": "@nest"}, "@nest"),
        ({"v": {"@id": "v:x"}, "w": "v:y", "v:x": "w:z"}, "v"),
        ({"v": 5}, "must be a text or an object"),
        ({"@language": "not a tag"}, "no language tag"),
    ],
)
def test_what_is_not_read_is_refused_by_its_name(context: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        mapping(context)


def test_the_time_is_a_field_as_with_construct() -> None:
    made = mapping({"@vocab": "http://e/"}, time="meta.ts")
    assert made.apply({"v": 1, "meta": {"ts": 5}}).time == 5


@pytest.mark.parametrize(
    "record",
    [{"id": 5}, {"v": {"@value": [1]}}, {"@graph": []}, {"v": {"@value": "x", "@language": "no tag"}}],
)
def test_a_record_that_is_wrong_is_told(record: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        mapping(CONTEXT).apply(record)


VALUES = ["a", "http://e.org/a", "", 1, 0, 2.5, 2.0, -0.0, 10**18, -(10**22), 1e22, True, None, [1, "b"], []]


@pytest.mark.parametrize("key", ["plain", "ref", "word", "deci", "double", "fr", "list", "set", "type", "id"])
def test_records_with_the_same_keys_may_have_other_values(key: str) -> None:
    made = mapping(CONTEXT)
    objects = [{"plain": 1}, {"id": "http://e.org/b", "ref": "c"}, {"@value": 5}, {"@list": [1, 2]}]
    for value in [*VALUES, *objects]:
        record = {"id": "http://e.org/s", "n": 7, "inner": {"n": 2, key: value}}
        # A type that is null says nothing, as every other null does; Oxigraph refuses it.
        as_read = {**record, "inner": {"n": 2}} if key == "type" and value is None else record
        document = json.dumps({"@context": CONTEXT, **as_read})
        try:
            expected = list(parse(document, RdfFormat.JSON_LD, base_iri=BASE))
        except SyntaxError:
            with pytest.raises(InputError):
                made.apply(record)
            continue
        assert canonical(quads_of(made.apply(record).statements)) == canonical(expected), record


def test_keys_that_never_end_take_no_more_memory() -> None:
    made = mapping(CONTEXT)
    for at in range(400):
        assert len(made.apply({"id": "http://e.org/s", f"key{at}": at}).statements) == 1


def test_a_number_that_is_too_great_is_told() -> None:
    for value in (float("inf"), float("-inf"), float("nan")):
        with pytest.raises(InputError):
            mapping(CONTEXT).apply({"n": value})
