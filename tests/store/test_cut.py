"""Texts are cut into a skeleton and constants, each text in one way, and in linear time."""

from __future__ import annotations

import random
import sys
import time

import pytest

from quadrill.store.sparql.skeletons import MOST_CHARACTERS, split_constants


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("INSERT DATA { <http://e/a> ex:p1 1 , 2 , 3. }", ["<http://e/a>", ":p1", "1", "2"]),
        (
            "DELETE WHERE { _:b ex:1 ?x ; :2 ex:f (1), x:a.b, x:/c . ex:a/ex:b ex:d; }",
            [":1", ":2", ":b", ":d"],
        ),
        (
            'INSERT DATA { <a> <urn:b> "c", "d"@en-1, "e"^^ <http://e/t> , "f" }',
            ["<urn:b>", '"c"', '"d"', '"e"', '"f"'],
        ),
        (
            "PREFIX e: <http://e/> BASE <http://e/> DELETE WHERE { ?s e:7 <http://e/7> }",
            [":7", "<http://e/7>"],
        ),
        ("SELECT * { <> <urn:a> ?o }", ["<>", "<urn:a>"]),
        ("INSERT { ?s ?p 5 } WHERE { ?s ?p ?o FILTER(<http://e/f> (?o) > -5 && ?o<5&&?o>4) }", ["5"]),
        ("INSERT DATA { ?s ?p 1234567890123456789 , 01 , 1e5 , +1 , 1.5 , ex:1. }", ["01"]),
        ("SELECT * { ?s ?p ?o FILTER(?a<b:c(?x,CONCAT(?y,?y))&&?c>?d) }", []),
        ("SELECT * { ?s ?p ?o FILTER(ex:f(?a) || ex:g (?b)) } LIMIT 10", ["10"]),
        ('SELECT * { ?s <urn:x;a:b,c>(1) ?o , "<urn:a>" }', ['"<urn:a>"']),
    ],
)
def test_constants_are_whole_tokens_that_all_read_alike(text: str, constants: list[str]) -> None:
    parts = split_constants(text)
    assert list(parts.constants) == constants
    assert [text[start:end] for start, end in parts.spans(text)] == constants


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ('ASK { <http://e/a> ex:p "c"@en , "1"^^xsd:byte , 7 }', 'ASK { <> ex: ""@en , ""^^xsd:byte , 0 }'),
        ("ASK { ?a <urn:p> 1 BIND(xsd:byte(?a) AS ?c) }", "ASK { ?a <> 0 BIND(xsd:byte(?a) AS ?c) }"),
        ("ASK { ?a <urn:p> 1 BIND(<urn:f>(1) AS ?c) }", "ASK { ?a <> 0 BIND(<urn:f>(1) AS ?c) }"),
        (
            "BASE <http://e/> prefix : <#> SELECT ?database { ?s :p ?database }",
            "SELECT ?database { ?s : ?database }",
        ),
    ],
)
def test_prologue_functions_datatypes_and_languages_stay(text: str, body: str) -> None:
    parts = split_constants(text)
    assert parts.body == body
    assert text.startswith(parts.prologue)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA { # <urn:a>\n <urn:a> <urn:b> 1 }",
        "ASK { ?s ?p '<http://e/>' }",
        'ASK { ?s ?p """a""""',
        'ASK { ?s ?p "\\""',
        "INSERT DATA { <urn:a> <urn:b> 1 } ; PREFIX e: <urn:e> INSERT DATA { e:a e:b 1 }",
        'VERSION "1.2" PREFIX e: <urn:e> SELECT * { e:a e:b ?c }',
        "SELECT * { <urn:a> ?p ?o } " + " " * MOST_CHARACTERS,
    ],
)
def test_a_text_in_doubt_is_its_own_skeleton(text: str) -> None:
    assert split_constants(text) == ("", text, ())


def test_a_skeleton_with_its_constants_gives_one_text() -> None:
    """Two texts that are cut into the same parts are the same text."""
    chosen = random.Random(3)
    pieces = [
        "<urn:a>",
        "<>",
        '""',
        '"a"',
        "0",
        "1",
        ":",
        ":a",
        "ex:",
        "ex:a",
        "<urn:f>(",
        '"a"@en',
        '""@en',
        " ",
        "{",
        "?x",
        "<a",
        ">",
    ]
    seen: dict[object, str] = {}
    for _ in range(20_000):
        text = " ".join(chosen.choices(pieces, k=chosen.randint(1, 4)))
        assert seen.setdefault(split_constants(text), text) == text


@pytest.mark.parametrize(
    "piece",
    ["<", "<a:", '"', ":", ": ", "a:", "PREFIX a:<b>", "PREFIX ", "1 ", "<a:b>", '"a"^^', "-a", ":a-"],
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    text = (piece * MOST_CHARACTERS)[:MOST_CHARACTERS]
    started = time.process_time()
    split_constants(text)
    split_constants(f"SELECT {text}"[:MOST_CHARACTERS])
    assert time.process_time() - started < 0.5


def test_long_texts_are_not_kept() -> None:
    text = "ASK {" + " " * MOST_CHARACTERS + "}"
    references = sys.getrefcount(text)
    found = [split_constants(text), split_constants(text)]
    assert found[0].body is text
    found.clear()
    assert sys.getrefcount(text) == references
