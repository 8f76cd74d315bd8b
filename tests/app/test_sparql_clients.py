"""SPARQL clients in use, as they are: SPARQLWrapper, and rdflib's stores over an endpoint."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import SPARQLWrapper
from rdflib import Dataset, Graph, Literal, Namespace
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed, Unauthorized

from tests.app.conftest import LiveServer, Start

# SPARQLWrapper leaves the closing of its sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
]
TOKEN = "a-token-of-some-length"
EX = Namespace("http://e/")
DATA = """PREFIX : <http://e/> INSERT DATA { :a :p 1, "zwei"@de . GRAPH :g { :b :p 2 } }"""


@pytest.fixture(autouse=True)
def _sockets_are_closed() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def filled(server: LiveServer) -> LiveServer:
    assert server.client.post("/update", data={"update": DATA}).status_code == 204
    return server


def wrapper(server: LiveServer, text: str, *, method: str = "GET", form: str = SPARQLWrapper.JSON) -> Any:
    made = SPARQLWrapper.SPARQLWrapper(f"{server.url}/query", f"{server.url}/update")
    made.setQuery(text)
    made.setMethod(method)
    made.setReturnFormat(form)
    return made


@pytest.mark.parametrize(
    ("method", "sent"),
    [
        ("GET", SPARQLWrapper.URLENCODED),
        ("POST", SPARQLWrapper.URLENCODED),
        ("POST", SPARQLWrapper.POSTDIRECTLY),
    ],
)
def test_sparqlwrapper_selects_in_every_form(filled: LiveServer, method: str, sent: str) -> None:
    text = "SELECT ?o { <http://e/a> <http://e/p> ?o } ORDER BY ISLITERAL(?o) STR(?o)"
    asked = wrapper(filled, text, method=method)
    asked.setRequestMethod(sent)
    found = asked.queryAndConvert()["results"]["bindings"]
    assert [each["o"]["value"] for each in found] == ["1", "zwei"]
    assert found[1]["o"]["xml:lang"] == "de"
    for form, part in (
        (SPARQLWrapper.XML, lambda made: made.toxml()),
        (SPARQLWrapper.CSV, bytes.decode),
        (SPARQLWrapper.TSV, bytes.decode),
    ):
        asked.setReturnFormat(form)
        assert "zwei" in part(asked.queryAndConvert())


def test_sparqlwrapper_asks_constructs_and_describes(filled: LiveServer) -> None:
    assert wrapper(filled, "ASK { ?s ?p 1 }").queryAndConvert()["boolean"] is True
    for form in (SPARQLWrapper.RDFXML, SPARQLWrapper.JSONLD):
        graph = wrapper(filled, "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }", form=form).queryAndConvert()
        assert (EX.a, EX.p, Literal("zwei", lang="de")) in graph
    text = wrapper(filled, "DESCRIBE <http://e/a>", form=SPARQLWrapper.TURTLE).queryAndConvert()
    assert len(Graph().parse(data=text, format="turtle")) == 2


def test_sparqlwrapper_updates_chooses_graphs_and_is_told_what_is_wrong(filled: LiveServer) -> None:
    wrapper(filled, "INSERT DATA { <http://e/c> <http://e/p> 3 }", method="POST").query()
    count = wrapper(filled, "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
    assert count.queryAndConvert()["results"]["bindings"][0]["n"]["value"] == "3"
    count.addDefaultGraph("http://e/g")
    assert count.queryAndConvert()["results"]["bindings"][0]["n"]["value"] == "1"
    with pytest.raises(QueryBadFormed, match="line"):
        wrapper(filled, "SELECT nonsense").query()


def test_sparqlwrapper_gives_a_token(start_server: Start) -> None:
    server = start_server(token=TOKEN)
    with pytest.raises(Unauthorized):
        wrapper(server, "ASK {}").query()
    asked = wrapper(server, "ASK {}")
    asked.addCustomHttpHeader("Authorization", f"Bearer {TOKEN}")
    assert asked.queryAndConvert()["boolean"] is True


def test_rdflib_reads_an_endpoint(filled: LiveServer) -> None:
    graph = Graph(SPARQLStore(f"{filled.url}/query"), DATASET_DEFAULT_GRAPH_ID)
    assert set(graph.objects(EX.a, EX.p)) == {Literal(1), Literal("zwei", lang="de")}
    assert len(graph) == 2 and (EX.a, EX.p, Literal(1)) in graph
    named = Graph(SPARQLStore(f"{filled.url}/query"), EX.g)
    assert set(named) == {(EX.b, EX.p, Literal(2))}
    [row] = named.query("SELECT ?o { ?s <http://e/p> ?o FILTER(ISNUMERIC(?o)) }")
    assert row.o == Literal(2)


@pytest.mark.parametrize("method", ["GET", "POST", "POST_FORM"])
@pytest.mark.parametrize("returned", ["xml", "json", "csv"])
def test_rdflib_queries_in_every_way(filled: LiveServer, method: str, returned: str) -> None:
    store = SPARQLStore(f"{filled.url}/query", method=method, returnFormat=returned)
    rows = list(store.query("SELECT ?s ?o { ?s ?p ?o } ORDER BY STR(?o)"))
    assert [str(row[1]) for row in rows] == ["1", "zwei"]
    assert returned == "csv" or bool(store.query("ASK { ?s ?p 1 }"))


def test_rdflib_writes_an_endpoint(filled: LiveServer) -> None:
    store = SPARQLUpdateStore(f"{filled.url}/query", f"{filled.url}/update", autocommit=False)
    graph = Graph(store, EX.g)
    graph.add((EX.d, EX.p, Literal('ein "Text"\n')))
    graph.remove((EX.b, None, None))
    store.commit()
    assert set(graph) == {(EX.d, EX.p, Literal('ein "Text"\n'))}
    graph.update("INSERT DATA { <http://e/e> <http://e/p> <http://e/d> }")
    store.commit()
    assert (EX.e, EX.p, EX.d) in graph
    dataset = Dataset(SPARQLUpdateStore(f"{filled.url}/query", f"{filled.url}/update"))
    [graph] = [each for each in dataset.graphs() if each.identifier == EX.g]
    dataset.remove_graph(graph)
    assert EX.g not in {each.identifier for each in dataset.graphs()}
