"""Tokens and the cutting of updates."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.store.errors import LimitError
from quadrill.store.sparql.scan import query_prologue
from quadrill.store.sparql.tokens import excerpt_at, line_and_column, tokens
from quadrill.store.sparql.update_text import (
    Clear,
    Data,
    Load,
    Modify,
    OneGraph,
    Transfer,
    split_update,
)


def cut(text: str) -> list[str]:
    return [token.text for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?a $b1 ex:c.d. :e", ["?a", "$b1", "ex:c.d", ".", ":e"]),
        ("<http://a>#c\n<b>", ["<http://a>", "<b>"]),
        ('"a\\"}" \'b{\' \'\'\'c\'d\'\'\' """e""f"""', ['"a\\"}"', "'b{'", "'''c'd'''", '"""e""f"""']),
        ('"x"@en--ltr "1"^^xsd:int', ['"x"', "@en--ltr", '"1"', "^^", "xsd:int"]),
        ("_:b1. [] (1 -2 .5e3)", ["_:b1", ".", "[", "]", "(", "1", "-2", ".5e3", ")"]),
        (
            "<< ?s ?p ?o >> <<( ?s ?p ?o )>>",
            ["<<", "?s", "?p", "?o", ">>", "<<", "(", "?s", "?p", "?o", ")", ">>"],
        ),
        ("{| :p 1 |}", ["{|", ":p", "1", "|}"]),
        ("FILTER(?a<?b&&?c>?d)", ["FILTER", "(", "?a", "<", "?b", "&&", "?c", ">", "?d", ")"]),
        ("FILTER(?a < 5)", ["FILTER", "(", "?a", "<", "5", ")"]),
        (
            "FILTER((?a+1)<(?b)&&?c>1)",
            ["FILTER", "(", "(", "?a", "+1", ")", "<", "(", "?b", ")", "&&", "?c", ">", "1", ")"],
        ),
        ("?s <p> ?o ; <q?x=1> 2", ["?s", "<p>", "?o", ";", "<q?x=1>", "2"]),
        ("(?x <http://a?b>)", ["(", "?x", "<http://a?b>", ")"]),
        ("ex:a\\,b ex:%41 ex:é 日本:語", ["ex:a\\,b", "ex:%41", "ex:é", "日本:語"]),
        ("?p != ?q || !?r", ["?p", "!=", "?q", "||", "!", "?r"]),
        ("'unclosed", ["'", "unclosed"]),
    ],
)
def test_a_text_is_cut_where_the_grammar_cuts_it(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_places_count_from_1() -> None:
    assert line_and_column("ab\ncd", 0) == (1, 1)
    assert line_and_column("ab\ncd", 4) == (2, 2)
    assert excerpt_at("ab\ncd", 2, 2) == "cd\n ^"
    assert excerpt_at("ab", 7, 1) is None
    long = "x" * 500 + "!" + "y" * 500
    excerpt = excerpt_at(long, 1, 501)
    assert excerpt is not None
    shown, caret = excerpt.split("\n")
    assert len(shown) <= 120 and shown[caret.index("^")] == "!"


def test_an_update_is_cut_into_operations() -> None:
    text = """# first
    PREFIX ex: <http://e/>
    INSERT DATA { ex:a ex:b "};" , '''{''' } ;
    BASE <http://b/> WITH ex:g DELETE { ?s ?p $o } INSERT { _:b ?p <x> } USING <u> USING NAMED ex:n
    WHERE { ?s ?p ?o . { SELECT ?s { ?s ?q 1 ; ?r 2 } } # };
    } ;
    DELETE WHERE { ?s ?p 1 } ; LOAD SILENT <d> INTO GRAPH ex:t ; DROP SILENT NAMED ;
    MOVE DEFAULT TO GRAPH ex:m ;
    """
    first, second, third, load, drop, move = split_update(text)
    assert isinstance(first.action, Data) and first.action.quads.text.endswith("'''{''' }")
    assert isinstance(second.action, Modify)
    assert (second.action.with_graph, second.action.using, second.action.using_named) == (
        "ex:g",
        ("<u>",),
        ("ex:n",),
    )
    assert second.action.delete is not None and second.action.delete.variables == ("s", "p", "o")
    assert second.action.insert is not None and second.action.insert.blanks == {"_:b"}
    assert second.action.where.variables == ("s", "p", "o", "q", "r")
    assert second.prologue == "PREFIX ex: <http://e/>\nBASE <http://b/>\n"
    assert isinstance(third.action, Modify) and third.action.delete == third.action.where
    assert load.action == Load("<d>", "ex:t", silent=True)
    assert isinstance(drop.action, Clear) and drop.action.drop and drop.action.silent
    assert isinstance(move.action, Transfer) and move.action.target == OneGraph("ex:m")
    assert text[third.start : third.end] == "DELETE WHERE { ?s ?p 1 }"


def test_declarations_that_hold_already_are_not_repeated() -> None:
    script = "BASE <http://b/> PREFIX a: <http://a/> PREFIX r: <r> INSERT DATA { a:x a:y r:z } ;\n"
    first, second, third = split_update(script * 2 + "PREFIX a: <http://b/> CLEAR ALL")
    assert first.prologue == "BASE <http://b/>\nPREFIX a: <http://a/>\nPREFIX r: <r>\n"
    assert second.prologue == first.prologue + "PREFIX r: <r>\n"  # what is relative may mean another now
    assert third.prologue == second.prologue + "PREFIX a: <http://b/>\n"


def test_an_update_whose_every_operation_declares_more_is_refused_before_it_fills_the_memory() -> None:
    text = "".join(f"PREFIX p{n}: <http://example.org/{n}> CLEAR ALL ;" for n in range(20_000))
    with pytest.raises(LimitError, match="declares prefixes again before too many"):
        split_update(text)


def test_the_prologue_of_a_query_is_found() -> None:
    text = "BASE <http://b/> # x\nPREFIX a: <http://a/> VERSION '1.2' SELECT * { ?s ?p ?o }"
    assert query_prologue(text) == text[: text.index("SELECT")]
    assert query_prologue("PREFIX ask: <urn:a>#c\nASK{}") == "PREFIX ask: <urn:a>#c\n"
    assert query_prologue("PREFIX") == "PREFIX"


_NAME = r"(?:[\w\-]|[^\x00-\x7f])"
_LOCAL = rf"(?:{_NAME}|:|%[0-9A-Fa-f]{{2}}|\\[_~.\-!$&'()*+,;=/?#@%])"
THE_TERMINALS = re.compile(
    r"(?P<skip>(?:[ \t\r\n]+|\#[^\r\n]*)+)"
    r"|(?P<iri><[^<>\"{}|^`\x00-\x20]*>)"
    r"|(?P<string>\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r"|\"(?:[^\"\\\r\n]|\\.)*\"|'(?:[^'\\\r\n]|\\.)*')"
    rf"|(?P<var>[?$](?:\w|[^\x00-\x7f])+)"
    rf"|(?P<blank>_:{_NAME}(?:{_NAME}|\.+(?={_NAME}))*)"
    r"|(?P<lang>@[A-Za-z]+(?:-+[A-Za-z0-9]+)*)"
    r"|(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"|(?P<pname>(?:(?:[^\W\d_]|[^\x00-\x7f])(?:{_NAME}|\.+(?={_NAME}))*)?:"
    rf"(?:{_LOCAL}(?:{_LOCAL}|\.+(?={_LOCAL}))*)?)"
    r"|(?P<word>[A-Za-z_][\w]*)"
    r"|(?P<punct><<|>>|\{\||\|\}|\^\^|&&|\|\||!=|<=|>=|.)",
    re.DOTALL,
)
"""The terminals as the grammar has them, side by side: right, and far too dear for a hostile text."""

PIECES = [
    *(
        '"',
        "'",
        '"""',
        "'''",
        "\\",
        '\\"',
        "\\'",
        "\n",
        "\r",
        " ",
        "#",
        "{",
        "}",
        "[",
        "]",
        ">",
        "|",
        "^",
        "&",
        "!",
        "=",
        "\x00",
    ),
    *(
        "a",
        "Z",
        "_",
        "-",
        ".",
        "..",
        ":",
        "1",
        "e",
        "+",
        "%41",
        "%",
        "<a>",
        "?x",
        "$",
        "@en",
        "--",
        "_:",
        "é",
        "\u00b2",
        "\ud800",
    ),
]


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).flatmap(
        lambda some: st.lists(st.sampled_from(some), max_size=16)
    )
)
def test_any_text_is_cut_as_the_terminals_say(pieces: list[str]) -> None:
    text = "".join(pieces)
    expected, at = [], 0
    while at < len(text):
        found = THE_TERMINALS.match(text, at)
        assert found is not None and found.lastgroup is not None
        at = found.end()
        if found.lastgroup != "skip":
            expected.append((found.lastgroup, found.group(), found.start(), at))
    assert [(kind.value, *rest) for kind, *rest in tokens(text)] == expected


HOSTILE = {
    "a long literal": "'" + "x" * 200_000 + "'",
    "a long literal of quotes": '"""' + '"" x' * 50_000 + '"""',
    "many escapes": "'" + "\\n" * 100_000 + "'",
    "a string that does not end": '"' + '\\"' * 100_000,
    "openings of long strings in vain": '"""' + '\\"""\n' * 40_000,
    "quotes of both kinds in vain": "\"\\'\n'\\\"\n" * 20_000,
    "a long comment": "#" + "x" * 200_000,
    "many comments": "# x\n" * 50_000,
    "white space": " \n" * 100_000,
    "a long name": "a" * 200_000,
    "a name of parts": "a." * 100_000,
    "a name of hyphens": "a-" * 100_000,
    "a name beyond ASCII": "é" * 200_000,
    "a name that dots end": "a" + "." * 200_000,
    "a local name": "a:" + "b.%41" * 40_000,
    "a blank node": "_:" + "a." * 100_000,
    "a variable": "?" + "é" * 200_000,
    "a language": "@a" + "-a" * 100_000,
    "a long number": "1" * 200_000 + "e",
    "an IRI that does not end": "<" + "a" * 200_000,
    "IRIs that do not end": "<a" * 100_000,
    "brackets": "{[(" * 66_000,
    "backslashes": "\\" * 200_000,
}


@pytest.mark.slow_cases(
    "openings of long strings in vain",
    "a string that does not end",
    "a name of parts",
    "a name beyond ASCII",
    "a name that dots end",
    "brackets",
    "backslashes",
)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_text_takes_more_memory_than_a_few_times_its_length(kind: str) -> None:
    text = HOSTILE[kind]
    tracemalloc.start()
    try:
        for _token in tokens(text):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(text) + 100_000
