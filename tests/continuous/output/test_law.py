"""A view is its query's answer: random patterns, pushes, late elements, updates, pauses and replacements."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import NamedNode, RdfFormat, parse

from quadrill.store.terms import in_store_form

from ..engines import Bench, E, bench
from ..remote.test_law import SEEN, pattern

SEEDS = [0, 1, 2, *(pytest.param(each, marks=pytest.mark.slow) for each in range(3, 120))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_graph_holds_the_triples_of_the_current_answer(seed: int) -> None:
    chance = random.Random(f"view{seed}")
    text = pattern(chance, "GRAPH :copy { ... }")
    template = chance.choice(
        ["?x :a ?n", "?x :a ?n . ?n :b ?l", "?n :b ?l . ?x :c 01 . ?x ?o ?l", ":all :has ?x , ?n"]
    )
    stream = SEEN if chance.random() < 0.8 else ""
    output = chance.choice(["istream", "rstream", "changes"])
    with bench() as one:
        query = f"CONSTRUCT {{ {template} }} INTO GRAPH :view WHERE {{ {stream} {text} }}"
        one.register("v", query, dialect="cqels", output=output)
        for step in range(1, 20):
            match chance.randrange(5):
                case 0 | 1:
                    one.push(step * 2_000, chance.choice("abc"))
                case 2:
                    _update(one, chance, ":near", "%s")
                case 3:
                    _update(one, chance, chance.choice([":label", ":other"]), "GRAPH :copy { %s }")
                case _ if chance.random() < 0.3:
                    one.engine.queries.patch("v", {"state": "paused"})
                    _update(one, chance, ":near", "%s")
                    one.engine.queries.patch("v", {"state": "running"})
                case _:
                    one.engine.queries.refresh("v")
            one.engine.sync()
            answer = one.engine.queries.current_answer("v")["quads"]
            expected = {quad.triple for quad in in_store_form(parse(answer, RdfFormat.N_QUADS))}
            held = {quad.triple for quad in one.store.reader.quads_for_pattern(graph=NamedNode(f"{E}view"))}
            assert held == expected, (step, query)


def _update(one: Bench, chance: random.Random, predicate: str, place: str) -> None:
    word = chance.choice(["INSERT", "INSERT", "DELETE"])
    value = chance.choice([":a", ":b", "1", "2"]) if predicate != ":near" else f":{chance.choice('abc')}"
    triple = f":{chance.choice('abc')} {predicate} {value}"
    one.store.writer.update(f"PREFIX : <{E}> {word} DATA {{ {place % triple} }}")
