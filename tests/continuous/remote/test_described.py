"""Where a query names no period, a description of the source in the data does."""

from __future__ import annotations

import pytest

from quadrill.app.describing.queries import describe

from .bench import Remote
from .endpoint import Endpoint

HOUR = 3_600_000
PREFIXES = """
PREFIX void: <http://rdfs.org/ns/void#>
PREFIX dady: <http://purl.org/NET/dady#>
PREFIX dcterms: <http://purl.org/dc/terms/>
PREFIX freq: <http://purl.org/cld/freq/>
"""


@pytest.mark.parametrize(
    ("description", "every_ms"),
    [
        ("[] void:sparqlEndpoint <URL> ; dady:dynamics [ a dady:MidFrequentUpdates ]", 6 * HOUR),
        ("GRAPH <http://e/g> { [] void:dataDump <URL> ; dcterms:accrualPeriodicity freq:weekly }", 24 * HOUR),
        ("[] void:sparqlEndpoint <URL> ; dady:dynamics dady:LowFrequentUpdates", 24 * HOUR),
        ("[] void:sparqlEndpoint <URL> ; dady:dynamics dady:NoUpdates", None),
        ("[] void:sparqlEndpoint <URL> ; dady:dynamics dady:NoUpdates, dady:MidFrequentUpdates", 6 * HOUR),
        ("<URL> dcterms:accrualPeriodicity freq:daily", 6 * HOUR),
        ("[] void:sparqlEndpoint <URL> ; dady:dynamics [ a dady:HighFrequentUpdates ]", 60_000),
        ("[] void:sparqlEndpoint <http://other/> ; dady:dynamics dady:NoUpdates", 60_000),
    ],
)
def test_void_dady_and_dublin_core_say_how_often(
    bench: Remote, far: Endpoint, description: str, every_ms: int | None
) -> None:
    url = f"{far.url}sparql"
    bench.store.writer.update(f"{PREFIXES} INSERT DATA {{ {description.replace('URL', url)} }}")
    bench.register("q", f"SELECT ?x {{ SERVICE <{url}> {{ ?x :label ?l }} }}")
    assert bench.source("q")["every_ms"] == every_ms
    bench.register("r", f"SELECT ?l {{ SERVICE <{url}> {{ ?x :label ?l }} }}", refresh={"every": "30s"})
    assert bench.source("r")["every_ms"] == 30_000, "who names a period gets it"


def test_descriptions_tell_how_often_the_graphs_of_a_query_change(bench: Remote) -> None:
    bench.register("q", "SELECT ?x { ?x :p ?o GRAPH :g { ?x :q ?o } }")
    bench.store.writer.update("INSERT DATA { <http://e/a> <http://e/b> 1, 2, 3 }")
    graphs = {each["graph"]: each for each in describe(bench.engine, "q")["graphs"]}
    assert list(graphs) == ["default", "http://example.org/g"]
    assert graphs["default"]["quads_per_commit"] == 3 and graphs["default"]["commits_per_hour"] > 0
    assert graphs["http://example.org/g"]["commits_per_hour"] is None
