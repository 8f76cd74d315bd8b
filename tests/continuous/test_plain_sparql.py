"""Random texts with constructs on which both engines once agreed and were wrong, judged by plain Python."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.algebra.nodes import MERGED
from quadrill.continuous.analysis.corrections import corrected_text
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.query import QueryRequest
from tests.examples import examples

from .plain_sparql import XSD, Moment, evaluate
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
        store.writer.apply(add=background - held, remove=held - background)
        held = background
        contents = {each.name: streams[str(each.stream)[-2]] for each in query.windows}
        # Patterns of C-SPARQL outside GRAPH match the merge of its windows.
        merged = {quad: at for content in contents.values() for quad, at in content.items()}
        moment = Moment(7_000 * place, background, {**contents, MERGED: merged})
        expected = evaluate(query.root, query.columns, moment)
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
    stored: st.SearchStrategy[Quad], streamed: st.SearchStrategy[Quad], most: int = 3
) -> st.SearchStrategy[History]:
    window = st.dictionaries(streamed, st.sampled_from([1000, 2000, 3000]), max_size=most)
    return st.lists(
        st.tuples(
            st.frozensets(stored, max_size=most + 2), st.fixed_dictionaries({"s": window, "u": window})
        ),
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


# --- NOW() and the tested row's variables in EXISTS ------------------------------------------------

TIMES = [Literal(f"1970-01-01T00:00:{at:02}Z", datatype=NamedNode(XSD + "dateTime")) for at in (5, 7, 12)]
SOURCES = [
    "?y :of ?i ; :from ?g .",
    "STREAM :u [RANGE 10s] {{ ?y :of ?i ; :from ?g }}",
    "STREAM :u [RANGE 10s] {{ ?y :of ?i }} ?y :from ?g .",
    "GRAPH :g1 {{ ?y :of ?i ; :from ?g }}",
]
TESTS = [
    "FILTER(?g <= NOW() && ?g {0} ?f)",
    "FILTER(?f {0} NOW())",
    "FILTER(?g {0} ?f) FILTER(?g <= NOW())",
    "BIND(NOW() AS ?n) FILTER(?n {0} ?f)",
    "BIND(?f {0} NOW() AS ?o) FILTER(?o)",
    "BIND(COALESCE(?f {0} NOW() && ?h <= ?f, false) AS ?q) FILTER(?q)",
    "OPTIONAL {{ ?y :to ?t FILTER(?t <= NOW() && ?t {0} ?f) }} FILTER(!BOUND(?t))",
    "OPTIONAL {{ ?y :to ?t FILTER(?f {0} NOW()) }} FILTER(BOUND(?t))",
    "OPTIONAL {{ ?y :to ?t }} FILTER(COALESCE(?t {0} NOW(), ?f {0} NOW()))",
    "OPTIONAL {{ ?y :to ?t }} FILTER(COALESCE(?t, ?g) {0} ?f)",
    "{{ ?y :to ?t FILTER(?t {0} NOW() && ?f <= NOW()) }} UNION {{ ?i :to ?t FILTER(?t {0} ?f) }}",
    "FILTER EXISTS {{ ?y :to ?t FILTER(?t <= NOW() && ?t {0} ?f) }}",
    "FILTER NOT EXISTS {{ ?z :to ?t FILTER(?t <= NOW() && ?t {0} ?g && ?t >= ?f) }}",
    "{{ SELECT ?y {{ ?y :to ?t FILTER(?t {0} NOW()) }} }}",
    "{{ SELECT ?y ?f {{ ?y :to ?f FILTER(?f {0} NOW()) }} }}",
]
OUTER = [
    "STREAM :s [NOW] { ?x :of ?i ; :from ?f }",
    "STREAM :s [NOW] { ?x :of ?i } ?i :from ?f .",
    "STREAM :s [NOW] { ?x :of ?i } OPTIONAL { ?i :from ?f }",
    "STREAM :s [NOW] { ?x :of ?i ; :from ?f } BIND(NOW() AS ?h)",
]
PLACES = [
    "SELECT ?x ?i ?f {{ {0} FILTER EXISTS {{ {1} }} }}",
    "SELECT ?x ?i ?f {{ {0} FILTER NOT EXISTS {{ {1} }} }}",
    "SELECT ?x ?i ?f {{ {0} FILTER(?f <= NOW() && !EXISTS {{ {1} }}) }}",
    "SELECT ?x ?i ?e {{ {0} BIND(EXISTS {{ {1} }} AS ?e) }}",
    "SELECT ?x ?i ?k {{ {0} OPTIONAL {{ ?x :of ?k FILTER EXISTS {{ {1} }} }} }}",
    "SELECT ?x ?i ?f {{ {0} MINUS {{ STREAM :s [NOW] {{ ?x :from ?f }}"
    " FILTER EXISTS {{ ?x :of ?i . {1} }} }} }}",
    "SELECT ?x ?i ?f {{ ?x :of ?i {{ {0} FILTER NOT EXISTS {{ {1} }} }} UNION {{ {0} }} }}",
]
existing = st.builds(
    lambda place, outer, source, tests, signs: place.format(outer, " ".join([source, *tests]).format(*signs)),
    st.sampled_from(PLACES),
    st.sampled_from(OUTER),
    st.sampled_from(SOURCES),
    st.lists(st.sampled_from(TESTS), min_size=1, max_size=2, unique=True),
    st.sampled_from(["<", ">", "<="]).map(lambda each: [each]),
)
versions = st.one_of(quads(["of"], NODES, GRAPHS[1:3]), quads(["from", "from", "to"], TIMES, GRAPHS[1:3]))


@settings(max_examples=examples(300), **HEAVY)
@given(existing, histories(versions, versions, 6))
def test_now_and_variables_of_the_tested_row_in_exists(text: str, history: History) -> None:
    assert_agree(text, history)


OUTSIDE = "STREAM :u [RANGE 10s] { ?y :of ?i ; :from ?g }"
OWN_AND_OUTER = [
    f"{OUTSIDE} FILTER(?g <= ?f) FILTER(?g <= NOW())",
    f"{OUTSIDE} FILTER(?g <= NOW() && ?g <= ?f) FILTER(?g <= NOW())",
    f"{{ {OUTSIDE} FILTER(?g <= ?f) }} FILTER(?g <= NOW())",
    f"{{ {{ {OUTSIDE} FILTER(?g <= ?f) }} FILTER(?g <= NOW()) }} FILTER(?g <= ?f)",
    f"{{ {OUTSIDE} FILTER(?g <= ?f) FILTER(?g <= NOW()) }} MINUS {{ {OUTSIDE} FILTER(?g > NOW()) }}",
    f"{{ {OUTSIDE} FILTER(?g <= NOW()) }} MINUS {{ ?z :to ?h FILTER(?h <= NOW()) }} FILTER(?g <= ?f)",
    f"{{ {OUTSIDE} FILTER(?g <= ?f) }} UNION {{ {OUTSIDE} FILTER(?g < NOW()) }} FILTER(?g <= NOW())",
    f"{{ SELECT ?i ?g {{ {OUTSIDE} FILTER(!BOUND(?f) && ?g <= NOW()) }} }} FILTER(?g <= NOW())",
    f"{OUTSIDE} FILTER(?g <= ?f) BIND(NOW() AS ?n) FILTER(?g <= ?n)",
]


@pytest.mark.parametrize("inner", OWN_AND_OUTER)
@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
def test_filter_with_now_over_one_that_reads_the_tested_row(word: str, inner: str) -> None:
    node, five = NODES[0], Literal("1970-01-01T00:00:05Z", datatype=NamedNode(XSD + "dateTime"))
    content = {Quad(node, NamedNode(E + "of"), node): 1000, Quad(node, NamedNode(E + "from"), five): 1000}
    text = f"SELECT ?x ?i ?f {{ STREAM :s [NOW] {{ ?x :of ?i ; :from ?f }} FILTER {word} {{ {inner} }} }}"
    assert_agree(text, [(frozenset(), {"s": content, "u": held}) for held in (content, {}, content)])


# --- language tags, and moments with durations ------------------------------------------------------

LABELS = [Literal("x", language=tag) for tag in ("en-US", "EN-us", "en", "de")] + [Literal("x"), Literal(1)]
TAG_TESTS = [
    "LANG(?l) = 'en-US'",
    "'EN-US' != LANG(?l)",
    "LANG(?l) IN ('EN-us', 'De')",
    "LANG(?l) NOT IN ('EN')",
    "STRSTARTS(LANG(?l), 'EN')",
    "LANG(?l) = LANG(?m)",
    "LANG(?l) = ?u",
    "?l = 'x'@EN-US",
    "COALESCE(LANG(?l), '') = 'En-Us'",
    "?l = ?m",
]
LENGTHS = [
    Literal(text, datatype=NamedNode(XSD + kind))
    for text, kind in (
        ("P1M", "yearMonthDuration"),
        ("-P1Y1M", "yearMonthDuration"),
        ("P1DT5S", "dayTimeDuration"),
        ("-PT7S", "dayTimeDuration"),
        ("P1M2DT3H", "duration"),
        ("P1Y1M", "duration"),
    )
]
ENDS = [
    Literal(f"{day}T00:00:05Z", datatype=NamedNode(XSD + "dateTime")) for day in ("1970-01-01", "2024-01-31")
]
TIME_TESTS = [
    "?t + ?d < ?e",
    "?d + ?t >= ?e",
    "?t - ?d = ?e - ?d",
    "?t + ?d + ?d > NOW()",
    "?t - ?d <= ?e + ?d",
    "?t + ?d != ?d + ?t",
]
TAG_SOURCES = ("?x :label ?l . ?y :label ?m", "?x :label ?l OPTIONAL {{ ?x :label ?m }}")
TIMED_ROW = "?x :time ?t ; :length ?d"
TIME_SOURCES = (TIMED_ROW + " . ?y :time ?e", TIMED_ROW + " OPTIONAL {{ ?y :time ?e }}")
BLOCKS = ("{0}", "STREAM :s [RANGE 10s] {{ {0} }}", "{{ {0} }} UNION {{ STREAM :s [RANGE 10s] {{ {0} }} }}")
AROUND = [
    "SELECT * {{ {0} FILTER({1}) }}",
    "SELECT ?x ?r {{ {0} BIND({1} AS ?r) }}",
    "SELECT ?x {{ ?x ?p ?o FILTER NOT EXISTS {{ {0} FILTER({1}) }} }}",
    "SELECT ?x ?q {{ ?x ?p ?o OPTIONAL {{ {0} FILTER({1}) BIND(1 AS ?q) }} }}",
    "SELECT ?x {{ ?x ?p ?o MINUS {{ {0} FILTER({1}) }} }}",
    "SELECT ?x (COUNT(*) AS ?n) {{ {0} FILTER({1}) }} GROUP BY ?x",
    "SELECT ?x ?z {{ {0} BIND(LANG(?l) AS ?u) FILTER({1}) BIND(?u = 'EN-us' AS ?z) }}",
]


def _around(form: str, block: str, source: str, test: str) -> str:
    return form.format(block.format(source.format()), test)


asked = st.one_of(
    st.builds(_around, *map(st.sampled_from, (AROUND, BLOCKS, TAG_SOURCES, TAG_TESTS))),
    st.builds(_around, *map(st.sampled_from, (AROUND[:6], BLOCKS, TIME_SOURCES, TIME_TESTS))),
)
facts = st.one_of(
    quads(["label"], LABELS, GRAPHS[:1]),
    quads(["time"], ENDS, GRAPHS[:1]),
    quads(["length"], LENGTHS, GRAPHS[:1]),
)


@settings(max_examples=examples(300), **HEAVY)
@given(asked, histories(facts, facts, 5))
def test_language_tags_and_durations(text: str, history: History) -> None:
    assert_agree(text, history)
    if "STREAM" not in text and "NOW" not in text:
        assert_query_agrees(text, history[-1][0])


def assert_query_agrees(text: str, background: frozenset[Quad]) -> None:
    """`/query` gives the rows of plain Python."""
    query = parse(PREFIXES + text, dialect="cqels")
    store = QuadStore.open(None)
    store.writer.apply(add=background)
    found = corrected_text(PREFIXES + text, "http://localhost/")
    written = PREFIXES + text if found is None else found.with_base
    functions: Any = None if found is None else dict(found.functions)
    names, rows = store.reader.solutions(QueryRequest(written, custom_functions=functions))
    places = [list(names).index(var.name) for var in query.columns]
    got = Counter(tuple(row[place] for place in places) for row in rows)
    assert got == evaluate(query.root, query.columns, Moment(0, background, {}))
    store.close()


# --- timestamp() of the tested row in EXISTS ---------------------------------------------------------

TIMED = [
    "FILTER(timestamp(?b) {0} timestamp(?a))",
    "FILTER(timestamp(?b) {0} ?l)",
    "FILTER(timestamp(?a) {0} 1500)",
    "FILTER(timestamp(?x) {0} timestamp(?a))",
    "BIND(timestamp(?b) {0} timestamp(?a) AS ?t) FILTER(?t)",
    "OPTIONAL {{ ?b :limit ?k FILTER(timestamp(?k) {0} timestamp(?a)) }} FILTER(!BOUND(?k))",
]
TIMED_OUTER = ["?a :at ?x", "?a :at ?x ; :limit ?l", "?a :at ?x OPTIONAL { ?a :limit ?l }"]
TIMED_PLACES = [
    "SELECT ?a ?x FROM STREAM :s [RANGE 10s STEP 10s] {{ {0} FILTER EXISTS {{ ?b :at ?x {1} }} }}",
    "SELECT ?a ?x FROM STREAM :s [RANGE 10s STEP 10s] {{ {0} FILTER NOT EXISTS {{ ?b :at ?y {1} }} }}",
    "SELECT ?a ?e FROM STREAM :s [RANGE 10s STEP 10s] {{ {0} BIND(EXISTS {{ ?b :at ?y {1} }} AS ?e) }}",
]
timed = st.builds(
    lambda place, outer, test, sign: place.format(outer, test.format(sign)),
    st.sampled_from(TIMED_PLACES),
    st.sampled_from(TIMED_OUTER),
    st.sampled_from(TIMED),
    st.sampled_from(["<", ">", "<="]),
)
LIMITS = [Literal(str(each), datatype=NamedNode(XSD + "integer")) for each in (1500, 2000)]


@settings(max_examples=examples(100), **HEAVY)
@given(
    timed,
    histories(
        quads(["other"], NODES, GRAPHS[:1]),
        st.one_of(quads(["at"], NODES, GRAPHS[:1]), quads(["limit"], LIMITS, GRAPHS[:1])),
        5,
    ),
)
def test_timestamps_of_the_tested_row_in_exists(text: str, history: History) -> None:
    assert_agree(text, history, "csparql")
