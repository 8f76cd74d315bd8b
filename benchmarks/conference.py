"""The conference scenario of the first CQELS paper: authors, papers, a floor plan, detections.

A stand-in for SP2Bench's DBLP graph with the parameters that matter to the five queries: authors per paper,
papers per author, editors, and persons who walk on 40 places with 46 two-way connections.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.inputs import Element

LV = "http://deri.org/floorplan/"
DC = "http://purl.org/dc/elements/1.1/"
FOAF = "http://xmlns.com/foaf/0.1/"
DCTERMS = "http://purl.org/dc/terms/"
SWRC = "http://swrc.ontoware.org/ontology#"
STREAM = "http://deri.org/streams/rfid"
PLAN = NamedNode(LV)
PLACES = 40
CONNECTIONS = 46

_PREFIXES = f"""PREFIX lv: <{LV}> PREFIX dc: <{DC}> PREFIX foaf: <{FOAF}>
PREFIX dcterms: <{DCTERMS}> PREFIX swrc: <{SWRC}>
"""
QUERIES = {
    "Q1": """SELECT ?locName ?locDesc FROM NAMED <http://deri.org/floorplan/> WHERE {
  STREAM <http://deri.org/streams/rfid> [NOW] { ?person lv:detectedAt ?loc }
  GRAPH <http://deri.org/floorplan/> { ?loc lv:name ?locName. ?loc lv:desc ?locDesc }
  ?person foaf:name "$Name$". }""",
    "Q2": """CONSTRUCT { ?person1 lv:reachable ?person2 } FROM NAMED <http://deri.org/floorplan/> WHERE {
  STREAM <http://deri.org/streams/rfid> [NOW] { ?person1 lv:detectedAt ?loc1 }
  STREAM <http://deri.org/streams/rfid> [RANGE 3s] { ?person2 lv:detectedAt ?loc2 }
  GRAPH <http://deri.org/floorplan/> { ?loc1 lv:connected ?loc2 } }""",
    "Q3": """SELECT ?coAuthorName FROM NAMED <http://deri.org/floorplan/> WHERE {
  STREAM <http://deri.org/streams/rfid> [TRIPLES 1] { ?auth lv:detectedAt ?loc }
  STREAM <http://deri.org/streams/rfid> [RANGE 5s] { ?coAuth lv:detectedAt ?loc }
  { ?paper dc:creator ?auth. ?paper dc:creator ?coAuth.
    ?auth foaf:name "$Name$". ?coAuth foaf:name ?coAuthorName }
  FILTER (?auth != ?coAuth) }""",
    "Q4": """SELECT ?editorName FROM NAMED <http://deri.org/floorplan/> WHERE {
  STREAM <http://deri.org/streams/rfid> [TRIPLES 1] { ?auth lv:detectedAt ?loc1 }
  STREAM <http://deri.org/streams/rfid> [RANGE 15s] { ?editor lv:detectedAt ?loc2 }
  GRAPH <http://deri.org/floorplan/> { ?loc1 lv:connected ?loc2 }
  ?paper dc:creator ?auth. ?paper dcterms:partOf ?proceeding.
  ?proceeding swrc:editor ?editor. ?editor foaf:name ?editorName.
  ?auth foaf:name "$Name$" }""",
    "Q5": """SELECT ?loc2 ?locName (COUNT(DISTINCT ?coAuth) AS ?noCoAuths)
FROM NAMED <http://deri.org/floorplan/> WHERE {
  STREAM <http://deri.org/streams/rfid> [TRIPLES 1] { ?auth lv:detectedAt ?loc1 }
  STREAM <http://deri.org/streams/rfid> [RANGE 30s] { ?coAuth lv:detectedAt ?loc2 }
  GRAPH <http://deri.org/floorplan/> { ?loc2 lv:name ?locName. ?loc2 lv:connected ?loc1 }
  { ?paper dc:creator ?auth. ?paper dc:creator ?coAuth. ?auth foaf:name "$Name$" }
  FILTER (?auth != ?coAuth) } GROUP BY ?loc2 ?locName""",
}


def query(name: str, *, constant: bool = True) -> str:
    """The text of Q1 to Q5; without ``constant`` the author's name is a variable: one query for everybody."""
    text = QUERIES[name]
    return _PREFIXES + (text if constant else text.replace('"$Name$"', "?anyName"))


class Conference:
    """Static data of about ``triples`` triples and a stream of detections, all from one seed."""

    def __init__(self, triples: int = 100_000, *, tags: int = 900, seed: int = 2011) -> None:
        self._random = random.Random(seed)
        papers = triples // 9
        self.authors = [
            f"http://localhost/persons/Author_{number}" for number in range(max(papers // 2, tags))
        ]
        self.attendees = self.authors[:tags]
        self.connected = self._connections()
        self.static = [*self._floor_plan(), *self._papers(papers)]

    def _connections(self) -> list[tuple[int, int]]:
        pairs = {(place, (place + 1) % PLACES) for place in range(PLACES)}
        while len(pairs) < CONNECTIONS:
            pairs.add(tuple(sorted(self._random.sample(range(PLACES), 2))))  # type: ignore[arg-type]
        return sorted(pairs)

    def _floor_plan(self) -> Iterator[Quad]:
        for place in range(PLACES):
            node = place_of(place)
            yield Quad(node, NamedNode(LV + "name"), Literal(f"Room {place}"), PLAN)
            yield Quad(node, NamedNode(LV + "desc"), Literal(f"The room with number {place}"), PLAN)
        for one, other in self.connected:
            yield Quad(place_of(one), NamedNode(LV + "connected"), place_of(other), PLAN)
            yield Quad(place_of(other), NamedNode(LV + "connected"), place_of(one), PLAN)

    def _papers(self, papers: int) -> Iterator[Quad]:
        default = DefaultGraph()
        for author in self.authors:
            name = author.rsplit("/", 1)[1].replace("_", " ")
            yield Quad(NamedNode(author), NamedNode(FOAF + "name"), Literal(name), default)
        for number in range(papers):
            paper = NamedNode(f"http://localhost/publications/p{number}")
            volume = NamedNode(f"http://localhost/publications/proceedings{number // 60}")
            # Few authors write much: the square pulls towards the front of the list.
            for _ in range(max(1, round(self._random.gauss(3, 1)))):
                place = int(len(self.authors) * self._random.random() ** 2)
                yield Quad(paper, NamedNode(DC + "creator"), NamedNode(self.authors[place]), default)
            yield Quad(paper, NamedNode(DC + "title"), Literal(f"Paper {number}"), default)
            yield Quad(paper, NamedNode(DCTERMS + "issued"), Literal(str(1960 + number % 60)), default)
            yield Quad(paper, NamedNode(DCTERMS + "partOf"), volume, default)
            if not number % 60:
                editors = self._random.sample(self.attendees, 2)
                for editor in editors:
                    yield Quad(volume, NamedNode(SWRC + "editor"), NamedNode(editor), default)

    def name_of(self, attendee: int) -> str:
        """The foaf:name of an attendee."""
        return self.attendees[attendee].rsplit("/", 1)[1].replace("_", " ")

    @property
    def busiest(self) -> str:
        """The foaf:name of the attendee with most co-authors, whom a query can find often."""
        creators: dict[str, list[str]] = {}
        for quad in self.static:
            paper, author = quad.subject, quad.object
            if quad.predicate.value == DC + "creator" and isinstance(author, NamedNode):
                creators.setdefault(str(paper), []).append(author.value)
        met: dict[str, set[str]] = {person: set() for person in self.attendees}
        for authors in creators.values():
            for each in authors:
                if each in met:
                    met[each].update(authors)
        best = max(self.attendees, key=lambda person: len(met[person]))
        return best.rsplit("/", 1)[1].replace("_", " ")

    def elements(self, number: int, *, per_second: int = 1000, seed: int = 1) -> Iterator[Element]:
        """Detections, one triple each: a tag stays with probability 0.7, else goes to a neighbour."""
        chance = random.Random(seed)
        neighbours: dict[int, list[int]] = {}
        for one, other in self.connected:
            neighbours.setdefault(one, []).append(other)
            neighbours.setdefault(other, []).append(one)
        at = {person: chance.randrange(PLACES) for person in self.attendees}
        detected = NamedNode(LV + "detectedAt")
        default = DefaultGraph()
        for seq in range(number):
            person = chance.choice(self.attendees)
            if chance.random() >= 0.7:
                at[person] = chance.choice(neighbours[at[person]])
            quad = Quad(NamedNode(person), detected, place_of(at[person]), default)
            yield Element.of((quad,), seq * 1000 // per_second, seq + 1)


def place_of(number: int) -> NamedNode:
    """The IRI of a place."""
    return NamedNode(f"{LV}loc{number}")
