"""A misspelt keyword is answered by the keyword, and by no word that the language of the text lacks."""

from __future__ import annotations

import re

import pytest

from quadrill.continuous.algebra.query import Dialect
from quadrill.continuous.language.parser import DIALECTS, parse
from quadrill.store.errors import QueryTextError

TEXTS: dict[Dialect, str] = {
    "sparql": "SELECT DISTINCT ?s WHERE { ?s ?p ?o OPTIONAL { ?s ?q ?x } MINUS { ?s ?r ?y } "
    "FILTER (STRLEN(?o) > 2) GRAPH ?g { ?a ?b ?c } } GROUP BY ?s HAVING (COUNT(?o) > 1) ORDER BY ?s LIMIT 3 "
    "OFFSET 1",
    "cqels": "SELECT ?s WHERE { STREAM <urn:r> [RANGE 1h SLIDE 5m] { ?s ?p ?o } "
    "STREAM <urn:t> [TRIPLES 5] { ?s ?q ?x } STREAM <urn:e> [ELEMENTS 5] { ?s ?r ?y } } EMIT ON CLOSE",
    "rspql": "REGISTER RSTREAM <urn:out> AS SELECT ?s FROM NAMED WINDOW <urn:w> ON <urn:r> "
    "[RANGE PT10S STEP PT5S] WHERE { WINDOW <urn:w> { ?s ?p ?o } }",
    "csparql": "REGISTER QUERY q AS SELECT ?s FROM STREAM <urn:r> [RANGE 10s STEP 5s] WHERE { ?s ?p ?o }",
}
EXTENSIONS = re.compile(r"\b(?:AFTER|EMIT|INTO|ONCE|REFRESH|STREAM|WINDOW|RANGE|REGISTER)\b")
WORDS = [
    (dialect, found.start(), found[0])
    for dialect in DIALECTS
    for found in re.finditer(r"\b[A-Z]{5,}\b", TEXTS[dialect])
]


@pytest.mark.parametrize(("dialect", "at", "word"), WORDS)
def test_a_keyword_without_its_second_letter_is_answered_by_the_keyword(
    dialect: Dialect, at: int, word: str
) -> None:
    text = TEXTS[dialect]
    wrong = f"{text[:at]}{word[0]}{word[2:]}{text[at + len(word) :]}"
    with pytest.raises(QueryTextError) as refused:
        parse(wrong, dialect=dialect)
    first = refused.value.faults[0]
    assert first["column"] == at + 1
    assert f"Did you mean {word}" in (first["hint"] or ""), first
    if dialect == "sparql":
        assert not EXTENSIONS.search(f"{first['message']} {first['hint']}")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT ?s WERE { ?s ?p ?o }", "Did you mean WHERE?"),
        ("SELECT ?s { STREAM <urn:r> [RNGE 1h] { ?s ?p ?o } }", "Did you mean RANGE?"),
        ("SELECT ?s { STREEAM <urn:r> [NOW] { ?s ?p ?o } }", "Did you mean STREAM? It belongs to CQELS-QL"),
        ("SELECT ?s { ?s ?p ?o } grp BY ?s", "Did you mean GROUP?"),
        ("SELECT ?s { ?s ?p ?o } EMT ON CLOSE", None),
        ("SELECT ?s { STREAM <urn:r> [NOW] { ?s ?p ?o } } LIMIT 1 LIMIT 8", None),
        ("SELECT ?s { STREAM <urn:r> [NOW] { ?s ?p ?o } } order ORDER BY ?s", "Write ORDER BY."),
        ("SELECT ?were { ?s ?p were }", "Write ?were."),
        ("SELECT xyz { ?s ?p ?o }", "A variable begins with a question mark: ?xyz."),
    ],
)
def test_the_hint_names_a_similar_word_if_there_is_one(text: str, hint: str | None) -> None:
    with pytest.raises(QueryTextError) as refused:
        parse(text)
    assert (hint or "") in (refused.value.hint or "")
    assert hint is not None or refused.value.hint is None
