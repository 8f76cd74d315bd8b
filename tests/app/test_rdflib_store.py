"""rdflib over a running server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rdflib import BNode, Dataset, Graph, Literal, Namespace, URIRef, plugin
from rdflib.compare import isomorphic
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.namespace import FOAF, RDF, XSD
from rdflib.plugins.sparql import prepareQuery
from rdflib.store import Store

from quadrill.app.rdflib_store import QuadrillStore, QuadrillStoreError
from tests.app.conftest import LiveServer, Start

EX = Namespace("http://e/")


@pytest.fixture
def graph(server: LiveServer) -> Graph:
    found = Graph(store="Quadrill", identifier=EX.g)
    found.open(server.url)
    return found


def test_the_store_is_found_by_its_name() -> None:
    assert plugin.get("Quadrill", Store) is QuadrillStore


def test_triples_are_added_found_counted_and_removed(graph: Graph, server: LiveServer) -> None:
    graph.add((EX.a, FOAF.name, Literal("Ann", lang="en")))
    graph.add((EX.a, FOAF.age, Literal(7)))
    assert len(graph) == 2
    assert (EX.a, FOAF.age, Literal(7)) in graph
    assert (EX.a, FOAF.age, Literal(8)) not in graph
    assert graph.value(EX.a, FOAF.name) == Literal("Ann", lang="en")
    assert server.boolean("ASK { GRAPH <http://e/g> { <http://e/a> ?p 7 } }")
    graph.remove((EX.a, FOAF.age, None))
    assert [*graph] == [(EX.a, FOAF.name, Literal("Ann", lang="en"))]
    graph.set((EX.a, FOAF.name, Literal('q"uo\\te\n')))
    assert graph.value(EX.a, FOAF.name) == Literal('q"uo\\te\n')


def test_a_document_with_blank_nodes_comes_back_isomorphic(graph: Graph) -> None:
    text = (
        """@prefix ex: <http://e/> . ex:a ex:list ( 1 2 [ ex:p "x" ] ) ; ex:b _:n . _:n ex:c _:n , 1.5e3 ."""
    )
    graph.parse(data=text, format="turtle")
    assert isomorphic(graph, Graph().parse(data=text, format="turtle"))
    node = graph.value(EX.a, EX.b)
    assert isinstance(node, BNode)
    assert set(graph.objects(node, EX.c)) == {node, Literal(1500.0)}
    with pytest.raises(QuadrillStoreError, match="blank node"):
        graph.remove((node, None, None))


def test_many_quads_are_sent_together(server: LiveServer) -> None:
    graph = Graph(store=QuadrillStore(server.url))
    before = server.services.store.reader.version
    graph.addN((EX[f"s{n}"], EX.p, Literal(n), graph) for n in range(25_000))
    graph.commit()
    assert server.services.store.reader.quad_count == 25_000
    assert server.services.store.reader.version == before + 3
    graph.add((EX.never, EX.p, EX.o))
    graph.rollback()
    assert len(graph) == 25_000


def test_queries_and_updates_run_on_the_server(graph: Graph, server: LiveServer) -> None:
    graph.parse(data="@prefix ex: <http://e/> . ex:a ex:p 1 . ex:b ex:p 2 .", format="turtle")
    graph.bind("ex", EX)
    rows = list(graph.query("SELECT ?s ?v { ?s ex:p ?v } ORDER BY ?v"))
    assert [(row.s, row.v.toPython()) for row in rows] == [(EX.a, 1), (EX.b, 2)]
    assert bool(graph.query("ASK { ?s ex:p 2 }"))
    assert [
        row.v.toPython() for row in graph.query("SELECT ?v { ?s ex:p ?v }", initBindings={"s": EX.b})
    ] == [2]
    built = graph.query("CONSTRUCT { ?s a ex:T } { ?s ex:p 1 }").graph
    assert set(built) == {(EX.a, RDF.type, EX.T)}
    prepared = prepareQuery("SELECT ?s { ?s ex:p 2 }", initNs={"ex": EX})
    assert [row.s for row in graph.query(prepared)] == [EX.b]
    graph.update("INSERT { ?s ex:q ?v } WHERE { ?s ex:p ?v }")
    assert (EX.b, EX.q, Literal(2)) in graph
    assert not server.boolean("ASK { ?s ?p ?o }"), "an update of a named graph stays in it"
    with pytest.raises(QuadrillStoreError, match="400"):
        graph.query("SELECT {")


@pytest.mark.filterwarnings("ignore:Dataset.default_context is deprecated")  # rdflib's own use of it
def test_a_dataset_has_named_graphs(server: LiveServer) -> None:
    dataset = Dataset(store=QuadrillStore({"url": server.url}))
    dataset.add((EX.a, EX.p, EX.default))
    one = dataset.graph(EX.one)
    one.add((EX.a, EX.p, EX.b))
    dataset.graph(EX.empty)
    assert {g.identifier for g in dataset.graphs()} >= {EX.one, EX.empty}
    assert set(dataset.quads((None, None, None, None))) == {
        (EX.a, EX.p, EX.default, DATASET_DEFAULT_GRAPH_ID),
        (EX.a, EX.p, EX.b, EX.one),
    }
    assert len(dataset.graph(EX.one)) == 1
    dataset.update("INSERT DATA { GRAPH <http://e/two> { <http://e/a> <http://e/p> 1 } }")
    assert (EX.a, EX.p, Literal(1, datatype=XSD.integer)) in dataset.graph(EX.two)
    dataset.remove_graph(EX.one)
    assert URIRef("http://e/one") not in {g.identifier for g in dataset.graphs()}


def test_what_waits_is_sent_when_the_program_ends(server: LiveServer, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from rdflib import Graph, URIRef\n"
        f"g = Graph(store='Quadrill'); g.open({server.url!r})\n"
        "g.add((URIRef('http://e/late'), URIRef('http://e/p'), URIRef('http://e/o')))\n"
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=60)
    assert server.boolean("ASK { <http://e/late> ?p ?o }")


def test_a_token_is_sent_and_faults_are_told(start_server: Start) -> None:
    server = start_server(token="a-long-secret-token-for-tests")
    graph = Graph(store=QuadrillStore({"url": server.url, "token": "a-long-secret-token-for-tests"}))
    graph.add((EX.a, EX.p, EX.o))
    assert len(graph) == 1
    with pytest.raises(QuadrillStoreError, match="401"):
        len(Graph(store=QuadrillStore(server.url)))
    with pytest.raises(QuadrillStoreError, match="cannot be reached"):
        len(Graph(store=QuadrillStore("http://127.0.0.1:1/")))
    with pytest.raises(QuadrillStoreError, match="not open"):
        len(Graph(store="Quadrill"))
    with pytest.raises(ValueError, match="url, token"):
        QuadrillStore({"address": server.url})
