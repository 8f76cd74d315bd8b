"""RDF Messages: the interoperability tests of the community group's test document, and traps."""

from __future__ import annotations

import contextlib
import json
import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.store.documents import messages as cutting
from quadrill.store.documents.messages import split_messages
from quadrill.store.documents.statements import quads_of
from quadrill.store.documents.yaml_messages import split_yaml_messages
from quadrill.store.errors import LimitError, RdfSyntaxError, ReportedError
from quadrill.store.pushes.decode import DecodeOptions, decode
from tests.examples import examples

A, B, C = "<http://e.org/a>", "<http://e.org/b>", "<http://e.org/c>"
TYPE = "text/turtle; version=1.2-messages"


def messages(text: str, media_type: str = "application/trig") -> list[list[str]]:
    found = decode(text.encode(), media_type, DecodeOptions(at=0)).elements
    return [[str(quad) for quad in quads_of(element.statements)] for element in found]


def test_a_document_without_delimiter_is_one_message() -> None:
    assert len(messages(f'VERSION "1.2-messages"\n{A} {B} {C} .')) == 1


@pytest.mark.parametrize("delimiter", ["MESSAGE", "message", "@message ."])
def test_a_delimiter_parts_two_messages(delimiter: str) -> None:
    found = messages(f'VERSION "1.2-messages"\n{A} {B} {C} .\n{delimiter}\n{C} {B} {A} .')
    assert [len(quads) for quads in found] == [1, 1]


def test_old_style_version_and_prefix_hold_on() -> None:
    text = '@version "1.2-messages" .\n@prefix e: <http://e.org/> .\ne:a e:b e:c .\n@message .\ne:c e:b e:a.'
    assert messages(text) == [[f"{A} {B} {C}"], [f"{C} {B} {A}"]]


def test_empty_messages_are_kept_but_not_behind_a_last_delimiter() -> None:
    assert [len(q) for q in messages(f'VERSION "1.2-messages"\nMESSAGE\n{A} {B} {C} .')] == [0, 1]
    text = f'VERSION "1.2-messages"\n{A} {B} {C} .\nMESSAGE\nMESSAGE\n{A} {B} {C} .\nMESSAGE\n'
    assert [len(q) for q in messages(text)] == [1, 0, 1]


def test_n_quads_messages_keep_their_graphs_in_one_element() -> None:
    text = f'VERSION "1.2-messages"\n{A} {B} {C} <http://e.org/g> .\n{A} {B} {C} .\nMESSAGE\n{A} {B} {C} .'
    assert [len(q) for q in messages(text, "application/n-quads")] == [2, 1]


def test_blank_nodes_are_scoped_to_their_message() -> None:
    text = f'VERSION "1.2-messages"\n_:b0 {B} {C} .\nMESSAGE\n_:b0 {B} {A} .'
    elements = decode(text.encode(), TYPE, DecodeOptions(at=0)).elements
    assert all(element.statements[0][0].startswith("_:") for element in elements)


def test_prefixes_can_be_redefined() -> None:
    text = (
        'VERSION "1.2-messages"\nPREFIX ex: <http://one/>\nex:s ex:p ex:o .\nMESSAGE\n'
        "PREFIX ex: <http://two/>\nex:s ex:p ex:o ."
    )
    assert messages(text) == [
        ["<http://one/s> <http://one/p> <http://one/o>"],
        ["<http://two/s> <http://two/p> <http://two/o>"],
    ]


def test_the_word_message_inside_names_strings_and_comments_means_nothing() -> None:
    text = (
        f'PREFIX e: <http://e.org/>\n{A} e:message "MESSAGE .\\n" ; e:b """\nMESSAGE\n""" . # MESSAGE\n'
        "e:MESSAGE e:b <http://e.org/MESSAGE> . MESSAGE e:a e:b e:c."
    )
    assert [len(q) for q in messages(text, TYPE)] == [3, 1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f'VERSION "1.2-messages"\n<http://g> {{\n{A} {B} {C} .\nMESSAGE\n{A} {B} {C} .\n}}', 4),
        (f'VERSION "1.2-messages"\n{A} {B} {C} .\n@message {A}', 3),
        (f'VERSION "1.2-messages"\n{A} {B} {C} .\nMESSAGE\n\n{A} {B} .', 5),
    ],
)
def test_errors_have_the_line_of_the_document(text: str, line: int) -> None:
    with pytest.raises(RdfSyntaxError) as caught:
        messages(text)
    assert caught.value.line == line


def test_a_delimiter_without_message_support_is_an_error() -> None:
    with pytest.raises(RdfSyntaxError):
        messages(f"{A} {B} {C} .\nMESSAGE\n", "text/turtle")


PIECES = st.sampled_from(
    [
        "<a:s> <a:p> <a:o> .\n",
        "<a:s> <a:p> <a:o> <a:g> .\n",
        '<a:s> <a:p> "MESSAGE" .\n',
        "MESSAGE\n",
        '<a:s> <a:p> "a\\"b"@en .\r\n',
        "<a:s> <a:p> <a:o>\n",
        ".\n",
        "# MESSAGE <a> <b> <c> .\n",
        "\n",
        "@message .\n",
        "PREFIX a: <urn:a>\n",
        "a:s a:p a:o ; a:q [ a:p 1 ] .\n",
        "<a:s> <a:p> <a:o> . MESSAGE\n",
        "<a:g> {\n",
        "}\n",
        '<a:s> <a:p> """\nMESSAGE\n""" .\n',
        '<a:s> <a:p> "1"^^<a:t>.\n',
        "<a\\u0041> <b> <c> .\n",
    ]
)


@settings(max_examples=examples(300))
@given(st.lists(PIECES, max_size=12).map("".join))
def test_whole_lines_are_skipped_without_another_result(text: str) -> None:
    def cut() -> object:
        try:
            return cutting.split_messages(text)
        except RdfSyntaxError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        quick = cut()
        patch.setattr(cutting, "_LINES", re.compile("(?!)"))
        assert quick == cut()


HOSTILE = {
    "white space": " \n" * 150_000,
    "comments": "# x\n" * 75_000,
    "a string that does not end": 'VERSION "1.2-messages"\n:a :b "' + '\\"' * 150_000,
    "long strings in vain": 'VERSION "1.2-messages"\n:a :b """' + '\\"""\n' * 60_000,
    "escapes": 'VERSION "1.2-messages"\n:a :b "' + "\\n" * 150_000 + '" .',
    "lines": 'VERSION "1.2-messages"\n' + "<urn:a> <urn:b> <urn:c> .\n" * 12_000,
    "prefixes in vain": 'VERSION "1.2-messages"\n' + "{}prefix" * 20_000,
    "bases in vain": 'VERSION "1.2-messages"\n' + "{}base<" * 20_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_document_is_cut_in_a_few_times_its_size(kind: str) -> None:
    text = HOSTILE[kind]
    tracemalloc.start()
    try:
        if text.startswith("V"):
            split_messages(text)
        else:
            with contextlib.suppress(ReportedError):
                decode(text.encode(), "text/turtle", DecodeOptions())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(text) + 1_000_000


def test_directives_that_hold_already_are_not_repeated() -> None:
    one = "PREFIX a: <http://a/> PREFIX r: <r> <urn:s> a:p r:o .\n"
    texts = [
        message.text for message in split_messages("MESSAGE\n".join([one] * 3) + "PREFIX a: <http://b/>")
    ]
    assert [text.count("a: <http://a/>") for text in texts] == [1, 2, 2]
    assert [text.count("r: <r>") for text in texts] == [1, 2, 3]


def test_directives_that_would_be_repeated_too_often_are_refused() -> None:
    many = "".join(f"PREFIX p{n}: <http://example.org/{n}>\n" for n in range(30_000))
    with pytest.raises(LimitError, match="before too many messages"):
        split_messages(many + "<urn:s> <urn:p> 1 . MESSAGE\n" * 400)


def test_an_escaped_quote_in_a_name_opens_no_string() -> None:
    assert len(split_messages("ex:it\\'s ex:p 1 .\nMESSAGE ex:it\\'s ex:p 2 .")) == 2


JSON_LINES = "application/x-ld+ndjson"


def test_json_ld_messages_are_lines_after_their_context() -> None:
    text = (
        '{"@context": {"@vocab": "http://e.org/", "id": "@id"}}\n'
        '{"id": "http://e.org/a", "b": {"id": "http://e.org/c"}}\n{}\n\n'
        '{"@context": {"b": "http://e.org/c"}, "id": "http://e.org/a", "b": {"id": "http://e.org/a"}}\n'
        '{"@context": {"b": {"@id": "http://e.org/b", "@type": "@id"}}}\n'
        '{"@id": "http://e.org/c", "b": "http://e.org/a"}\n'
    )
    assert messages(text, JSON_LINES) == [[f"{A} {B} {C}"], [], [f"{A} {C} {A}"], [f"{C} {B} {A}"]]


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('{"@id": "http://e.org/a"}, "@id": 5', 2),
        ("{nonsense", 2),
        ('{"@context": "http://e.org/", "p": 1}', 2),
    ],
)
def test_a_wrong_json_ld_message_is_told_with_its_line(line: str, number: int) -> None:
    with pytest.raises(RdfSyntaxError) as told:
        messages(f'{{"@context": {{"p": "http://e.org/b"}}}}\n{line}\n', JSON_LINES)
    assert told.value.line == number


YAML = "application/rdfm+yaml"


def test_yaml_ld_messages_are_the_documents_of_a_stream() -> None:
    text = (
        "'@context': {b: {'@id': 'http://e.org/b', '@type': '@id'}}\n'@id': http://e.org/a\nb: http://e.org/c\n"
        "---\n---\n{}\n---\n'@id': http://e.org/c\nhttp://e.org/b:\n- '@id': http://e.org/a\n- 1\n"
    )
    two = [f"{C} {B} {A}", f'{C} {B} "1"^^<http://www.w3.org/2001/XMLSchema#integer>']
    assert messages(text, YAML) == [[f"{A} {B} {C}"], [], [], two]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", "yes"),
        ("2026-01-01", "2026-01-01"),
        ("1:30", "1:30"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        (".inf", ".inf"),
        ("True", True),
        ("0x1F", 31),
        ("+007", 7),
        ("1.50", 1.5),
        ("-.5e1", -5.0),
        ("~", None),
        ('"a\\n\\u00e9"', "a\né"),
    ],
)
def test_yaml_scalars_are_those_of_its_core_schema(scalar: str, value: object) -> None:
    (message,) = split_yaml_messages(f"a: {scalar}\n")
    assert json.loads(message.text) == {"a": value}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: &x 1\n---\nb: *x\n", 3),
        ("a: 1\n---\n[a]: 1\n", 3),
        ("a: !!binary x\n", 1),
        ("a: 1\nb: [\n", 3),
        ("'@id': http://e.org/a\n---\n'@type': [[1]]\n", 2),
    ],
)
def test_a_wrong_yaml_ld_message_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(RdfSyntaxError) as told:
        messages(text, YAML)
    assert told.value.line == line


@pytest.mark.parametrize(
    "text",
    ["%TAG !a! b:\n" * 100_000 + "--- a\n", "[" * 100_000 + "]" * 100_000, "x" * 5_000_000, "a: \x00"],
    ids=["directives", "nesting", "length", "control character"],
)
def test_yaml_that_would_be_read_for_long_is_refused(text: str) -> None:
    with pytest.raises(ReportedError):
        messages(text, YAML)


XML = "application/rdfm+xml"
XML_LINE = (
    '<?xml version="1.0"?><r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/">'
    '<r:Description r:about="http://e.org/{}"><e:b r:resource="http://e.org/c"/></r:Description></r:RDF>\n'
)


def test_rdf_xml_messages_are_lines() -> None:
    text = XML_LINE.format("a") + XML_LINE.format("c")
    assert messages(text, XML) == [[f"{A} {B} {C}"], [f"{C} {B} {C}"]]


@pytest.mark.parametrize("line", [XML_LINE.format('"'), XML_LINE.format("<"), "<?x>", "nonsense"])
def test_a_wrong_rdf_xml_message_is_told_with_its_line(line: str) -> None:
    with pytest.raises(RdfSyntaxError) as told:
        messages(XML_LINE.format("a") + line, XML)
    assert told.value.line == 2


def test_entities_of_an_rdf_xml_message_expand_within_limits() -> None:
    entities = '<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {name} "{f"&{before};" * 50}">' for before, name in zip("abcde", "bcdef", strict=True)
    )
    line = XML_LINE.format("&f;").replace("?>", f"?><!DOCTYPE r:RDF [{entities}]>")
    with pytest.raises(LimitError, match="expand"):
        messages(line, XML)
