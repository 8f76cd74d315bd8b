"""Random texts with constructs on which both engines once agreed and were wrong, judged by plain Python."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from tests.examples import examples

from .plain_sparql import Moment, evaluate
from .whole_contents import move_to, recomputed, refresh

E = "http://example.org/"
PREFIXES = f"PREFIX : <{E}>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
NODES = [NamedNode(E + name) for name in ("r0", "r1", "f0")]
GRAPHS: list[Any] = [DefaultGraph(), DefaultGraph(), NamedNode(E + "g1"), NamedNode(E + "g2")]
HEAVY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
History = list[tuple[frozenset[Quad], dict[str, dict[Quad, int]]]]


def assert_agree(text: str, history: History, dialect: str = "cqels") -> bool:
    """Both engines give the rows of plain Python at each instant; True when the query runs natively."""
    query = parse(PREFIXES + text, dialect=dialect)
    store = QuadStore.open(None)
    options = EvaluationOptions(name="q", window_default_graph="union")
    reference = ReferenceEvaluator(query, store, options)
    try:
        native: NativeEvaluator | None = NativeEvaluator(query, store, options)
    except UnsupportedError:
        native = None
    held: frozenset[Quad] = frozenset()
    for place, (background, streams) in enumerate(history, 1):
        store.apply(add=background - held, remove=held - background)
        held = background
        contents = {each.name: streams[str(each.stream)[-2]] for each in query.windows}
        expected = evaluate(query.root, query.columns, Moment(7_000 * place, background, contents))
        refresh(reference)
        assert Counter(recomputed(reference, 7_000 * place, contents).rows) == expected, "recomputed"
        if native is not None:
            refresh(native)
            assert Counter(move_to(native, 7_000 * place, contents).rows) == expected, "native"
    if native is not None:
        native.close()
    return native is not None


def quads(predicates: list[str], objects: list[Any], graphs: list[Any]) -> st.SearchStrategy[Quad]:
    named = [NamedNode(E + name) for name in predicates]
    return st.sampled_from([Quad(*each) for each in product(NODES, named, objects, graphs)])


def histories(
    stored: st.SearchStrategy[Quad], streamed: st.SearchStrategy[Quad]
) -> st.SearchStrategy[History]:
    window = st.dictionaries(streamed, st.sampled_from([1000, 2000, 3000]), max_size=3)
    return st.lists(
        st.tuples(st.frozensets(stored, max_size=5), st.fixed_dictionaries({"s": window, "u": window})),
        min_size=1,
        max_size=3,
    )


# --- COUNT(DISTINCT *) ---------------------------------------------------------------------------

PIECES = [
    "?l :in ?f .",
    "?m :in ?f .",
    "?l :in ?f . ?m :in ?k .",
    "GRAPH ?g { ?l :in ?k }",
    "GRAPH ?g { ?m :in ?k }",
    "OPTIONAL { ?m :in ?f }",
    "OPTIONAL { ?l :in ?f . STREAM :u [RANGE 10s] { ?l :at ?b } }",
    "OPTIONAL { ?l :in ?f FILTER(?f = ?m) }",
    "{ ?l :in ?f } UNION { GRAPH :g1 { ?m :in ?k } }",
    "{ ?l :in ?f . STREAM :u [RANGE 10s] { ?b :at ?b } } UNION { ?h :in ?m }",
    "MINUS { ?p :in ?f }",
    "FILTER EXISTS { ?m :in ?f }",
    "FILTER NOT EXISTS { SELECT (COUNT(DISTINCT *) AS ?e) { ?l :in ?f STREAM :u [RANGE 10s] { ?a :at ?b } }"
    " HAVING(COUNT(DISTINCT *) = 2) }",
    "{ SELECT (COUNT(DISTINCT *) AS ?c) { ?l :in ?f STREAM :u [RANGE 10s] { ?a :at ?b } } }",
    "VALUES ?v { 1 2 }",
]
FORMS = [
    "SELECT (COUNT(DISTINCT *) AS ?x) {{ {0} }}",
    "SELECT (COUNT(DISTINCT *) AS ?x) (COUNT(*) AS ?y) {{ {0} }}",
    "SELECT ?m (COUNT(DISTINCT *) AS ?x) {{ {0} }} GROUP BY ?m",
    "SELECT ?m {{ {0} }} GROUP BY ?m HAVING(COUNT(DISTINCT *) > 2)",
    "SELECT ?x ?y {{ ?y :in :f0 {{ SELECT (COUNT(DISTINCT *) AS ?x) {{ {0} }} }} }}",
    "SELECT ?y ?x {{ STREAM :u [RANGE 10s] {{ ?y :at :r0 }} OPTIONAL {{"
    " {{ SELECT (COUNT(DISTINCT *) AS ?x) {{ {0} }} }} FILTER(?x > 1) }} }}",
]
counted = st.builds(
    lambda form, pieces: form.format(" ".join(["STREAM :s [RANGE 10s] { ?p :at ?m }", *pieces])),
    st.sampled_from(FORMS),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=3),
)


@settings(max_examples=examples(200), **HEAVY)
@given(counted, histories(quads(["in"], NODES, GRAPHS), quads(["at"], NODES[:2], [DefaultGraph()])))
def test_counts_of_distinct_rows(text: str, history: History) -> None:
    assert_agree(text, history)
