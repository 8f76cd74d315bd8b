"""Fetch periods from descriptions of remote sources in the data: VoID, with dady or Dublin Core.

    [] void:sparqlEndpoint <https://people.example/sparql> ; dady:dynamics [ a dady:MidFrequentUpdates ] .
    <http://people.example/graph> dcterms:accrualPeriodicity freq:weekly .

Sources: https://www.w3.org/TR/void/, http://purl.org/NET/dady, and the collection description terms of Dublin
Core, http://purl.org/cld/freq/. A description of a remote source applies only to queries that name no fetch
period themselves.
"""

from __future__ import annotations

from pyoxigraph import NamedNode

from quadrill.store.quads.reading import StoreReader
from quadrill.store.sparql.query import QueryRequest

from .periods import Period
from .spec import SourceSpec

_HOUR, _DAY = 3_600_000, 86_400_000
_DADY = "http://purl.org/NET/dady#"
_FREQ = "http://purl.org/cld/freq/"
BY_HAND = 0

# The milliseconds between two fetches for each term of the vocabularies: between a seventh and a quarter of
# the time between two changes that the term stands for, but at most a day.
_PERIODS = {
    _DADY + "MidFrequentUpdates": 6 * _HOUR,
    _DADY + "LowFrequentUpdates": _DAY,
    _DADY + "NoUpdates": BY_HAND,
    _FREQ + "daily": 6 * _HOUR,
    _FREQ + "threeTimesAWeek": 12 * _HOUR,
    _FREQ + "semiweekly": 12 * _HOUR,
    _FREQ + "weekly": _DAY,
    _FREQ + "threeTimesAMonth": _DAY,
    _FREQ + "biweekly": _DAY,
    _FREQ + "semimonthly": _DAY,
    _FREQ + "monthly": _DAY,
    _FREQ + "bimonthly": _DAY,
    _FREQ + "quarterly": _DAY,
    _FREQ + "threeTimesAYear": _DAY,
    _FREQ + "semiannual": _DAY,
    _FREQ + "annual": _DAY,
    _FREQ + "biennial": _DAY,
    _FREQ + "triennial": _DAY,
}

_TEXT = """
PREFIX void: <http://rdfs.org/ns/void#>
PREFIX dady: <http://purl.org/NET/dady#>
PREFIX dcterms: <http://purl.org/dc/terms/>
SELECT ?how WHERE {
  { BIND(SOURCE AS ?set) } UNION { ?set void:sparqlEndpoint SOURCE } UNION { ?set void:dataDump SOURCE }
  { ?set dcterms:accrualPeriodicity ?how } UNION { ?set dady:dynamics ?how }
  UNION { ?set dady:dynamics ?dynamics . ?dynamics a ?how }
}
"""


def period_of(reader: StoreReader, spec: SourceSpec, asked: int | str) -> Period | None:
    """Return the fetch period of a source for a query with the refresh option ``asked``.

    None as fetch period means that neither the query nor a description of the source names it, so the setting
    applies.
    """
    if asked != "trigger":
        return Period(asked if isinstance(asked, int) else None, "query")
    described = described_every_ms(reader, spec)
    return None if described is None else Period(described or None, "description")


def described_every_ms(reader: StoreReader, spec: SourceSpec) -> int | None:
    """Return the time between two fetches that a description of the source suggests.

    The description of a remote source may be in any graph of the store.

    Returns:
        Milliseconds; `BY_HAND` for a source that never changes; None if the store has no description.
    """
    text = _TEXT.replace("SOURCE", str(NamedNode(spec.iri)))
    found = {
        _PERIODS[how.value]
        for (how,) in reader.solutions(QueryRequest(text, union=True))[1]
        if isinstance(how, NamedNode) and how.value in _PERIODS
    }
    # If descriptions of a source disagree, the one with the shortest period applies.
    return min(found - {BY_HAND}, default=BY_HAND) if found else None
