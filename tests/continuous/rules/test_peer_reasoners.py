"""Compares the triples that ``owl2-rl`` infers with those of other reasoners, without literals.

The reasoners ``owlrl`` and ``reasonable`` infer triples that the built-in set does not, about ``owl:Thing``
and datatypes. They also omit some: ``owlrl`` omits that a class is a subclass of itself, ``reasonable`` omits
most schema triples, ``owl:oneOf`` and property chains.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import rdflib
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, serialize

from quadrill.continuous.rules.built_in import built_in_rules

from ...examples import examples
from .ontologies import NOTHING, PROPERTIES, THING, THINGS, owl, random_schema, rdf
from .owl_oracle import SAME, TYPE, Fact
from .rule_store import RuleStore

_W3C = "<http://www.w3.org/"


def ontology(seed: int) -> list[Quad]:
    """Return a random ontology in which all lists are well-formed."""
    rng = random.Random(seed)
    quads = [Quad(each, rdf("type"), owl("Class")) for each in (THING, NOTHING)]
    cells: set[Any] = set()
    for _ in range(rng.randint(2, 6)):
        axiom = random_schema(rng)
        own = {quad.subject for quad in axiom if quad.predicate == rdf("first")}
        if not own & cells and not any(_is_text(quad.object) for quad in axiom):
            cells |= own
            quads += axiom
    classes = [NamedNode(f"http://e/{name}") for name in ("C", "D", "E", "F", "R0", "R1", "R2")]
    for _ in range(rng.randint(2, 8)):
        subject, chance = rng.choice(THINGS), rng.random()
        if chance < 0.4:
            quads.append(Quad(subject, rdf("type"), rng.choice(classes)))
        else:
            predicate = rng.choice(PROPERTIES) if chance < 0.9 else owl("sameAs")
            quads.append(Quad(subject, predicate, rng.choice(THINGS)))
    return quads


def _is_text(term: object) -> bool:
    return isinstance(term, Literal) and term.value not in ("0", "1")


def ours(quads: list[Quad]) -> set[Fact]:
    store = RuleStore(built_in_rules(["owl2-rl"]))
    store.store.extend(quads)
    facts = store.recomputed() | {quad.triple for quad in store.asserted()}
    return {(str(s), str(p), str(o)) for s, p, o in facts}


def as_rdflib(term: Any) -> rdflib.term.Node:
    match term:
        case NamedNode():
            return rdflib.URIRef(term.value)
        case BlankNode():
            return rdflib.BNode(term.value)
        case _:
            return rdflib.Literal(term.value, datatype=rdflib.URIRef(term.datatype.value))


def text(term: object) -> str:
    match term:
        case rdflib.URIRef():
            return f"<{term}>"
        case rdflib.BNode():
            return f"_:{term}"
        case _:
            return f'"{term}"'


def compared(facts: set[Fact]) -> set[Fact]:
    """Return the triples without those that the reasoners treat differently.

    These are W3C predicates between a term and itself, triples with literals, triples about terms of the W3C,
    and triples with terms of ``daml.org``, with which ``owlrl`` describes inconsistencies.
    """
    return {
        (s, p, o)
        for s, p, o in facts
        if not (s == o and p.startswith(_W3C))
        and not s.startswith((_W3C, '"'))
        and not o.startswith('"')
        and "daml.org" not in p + o
        and not (p == TYPE and o.startswith(_W3C))
    }


@pytest.mark.parametrize("seed", range(examples(150)))
def test_conclusions_are_those_of_owlrl(seed: int) -> None:
    owlrl = pytest.importorskip("owlrl")
    quads = ontology(seed)
    graph = rdflib.Graph()
    for quad in quads:
        graph.add((as_rdflib(quad.subject), as_rdflib(quad.predicate), as_rdflib(quad.object)))
    closure = owlrl.DeductiveClosure(owlrl.OWLRL_Semantics, axiomatic_triples=False, datatype_axioms=False)
    closure.expand(graph)
    theirs = {(text(s), text(p), text(o)) for s, p, o in graph}
    assert compared(ours(quads)) == compared(theirs)


@pytest.mark.parametrize("seed", range(examples(300)))
def test_conclusions_include_those_of_reasonable(seed: int, tmp_path: Path) -> None:
    reasonable = pytest.importorskip("reasonable")
    quads = ontology(seed)
    path = tmp_path / "ontology.ttl"
    serialize([quad.triple for quad in quads], str(path), RdfFormat.N_TRIPLES)
    reasoner = reasonable.PyReasoner()
    reasoner.load_file(str(path))
    theirs = {(text(s), text(p), text(o)) for s, p, o in reasoner.reason()}
    assert compared(theirs) - compared(ours(quads)) == set()
    assert any(p in (TYPE, SAME) for _, p, _ in theirs)
