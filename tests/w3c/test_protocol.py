"""The SPARQL 1.1 Protocol and Graph Store Protocol suites, and the service description, over HTTP."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode, RdfFormat, parse

from tests.w3c.endpoint import Endpoint
from tests.w3c.expectations import params
from tests.w3c.http_exchange import play
from tests.w3c.manifests import RDF, Case, cases

SD = "http://www.w3.org/ns/sparql-service-description#"
ALL = cases("sparql11/manifest-all.ttl")


@pytest.mark.parametrize("case", params([c for c in ALL if c.kind == "ProtocolTest"]))
def test_the_protocol_exchange_goes_as_the_manifest_says(case: Case, endpoint: Endpoint) -> None:
    endpoint.reset(case.data)
    play(case, endpoint.client, paths={"/sparql/": "/sparql"})


@pytest.mark.parametrize("case", params([c for c in ALL if c.kind == "GraphStoreProtocolTest"]))
def test_the_graph_store_exchange_goes_as_the_manifest_says(case: Case, endpoint: Endpoint) -> None:
    endpoint.reset(case.data)
    play(case, endpoint.client, paths={"/gsp": "/store"})


def test_the_suites_hold_34_protocol_13_graph_store_and_3_description_tests() -> None:
    kinds = [case.kind for case in ALL]
    assert [kinds.count(k) for k in ("ProtocolTest", "GraphStoreProtocolTest", "ServiceDescriptionTest")] == [
        34,
        13,
        3,
    ]


@pytest.mark.parametrize("path", ["/sparql", "/query"])
def test_a_get_without_a_query_returns_an_rdf_service_description(path: str, endpoint: Endpoint) -> None:
    """The three service-description tests: RDF, a matching sd:endpoint, the schema's classes and values."""
    answer = endpoint.client.get(path, headers={"Accept": "text/turtle"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].split(";")[0] == "text/turtle"
    url = str(answer.request.url)
    quads = set(parse(answer.content, format=RdfFormat.TURTLE, base_iri=url))
    services = {
        q.subject
        for q in quads
        if q.predicate.value == RDF + "type" and q.object == NamedNode(SD + "Service")
    }
    assert len(services) == 1
    service = next(iter(services))
    properties = {q.predicate.value for q in quads if q.subject == service}
    assert NamedNode(url) in {q.object for q in quads if q.predicate.value == SD + "endpoint"}
    assert {SD + "supportedLanguage", SD + "resultFormat", SD + "defaultDataset"} <= properties
    for quad in quads:
        if quad.predicate.value in (
            SD + "supportedLanguage",
            SD + "resultFormat",
            SD + "inputFormat",
            SD + "feature",
        ):
            assert isinstance(quad.object, NamedNode), f"{quad} must name a resource"
