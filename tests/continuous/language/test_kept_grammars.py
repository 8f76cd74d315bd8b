"""Grammars that are read back from a file do what those do that lark has just built."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from quadrill.continuous.algebra.query import Dialect
from quadrill.continuous.language import diagnostics, kept_grammars
from quadrill.continuous.language.build_queries import SyntaxBuilder
from quadrill.continuous.language.context import Context, LanguageLimits
from quadrill.continuous.language.kept_grammars import KeptGrammars
from quadrill.continuous.language.parser import DIALECTS, grammar_of
from quadrill.store.logs.keyed_file import KeyedFile

TEXTS = (
    "ASK {}",
    "PREFIX : <http://e/> SELECT ?x (COUNT(*) AS ?n) { STREAM :s [RANGE 1m] { ?x :p ?y } } GROUP BY ?x",
    "CONSTRUCT { ?s ?p \"x\"@en } WHERE { GRAPH ?g { ?s ?p ?o FILTER(?o > 2.5e3 && REGEX(STR(?s), 'a')) } }",
)


def read_back(path: Path, dialect: Dialect) -> Lark:
    KeptGrammars(path).keep(dialect, grammar_of(dialect))
    found = KeptGrammars(path).find(dialect, SyntaxBuilder())
    assert found is not None
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_grammar_comes_back_as_it_was(tmp_path: Path, dialect: Dialect) -> None:
    kept, built = read_back(tmp_path / "grammars", dialect), grammar_of(dialect)
    assert {each.name: each.pattern.to_regexp() for each in kept.terminals} == {
        each.name: each.pattern.to_regexp() for each in built.terminals
    }
    for text in TEXTS:
        for cut in range(0, len(text) + 1, 3):
            assert outcome(kept, dialect, text[:cut]) == outcome(built, dialect, text[:cut])


def outcome(grammar: Lark, dialect: Dialect, text: str) -> str:
    """The tree of a text, or what is told of its faults."""
    try:
        return repr(grammar.parse(text))
    except UnexpectedInput:
        context = Context(text, dialect, "http://localhost/", {}, LanguageLimits())
        diagnostics.explain(context, grammar)
        return repr(diagnostics.error_of(context).faults)


@pytest.mark.parametrize("damage", [b"", b"x", pickle.dumps(({}, {})), pickle.dumps(KeptGrammars)])
def test_what_is_no_grammar_is_built_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "grammars"
    KeyedFile(path, kept_grammars.program() or b"").add(kept_grammars._key("sparql"), damage)
    assert KeptGrammars(path).find("sparql", SyntaxBuilder()) is None


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    KeptGrammars().keep("sparql", grammar_of("sparql"))
    assert KeptGrammars().find("sparql", SyntaxBuilder()) is None
    assert KeptGrammars(tmp_path / "grammars").find("sparql", SyntaxBuilder()) is None
