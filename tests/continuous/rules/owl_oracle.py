"""A naive fixpoint of the built-in rules, which computes with Python sets, and lists cell by cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from pyoxigraph import Triple

Fact = tuple[str, str, str]
"""N-Triples texts of subject, predicate and object."""
Pairs = set[tuple[str, str]]

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"


def rdf(name: str) -> str:
    return f"<{_RDF}{name}>"


def rdfs(name: str) -> str:
    return f"<{_RDFS}{name}>"


def owl(name: str) -> str:
    return f"<http://www.w3.org/2002/07/owl#{name}>"


TYPE, SAME, SUB, SUBP = rdf("type"), owl("sameAs"), rdfs("subClassOf"), rdfs("subPropertyOf")
DOMAIN, RANGE, THING, NOTHING = rdfs("domain"), rdfs("range"), owl("Thing"), owl("Nothing")
EQUIVALENT, EQUIVALENT_PROPERTY, ON = owl("equivalentClass"), owl("equivalentProperty"), owl("onProperty")
ONE = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'


class Relations:
    """The facts by predicate, and the RDF lists that they contain."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = set(facts)
        self.pairs: dict[str, Pairs] = defaultdict(set)
        self.forward: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.backward: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for s, p, o in self.facts:
            self.pairs[p].add((s, o))
            self.forward[p][s].add(o)
            self.backward[p][o].add(s)

    def of(self, predicate: str) -> list[tuple[str, str]]:
        return list(self.pairs.get(predicate, ()))

    def objects(self, subject: str, predicate: str) -> set[str]:
        return self.forward[predicate][subject] if predicate in self.forward else set()

    def subjects(self, predicate: str, value: str) -> set[str]:
        return self.backward[predicate][value] if predicate in self.backward else set()

    def instances(self, kind: str) -> set[str]:
        return self.subjects(TYPE, kind)

    def over_cells(
        self, of_value: Callable[[str], set], join: Callable[[set, set | None], set]
    ) -> dict[str, set]:
        """Return the least R with R(cell) = join(values of the cell, R(next cell), or None at the end)."""
        cells = {cell for cell, _ in self.of(rdf("first"))}
        result: dict[str, set] = {cell: set() for cell in cells}
        new = True
        while new:
            new = False
            for cell in cells:
                here = set().union(*(of_value(value) for value in self.objects(cell, rdf("first"))))
                found = set()
                for following in self.objects(cell, rdf("rest")):
                    if following == rdf("nil"):
                        found |= join(here, None)
                    if following in result:
                        found |= join(here, result[following])
                if not found <= result[cell]:
                    result[cell] |= found
                    new = True
        return result

    def members(self) -> dict[str, set[str]]:
        """Return the members of the lists that start at each cell."""
        return self.over_cells(
            lambda value: {value},
            lambda here, rest: here if rest is None else (here | rest if rest else set()),
        )


def _rdfs_rules(r: Relations) -> Iterator[Fact]:
    for p, c in r.of(DOMAIN):
        for x, _ in r.of(p):
            yield x, TYPE, c
    for p, c in r.of(RANGE):
        for _, y in r.of(p):
            yield y, TYPE, c
    for p, q in r.of(SUBP):
        for s, o in r.of(p):
            yield s, q, o
        for other in r.objects(q, SUBP):
            yield p, SUBP, other
    for c, d in r.of(SUB):
        for x in r.instances(c):
            yield x, TYPE, d
        for e in r.objects(d, SUB):
            yield c, SUB, e


def _equality(r: Relations) -> Iterator[Fact]:
    for x, y in r.of(SAME):
        yield y, SAME, x
        for z in r.objects(y, SAME):
            yield x, SAME, z
        for s, p, o in r.facts:
            if s == x:
                yield y, p, o
            if p == x:
                yield s, y, o
            if o == x:
                yield s, p, y


def _properties(r: Relations) -> Iterator[Fact]:
    for p in r.instances(owl("FunctionalProperty")):
        for x, y in r.of(p):
            for z in r.objects(x, p):
                yield y, SAME, z
    for p in r.instances(owl("InverseFunctionalProperty")):
        for x, y in r.of(p):
            for z in r.subjects(p, y):
                yield x, SAME, z
    for p in r.instances(owl("SymmetricProperty")):
        for x, y in r.of(p):
            yield y, p, x
    for p in r.instances(owl("TransitiveProperty")):
        for x, y in r.of(p):
            for z in r.objects(y, p):
                yield x, p, z
    for p, q in r.of(EQUIVALENT_PROPERTY):
        for x, y in r.of(p):
            yield x, q, y
        for x, y in r.of(q):
            yield x, p, y
    for p, q in r.of(owl("inverseOf")):
        for x, y in r.of(p):
            yield y, q, x
        for x, y in r.of(q):
            yield y, p, x


def _lists_of_properties(r: Relations) -> Iterator[Fact]:
    chains = r.over_cells(
        lambda value: set(r.of(value)),
        lambda here, rest: here if rest is None else {(a, d) for a, b in here for c, d in rest if b == c},
    )
    for p, head in r.of(owl("propertyChainAxiom")):
        for x, y in chains.get(head, ()):
            yield x, p, y
    keys = r.over_cells(
        lambda value: {
            pair for _, shared in r.of(value) for pair in product(r.subjects(value, shared), repeat=2)
        },
        lambda here, rest: here if rest is None else here & rest,
    )
    for c, head in r.of(owl("hasKey")):
        for x, y in keys.get(head, ()):
            if x in r.instances(c) and y in r.instances(c):
                yield x, SAME, y


def _classes(r: Relations) -> Iterator[Fact]:
    members = r.members()
    alike = r.over_cells(r.instances, lambda here, rest: here if rest is None else here & rest)
    for c, head in r.of(owl("intersectionOf")):
        for y in alike.get(head, ()):
            yield y, TYPE, c
        for m in members.get(head, ()):
            yield c, SUB, m
            for y in r.instances(c):
                yield y, TYPE, m
    for c, head in r.of(owl("unionOf")):
        for m in members.get(head, ()):
            yield m, SUB, c
            for y in r.instances(m):
                yield y, TYPE, c
    for c, head in r.of(owl("oneOf")):
        for m in members.get(head, ()):
            yield m, TYPE, c
    for c, d in r.of(EQUIVALENT):
        for x in r.instances(c):
            yield x, TYPE, d
        for x in r.instances(d):
            yield x, TYPE, c


def _values(r: Relations) -> Iterator[Fact]:
    for x, y in r.of(owl("someValuesFrom")):
        for p in r.objects(x, ON):
            for u, v in r.of(p):
                if y == THING or v in r.instances(y):
                    yield u, TYPE, x
    for x, y in r.of(owl("allValuesFrom")):
        for p in r.objects(x, ON):
            for u, v in r.of(p):
                if u in r.instances(x):
                    yield v, TYPE, y
    for x, y in r.of(owl("hasValue")):
        for p in r.objects(x, ON):
            for u in r.instances(x):
                yield u, p, y
            for u in r.subjects(p, y):
                yield u, TYPE, x


def _cardinalities(r: Relations) -> Iterator[Fact]:
    for x in r.subjects(owl("maxCardinality"), ONE):
        for p in r.objects(x, ON):
            for u in r.instances(x):
                for v, w in product(r.objects(u, p), repeat=2):
                    yield v, SAME, w
    for x in r.subjects(owl("maxQualifiedCardinality"), ONE):
        for p, c in product(r.objects(x, ON), r.objects(x, owl("onClass"))):
            for u in r.instances(x):
                for v, w in product(r.objects(u, p), repeat=2):
                    if c == THING or (v in r.instances(c) and w in r.instances(c)):
                        yield v, SAME, w


def _schema(r: Relations) -> Iterator[Fact]:
    for c in r.instances(owl("Class")):
        yield from [(c, SUB, c), (c, EQUIVALENT, c), (c, SUB, THING), (NOTHING, SUB, c)]
    for c, d in r.of(EQUIVALENT):
        yield from [(c, SUB, d), (d, SUB, c)]
    for c, d in r.of(SUB):
        if (d, c) in r.pairs[SUB]:
            yield c, EQUIVALENT, d
    for kind in ("ObjectProperty", "DatatypeProperty"):
        for p in r.instances(owl(kind)):
            yield from [(p, SUBP, p), (p, EQUIVALENT_PROPERTY, p)]
    for p, q in r.of(EQUIVALENT_PROPERTY):
        yield from [(p, SUBP, q), (q, SUBP, p)]
    for p, q in r.of(SUBP):
        if (q, p) in r.pairs[SUBP]:
            yield p, EQUIVALENT_PROPERTY, q
        for relation in (DOMAIN, RANGE):
            for c in r.objects(q, relation):
                yield p, relation, c
    for relation in (DOMAIN, RANGE):
        for p, c in r.of(relation):
            for d in r.objects(c, SUB):
                yield p, relation, d
    for kind in ("hasValue", "someValuesFrom", "allValuesFrom"):
        for (x, y), (z, w) in product(r.of(owl(kind)), repeat=2):
            for p, q in product(r.objects(x, ON), r.objects(z, ON)):
                if kind != "hasValue" and p == q and (y, w) in r.pairs[SUB]:
                    yield x, SUB, z
                if y == w and (p, q) in r.pairs[SUBP]:
                    yield (z, SUB, x) if kind == "allValuesFrom" else (x, SUB, z)


RULES = {
    "rdfs": [_rdfs_rules],
    "owl2-rl": [
        _rdfs_rules,
        _equality,
        _properties,
        _lists_of_properties,
        _classes,
        _values,
        _cardinalities,
        _schema,
    ],
}


def closure(triples: Iterable[Triple], include: str) -> set[Fact]:
    """Return the asserted triples and those that a built-in set derives from them, as texts."""
    facts = {(str(s), str(p), str(o)) for s, p, o in triples}
    derived: set[Fact] = set()
    while True:
        relations = Relations(facts)
        found = {
            (s, p, o)
            for rules in RULES[include]
            for s, p, o in rules(relations)
            if not s.startswith('"') and p.startswith("<")
        }
        if found <= derived:
            return derived
        derived |= found
        facts |= found
