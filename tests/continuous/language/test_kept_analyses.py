"""What a text means over a restart: the same as it does when it is read, and never what another one meant."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.language import analysis as analyses
from quadrill.continuous.language import parser
from quadrill.continuous.language.analysis import Analysis, KeptAnalyses
from quadrill.continuous.language.program import program
from quadrill.store.errors import QueryTextError, UnsupportedError
from quadrill.store.logs.keyed_file import KeyedFile

from ..test_recovery import QUERIES, P
from .test_write import OWN, TESTS, w3c_texts

BASE = "http://localhost/"
HEAVY = """
PREFIX : <http://e/> SELECT ?a (GROUP_CONCAT(DISTINCT ?n; separator=", ") AS ?all) (COUNT(*) AS ?c)
WHERE { STREAM :s [RANGE 1m SLIDE 10s] { << ?a :p ?n >> :by "x"@en ; :at 2.5 }
  { ?a (:q|^:r)+/!(:s|^:t)? ?m . FILTER NOT EXISTS { ?m :gone true } } UNION { GRAPH ?g { ?a :p _:b } }
  OPTIONAL { ?a :n ?n FILTER(?c > 3 && ?n IN ("a", "b")) } MINUS { ?a a :Old }
  VALUES (?a ?m) { (:x UNDEF) (UNDEF :y) } BIND(NOW() AS ?now) ?a :of/:in :room }
GROUP BY ?a HAVING (?c > 1) ORDER BY DESC(?c) ?a LIMIT 7
"""


def steps(analysis: Analysis) -> tuple[Any, ...]:
    more = (analysis.clocked, analysis.skeleton, analysis.graphs, analysis.is_volatile, analysis.is_ordered)
    return (analysis.query, analysis.root, analysis.columns, analysis.split, analysis.arranged, *more)


def read(text: str, file: Path | None = None, **parameters: Any) -> Analysis:
    return KeptAnalyses(file).analyse(text, None, BASE, parameters)


def all_texts() -> list[str]:
    own = [text if "REGISTER" in text else P + text for text in QUERIES.values()]
    of_suites = (TESTS / "w3c" / "data" / name for name in w3c_texts()[::3])
    files = [path.read_text(encoding="utf-8") for path in (*of_suites, *OWN)]
    return [*own, *files, HEAVY]


def test_every_text_means_the_same_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "analyses"
    before = {}
    living = []
    texts = KeptAnalyses(path)
    for text in all_texts():
        try:
            found = texts.analyse(text, None, BASE, {})
            before[text] = steps(found)
        except (UnsupportedError, QueryTextError):
            continue
        living.append(found)
        texts.keep(found)
    texts.write()
    assert len(before) > 100
    again = KeptAnalyses(path)
    kept = KeyedFile(path, program() or b"")
    for text, expected in before.items():
        found = again.analyse(text, None, BASE, {})
        assert found.key is not None
        assert found.key in kept.known
        # The steps stand there: they were not done again.
        assert {"root", "split", "arranged", "clocked", "skeleton", "graphs"} <= set(vars(found))
        assert steps(found) == expected


def test_what_else_decides_the_meaning_tells_texts_apart(tmp_path: Path) -> None:
    path = tmp_path / "analyses"
    texts = KeptAnalyses(path)
    text = 'SELECT ?x { STREAM <s> [NOW] { ?x <p> "$word$" } }'
    given = [(None, BASE, {"word": 1}), (None, BASE, {"word": "1"}), (None, "http://other/", {"word": 1})]
    given.append(("cqels", BASE, {"word": 1}))
    living = [texts.analyse(text, *some) for some in given]  # type: ignore[arg-type]
    for each in living:
        texts.keep(each)
    texts.write()
    again = KeptAnalyses(path)
    for some in given:
        found = again.analyse(text, *some).query  # type: ignore[arg-type]
        assert found == texts.analyse(text, *some).query == read_anew(text, *some)


def test_what_queries_meant_that_are_gone_is_not_held(tmp_path: Path) -> None:
    texts = KeptAnalyses(tmp_path / "analyses")
    texts.keep(texts.analyse("ASK { ?x <p> ?y }", None, BASE, {}))
    gc.collect()
    texts.write()
    assert not (tmp_path / "analyses").exists()


def read_anew(text: str, dialect: Any, base: str, parameters: dict[str, Any]) -> Any:
    return parser.parse(text, dialect=dialect, base_iri=base, parameters=parameters)


def test_queries_of_one_text_share_its_analysis() -> None:
    texts = KeptAnalyses()
    one = texts.analyse("ASK { ?x <p> ?y }", None, BASE, {})
    assert texts.analyse("ASK { ?x <p> ?y }", None, BASE, {}) is one


def test_texts_that_somebody_from_outside_gives_a_meaning_are_always_read(tmp_path: Path) -> None:
    path = tmp_path / "analyses"
    text = "SELECT ?x { STREAM <s> [NOW] { ?x <p> ?y } }"
    texts = KeptAnalyses(path)
    parser.register_rule(parser.DialectRule("never", "", lambda: None))
    try:
        found = texts.analyse(text, None, BASE, {})
        texts.keep(found)
        texts.write()
        assert found.key is None
    finally:
        parser.unregister_rule("never")
    assert not path.exists()


def test_another_state_of_the_program_reads_them_anew(tmp_path: Path) -> None:
    path, text = tmp_path / "analyses", "ASK { ?x <p> ?y }"
    other = KeyedFile(path, b"yesterday")
    wrong = read("ASK { ?x <q> ?z }")
    key = read(text).key
    assert key is not None
    other.add(key, analyses._pickled(wrong))
    assert read(text, path).query == parser.parse(text)


@pytest.mark.parametrize(
    "value", [b"", b"no pickle", pickle.dumps(print), pickle.dumps((1, 2)), pickle.dumps([])]
)
def test_nothing_else_is_made_of_what_is_kept(tmp_path: Path, value: bytes) -> None:
    path, text = tmp_path / "analyses", "ASK { ?x <p> ?y }"
    key = read(text).key
    assert key is not None
    KeyedFile(path, program() or b"").add(key, value)
    assert read(text, path).query == parser.parse(text)


def test_a_pattern_that_is_nested_too_deeply_is_not_kept(tmp_path: Path) -> None:
    texts = KeptAnalyses(tmp_path / "analyses")
    found = texts.analyse("ASK { ?x <p> ?y }", None, BASE, {})
    deep: n.Algebra = found.query.root
    for _ in range(100_000):
        deep = n.Graph(NamedNode("urn:g"), deep)
    nested = Analysis.of_steps(
        found.key or b"", found.query, {"root": deep, "split": (deep, ()), "arranged": {}}
    )
    texts.keep(nested)
    texts.write()
    assert not (tmp_path / "analyses").exists()
    while isinstance(deep, n.Graph):
        deep = deep.input
