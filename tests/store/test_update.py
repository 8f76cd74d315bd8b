"""Updates: what SPARQL 1.1 Update asks for beyond what the random requests of test_update_laws cover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import LimitError, QueryTextError, UnsupportedError, UpdateError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.update_plan import UpdateRequest

PREFIX = "PREFIX ex: <http://e/>\n"
G, H = NamedNode("http://e/g"), NamedNode("http://e/h")


@pytest.fixture
def store() -> Iterator[QuadStore]:
    quads = QuadStore.open(None)
    quads.writer.update(
        PREFIX + "INSERT DATA { ex:a ex:p 1 GRAPH ex:g { ex:a ex:p 2 } GRAPH ex:h { ex:a ex:p 3 } }"
    )
    yield quads
    quads.close()


def values(store: QuadStore, pattern: str) -> list[str]:
    return sorted(
        str(row[0].value) for row in store.reader.solutions(f"{PREFIX} SELECT ?o {{ {pattern} }}")[1]
    )


def test_an_update_without_operations_changes_nothing(store: QuadStore) -> None:
    for text in ("", "# only a comment", PREFIX, "BASE <http://b/>"):
        assert not store.writer.update(text).changed


def test_a_prologue_may_stand_before_each_operation(store: QuadStore) -> None:
    store.writer.update(
        "PREFIX ex: <http://e/> INSERT DATA { ex:b ex:q ex:one } ;\n"
        "PREFIX ex: <http://f/> BASE <http://base/> INSERT DATA { ex:b <q> ex:two } ;\n"
        "PREFIX e: <http://e/> INSERT { GRAPH e:i { ?x ex:r <q> } } WHERE { ?x <q> ?y } ;"
    )
    assert store.reader.solutions("SELECT ?s ?p ?o { GRAPH <http://e/i> { ?s ?p ?o } }")[1] == [
        (NamedNode("http://f/b"), NamedNode("http://f/r"), NamedNode("http://base/q"))
    ]


def test_a_later_operation_sees_the_earlier_ones(store: QuadStore) -> None:
    commit = store.writer.update(
        PREFIX
        + "DELETE WHERE { ex:a ex:p ?o } ; INSERT { ex:seen ex:count ?n } "
        + "WHERE { SELECT (COUNT(*) AS ?n) { ex:a ex:p ?o } } ; DROP GRAPH ex:g ; "
        + "INSERT { ex:seen ex:graphs ?g } WHERE { GRAPH ?g { ?s ?p ?o } } ; "
        + "CREATE GRAPH ex:i ; INSERT { ex:seen ex:listed ?g } WHERE { GRAPH ?g {} }"
    )
    assert values(store, "ex:seen ex:count ?o") == ["0"]
    assert values(store, "ex:seen ex:graphs ?o") == ["http://e/h"]
    assert values(store, "ex:seen ex:listed ?o") == ["http://e/h", "http://e/i"]
    assert commit.version == 2 and commit.dropped == (G,)


def test_a_failing_operation_undoes_the_whole_request(store: QuadStore) -> None:
    with pytest.raises(UpdateError, match="DROP GRAPH: the graph <http://e/none> does not exist"):
        store.writer.update(PREFIX + "DELETE WHERE { ?s ?p ?o } ; DROP GRAPH ex:none")
    assert store.reader.version == 1 and values(store, "ex:a ex:p ?o") == ["1"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("CREATE GRAPH ex:g", "already exists"),
        ("CLEAR GRAPH ex:none", "does not exist"),
        ("MOVE ex:none TO ex:g", "MOVE: the graph <http://e/none> does not exist"),
        ("COPY ex:none TO ex:g", "COPY: the graph <http://e/none> does not exist"),
        ("COPY GRAPH ex:none TO DEFAULT", "COPY: the graph"),
        ("ADD ex:none TO DEFAULT", "ADD: the graph"),
    ],
)
def test_errors_about_graphs_are_silenced_by_silent(store: QuadStore, text: str, match: str) -> None:
    with pytest.raises(UpdateError, match=match):
        store.writer.update(PREFIX + text)
    verb, _, rest = text.partition(" ")
    assert not store.writer.update(f"{PREFIX} {verb} SILENT {rest}").changed


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


@pytest.mark.parametrize(
    "text",
    [
        f'INSERT DATA {{ ex:x ex:p "x"^^<{RDF}langString> }}',
        f'INSERT DATA {{ ex:x ex:p "x"^^<{RDF}dirLangString> }}',
        f'INSERT DATA {{ GRAPH ex:g {{ ex:x ex:p <<( ex:s ex:p "x"^^<{RDF}langString> )>> }} }}',
        f'INSERT DATA {{ ex:x ex:p "x"^^<{RDF}lang\\u0053tring> }}',
        f'PREFIX l: <{RDF}lang> INSERT DATA {{ ex:x ex:p "x"^^l:String }}',
        f'PREFIX rdf: <{RDF}> INSERT {{ ex:x ex:p "x"^^rdf:langString }} WHERE {{}}',
        f'CREATE GRAPH ex:n ; INSERT DATA {{ ex:x ex:p "x"^^<{RDF}langString> }}',
        f'INSERT {{ ex:x ex:p ?v }} WHERE {{ VALUES ?v {{ "x"^^<{RDF}langString> }} }}',
    ],
)
def test_a_language_string_without_a_tag_is_refused(store: QuadStore, text: str) -> None:
    before = store.reader.version
    with pytest.raises(QueryTextError, match="has no language tag"):
        store.writer.update(PREFIX + text)
    assert store.reader.version == before
    store.writer.update(f'{PREFIX} DELETE DATA {{ ex:x ex:p "x"^^<{RDF}langString> }}')


def test_solutions_that_bind_nothing_still_count_for_blank_nodes(store: QuadStore) -> None:
    commit = store.writer.update(PREFIX + "INSERT { [] ex:q ex:x } WHERE { GRAPH ?g { ?s ?p ?o } }")
    assert len(commit.added) == 2
    again = store.writer.update(PREFIX + "INSERT { ex:x ex:q ex:x } WHERE { GRAPH ?g { ?s ?p ?o } }")
    assert len(again.added) == 1


def test_volatile_functions_are_evaluated_once_per_solution(store: QuadStore) -> None:
    for first in ("", "INSERT DATA { ex:z ex:p 9 } ; "):
        commit = store.writer.update(
            PREFIX
            + first
            + "INSERT { ?s ex:id ?u . ex:copy ex:id ?u } WHERE { ?s ex:p ?o BIND(STRUUID() AS ?u) }"
        )
        ids = [quad.object for quad in commit.added if quad.predicate == NamedNode("http://e/id")]
        assert len(ids) == 2 * len(set(ids))


def test_unbound_variables_drop_their_triple_only(store: QuadStore) -> None:
    for first in ("", "INSERT DATA { ex:z ex:z 9 } ; "):
        commit = store.writer.update(
            PREFIX
            + first
            + "INSERT { ?s ex:x ?none . ?s ex:y ?o } WHERE { ?s ex:p ?o OPTIONAL { ?s ex:nope ?none } }"
        )
        assert {quad.predicate.value[-1] for quad in commit.added} - {"z"} == {"y"}
        store.writer.update(PREFIX + "DELETE WHERE { ?s ex:y ?o }")


def test_dataset_parameters_choose_what_where_matches(store: QuadStore) -> None:
    text = PREFIX + "INSERT { ex:r ex:default ?o } WHERE { ex:a ex:p ?o }"
    store.writer.update(UpdateRequest(text, using_graphs=[G, H]))
    assert values(store, "ex:r ex:default ?o") == ["2", "3"]
    text = (
        PREFIX + "INSERT { ex:r ex:named ?o } WHERE { { ex:a ex:p ?o } UNION { GRAPH ?g { ex:a ex:p ?o } } }"
    )
    store.writer.update(UpdateRequest(text, using_named_graphs=[H]))
    assert values(store, "ex:r ex:named ?o") == ["3"]
    # The same when an earlier operation is pending.
    store.writer.update(
        UpdateRequest(
            PREFIX + "INSERT DATA { ex:z ex:p 1 } ; " + text.replace("named", "both"), using_graphs=[G]
        )
    )
    assert values(store, "ex:r ex:both ?o") == ["2"]
    store.writer.update(UpdateRequest(PREFIX + "DELETE WHERE { ex:a ex:p ?o }", using_graphs=[G]))
    assert values(store, "GRAPH ex:g { ex:a ex:p ?o }") == ["2"], (
        "DELETE WHERE matches ex:g, deletes by default"
    )
    assert values(store, "ex:a ex:p ?o") == ["1"]
    store.writer.update(
        UpdateRequest(PREFIX + "DELETE WHERE { ex:a ex:p ?o }", using_graphs=[], using_named_graphs=[])
    )
    assert values(store, "ex:a ex:p ?o") == ["1"], "an empty dataset matches nothing"


@pytest.mark.parametrize("clause", ["WITH ex:g INSERT { ex:x ex:x 1 }", "INSERT { ex:x ex:x 1 } USING ex:g"])
def test_dataset_parameters_may_not_meet_with_or_using(store: QuadStore, clause: str) -> None:
    with pytest.raises(QueryTextError, match="USING or WITH"):
        store.writer.update(UpdateRequest(f"{PREFIX} {clause} WHERE {{}}", using_graphs=[H]))


def test_base_and_prefixes_may_come_beside_the_text(store: QuadStore) -> None:
    store.writer.update(
        UpdateRequest("INSERT DATA { <x> ex:q <y> }", base_iri="http://base/", prefixes={"ex": "http://e/"})
    )
    assert values(store, "<http://base/x> ex:q ?o") == ["http://base/y"]


def test_custom_functions_work_in_where_with_and_without_pending_changes(store: QuadStore) -> None:
    functions = {NamedNode("http://e/twice"): lambda term: Literal(int(term.value) * 2)}
    where = "INSERT { ex:r ex:twice ?t } WHERE { ex:a ex:p ?o BIND(ex:twice(?o) AS ?t) }"
    store.writer.update(UpdateRequest(PREFIX + where, custom_functions=functions))
    store.writer.update(
        UpdateRequest(PREFIX + "INSERT DATA { ex:a ex:p 5 } ; " + where, custom_functions=functions)
    )
    assert values(store, "ex:r ex:twice ?o") == ["10", "2"]
    with pytest.raises(UnsupportedError, match="http://e/other"):
        store.writer.update(PREFIX + "INSERT { ?s ex:q ?x } WHERE { ?s ex:p ?o BIND(ex:other(?o) AS ?x) }")


@pytest.mark.parametrize(
    ("text", "line", "column", "match"),
    [
        ("INSERT DATA { <http://a> <http://b> }", 1, 37, "syntax error"),
        (
            "PREFIX ex: <http://e/>\nINSERT DATA { ex:a ex:b 1 } ;\n  INSERT { ex:a ex:b ?x ex:c } WHERE {}",
            3,
            30,
            "syntax",
        ),
        ("INSERT DATA { <http://a> <http://b> foo:c }", 1, 37, "prefix foo: is not declared"),
        ("INSERT DATA {\n <rel> <http://b> 1 }", 2, 2, "relative IRI <rel> has no base"),
        ("DELETE { _:b <http://b> 1 } WHERE {}", 1, 10, "DELETE may not hold the blank node _:b"),
        ("INSERT DATA { ?x <http://b> 1 }", 1, 15, "INSERT DATA may not hold the variable"),
        ("CLEAR EVERYTHING", 1, 7, "expected GRAPH, DEFAULT, NAMED or ALL"),
        ("SELECT * {}", 1, 1, "expected an update operation"),
        ("INSERT DATA {} DELETE WHERE {}", 1, 16, "expected ';'"),
        ("; CLEAR ALL", 1, 1, "expected an update operation"),
        ("INSERT DATA { <http://a> <http://b> 1 ", 1, 13, "not closed"),
        ("PREFIX ex CLEAR ALL", 1, 8, "expected an IRI"),
        ("WITH <http://g> WHERE {}", 1, 17, "expected DELETE or INSERT"),
        ("INSERT {} { ?s ?p ?o }", 1, 11, "expected WHERE"),
        ("ADD <http://a> <http://b>", 1, 16, "expected TO"),
        (
            "INSERT DATA { _:b <http://b> 1 } ;\nINSERT DATA { _:b <http://b> 2 }",
            2,
            15,
            "used in two operations",
        ),
    ],
)
def test_a_wrong_text_is_told_with_its_place(
    store: QuadStore, text: str, line: int, column: int, match: str
) -> None:
    with pytest.raises(QueryTextError, match=match) as caught:
        store.writer.update(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.excerpt is not None and caught.value.excerpt.endswith("^")
    assert store.reader.version == 1


def test_nothing_is_evaluated_before_the_whole_text_is_judged(store: QuadStore) -> None:
    called: list[object] = []
    functions = {NamedNode("http://e/note"): lambda *terms: called.append(terms)}
    with pytest.raises(QueryTextError):
        store.writer.update(
            UpdateRequest(
                PREFIX
                + "INSERT { ?s ex:q ?x } WHERE { ?s ex:p ?o BIND(ex:note(1) AS ?x) } ; INSERT DATA { ex:a }",
                custom_functions=functions,
            ),
        )
    assert called == []


def test_hostile_nesting_is_refused_and_deep_texts_run(store: QuadStore) -> None:
    with pytest.raises(LimitError, match="nests deeper than"):
        store.writer.update("INSERT {} WHERE " + "{" * 20_000 + "}" * 20_000)
    deep = 3_000
    text = PREFIX + "INSERT { ex:deep ex:p 1 } WHERE " + "{" * deep + "}" * deep
    assert store.writer.update(text).changed
    store.writer.update(
        PREFIX + "INSERT DATA { ex:y ex:p 1 } ; " + text.split("\n")[1].replace("ex:deep", "ex:deeper")
    )
    assert store.reader.quads_for_pattern(NamedNode("http://e/deeper"))
    with pytest.raises(LimitError, match="limit is 100"):
        QuadStore.open(None, StoreOptions(limits=TextLimits(characters=100))).writer.update("#" * 101)


def test_large_data_is_not_taken_for_nesting(store: QuadStore) -> None:
    blocks = " ".join(
        f"GRAPH ex:g{number % 7} {{ ex:s{number} ex:p {number} . }}" for number in range(15_000)
    )
    assert len(store.writer.update(f"{PREFIX} INSERT DATA {{ {blocks} }}").added) == 15_000
    assert len(store.writer.update(f"{PREFIX} DELETE DATA {{ {blocks} }}").removed) == 15_000


def test_variables_of_the_text_do_not_clash_with_ours(store: QuadStore) -> None:
    for first in ("", "INSERT DATA { ex:z ex:z 9 } ; "):
        commit = store.writer.update(
            PREFIX
            + first
            + "INSERT { ?i ex:q ?n , ?r , $i_ } "
            + "WHERE { BIND(ex:i AS ?i) BIND(1 AS ?n) BIND(2 AS ?r) BIND(3 AS ?i_) }"
        )
        assert len([quad for quad in commit.added if quad.predicate.value == "http://e/q"]) == 3
        store.writer.update(PREFIX + "DELETE WHERE { ?s ex:q ?o }")
