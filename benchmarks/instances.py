"""Many instances of a query, each with another constant: Experiment 3 of 2011, Tables 2 and 3 of 2010.

Run: ``python -m benchmarks.instances [--most N] [--events N]``. CPU time of the thread that pushes, in one
engine in memory, events pushed one by one: from the body's bytes to what the feeds hold. Q3 of 2011, Q1' and
Q2' of the report of 2010; each instance names another author. The first line of a query is one instance of it
without the constant, which answers for everybody. Instances stand alone where ``--alone`` is given.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, serialize

from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.wiring import open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall

from . import conference
from .results import keep

REPORT = {
    "Q1'": """PREFIX lv: <http://deri.org/floorplan/> PREFIX foaf: <http://xmlns.com/foaf/0.1/>
SELECT ?name ?locName FROM NAMED <http://deri.org/streams/rfid> [RANGE 30 seconds] AS ?ls30 WHERE {
  GRAPH ?ls30 { ?person lv:detectedAt ?loc } GRAPH <http://deri.org/floorplan/> { ?loc lv:name ?locName }
  ?person foaf:name "$Name$" }""",
    "Q2'": """PREFIX lv: <http://deri.org/floorplan/> PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX dc: <http://purl.org/dc/elements/1.1/> PREFIX dcterms: <http://purl.org/dc/terms/>
SELECT ?citedAuthorName FROM NAMED <http://deri.org/streams/rfid> [NOW] AS ?lsnow
FROM NAMED <http://deri.org/streams/rfid> [RANGE 30 seconds] AS ?ls30 WHERE {
  GRAPH ?lsnow { ?anAuthor lv:detectedAt ?loc } GRAPH ?ls30 { ?citedAuthor lv:detectedAt ?loc }
  ?citedAuthor foaf:name ?citedAuthorName . ?p1 dc:creator ?anAuthor . ?anAuthor foaf:name "$Name$" .
  ?p2 dc:creator ?citedAuthor . ?p1 dcterms:references ?p2 }""",
}
NUMBERS = (1, 10, 100, 1_000, 5_000, 10_000)
CITED = 2
"""Papers that a paper cites."""


def text_of(query: str, *, constant: bool = True) -> str:
    """The text of Q3, Q1' or Q2'; without ``constant`` with a variable for the author's name."""
    if query not in REPORT:
        return conference.query(query, constant=constant)
    text = REPORT[query]
    return text if constant else text.replace('"$Name$"', "?anyName")


def citations(papers: int) -> Iterator[Quad]:
    """Each paper cites a few others."""
    chance = random.Random(2010)
    for number in range(papers):
        for _ in range(CITED):
            yield Quad(
                NamedNode(f"http://localhost/publications/p{number}"),
                NamedNode(conference.DCTERMS + "references"),
                NamedNode(f"http://localhost/publications/p{chance.randrange(papers)}"),
                DefaultGraph(),
            )


def measure(
    query: str, number: int, scene: conference.Conference, events: int, *, constant: bool, alone: bool
) -> tuple[float, float, float]:
    """Microseconds an event, feed events an event, and milliseconds a registration."""
    settings = Settings(data=MEMORY, feed_history=100, templates=not alone)
    services = open_services(settings, clock=ManualClock(0), threaded=False)
    garbage = CollectionSchedule()  # as in a server
    garbage.start()
    try:
        engine = services.engine
        engine.start()
        services.store.writer.apply(add=scene.static)
        begin = time.thread_time()
        for place in range(number):
            members = {"query": text_of(query, constant=constant), "name": f"q{place}"}
            parameters = {"Name": scene.name_of(place)} if constant else {}
            engine.queries.register(Registration.from_json({**members, "parameters": parameters}))
        registered = (time.thread_time() - begin) / number * 1e3
        spent = 0.0
        for element in scene.elements(2 * events):
            body = serialize([quad.triple for quad in element.quads], format=RdfFormat.N_TRIPLES)
            assert body is not None
            begin = time.thread_time()
            engine.streams.push(
                PushCall(conference.STREAM, "application/n-triples", at=element.event_time, wait=True), body
            )
            if element.seq > events:
                spent += time.thread_time() - begin
        told = sum(engine.queries.feed(f"q{place}").history.last_id for place in range(number))
        return spent / events * 1e6, told / (2 * events), registered
    finally:
        garbage.stop()
        services.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="instances of the largest run")
    parser.add_argument("--triples", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=2000, help="timed events of each run")
    parser.add_argument("--alone", action="store_true", help="every instance has a plan of its own")
    options = parser.parse_args()
    scene = conference.Conference(options.triples, tags=max(NUMBERS))
    scene.static.extend(citations(options.triples // 9))
    print(f"{'':4} {'instances':>10}{'an event':>12}{'times one':>11}{'answers':>10}{'to register':>13}")
    lines = []
    for query in ("Q3", *REPORT):
        most = options.most if query == "Q3" else min(options.most, 5_000)
        base = 0.0
        for number in (0, *(each for each in NUMBERS if each <= most)):
            spent, answers, registered = measure(
                query, max(number, 1), scene, options.events, constant=number > 0, alone=options.alone
            )
            base = base or spent
            lines.append(
                (query, number, *(round(each, 3) for each in (spent, spent / base, answers, registered)))
            )
            shown = number or "no constant"
            print(
                f"{query:4} {shown:>10}{spent:12.1f}{spent / base:11.2f}{answers:10.3f}{registered:10.2f} ms",
                flush=True,
            )
    keep("instances", {"lines": lines, "triples": len(scene.static), "alone": options.alone})


if __name__ == "__main__":
    main()
