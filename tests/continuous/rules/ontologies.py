"""Random small ontologies, with RDF lists that are well-formed, malformed or shared."""

from __future__ import annotations

import random

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
Node = NamedNode | BlankNode

CLASSES: list[Node] = [NamedNode(f"http://e/{name}") for name in "CDEF"]
RESTRICTIONS: list[Node] = [NamedNode(f"http://e/R{number}") for number in range(3)]
PROPERTIES = [NamedNode(f"http://e/{name}") for name in "pqr"]
THINGS: list[Node] = [NamedNode(f"http://e/{name}") for name in "abcd"] + [BlankNode("n")]
CELLS: list[Node] = [BlankNode(f"l{number}") for number in range(6)]
LITERALS = [Literal(1), Literal("one")]
NIL = NamedNode(_RDF + "nil")
THING, NOTHING = NamedNode(_OWL + "Thing"), NamedNode(_OWL + "Nothing")
KINDS = ("SymmetricProperty", "TransitiveProperty", "FunctionalProperty", "InverseFunctionalProperty")


def rdf(name: str) -> NamedNode:
    return NamedNode(_RDF + name)


def rdfs(name: str) -> NamedNode:
    return NamedNode(_RDFS + name)


def owl(name: str) -> NamedNode:
    return NamedNode(_OWL + name)


def random_list(rng: random.Random, values: list[Node]) -> tuple[Node, list[Quad]]:
    """Return the first cell of a random list, and the quads of the list; lists may share cells."""
    cells = rng.sample(CELLS, rng.choice((1, 2, 2, 3)))
    quads = []
    for cell, following in zip(cells, [*cells[1:], NIL], strict=True):
        quads.append(Quad(cell, rdf("first"), rng.choice(values)))
        quads.append(Quad(cell, rdf("rest"), following))
    return cells[0], quads


def random_schema(rng: random.Random) -> list[Quad]:
    """Return the quads of one random axiom."""
    c, d = rng.choice(CLASSES + RESTRICTIONS), rng.choice(CLASSES + RESTRICTIONS)
    p, q = rng.choice(PROPERTIES), rng.choice(PROPERTIES)
    match rng.randrange(15):
        case 0 | 1:
            return [Quad(c, rdfs("subClassOf"), d)]
        case 2:
            return [Quad(c, owl("equivalentClass"), d)]
        case 3:
            return [Quad(p, rdfs("subPropertyOf"), q)]
        case 4:
            return [Quad(p, rdfs(rng.choice(("domain", "range"))), c)]
        case 5:
            return [Quad(p, owl(rng.choice(("inverseOf", "inverseOf", "equivalentProperty"))), q)]
        case 6:
            return [Quad(p, rdf("type"), owl(rng.choice(KINDS)))]
        case 7:
            return [Quad(c, rdf("type"), owl("Class"))]
        case 8:
            return [Quad(p, rdf("type"), owl(rng.choice(("ObjectProperty", "DatatypeProperty"))))]
        case 9 | 10:
            return random_restriction(rng)
        case 11:
            head, quads = random_list(rng, CLASSES + RESTRICTIONS)
            return [*quads, Quad(c, owl(rng.choice(("intersectionOf", "intersectionOf", "unionOf"))), head)]
        case 12:
            head, quads = random_list(rng, THINGS)
            return [*quads, Quad(c, owl("oneOf"), head)]
        case 13:
            head, quads = random_list(rng, list(PROPERTIES))
            return [*quads, Quad(p, owl("propertyChainAxiom"), head)]
        case _:
            head, quads = random_list(rng, list(PROPERTIES))
            return [*quads, Quad(c, owl("hasKey"), head)]


def random_restriction(rng: random.Random) -> list[Quad]:
    node, kind = rng.choice(RESTRICTIONS), rng.choice([*CLASSES, THING])
    quads = [Quad(node, owl("onProperty"), rng.choice(PROPERTIES))]
    match rng.randrange(5):
        case 0:
            quads.append(Quad(node, owl("someValuesFrom"), kind))
        case 1:
            quads.append(Quad(node, owl("allValuesFrom"), kind))
        case 2:
            quads.append(Quad(node, owl("hasValue"), rng.choice([*THINGS, *LITERALS])))
        case 3:
            quads.append(Quad(node, owl("maxCardinality"), Literal(rng.choice((0, 1, 1)))))
        case _:
            quads.append(Quad(node, owl("maxQualifiedCardinality"), Literal(1)))
            quads.append(Quad(node, owl("onClass"), kind))
    return quads


def random_instances(rng: random.Random) -> list[Quad]:
    """Return a random triple about instances; rarely one with ``owl:sameAs``, or one of a list."""
    subject: Node = rng.choice(THINGS)
    chance = rng.random()
    if chance < 0.35:
        return [Quad(subject, rdf("type"), rng.choice(CLASSES + RESTRICTIONS))]
    if chance < 0.9:
        value = rng.choice(LITERALS) if rng.random() < 0.15 else rng.choice(THINGS)
        return [Quad(subject, rng.choice(PROPERTIES), value)]
    if chance < 0.93:
        return [Quad(subject, owl("sameAs"), rng.choice(THINGS))]
    if chance < 0.94:
        anything = [*THINGS, *CLASSES, *RESTRICTIONS, *PROPERTIES, *CELLS]
        return [Quad(rng.choice(anything), owl("sameAs"), rng.choice([*anything, Literal(1)]))]
    if chance < 0.97:
        return [Quad(rng.choice(CELLS), rdf("rest"), rng.choice([*CELLS, NIL]))]
    return [Quad(rng.choice(CELLS), rdf("first"), rng.choice([*CLASSES, *PROPERTIES, *THINGS]))]
