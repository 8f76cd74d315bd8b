"""A small conference: rooms, authors, papers and detections, and the answers of its queries in plain Python.

Every answer is a nested loop over sets, written from the sentences of the papers, without any part of the
engine: no parser, no algebra, no index.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from .harness import Rows

LV = "http://deri.org/floorplan/"
LOC = "http://deri.org/localization/"
DC = "http://purl.org/dc/elements/1.1/creator"
FOAF = "http://xmlns.com/foaf/0.1/name"
TERMS = "http://purl.org/dc/terms/"
EDITOR = "http://swrc.ontoware.org/ontology#editor"
E = "http://example.org/"
NAME = "Name of a0"

_chance = random.Random(20110)
ROOMS = [f"{E}r{n}" for n in range(5)]
PEOPLE = [f"{E}a{n}" for n in range(7)]
NAMES = {person: f"Name of {person.removeprefix(E)}" for person in PEOPLE}
# Two rooms share a name: rows with equal values must keep their number.
ROOM_NAMES = {room: f"Room {number % 4}" for number, room in enumerate(ROOMS)}
CONNECTED = {
    (ROOMS[a], ROOMS[b]) for a, b in [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (0, 4), (4, 0)]
}
PAPERS = [f"{E}p{n}" for n in range(14)]
CREATORS = {(paper, person) for paper in PAPERS for person in _chance.sample(PEOPLE, _chance.randint(1, 3))}
REFERENCES = {(a, b) for a in PAPERS for b in _chance.sample(PAPERS, 2) if a != b}
PART_OF = {(paper, f"{E}v{number % 3}") for number, paper in enumerate(PAPERS)}
EDITORS = {(f"{E}v{n}", person) for n in range(3) for person in _chance.sample(PEOPLE, 2)}
# (event time, person, room) in the order of the stream; some instants have two or three detections.
SEEN = sorted(
    (_chance.randrange(0, 90) * 500, _chance.choice(PEOPLE), _chance.choice(ROOMS)) for _ in range(70)
)


def static_quads() -> list[Quad]:
    """The background: floor plan and localization as named graphs, the publications in the default graph."""
    plan, places, default = NamedNode(LV), NamedNode(LOC), DefaultGraph()
    quads = []
    for room, name in ROOM_NAMES.items():
        quads.append(Quad(NamedNode(room), NamedNode(LV + "name"), Literal(name), plan))
        quads.append(Quad(NamedNode(room), NamedNode(LV + "desc"), Literal(f"About {room}"), plan))
        quads.append(Quad(NamedNode(room), NamedNode(LOC + "name"), Literal(name), places))
    for pairs, predicate, graph in (
        (CONNECTED, LV + "connected", plan),
        (CREATORS, DC, default),
        (REFERENCES, TERMS + "references", default),
        (PART_OF, TERMS + "partOf", default),
        (EDITORS, EDITOR, default),
    ):
        quads += [Quad(NamedNode(a), NamedNode(predicate), NamedNode(b), graph) for a, b in sorted(pairs)]
    quads += [Quad(NamedNode(who), NamedNode(FOAF), Literal(name), default) for who, name in NAMES.items()]
    return quads


def elements(predicate: str) -> list[tuple[int, str]]:
    """The detections as stream elements, one triple each."""
    return [(at, f"<{person}> <{predicate}> <{room}> .") for at, person, room in SEEN]


# --- windows -------------------------------------------------------------------------------------------


def last(t: int, width: int) -> set[tuple[str, str]]:
    """[RANGE width]: the set of detections from t − width to t."""
    return {(person, room) for at, person, room in SEEN if t - width <= at <= t}


def now(t: int) -> set[tuple[str, str]]:
    """[NOW]."""
    return last(t, 0)


def newest(t: int) -> set[tuple[str, str]]:
    """[TRIPLES 1]: the last detection up to t."""
    return {(person, room) for at, person, room in [each for each in SEEN if each[0] <= t][-1:]}


def papers_of(person: str) -> list[str]:
    return [paper for paper, author in CREATORS if author == person]


def citations(one: str, other: str) -> int:
    """How many pairs of papers there are of which the first, by ``one``, cites the second, by ``other``."""
    return sum((p, q) in REFERENCES for p in papers_of(one) for q in papers_of(other))


def joint_papers(one: str, other: str) -> int:
    return len(set(papers_of(one)) & set(papers_of(other)))


ME = next(person for person, name in NAMES.items() if name == NAME)


# --- ISWC 2011 -----------------------------------------------------------------------------------------


def location_just_entered(t: int) -> Rows:
    return Counter((ROOM_NAMES[room], f"About {room}") for person, room in now(t) if person == ME)


def reachable(t: int) -> Rows:
    # A CONSTRUCT gives the graph of its new solutions: a pair that several solutions yield is there once.
    return Counter((a, b, r, q) for a, r in now(t) for b, q in last(t, 3_000) if (r, q) in CONNECTED)


def co_authors_here(t: int) -> Rows:
    rows: Rows = Counter()
    for author, room in newest(t):
        for other, place in last(t, 5_000):
            if author == ME and other != author and place == room:
                rows[(NAMES[other],)] += joint_papers(author, other)
    return +rows


def editors_nearby(t: int) -> Rows:
    rows: Rows = Counter()
    for author, room in newest(t):
        for editor, place in last(t, 15_000):
            if author == ME and (room, place) in CONNECTED:
                for paper in papers_of(author):
                    for its, volume in PART_OF:
                        if its == paper and (volume, editor) in EDITORS:
                            rows[(NAMES[editor],)] += 1
    return rows


def co_authors_by_nearby_room(t: int) -> Rows:
    found: dict[str, set[str]] = {}
    for author, room in newest(t):
        for other, place in last(t, 30_000):
            near = (place, room) in CONNECTED
            if author == ME and other != author and near and joint_papers(author, other):
                found.setdefault(place, set()).add(other)
    return Counter((place, ROOM_NAMES[place], str(len(others))) for place, others in found.items())


# --- the report of 2010 ----------------------------------------------------------------------------------


def where_everybody_is(t: int) -> Rows:
    return Counter((NAMES[person], ROOM_NAMES[room]) for person, room in last(t, 30_000))


def _together(t: int, weight: Callable[[str, str], int]) -> Rows:
    rows: Rows = Counter()
    for one, room in now(t):
        for other, place in last(t, 30_000):
            if room == place:
                rows[(NAMES[one], NAMES[other], ROOM_NAMES[room])] += weight(one, other)
    return +rows


def co_authors_together(t: int) -> Rows:
    return _together(t, joint_papers)


def citing_each_other_together(t: int) -> Rows:
    return _together(t, lambda one, other: citations(one, other) + citations(other, one))


def most_cited(t: int) -> Rows:
    """As listed: per ?person2 the greatest number of citations by one who comes to the same place now."""
    best: dict[str, int] = {}
    for one, room in now(t):
        for other, place in last(t, 30_000):
            if room == place and (number := citations(one, other)):
                best[other] = max(best.get(other, 0), number)
    return Counter((person, str(number)) for person, number in best.items())


def most_cited_by_each(t: int) -> Rows:
    """As meant: per ?person1 whom of those at the same place he cites most, ties all."""
    counts: Counter[tuple[str, str]] = Counter()
    for one, room in now(t):
        for other, place in last(t, 30_000):
            if room == place:
                counts[one, other] += citations(one, other)
    counts = +counts
    return Counter(
        (one, other, str(number))
        for (one, other), number in counts.items()
        if number == max(n for (who, _), n in counts.items() if who == one)
    )


def where_i_am(t: int) -> Rows:
    return Counter((ROOM_NAMES[room],) for person, room in last(t, 30_000) if person == ME)


def cited_by_me_here(t: int) -> Rows:
    rows: Rows = Counter()
    for one, room in now(t):
        for other, place in last(t, 30_000):
            if one == ME and room == place:
                rows[(NAMES[other],)] += citations(one, other)
    return +rows


def interested_here(t: int) -> Rows:
    rows: Rows = Counter()
    for one, room in now(t):
        for other, place in last(t, 30_000):
            if one == ME and room == place:
                rows[(NAMES[other], ROOM_NAMES[room])] += citations(one, other) + joint_papers(one, other)
    return +rows


def _first_place(counts: Counter[str]) -> Rows:
    """ORDER BY DESC(?n) LIMIT 1, ties by name."""
    best = sorted(((-number, name) for name, number in counts.items() if number))[:1]
    return Counter((name, str(-number)) for number, name in best)


def place_of_most_cited(t: int) -> Rows:
    counts: Counter[str] = Counter()
    for other, room in last(t, 15_000):
        counts[ROOM_NAMES[room]] += citations(ME, other)
    return _first_place(counts)


def place_of_most_distinct_cited(t: int) -> Rows:
    found: dict[str, set[str]] = {}
    for other, room in last(t, 15_000):
        if citations(ME, other):
            found.setdefault(ROOM_NAMES[room], set()).add(other)
    return _first_place(Counter({name: len(others) for name, others in found.items()}))
