"""The demo's rows as RDF: static named graphs, and one stream element for each departure and weather report.

Vocabularies: schema.org for flights, airports, airlines and aircraft, WGS84 for positions, SOSA for the
weather; vocabulary.ttl defines the terms that these lack. A weather element has one sosa:Observation per
reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, serialize

from . import Departure, WeatherReport, known, table, text_of

BASE = "http://example.org/nyc/"
SCHEMA = "https://schema.org/"
SOSA = "http://www.w3.org/ns/sosa/"
GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
INTEGER = NamedNode(XSD + "integer")
DECIMAL = NamedNode(XSD + "decimal")
DATE_TIME = NamedNode(XSD + "dateTime")
YEAR = NamedNode(XSD + "gYear")
DEPARTURES = BASE + "stream/departures"
WEATHER = BASE + "stream/weather"
METRES_PER_FOOT = 0.3048
PROPERTIES = {
    "temp": "temperature",
    "humid": "humidity",
    "wind_dir": "windDirection",
    "wind_speed": "windSpeed",
    "precip": "precipitation",
    "pressure": "pressure",
    "visib": "visibility",
}


def static_graphs() -> dict[str, tuple[str, bytes]]:
    """Return the demo's static graphs by IRI, each as media type and serialised triples."""
    return {
        BASE + "graph/airports": ("application/n-triples", _triples(_airports())),
        BASE + "graph/airlines": ("application/n-triples", _triples(_airlines())),
        BASE + "graph/aircraft": ("application/n-triples", _triples(_aircraft())),
        BASE + "graph/watch": ("text/turtle", text_of("watch.ttl").encode()),
        BASE + "graph/vocabulary": ("text/turtle", text_of("vocabulary.ttl").encode()),
    }


def departure_line(flight: Departure) -> str:
    """Format a departure as an element on one NDJSON line, with event time and triples."""
    return _line(flight.departed_ms, _departure(flight))


def weather_line(report: WeatherReport) -> str:
    """Format a weather report as an element on one NDJSON line, with event time and triples."""
    return _line(report.at_ms, _observations(report))


def flight_iri(flight: Departure) -> str:
    """Return the IRI of a flight, made of carrier, flight number and day, which are unique in the week."""
    return f"{BASE}flight/{flight.carrier}{flight.number}-{flight.day}"


def instant(at_ms: int) -> str:
    """Format an instant as the lexical form of an xsd:dateTime in UTC, without fractions of a second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _departure(flight: Departure) -> Iterator[Triple]:
    subject = NamedNode(flight_iri(flight))
    yield Triple(subject, TYPE, _schema("Flight"))
    yield Triple(subject, _schema("flightNumber"), Literal(flight.carrier + flight.number))
    yield Triple(subject, _schema("provider"), _thing("airline", flight.carrier))
    yield Triple(subject, _schema("departureAirport"), _thing("airport", flight.origin))
    yield Triple(subject, _schema("arrivalAirport"), _thing("airport", flight.destination))
    yield Triple(subject, _schema("aircraft"), _thing("aircraft", flight.tail))
    yield Triple(subject, _schema("departureTime"), _time(flight.departed_ms))
    yield Triple(subject, _own("scheduledDeparture"), _time(flight.scheduled_ms))
    yield Triple(subject, _own("departureDelay"), Literal(str(flight.delay_minutes), datatype=INTEGER))
    yield Triple(subject, _own("distance"), Literal(str(flight.distance_miles), datatype=INTEGER))


def _observations(report: WeatherReport) -> Iterator[Triple]:
    airport = _thing("airport", report.airport)
    at = instant(report.at_ms)
    for reading, value in report.readings.items():
        subject = NamedNode(f"{BASE}observation/{report.airport}-{at}-{PROPERTIES[reading]}")
        yield Triple(subject, TYPE, NamedNode(SOSA + "Observation"))
        yield Triple(subject, NamedNode(SOSA + "hasFeatureOfInterest"), airport)
        yield Triple(subject, NamedNode(SOSA + "observedProperty"), _own(PROPERTIES[reading]))
        yield Triple(subject, NamedNode(SOSA + "hasSimpleResult"), Literal(str(value), datatype=DECIMAL))
        yield Triple(subject, NamedNode(SOSA + "resultTime"), _time(report.at_ms))


def _airports() -> Iterator[Triple]:
    for row in table("airports"):
        subject = _thing("airport", row["faa"])
        metres = f"{float(row['alt']) * METRES_PER_FOOT:.1f}"
        yield Triple(subject, TYPE, _schema("Airport"))
        yield Triple(subject, _schema("iataCode"), Literal(row["faa"]))
        yield Triple(subject, _schema("name"), Literal(row["name"]))
        yield Triple(subject, NamedNode(GEO + "lat"), Literal(row["lat"], datatype=DECIMAL))
        yield Triple(subject, NamedNode(GEO + "long"), Literal(row["lon"], datatype=DECIMAL))
        yield Triple(subject, NamedNode(GEO + "alt"), Literal(metres, datatype=DECIMAL))
        if known(row["tzone"]) is not None:
            yield Triple(subject, _own("timeZone"), Literal(row["tzone"]))


def _airlines() -> Iterator[Triple]:
    for row in table("airlines"):
        subject = _thing("airline", row["carrier"])
        yield Triple(subject, TYPE, _schema("Airline"))
        yield Triple(subject, _schema("iataCode"), Literal(row["carrier"]))
        yield Triple(subject, _schema("name"), Literal(row["name"]))


def _aircraft() -> Iterator[Triple]:
    for row in table("planes"):
        subject = _thing("aircraft", row["tailnum"])
        yield Triple(subject, TYPE, _schema("Vehicle"))
        yield Triple(subject, _schema("identifier"), Literal(row["tailnum"]))
        yield Triple(subject, _schema("name"), Literal(f"{row['manufacturer']} {row['model']}"))
        yield Triple(subject, _schema("manufacturer"), Literal(row["manufacturer"]))
        yield Triple(subject, _schema("model"), Literal(row["model"]))
        yield Triple(subject, _schema("vehicleSeatingCapacity"), Literal(row["seats"], datatype=INTEGER))
        yield Triple(subject, _own("engine"), Literal(row["engine"]))
        if known(row["year"]) is not None:
            yield Triple(subject, _schema("productionDate"), Literal(row["year"], datatype=YEAR))


def _line(at_ms: int, triples: Iterable[Triple]) -> str:
    return json.dumps({"at": at_ms, "data": _triples(triples).decode()}, ensure_ascii=False)


def _triples(triples: Iterable[Triple]) -> bytes:
    text = serialize(triples, format=RdfFormat.N_TRIPLES)
    assert text is not None  # pyoxigraph's `serialize` returns None only if it gets an output file
    return text


def _time(at_ms: int) -> Literal:
    return Literal(instant(at_ms), datatype=DATE_TIME)


def _thing(kind: str, key: str) -> NamedNode:
    return NamedNode(f"{BASE}{kind}/{key}")


def _schema(name: str) -> NamedNode:
    return NamedNode(SCHEMA + name)


def _own(name: str) -> NamedNode:
    return NamedNode(f"{BASE}vocabulary#{name}")
