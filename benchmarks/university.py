"""Universities like those of the Lehigh University Benchmark (Guo, Pan and Heflin 2005), with their ontology.

Departments have professors, students, courses, publications and research groups, in the proportions of the
benchmark. ``python -m benchmarks.university N`` prints about N triples as N-Triples.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import count

from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, parse, serialize

NS = "http://localhost/univ-bench#"
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")

ONTOLOGY = """
@prefix : <http://localhost/univ-bench#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .

:Employee a owl:Class ; rdfs:subClassOf :Person ;
  owl:equivalentClass [ owl:intersectionOf (
    :Person [ owl:onProperty :worksFor ; owl:someValuesFrom :Organization ] ) ] .
:Chair a owl:Class ; rdfs:subClassOf :Professor ;
  owl:equivalentClass [ owl:intersectionOf (
    :Person [ owl:onProperty :headOf ; owl:someValuesFrom :Department ] ) ] .
:Student a owl:Class ; rdfs:subClassOf :Person ;
  owl:equivalentClass [ owl:intersectionOf (
    :Person [ owl:onProperty :takesCourse ; owl:someValuesFrom :Course ] ) ] .
:TeachingAssistant a owl:Class ; rdfs:subClassOf :Person ;
  owl:equivalentClass [ owl:intersectionOf (
    :Person [ owl:onProperty :teachingAssistantOf ; owl:someValuesFrom :Course ] ) ] .
:ResearchAssistant a owl:Class ; rdfs:subClassOf :Person ;
  rdfs:subClassOf [ owl:onProperty :worksFor ; owl:someValuesFrom :ResearchGroup ] .
:GraduateStudent a owl:Class ; rdfs:subClassOf :Student ;
  rdfs:subClassOf [ owl:onProperty :takesCourse ; owl:someValuesFrom :GraduateCourse ] .
:UndergraduateStudent a owl:Class ; rdfs:subClassOf :Student .
:Person a owl:Class . :Organization a owl:Class . :Work a owl:Class . :Publication a owl:Class .
:Faculty a owl:Class ; rdfs:subClassOf :Employee .
:AdministrativeStaff a owl:Class ; rdfs:subClassOf :Employee .
:Professor a owl:Class ; rdfs:subClassOf :Faculty .
:FullProfessor a owl:Class ; rdfs:subClassOf :Professor .
:AssociateProfessor a owl:Class ; rdfs:subClassOf :Professor .
:AssistantProfessor a owl:Class ; rdfs:subClassOf :Professor .
:Lecturer a owl:Class ; rdfs:subClassOf :Faculty .
:PostDoc a owl:Class ; rdfs:subClassOf :Faculty .
:University a owl:Class ; rdfs:subClassOf :Organization .
:Department a owl:Class ; rdfs:subClassOf :Organization .
:ResearchGroup a owl:Class ; rdfs:subClassOf :Organization .
:Course a owl:Class ; rdfs:subClassOf :Work .
:GraduateCourse a owl:Class ; rdfs:subClassOf :Course .
:Research a owl:Class ; rdfs:subClassOf :Work .
:Article a owl:Class ; rdfs:subClassOf :Publication .
:JournalArticle a owl:Class ; rdfs:subClassOf :Article .
:ConferencePaper a owl:Class ; rdfs:subClassOf :Article .

:memberOf a owl:ObjectProperty ; owl:inverseOf :member .
:member a owl:ObjectProperty ; rdfs:domain :Organization ; rdfs:range :Person .
:worksFor a owl:ObjectProperty ; rdfs:subPropertyOf :memberOf .
:headOf a owl:ObjectProperty ; rdfs:subPropertyOf :worksFor .
:subOrganizationOf a owl:ObjectProperty , owl:TransitiveProperty ;
  rdfs:domain :Organization ; rdfs:range :Organization .
:degreeFrom a owl:ObjectProperty ; owl:inverseOf :hasAlumnus ; rdfs:domain :Person ; rdfs:range :University .
:hasAlumnus a owl:ObjectProperty ; rdfs:domain :University ; rdfs:range :Person .
:undergraduateDegreeFrom a owl:ObjectProperty ; rdfs:subPropertyOf :degreeFrom ;
  rdfs:domain :Person ; rdfs:range :University .
:mastersDegreeFrom a owl:ObjectProperty ; rdfs:subPropertyOf :degreeFrom ;
  rdfs:domain :Person ; rdfs:range :University .
:doctoralDegreeFrom a owl:ObjectProperty ; rdfs:subPropertyOf :degreeFrom ;
  rdfs:domain :Person ; rdfs:range :University .
:advisor a owl:ObjectProperty ; rdfs:domain :Person ; rdfs:range :Professor .
:teacherOf a owl:ObjectProperty ; rdfs:domain :Faculty ; rdfs:range :Course .
:takesCourse a owl:ObjectProperty .
:teachingAssistantOf a owl:ObjectProperty ; rdfs:domain :TeachingAssistant ; rdfs:range :Course .
:publicationAuthor a owl:ObjectProperty ; rdfs:domain :Publication ; rdfs:range :Person .
:emailAddress a owl:DatatypeProperty ; rdfs:domain :Person .
:telephone a owl:DatatypeProperty ; rdfs:domain :Person .
:researchInterest a owl:DatatypeProperty .
:name a owl:DatatypeProperty .
"""

_FACULTY = (("FullProfessor", 8), ("AssociateProfessor", 12), ("AssistantProfessor", 9), ("Lecturer", 6))


def ontology() -> list[Triple]:
    """Return the triples of the ontology."""
    return [quad.triple for quad in parse(ONTOLOGY, RdfFormat.TURTLE)]


def instances(triples: int, seed: int = 7) -> Iterator[Triple]:
    """Yield about ``triples`` triples of universities, 15 departments each."""
    rng = random.Random(seed)
    made = 0
    for number in count():
        for department in range(15):
            for triple in _department(rng, number, department):
                yield triple
                made += 1
            if made >= triples:
                return


def _iri(name: str) -> NamedNode:
    return NamedNode("http://localhost/universities/" + name)


def _is(node: NamedNode, kind: str) -> Triple:
    return Triple(node, _TYPE, NamedNode(NS + kind))


def _link(node: NamedNode, name: str, value: NamedNode | Literal) -> Triple:
    return Triple(node, NamedNode(NS + name), value)


def _person(node: NamedNode, name: str) -> Iterator[Triple]:
    yield _link(node, "name", Literal(name))
    yield _link(node, "emailAddress", Literal(f"{name}@{node.value}"))
    yield _link(node, "telephone", Literal("xxx-xxx-xxxx"))


def _department(rng: random.Random, university_number: int, number: int) -> Iterator[Triple]:
    university = _iri(f"U{university_number}")
    base = f"U{university_number}/D{number}"
    department = _iri(base)
    if number == 0:
        yield _is(university, "University")
    yield _is(department, "Department")
    yield _link(department, "subOrganizationOf", university)
    for group in range(rng.randint(10, 20)):
        node = _iri(f"{base}/Group{group}")
        yield _is(node, "ResearchGroup")
        yield _link(node, "subOrganizationOf", department)
    professors: list[NamedNode] = []
    courses: list[NamedNode] = []
    for kind, size in _FACULTY:
        for each in range(size):
            node = _iri(f"{base}/{kind}{each}")
            professors.append(node)
            yield _is(node, kind)
            yield from _person(node, f"{kind}{each}")
            yield _link(node, "worksFor", department)
            for degree in ("undergraduateDegreeFrom", "mastersDegreeFrom", "doctoralDegreeFrom"):
                yield _link(node, degree, _iri(f"U{rng.randrange(1000)}"))
            yield _link(node, "researchInterest", Literal(f"Research{rng.randrange(30)}"))
            for _ in range(rng.randint(2, 4)):
                course = _iri(f"{base}/Course{len(courses)}")
                yield _is(course, "GraduateCourse" if len(courses) % 2 else "Course")
                yield _link(course, "name", Literal(f"Course{len(courses)}"))
                yield _link(node, "teacherOf", course)
                courses.append(course)
            for paper in range(rng.randint(0, 10)):
                publication = _iri(f"{base}/{kind}{each}/Publication{paper}")
                yield _is(publication, "Publication")
                yield _link(publication, "name", Literal(f"Publication{paper}"))
                yield _link(publication, "publicationAuthor", node)
    yield _link(professors[0], "headOf", department)
    for each in range(len(professors) * 11):
        yield from _student(rng, base, each, department, professors, courses)


def _student(
    rng: random.Random,
    base: str,
    number: int,
    department: NamedNode,
    professors: list[NamedNode],
    courses: list[NamedNode],
) -> Iterator[Triple]:
    graduate = number % 4 == 0
    kind = "GraduateStudent" if graduate else "UndergraduateStudent"
    node = _iri(f"{base}/{kind}{number}")
    yield _is(node, kind)
    yield from _person(node, f"{kind}{number}")
    yield _link(node, "memberOf", department)
    for course in rng.sample(courses, rng.randint(1, 3) if graduate else rng.randint(2, 4)):
        yield _link(node, "takesCourse", course)
    if graduate:
        yield _link(node, "undergraduateDegreeFrom", _iri(f"U{rng.randrange(1000)}"))
        yield _link(node, "advisor", rng.choice(professors))
        if number % 20 == 0:
            yield _is(node, "TeachingAssistant")
            yield _link(node, "teachingAssistantOf", rng.choice(courses))
    elif number % 5 == 0:
        yield _link(node, "advisor", rng.choice(professors))


if __name__ == "__main__":
    serialize([*ontology(), *instances(int(sys.argv[1]))], sys.stdout.buffer, RdfFormat.N_TRIPLES)
