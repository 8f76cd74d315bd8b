"""A use case of the RSP-QL* group's kind: five windows, annotations, HAVING by the names of averages.

Somebody is alone at home and breathes too little while the heart beats too fast for what they do.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, MakeEvaluator, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.quads.quad_store import QuadStore

from ..engines import reference_evaluator

BASE = "http://base/"
HEAD = f"""@base <{BASE}> . @prefix ex: <http://e/> . @prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
"""
HOME = """
<ann> a foaf:Person ; foaf:name "Ann" ; ex:partner <ben> .
[] ex:about <ann> ; ex:during <rest> ; ex:heart [ ex:most 90 ] ; ex:breath [ ex:least 12 ] ;
   ex:oxygen [ ex:least 0.9 ; ex:most 1.0 ] .
[] ex:about <ann> ; ex:during <sport> ; ex:heart [ ex:most 150 ] ; ex:breath [ ex:least 25 ] ;
   ex:oxygen [ ex:least 0.8 ; ex:most 1.0 ] .
"""
QUERY = """BASE <http://base/>
PREFIX ex: <http://e/>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX sosa: <http://www.w3.org/ns/sosa/>

REGISTER STREAM <alarm>

COMPUTED EVERY PT10S AS

SELECT ?does (AVG(?h) AS ?avgHr) (AVG(?b) AS ?avgBr) (AVG(?o) AS ?avgOx)
FROM NAMED WINDOW <w1> ON <s/does>   [RANGE PT1M  STEP PT10S]
FROM NAMED WINDOW <w2> ON <s/place>  [RANGE PT30S STEP PT10S]
FROM NAMED WINDOW <w3> ON <s/heart>  [RANGE PT30S STEP PT10S]
FROM NAMED WINDOW <w4> ON <s/breath> [RANGE PT30S STEP PT10S]
FROM NAMED WINDOW <w5> ON <s/oxygen> [RANGE PT30S STEP PT10S]
WHERE {
    # Ann, and what is usual
    ?who a foaf:Person ; foaf:name "Ann" ; ex:partner ?other .
    [] ex:about ?who ; ex:during ?does ;
       ex:heart [ ex:most ?hMax ] ;
       ex:breath [ ex:least ?bMin ] ;
       ex:oxygen [ ex:least ?oMin ; ex:most ?oMax ] .

    WINDOW <w1> {
        GRAPH ?g1 { [ a sosa:Observation ; sosa:featureOfInterest ?who ; sosa:hasSimpleResult ?does ] . }
    }

    # nobody else is at home
    WINDOW <w2> {
        GRAPH ?g2 {
            ?o2 a sosa:Observation ; sosa:featureOfInterest ?other .
            <<?o2 sosa:hasSimpleResult ?place>> ex:confidence ?c2 .
            FILTER(?c2 > 0.9 && ?place != <ann/home>)
        }
    }
    WINDOW <w3> {
        GRAPH ?g3 {
            ?o3 a sosa:Observation ; sosa:featureOfInterest ?who .
            <<?o3 sosa:hasSimpleResult ?h>> ex:confidence ?c3 . FILTER(?c3 > 0.95)
        }
    }
    WINDOW <w4> {
        GRAPH ?g4 {
            ?o4 a sosa:Observation ; sosa:featureOfInterest ?who .
            <<?o4 sosa:hasSimpleResult ?b>> ex:confidence ?c4 . FILTER(?c4 > 0.95)
        }
    }
    WINDOW <w5> {
        GRAPH ?g5 {
            ?o5 a sosa:Observation ; sosa:featureOfInterest ?who .
            <<?o5 sosa:hasSimpleResult ?o>> ex:confidence ?c5 . FILTER(?c5 > 0.95)
        }
    }
}
GROUP BY ?does ?hMax ?bMin ?oMin ?oMax
HAVING(?avgHr > ?hMax && ?avgBr < ?bMin &&
       ?oMin <= ?avgOx && ?avgOx <= ?oMax)
"""
USUAL = {"rest": (90, 12, Fraction(9, 10)), "sport": (150, 25, Fraction(8, 10))}
END = 180_000

_chance = random.Random(14)
SEEN: list[tuple[int, str, str, str]] = []
"""(event time, stream, value, confidence), in time order."""
for _at in range(0, END, 5_000):
    SEEN.append((_at, "heart", str(_chance.randrange(90, 170)), _chance.choice(["0.99", "0.97", "0.5"])))
    SEEN.append((_at, "breath", str(_chance.randrange(4, 18)), _chance.choice(["0.99", "0.6"])))
    SEEN.append((_at, "oxygen", f"0.{_chance.randrange(85, 99)}", "0.98"))
    if _at % 15_000 == 0:
        SEEN.append((_at, "does", _chance.choice(["<rest>", "<sport>"]), "1"))
        SEEN.append((_at, "place", _chance.choice(["<ann/home>", "<work>", "<town>"]), "0.95"))


def element(number: int) -> str:
    """One observation in a graph of its own; the value with its confidence as an annotation."""
    _, stream, value, confidence = SEEN[number]
    triple = f"<o{number}> sosa:hasSimpleResult {value}"
    whom = "<ben>" if stream == "place" else "<ann>"
    note = "" if stream == "does" else f"<< {triple} >> ex:confidence {confidence} ."
    about = f"a sosa:Observation ; sosa:featureOfInterest {whom}"
    return f"{HEAD} <g{number}> {{ <o{number}> {about} . {triple} . {note} }}"


def wanted(close: int) -> dict[str, tuple[Fraction, ...]]:
    """The activities that are told at a close, with the averages, by plain Python."""

    def seen(stream: str, width: int, least: str = "0") -> list[str]:
        return [
            value
            for at, name, value, sure in SEEN
            if name == stream and close - width <= at < close and Fraction(sure) > Fraction(least)
        ]

    averages = []
    for stream in ("heart", "breath", "oxygen"):
        values = [Fraction(value) for value in seen(stream, 30_000, "0.95")]
        if not values:
            return {}
        averages.append(sum(values) / len(values))
    if all(place == "<ann/home>" for place in seen("place", 30_000, "0.9")):
        return {}
    heart, breath, oxygen = averages
    return {
        BASE + does: (heart, breath, oxygen)
        for does, (most, least, low) in USUAL.items()
        if f"<{does}>" in seen("does", 60_000) and heart > most and breath < least and low <= oxygen <= 1
    }


@pytest.mark.parametrize("make", [None, reference_evaluator], ids=["native", "reference"])
def test_averages_are_told_where_having_names_them(make: MakeEvaluator | None) -> None:
    store = QuadStore.open(None)
    store.writer.apply(add=list(parse(HEAD + HOME, format=RdfFormat.TRIG)))
    engine = Engine(
        store, None, clock=ManualClock(0), settings=EngineSettings(threaded=False), make_evaluator=make
    )
    engine.start()
    try:
        engine.queries.register(Registration.from_json({"query": QUERY}, name="alarm"))
        for number, (at, stream, *_) in enumerate(SEEN):
            data = element(number).encode()
            engine.streams.push(PushCall(f"{BASE}s/{stream}", "application/trig", at=at), data)
        for stream in ("does", "place", "heart", "breath", "oxygen"):
            engine.streams.heartbeat(f"{BASE}s/{stream}", END)
        assert describe(engine, "alarm")["error"] is None
        told, reports = 0, 0
        for event in engine.queries.feed("alarm").subscribe(0).take():
            document = json.loads(event.data)
            rows = {
                row["does"]["value"]: tuple(float(row[name]["value"]) for name in ("avgHr", "avgBr", "avgOx"))
                for row in document["results"]["bindings"]
            }
            expected = wanted(document["at"])
            assert rows.keys() == expected.keys(), document["at"]
            for does, averages in expected.items():
                assert rows[does] == pytest.approx([float(each) for each in averages])
            told += len(rows)
            reports += 1
        assert (reports, told) == (END // 10_000, 9)
    finally:
        engine.stop()
        store.close()
