"""Updates of one shape are planned once, and each does what it would do by itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Dataset, DefaultGraph, Literal, NamedNode

from quadrill.continuous.analysis.update import analyse_update
from quadrill.store.errors import ReportedError
from quadrill.store.quads import writing
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql import update
from quadrill.store.sparql.skeletons import split_constants
from tests.examples import examples

from .test_update_laws import canonical, check_request
from .test_update_laws import open_store as open_plain

IRIS = [
    "<http://e/a>",
    "<http://e/b>",
    "<HTTP://e.x/c?d=1#f>",
    "<http://e/p>",
    "<urn:a>",
    "<http://e/x/../y>",
]
OTHERS = [
    '"x"',
    '"a > <http://e/b> 1"',
    '""',
    "1",
    "0",
    "12",
    "01",
    "1.50",
    '"x"@EN',
    "'y'",
    '"\\u0061"',
    "true",
]
TYPED = [
    '"7"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"7"^^xsd:byte',
    '"2024-01-01T24:00:00Z"^^xsd:dateTime',
]
PROLOGUE = "PREFIX : <http://e/#> PREFIX e: <http://e> PREFIX ex: <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
TEMPLATES = [
    "INSERT DATA { I I O }",
    "INSERT DATA { I ex:p O , O ; a I . GRAPH I { I I O . } }",
    "INSERT DATA { I I [ ex:p O ] }",
    "DELETE DATA { I I O . GRAPH I { I I O } }",
    "DELETE WHERE { ?s I O }",
    "DELETE { I I ?o } INSERT { I I ?n } WHERE { I I ?o BIND(?o + 1 AS ?n) }",
    "DELETE { ?s ?p ?o } INSERT { ?o ?p ?s . GRAPH ?s { ?s I O } } WHERE { ?s ?p ?o FILTER(?s != I) } ",
    "INSERT { ?s I ?o . _:b I O } WHERE { VALUES (?s ?o) { (I O) (I UNDEF) } }",
    "INSERT { GRAPH ?g { I I ?v } } WHERE { GRAPH ?g { I ?q O }"
    " { SELECT ?v { I ?p ?v } ORDER BY STR(?v) DATATYPE(?v) LANG(?v) LIMIT 2 } }",
    "WITH I DELETE { ?s I ?o } WHERE { ?s ?p ?o }",
    "INSERT { ?s I <<( I I O )>> } USING I WHERE { ?s ?p ?o }",
    "INSERT DATA { I I O } ; DELETE DATA { I I O }",
    "INSERT DATA { I O I }",
    "INSERT DATA { O I I }",
    "INSERT { I I STR(O) } WHERE {}",
    "INSERT { ?x I ?y } WHERE { BIND(STRDT(\"01\", xsd:integer) AS ?y) BIND(I AS ?x) }",
    "INSERT { ?x I ?y } WHERE { I I ?x . ?x I ?y FILTER(?y<3&&?y>O) }",
    'INSERT DATA { I I "7"^^ xsd:byte , O }',
]  # fmt: skip


OPTIONS = StoreOptions(durable=False, analyse_update=analyse_update)
open_store = partial(open_plain, analyse_update=analyse_update)


def filled(template: str, iris: Iterator[str], others: Iterator[str]) -> str:
    words = {"I": iris, "O": others}
    return PROLOGUE + " ".join(
        next(words[word]) if word in words else word
        for word in template.replace("(I", "( I").replace("O)", "O )").split(" ")
    )


constants = st.lists(
    st.tuples(
        st.lists(st.sampled_from(IRIS[:6]), min_size=12, max_size=12),
        st.lists(st.sampled_from(OTHERS[:6]), min_size=6, max_size=6),
    ),
    min_size=3,
    max_size=4,
)
others = st.one_of(
    st.just(()),
    st.lists(st.sampled_from([*IRIS[6:], *OTHERS[6:], *TYPED]), max_size=2),
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(TEMPLATES), constants, others)
def test_each_update_of_a_shape_makes_what_oxigraph_makes_of_it(
    template: str, each_time: list[tuple[list[str], list[str]]], strange: list[str]
) -> None:
    with open_store(on_disk=False) as store:
        for iris, terms in each_time:
            plain = filled(template, iter(iris), iter(terms))
            check_request(store, plain)
            for one in strange:
                place = iris if one[0] in "<e" else terms
                check_request(store, filled(template, iter([one, *place]), iter([one, *terms])))


IN_LINE = [
    *TEMPLATES,
    "DELETE { ?s I O } INSERT { ?s I 2 } WHERE { ?s I O }",
    "INSERT { I I ?n } WHERE { BIND(5 AS ?n) FILTER(?n > O) }",
    "INSERT { I I ?y } WHERE { I I ?x . ?x ?p ?y . }",
    "INSERT { I I ?y } WHERE { ?x a ?c . ?x ex:p ?y FILTER EXISTS { I I ?y } }",
    "INSERT { I I ?y } WHERE { I I ?y OPTIONAL { ?y I O } }",
    "INSERT { I I ?y } WHERE { I ex:p+ ?y }",
    "INSERT { I I ?y } WHERE { ?y ex:p* ?z }",
    "INSERT { I I ?y } WHERE { GRAPH I { I I ?y } }",
    "INSERT { GRAPH I { I I ?y } } WHERE { I I O ; I ?y }",
]


def is_made(store: QuadStore, text: str) -> bool:
    try:
        store.writer.update(text)
    except ReportedError:
        return False
    return True


def make_together(store: QuadStore, texts: list[str]) -> None:
    for make in [store.writer.enqueue_update(text) for text in texts]:
        make()


def content(store: QuadStore) -> Dataset:
    return canonical(set(store.committer.store))


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(IN_LINE), st.lists(st.sampled_from(IRIS[:4]), min_size=6, max_size=6)),
        min_size=2,
        max_size=4,
    ),
    st.lists(st.sampled_from(OTHERS[:6]), min_size=6, max_size=6),
)
def test_updates_of_one_group_make_what_they_make_one_after_the_other(
    each: list[tuple[str, list[str]]], terms: list[str]
) -> None:
    texts = [filled(template, cycle(iris), cycle(terms)) for template, iris in each]
    with open_store(on_disk=True) as together, open_store(on_disk=True) as apart:
        for _ in range(3):  # shapes are known from the second time on
            sound = [text for text in texts if is_made(apart, text)]
            make_together(together, sound)
            assert content(together) == content(apart)
            assert together.reader.version == apart.reader.version


def test_in_a_group_only_updates_that_read_what_changes_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[str] = []
    whole = update._Derivation._recorded_solutions
    monkeypatch.setattr(
        update._Derivation,
        "_recorded_solutions",
        lambda self, action, variables: recorded.append(action.where.text) or whole(self, action, variables),
    )
    count = "DELETE {{ <{0}> :n ?o }} INSERT {{ <{0}> :n ?n }} WHERE {{ <{0}> :n ?o BIND(?o + 1 AS ?n) }}"
    with QuadStore.open(tmp_path / "data", OPTIONS) as store:
        for name in "abc":
            store.writer.update(PROLOGUE + f"INSERT DATA {{ <http://e/{name}> :n 0 }}")
        for _ in range(3):
            store.writer.update(PROLOGUE + count.format("http://e/a"))
        commits = [
            store.writer.enqueue_update(PROLOGUE + count.format(f"http://e/{name}")) for name in "abcab"
        ]
        for make in commits:
            assert make().changed
        found = store.reader.solutions(PROLOGUE + "SELECT ?o { ?s :n ?o } ORDER BY ?s")[1]
    assert [row[0].value for row in found] == ["5", "2", "1"]
    assert [text.partition(" :n")[0] for text in recorded] == ["{ <http://e/a>", "{ <http://e/b>"]


@pytest.mark.parametrize("template", [*TEMPLATES[:2], *TEMPLATES[3:6]])
def test_a_shape_is_planned_twice(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    whole = writing.plan_update
    monkeypatch.setattr(
        writing, "plan_update", lambda request, *rest: planned.append("") or whole(request, *rest)
    )
    store = QuadStore.open(None, OPTIONS)
    for number in range(5):
        iris, terms = (
            iter([f"<http://e/{number}/{n}>" for n in range(12)]),
            iter([f"{number}", f'"{number}"'] * 3),
        )
        before = store.reader.version
        store.writer.update(filled(template, iris, terms))
        assert store.reader.version == before + ("INSERT DATA" in template)
    assert len(planned) == 2


@pytest.mark.parametrize("template", TEMPLATES[-6:-3])
def test_what_is_wrong_is_told_each_time_with_its_place(template: str) -> None:
    store = QuadStore.open(None, OPTIONS)
    for number in range(4):
        text = filled(template, iter([f"<http://e/{number * 'x'}>"] * 3), iter(["1"] * 2))
        with pytest.raises(ReportedError) as alike:
            store.writer.update(text)
        with pytest.raises(ReportedError) as alone:
            QuadStore.open(None).writer.update(text)
        assert (alike.value.message, alike.value.details) == (alone.value.message, alone.value.details)


def test_what_is_known_of_an_update_is_asked_of_its_algebra() -> None:
    text = (
        "PREFIX e: <http://e/> DELETE { ?s e:n ?o } "
        'INSERT { GRAPH <urn:g> { ?s e:n 1.50, "x" } } WHERE { ?s a e:C ; e:n ?o FILTER(?o > 2) }'
    )
    frame = analyse_update(text, split_constants(text), None)
    assert frame is not None
    decimal = Literal("1.5", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#decimal"))
    assert frame.templates == {
        "delete": ((0, ~0, 1, DefaultGraph()),),
        "insert": ((0, ~2, decimal, ~1), (0, ~2, ~3, ~1)),
    }
    assert frame.patterns == (((2, 4),), ((1, 5),))
    assert frame.namespaces == ["http://e/", "", "http://e/", "", "http://e/", "http://e/", None]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA { <http://e/a> <http://e/p> [ <http://e/q> 1 ] }",
        "INSERT DATA { <http://e/a> <http://e/p> _:b }",
        "INSERT DATA { <http://e/a> <http://e/p> <<( <urn:a> <urn:b> 1 )>> }",
        'INSERT DATA { <http://e/a> <http://e/p> "a"@en }',
        "INSERT DATA { <urn:a> <urn:b> 1 } ; INSERT DATA { <urn:a> <urn:b> 2 }",
        "PREFIX e: <urn:quadrill-constant-> INSERT DATA { <urn:a> <urn:b> e:7. }",
        "INSERT DATA { <urn:quadrill-constant-7> <urn:b> 1 } # 2",
        "PREFIX e: <urn:> INSERT DATA { e:a e:b 1 }",
        "WITH <urn:g> INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
        "CLEAR ALL",
        "nonsense",
    ],
)
def test_nothing_is_known_of_other_updates(text: str) -> None:
    assert analyse_update(text, split_constants(text), None) is None
