"""The SPARQL service description (https://www.w3.org/TR/sparql11-service-description/) with VoID counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple

from .http.negotiation import GRAPH_OFFERS, RESULT_OFFERS, Offer

SD = "http://www.w3.org/ns/sparql-service-description#"
VOID = "http://rdfs.org/ns/void#"
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
_FORMATS = "http://www.w3.org/ns/formats/"
_FORMAT_NAMES = {
    "json": "SPARQL_Results_JSON",
    "xml": "SPARQL_Results_XML",
    "csv": "SPARQL_Results_CSV",
    "tsv": "SPARQL_Results_TSV",
    "ttl": "Turtle",
    "nt": "N-Triples",
    "rdf": "RDF_XML",
    "jsonld": "JSON-LD",
    "nq": "N-Quads",
    "trig": "TriG",
}
MAX_GRAPHS = 1000
"""Maximum number of named graphs in a service description; above it, only the default graph is shown."""

PREFIXES = {"sd": SD, "void": VOID, "formats": _FORMATS}


def describe(
    endpoint: str,
    graphs: Mapping[NamedNode | BlankNode | DefaultGraph, int],
    *,
    updates: bool,
    federated: bool,
) -> Iterator[Triple]:
    """Yield the triples that describe the service at ``endpoint``.

    Args:
        endpoint: absolute URL of the query endpoint.
        graphs: number of triples of each graph.
        updates: True if the server accepts updates; False in read-only mode.
        federated: True if queries may use SERVICE.
    """
    service, dataset, default = NamedNode(endpoint), BlankNode(), BlankNode()
    yield Triple(service, _TYPE, _sd("Service"))
    yield Triple(service, _sd("endpoint"), service)
    languages = ["SPARQL10Query", "SPARQL11Query"] + (["SPARQL11Update"] if updates else [])
    for language in languages:
        yield Triple(service, _sd("supportedLanguage"), _sd(language))
    if federated:
        yield Triple(service, _sd("feature"), _sd("BasicFederatedQuery"))
    for offer in (*RESULT_OFFERS, *GRAPH_OFFERS):
        yield Triple(service, _sd("resultFormat"), _format(offer))
    for offer in GRAPH_OFFERS:
        yield Triple(service, _sd("inputFormat"), _format(offer))
    yield Triple(service, _sd("defaultDataset"), dataset)
    yield Triple(dataset, _TYPE, _sd("Dataset"))
    yield Triple(dataset, _sd("defaultGraph"), default)
    yield Triple(dataset, NamedNode(VOID + "triples"), _number(sum(graphs.values())))
    yield Triple(default, _TYPE, _sd("Graph"))
    yield Triple(default, NamedNode(VOID + "triples"), _number(graphs.get(DefaultGraph(), 0)))
    named = [name for name in graphs if isinstance(name, NamedNode)]
    for name in named if len(named) <= MAX_GRAPHS else ():
        entry, graph = BlankNode(), BlankNode()
        yield Triple(dataset, _sd("namedGraph"), entry)
        yield Triple(entry, _TYPE, _sd("NamedGraph"))
        yield Triple(entry, _sd("name"), name)
        yield Triple(entry, _sd("graph"), graph)
        yield Triple(graph, _TYPE, _sd("Graph"))
        yield Triple(graph, NamedNode(VOID + "triples"), _number(graphs[name]))


def _sd(name: str) -> NamedNode:
    return NamedNode(SD + name)


def _format(offer: Offer) -> NamedNode:
    return NamedNode(_FORMATS + _FORMAT_NAMES[offer.name])


def _number(count: int) -> Literal:
    return Literal(str(count), datatype=_INTEGER)
