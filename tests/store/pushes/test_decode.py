"""How elements and their times are found in the body of a push."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.store.errors import InputError, LimitError, MediaTypeError, RdfSyntaxError, ReportedError
from quadrill.store.pushes.decode import DecodedPush, DecodeOptions, decode

E = "http://e.org/"
PROV = "http://www.w3.org/ns/prov#generatedAtTime"
XSD = "http://www.w3.org/2001/XMLSchema#"


def read(text: str, media_type: str, **options: object) -> DecodedPush:
    return decode(text.encode(), media_type, DecodeOptions(**options))  # type: ignore[arg-type]


def sizes(decoded: DecodedPush) -> list[int]:
    return [len(element.statements) for element in decoded.elements]


def test_turtle_and_n_triples_are_one_element() -> None:
    assert sizes(read("<a> <b> 1, 2 . <c> <d> 3 .", "text/turtle")) == [3]
    assert sizes(read(f"<{E}a> <{E}b> <{E}c> .\n<{E}a> <{E}b> <{E}d> .\n", "application/n-triples")) == [2]


def test_an_empty_body_holds_no_element() -> None:
    assert sizes(read("# nothing\n", "text/turtle")) == []


def test_each_triple_can_be_an_element() -> None:
    decoded = read("<a> <b> 1, 2 . <c> <d> 3 .", "text/turtle; charset=utf-8", each_triple=True)
    assert sizes(decoded) == [1, 1, 1]
    assert decoded.elements[1].place == "triple 2 of the body"


def test_each_named_graph_is_an_element_in_document_order() -> None:
    text = "<g2> { <a> <b> 1 } <x> <y> 0 . <g1> { <a> <b> 2, 3 } <g2> { <a> <b> 4 }"
    decoded = read(text, "application/trig")
    assert [element.place for element in decoded.elements] == [
        "graph <http://localhost/g2>",
        "the default graph",
        "graph <http://localhost/g1>",
    ]
    assert sizes(decoded) == [2, 1, 2]


def test_default_graph_triples_about_a_graph_belong_to_it() -> None:
    text = f'<g> {{ <a> <b> 1 }} <g> <{PROV}> "1970-01-01T00:00:05Z"^^<{XSD}dateTime> . <x> <y> <z> .'
    decoded = read(text, "application/trig")
    assert sizes(decoded) == [2, 1]
    assert [element.at for element in decoded.elements] == [5000, None]


def test_a_blank_graph_name_is_a_graph_name() -> None:
    text = f'_:g <{E}size> "1" .\n<{E}a> <{E}b> <{E}c> _:g .\n'
    assert sizes(read(text, "application/n-quads")) == [2]


def test_the_time_property_on_the_graph_name_goes_first() -> None:
    text = f"""<{E}a> <{PROV}> "7000" <{E}g> .
<{E}g> <{PROV}> "5000" .
"""
    assert [element.at for element in read(text, "application/n-quads").elements] == [5000]


def test_the_time_property_is_the_streams_own() -> None:
    text = f'<a> <{E}time> "1970-01-01T00:00:05Z"^^<{XSD}dateTime> ; <{PROV}> "soon" .'
    decoded = read(text, "text/turtle", timestamp_property=E + "time")
    assert [element.at for element in decoded.elements] == [5000]


def test_a_request_time_goes_before_the_property() -> None:
    text = f'<a> <{PROV}> "1970-01-01T00:00:05Z"^^<{XSD}dateTime> .'
    assert [element.at for element in read(text, "text/turtle", at=1).elements] == [1]


def test_two_different_times_in_one_element_are_refused() -> None:
    with pytest.raises(InputError, match="2 different times"):
        read(f'<a> <{PROV}> "1" . <b> <{PROV}> "2" .', "text/turtle")


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="no instant"):
        read(f'<a> <{PROV}> "soon" .', "text/turtle")


def test_json_ld_is_read() -> None:
    document = {"@id": E + "a", E + "b": [{"@value": 1}, {"@value": "x", "@language": "en"}]}
    assert sizes(read(json.dumps(document), "application/ld+json")) == [2]


def test_a_context_of_another_server_is_not_fetched_and_the_hint_says_what_to_do() -> None:
    with pytest.raises(RdfSyntaxError, match="a context of another server is not fetched") as caught:
        read('{"@context": "http://example.org/context", "@id": "urn:a"}', "application/ld+json")
    assert caught.value.hint == "Put the context itself in place of its address."


def test_lines_have_their_own_times() -> None:
    data = f"<{E}a> <{E}b> <{E}c> ."
    lines = [
        {"at": 5, "data": data},
        {"at": "1970-01-01T00:00:01Z", "data": data + f"\n<{E}a> <{E}b> <{E}d> <{E}g> ."},
        {"data": data},
        {"at": 7, "jsonld": {"@id": E + "a", E + "b": 1}},
    ]
    text = "\n".join(json.dumps(line) for line in lines) + "\n\n"
    decoded = read(text, "application/x-ndjson", at=3)
    assert [element.at for element in decoded.elements] == [5, 1000, 3, 7]
    assert sizes(decoded) == [1, 2, 1, 1]


@pytest.mark.parametrize(
    ("text", "media_type", "line", "column"),
    [
        (f"<{E}a> <{E}b> <{E}c> .\n<{E}a> <{E}b> .\n", "application/n-triples", 2, 35),
        ("<a> <b> 1 .\n<a> <b> ^ .", "text/turtle", 2, 9),
        ('{"at": 1, "data": ""}\n{"at": 1', "application/x-ndjson", 2, 9),
    ],
)
def test_a_syntax_error_has_its_place(text: str, media_type: str, line: int, column: int) -> None:
    with pytest.raises(RdfSyntaxError) as caught:
        read(text, media_type)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"line {line}" in caught.value.message


def test_a_syntax_error_inside_a_line_names_line_and_place() -> None:
    with pytest.raises(RdfSyntaxError, match="line 2, in its data at line 1") as caught:
        read('{"data": ""}\n{"data": "<a"}', "application/x-ndjson")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    "line", ["[]", '"x"', "{}", '{"data": "", "jsonld": {}}', '{"data": 1}', '{"data": "", "att": 1}',
             '{"at": "soon", "data": ""}', '{"at": true, "data": ""}'],
)  # fmt: skip
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="line 1"):
        read(line, "application/x-ndjson")


def test_a_partial_push_lists_the_bad_elements() -> None:
    good = json.dumps({"at": 1, "data": f"<{E}a> <{E}b> <{E}c> ."})
    decoded = read(f'{good}\nnonsense\n{good}\n{{"data": "<"}}', "application/x-ndjson", partial=True)
    assert sizes(decoded) == [1, 1]
    assert [(bad.place, bad.line) for bad in decoded.bad] == [("line 2", 2), ("line 4", 4)]
    assert decoded.bad[0].to_json()["element"] == "line 2"


def test_an_unknown_media_type_is_refused() -> None:
    for media_type in ("text/html", "", "application/rdf+xml"):
        with pytest.raises(MediaTypeError):
            read("", media_type)


def test_bodies_must_be_utf_8() -> None:
    with pytest.raises(RdfSyntaxError, match="not UTF-8 at line 2, byte 3"):
        decode(b"# a\nab\xff", "text/turtle", DecodeOptions())
    with pytest.raises(MediaTypeError, match="utf-16"):
        decode("<a> <b> <c> .".encode("utf-16"), "text/turtle; charset=utf-16", DecodeOptions())
    assert sizes(
        DecodedPush(decode(b"\xef\xbb\xbf<a> <b> 1 .", "text/turtle", DecodeOptions()).elements)
    ) == [1]


@pytest.mark.parametrize(
    ("text", "media_type"),
    [
        ("<u:a> <u:b> " + "<<( <u:a> <u:b> " * 5000 + "<u:c>" + " )>>" * 5000 + ".", "application/n-triples"),
        ('{"@id":"http://a","http://b":' * 5000 + '"x"' + "}" * 5000, "application/ld+json"),
        ('{"jsonld":' + "[" * 5000 + "]" * 5000 + "}", "application/x-ndjson"),
    ],
)  # fmt: skip
def test_deep_nesting_is_refused_before_it_is_parsed(text: str, media_type: str) -> None:
    with pytest.raises(LimitError, match="deeper than 100"):
        read(text, media_type)


def test_many_brackets_in_a_row_are_not_deep() -> None:
    many = " , ".join("[ <b> 1 ]" for _ in range(500))
    assert sizes(read(f'<a> <b> {many} , "<<((([[[" .', "text/turtle")) == [1001]


def test_the_quads_of_a_push_and_its_bad_elements_are_limited() -> None:
    options = DecodeOptions(max_quads=3, max_bad=2, partial=True)
    for body, media_type in (
        ("<urn:a> <urn:b> 1, 2, 3, 4 .", "text/turtle"),
        ("<urn:a> <urn:b> 1, 2, 3, 4 .", "application/trig"),
    ):
        with pytest.raises(LimitError, match="may have 3 quads"):
            decode(body.encode(), media_type, options)
    assert len(decode(b"0\n0\n", "application/x-ndjson", options).bad) == 2
    with pytest.raises(LimitError, match="more than 2 elements of the push are bad"):
        decode(b"0\n0\n0\n", "application/x-ndjson", options)


TRIPLE = f"<{E}a> <{E}b> <{E}c>"
DATA = st.sampled_from(
    [
        f"{TRIPLE} .",
        f"{TRIPLE} .\n",
        f"{TRIPLE} <{E}g> .\n<{E}a> <{E}b> 'x' .",
        f"{TRIPLE} . {TRIPLE} .",
        f"{TRIPLE} .\n{TRIPLE} .",
        f"{TRIPLE}",
        f'<{E}a> <{E}b> "[" .\n<{E}a> <{E}b> "{{" .',
        f'<{E}a> <{E}b> "1.50"^^<{XSD}decimal> .\n\n',
        f'<{E}a> <{E}b> "01"^^<{XSD}integer> .\r\n<{E}a> <{E}b> "1"^^<{XSD}integer> .',
        f"_:a <{E}b> _:c .",
        f"<{E}a> <{E}b> <c> .",
        f'<{E}a> <{PROV}> "5.0"^^<{XSD}decimal> .',
        f'<{E}a> <{PROV}> "50"^^<{XSD}decimal> .',
        f'<{E}a> <{PROV}> "1e5"^^<{XSD}double> .',
        f'<{E}a> <{PROV}> "1970-01-01T00:00:05.50Z"^^<{XSD}dateTime> .',
        "",
        "\n",
        "# nothing",
        7,
        None,
    ]
)
TIMES = st.sampled_from(
    [0, -1, 5, 10**12, 10**15, 10**20, -(10**20), 1.5, True, None, "7", "1970-01-01", "soon", [1], {}]
)
LINES = st.one_of(
    st.builds(lambda at, data: json.dumps({"at": at, "data": data}), TIMES, DATA),
    st.builds(lambda at, data: json.dumps({"data": data, "at": at}, ensure_ascii=False), TIMES, DATA),
    st.builds(lambda data: json.dumps({"data": data}), DATA),
    st.builds(lambda at, data: json.dumps({"at": at, "data": data, "more": 1}), TIMES, DATA),
    st.builds(lambda at, data: f'{{"at":3,"at":{json.dumps(at)},"data":{json.dumps(data)}}}', TIMES, DATA),
    st.sampled_from(["", " ", "{", "[]", "7", '"a"', "{}", "nul", "\x0b", '{"at": NaN, "data": ""}']),
    st.just('{"at": 1, "data": "\\ud800"}'),
    # What would be right only with the line behind or before it.
    st.sampled_from(
        ['{"at":1,"data":""},{"at":2', '"data":""}', '{"at":1,"data":""},', '{"at":1', '{"at":1,"data":"']
    ),
)


def told(lines: list[str], options: DecodeOptions) -> object:
    """The elements and what is bad of them; of a push that is refused its error."""
    try:
        decoded = decode("\n".join(lines).encode(), "application/x-ndjson", options)
    except ReportedError as error:
        return (
            type(error),
            error.message,
            error.hint,
            getattr(error, "line", None),
            getattr(error, "column", None),
        )
    return decoded.elements, decoded.bad


@given(st.lists(LINES, max_size=5), st.none() | st.just(9), st.booleans(), st.booleans())
def test_lines_read_together_are_what_each_is_alone(
    lines: list[str], at: int | None, each_triple: bool, partial: bool
) -> None:
    """A line of another member beside them lets none be read in the short way; it is told as bad."""
    options = DecodeOptions(at=at, each_triple=each_triple, partial=partial, max_quads=3)
    alone = [told(["" for _ in range(number)] + [line], options) for number, line in enumerate(lines)]
    together = told(lines, options)
    refused = next((each for each in alone if len(each) > 2), None)  # type: ignore[arg-type]
    if refused is not None:
        assert together == refused
    else:
        assert together == ([e for each in alone for e in each[0]], [e for each in alone for e in each[1]])  # type: ignore[index]


@pytest.mark.parametrize(
    "cut", [('{"at":1,"data":""},{"at":2', '"data":""}'), ('{"at":1', '"data":""},{"at":1,"data":""}')]
)
def test_lines_that_are_right_only_together_are_refused(cut: tuple[str, str]) -> None:
    with pytest.raises(RdfSyntaxError, match="line 1 is not JSON"):
        decode("\n".join(cut).encode(), "application/x-ndjson", DecodeOptions())


@given(TIMES, DATA, st.none() | st.just(9), st.booleans())
def test_a_line_of_the_plainest_form_is_what_it_is_in_another_form(
    at: object, data: object, given_at: int | None, partial: bool
) -> None:
    """A bracket in a comment of the data takes the line to the parsers of JSON and N-Quads."""
    options = DecodeOptions(at=given_at, partial=partial)
    plain = told([json.dumps({"at": at, "data": data})], options)
    if isinstance(data, str):
        odd = told([json.dumps({"at": at, "data": f"{data}\n# ["})], options)
        assert plain[0] == odd[0]  # type: ignore[index]  # the message tells another line
