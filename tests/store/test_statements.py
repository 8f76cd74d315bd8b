"""Lines that are read without a parser: what is read there is what the parser reads, and nothing else."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from quadrill.store.documents.statements import (
    PLAIN_LINE,
    _lines_of,
    _of_one_subject,
    _predicates,
    lines_of,
    quads_of,
    read_lines,
    read_statements,
    statements_of,
    term_of,
    to_lines,
)
from quadrill.store.terms import store_form, term_text

XSD = "http://www.w3.org/2001/XMLSchema#"
N_QUADS, N_TRIPLES = RdfFormat.N_QUADS, RdfFormat.N_TRIPLES
A = "<http://e.org/a>"

iris = st.sampled_from(
    [
        A, "<urn:a:b>", "<http://e.org:80/a/b?c=d#e>", "<http://e.org/%41%c3?%20#%ff>", "<x:>", "<x:/>", "<x://>",
        "<http://e.org/é/\ud7ff>", "<http://e.org/a b>", "<http://e.org/%4>", "<http://[::1]/>", "<http://e:f:g/>",
        "<relative>", "<//e.org/a>", "<1:a>", "<a:b#c#d>", "<http:////a>", "<http://a@b/>", "<http://e.org/\\u0041>",
        "<http://e.org/\ue000>", "<http://%41/>", "<>", "<http://e.org/[a]>", "<a+b-c.1:d>", "<http://e.org/'()*!$&;,>",
    ]
)  # fmt: skip
values = st.sampled_from(
    [
        '""', '"a"', '"é\x85\u2028"', '"\\"\\\\\\n\\r\\t\\b\\f"', '"\\u0041"', '"a\tb"', '"\x7f"', '"\ufffe"',
        '"\\\'"', '"\\x"', '"a"@en', '"a"@EN', '"a"@en-GB', '"a"@en-gb', '"a"@zh-hans', '"a"@es-419', '"a"@e',
        '"a"@en--ltr', '"a"@en-x-y', '"a"@abcdefghi', '"a"@', '"a" @en', "'a'", '"a', '"a""b"', '"😀"',
        f'"a"^^<{XSD}string>', '"a"^^<http://e.org/t>', '"a"^^<relative>', '"a"^^', '"a"^^ <urn:t>', "1",
        *[
            f'"{text}"^^<{XSD}{name}>'
            for name in ("integer", "decimal", "double", "boolean", "dateTime", "date", "float")
            for text in (
                "0", "-0", "+1", "01", "12", "1.0", "1.50", "-0.0", "10.00", "100", "1.", ".5", "0.0", "00",
                "-1.20", "1234567890123.10", "1.0000000000", "1e5", "INF", "true", "TRUE",
                "2024-05-01T12:00:00.50Z", "2024-02-31T12:00:00Z", "2024-05-01T24:00:00Z",
                "2024-05-01", "", " 1",
            )
        ],
    ]
)  # fmt: skip
blanks = st.sampled_from(
    [
        "_:b",
        "_:b1",
        "_:B",
        "_:0a",
        "_:00ff",
        "_:1",
        "_:_",
        "_:b-c",
        "_:b-",
        "_:b.c",
        "_:b.",
        "_:-b",
        "_:é",
        "_:",
        "_:b:c",
    ]
)
subjects = st.one_of(iris, blanks, st.sampled_from([f"<< {A} {A} {A} >>", f"<<( {A} {A} {A} )>>", '"a"']))
objects = st.one_of(values, values, iris, blanks, st.just(f"<<( {A} {A} _:b )>>"))
graphs = st.one_of(st.just(""), st.just(""), iris, blanks, st.just('"g"'))
spaces = st.sampled_from([" ", " ", " ", " ", " ", " ", "", "  ", "\t"])
ends = st.sampled_from(
    [".\n", ".\n", ".\n", ".\n", ".\r\n", ".", ".\n\n", ". # end\n", "\n", ".\r", ".\x0b\n"]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line that is right, or wrong somewhere, as often."""
    if draw(st.booleans()):
        graph = draw(graphs)
        subject, value = draw(st.one_of(iris, blanks)), draw(st.one_of(iris, values, blanks))
        parts = [subject, draw(iris), value, *([graph] if graph else []), ".\n"]
        return " ".join(parts)
    parts = [draw(subjects), draw(iris), draw(objects), draw(graphs), draw(ends)]
    return "".join(part + draw(spaces) for part in parts[:-1]) + parts[-1]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Some lines, one character of them changed now and then."""
    text = draw(st.sampled_from(["", "", "", "", " ", "\n", "# note\n", "\ufeff"])) + "".join(
        draw(st.lists(lines(), max_size=4))
    )
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        place = draw(st.integers(0, len(text)))
        put = draw(st.sampled_from(["", *string.printable[:95:3], *' <>".\\^@_:%#\n\r\t\x00\x85é']))
        text = text[:place] + put + text[place + draw(st.integers(0, 2)) :]
    return text


def parsed(text: str, rdf_format: RdfFormat) -> list[Quad] | None:
    """The quads as a store gives them back; None where the parser refuses the text."""
    try:
        quads = list(parse(text, rdf_format))
    except SyntaxError:
        return None
    found = []
    for quad in quads:
        value = quad.object
        if isinstance(value, Literal | Triple):
            value = store_form(value)
        found.append(Quad(quad.subject, quad.predicate, value, quad.graph_name))
    return found


@given(documents(), st.sampled_from([N_TRIPLES, N_QUADS]), st.booleans())
@example(f'{A} {A} "1.50"^^<{XSD}decimal> .', N_TRIPLES, False)
@example(f'{A} {A} "a \\"1.50"^^<{XSD}decimal> .', N_TRIPLES, False)
@example(f'{A} {A} "10"^^<{XSD}decimal> .\n{A} {A} "100.0"^^<{XSD}decimal> {A} .', N_QUADS, False)
@example(f"{A} {A} {A} .\n\n{A} {A} {A} .\n", N_TRIPLES, False)
@example(f"{A} {A} {A} .\n_:b {A} {A} .\n", N_TRIPLES, False)
@example(f'{A} {A} "_:b" .\n{A} {A} {A} .\n', N_TRIPLES, False)
@example(f"{A} {A} {A} .{A} {A} {A} .\n", N_TRIPLES, False)
@example(f"{A} {A} {A} .\nx{A} {A} {A} .\n", N_TRIPLES, False)
@example(f"{A} {A} {A} .\nx {A} {A} {A} .\n", N_QUADS, False)
@example(f'{A} {A} "0"^^<{XSD}decimal> .\n{A} {A} "1.0"^^<{XSD}decimal> .\n', N_TRIPLES, False)
@example(f'{A} {A} "0.10"^^<{XSD}decimal> .\n{A} {A} "."^^<{XSD}decimal> .\n', N_TRIPLES, False)
def test_what_is_read_is_what_the_parser_reads(text: str, rdf_format: RdfFormat, exact: bool) -> None:
    read = read_statements(text, rdf_format, exact=exact)
    if read is None:
        return
    found, blank = read
    assert blank or not any(term.startswith("_:") for each in found for term in each)
    quads = parsed(text, rdf_format)
    assert quads is not None, "the parser refuses what was read"
    assert list(found) == list(statements_of(quads))
    assert quads_of(found) == quads
    if exact:
        assert [str(quad) for quad in quads] == [str(quad) for quad in parse(text, rdf_format)]


@st.composite
def descriptions(draw: st.DrawFn) -> str:
    """Lines most of which are about one thing, one character of them changed now and then."""
    subject = draw(st.sampled_from([A, A, A, '"a"', "_:b"]))
    pairs = draw(st.lists(st.tuples(iris, st.one_of(values, iris, blanks)), min_size=2, max_size=4))
    lines = [f"{draw(st.sampled_from([subject, subject, subject, A]))} {p} {o} .\n" for p, o in pairs]
    text = "".join(lines)
    place = draw(st.integers(0, len(text)))
    put = draw(st.sampled_from(["", "", "", *' <>".\\_:\n', f" .\n{A} "]))
    return text[:place] + put + text[place + draw(st.integers(0, len(put) > 0)) :]


@given(descriptions(), st.sampled_from([N_TRIPLES, N_QUADS]))
@example(f'{A} {A} "a"@en .\n{A} {A} "b" .\n\n', N_TRIPLES)
@example(f"{A} {A} {A} .\n{A} {A} {A} {A} .", N_QUADS)
@example(f"{A} {A} {A} .\n{A} {A} {A} \n{A} .", N_QUADS)
@example(f'"a" {A} {A} .\n"a" {A} {A} .', N_TRIPLES)
@example(f'{A} {A} "1.50"^^<{XSD}decimal> .\n{A} {A} {A} .', N_TRIPLES)
def test_what_is_about_one_thing_is_read_as_line_by_line(text: str, rdf_format: RdfFormat) -> None:
    found = _of_one_subject(text)
    if found is not None:
        assert found == _lines_of(text.rstrip("\n"), PLAIN_LINE[rdf_format])
        assert len({id(each[0]) for each in found}) == 1


def test_a_predicate_is_one_string_and_few_are_remembered() -> None:
    texts = [f"{A} <urn:p{n}> {A} .\n{A} <urn:p{n}> <urn:{n}> .\n" for n in range(5000)]
    for text in texts:
        found = _of_one_subject(text)
        assert found is not None and found[0][1] is found[1][1]
    assert len(_predicates()) <= 4096
    assert _of_one_subject(f"{A} {A}x {A} .\n{A} {A} {A} .\n") is None


@pytest.mark.parametrize(
    "text",
    [
        f"{A} {A} {A} .\n",
        f"{A} {A} {A} .",
        f"{A} {A} {A} {A} .\r\n{A} {A} {A} .\n",
        f"_:b0 {A} _:c-1 _:g .\n",
        f'{A} {A} "a \\"b\\" \\n"@en .\n',
        f'{A} {A} "21.50"^^<{XSD}decimal> .\n',
        f'{A} {A} "2024-05-01T12:00:00Z"^^<{XSD}dateTime> .\n',
        "<http://é.org/a> ".replace("é", "e") + f"{A} <http://e.org/é> .\n",
    ],
)
def test_ordinary_lines_need_no_parser(text: str) -> None:
    assert read_statements(text, N_QUADS) is not None


def test_every_character_of_a_string_is_read_as_the_parser_reads_it() -> None:
    for code in [*range(0x3000), *range(0xD700, 0xD800), *range(0xE000, 0x10000, 7), 0xFFFE, 0xFFFF, 0x1F600]:
        for text in (
            f'{A} {A} "{chr(code)}" .',
            f"{A} {A} <http://e.org/{chr(code)}> .",
            f"{A} {A} <x:?{chr(code)}> .",
        ):
            found = read_statements(text, N_TRIPLES)
            if found is not None:
                assert list(found[0]) == list(statements_of(parse(text, N_TRIPLES))), hex(code)


literal_texts = st.text(st.characters(codec="utf-8"), max_size=8)
plain_terms = st.one_of(
    st.builds(lambda text: NamedNode(f"http://e.org/{text}"), st.from_regex(r"\A[a-z]{0,3}\Z")),
    st.just(BlankNode("b1")),
    st.builds(Literal, literal_texts),
    st.builds(lambda text: Literal(text, language="en-gb"), literal_texts),
    st.builds(
        lambda text, name: Literal(text, datatype=NamedNode(XSD + name)),
        literal_texts,
        st.sampled_from(["integer", "date"]),
    ),
)
terms = st.one_of(
    plain_terms, st.builds(lambda value: Triple(BlankNode("s"), NamedNode("urn:p"), value), plain_terms)
)  # fmt: skip


@given(terms)
@example(Literal('\\" "@en "^^<urn:t> .\n'))
def test_a_term_comes_back_from_its_text(term: NamedNode | BlankNode | Literal | Triple) -> None:
    ((_, _, text, _),) = statements_of([Quad(NamedNode("urn:s"), NamedNode("urn:p"), term)])
    assert term_of(text) == term


@given(st.lists(terms, max_size=4))
def test_quads_come_back_from_statements_and_lines(
    values: list[NamedNode | BlankNode | Literal | Triple],
) -> None:
    quads = [Quad(NamedNode("urn:s"), NamedNode("urn:p"), value, BlankNode("g")) for value in values]
    quads += [Quad(NamedNode("urn:s"), NamedNode("urn:p"), value) for value in values]
    statements = statements_of(quads)
    assert quads_of(statements) == quads
    assert read_lines(lines_of(statements).encode()) == statements
    assert read_lines(to_lines(quads)) == statements


def test_lines_are_those_of_the_serialiser() -> None:
    node = NamedNode("urn:p")
    quads = [Quad(node, node, Literal('a "b"\n\x01é')), Quad(node, node, Literal("c", language="en"), node)]
    assert lines_of(statements_of(quads)).encode() == to_lines(quads)


def test_quads_of_every_shape_have_their_terms_apart() -> None:
    name, blank = NamedNode("urn:a"), BlankNode("b")
    said = Triple(name, name, Literal('a)>> "<x> .\n'))
    quads = [
        Quad(subject, name, value, *graph)
        for subject in (name, blank)
        for value in (name, blank, Literal("<a> <b> ."), Literal("x y", language="en"), Literal(1), said)
        for graph in ((), (name,), (blank,))
    ]
    expected = [
        (str(each.subject), str(each.predicate), term_text(each.object), *graph_of(each)) for each in quads
    ]
    assert statements_of(quads) == tuple(expected)
    assert statements_of([]) == ()


def graph_of(quad: Quad) -> tuple[str]:
    return ("",) if quad.graph_name == DefaultGraph() else (str(quad.graph_name),)


def test_a_long_text_that_does_not_fit_is_given_up_in_time_that_grows_with_it() -> None:
    """Nothing is tried again and again: ten times the text takes about ten times as long."""
    from time import process_time

    def seconds(text: str) -> float:
        begin = process_time()
        assert read_statements(text, N_QUADS) is None
        return process_time() - begin

    for piece in (f'{A} {A} "', f"{A} ", "<a:", f'{A} {A} "a" ', f'{A} {A} "\\"', '"1', ' "1.0"^^'):
        text = f"{A} {A} {A} .\n" + piece * 20_000 + f'"0"^^<{XSD}decimal>'
        assert seconds(text * 10) < 40 * seconds(text) + 0.5, re.escape(piece)
