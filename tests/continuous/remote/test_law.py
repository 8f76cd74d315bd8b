"""The law over sources: who reads an endpoint or a remote graph answers what SPARQL gives over its data.

The same pattern is registered twice: over a graph of the store, and over the endpoint or document that holds
the same triples. Whatever comes on the stream, is committed and is fetched, both answer the same.
"""

from __future__ import annotations

import random

import pytest

from quadrill.app.describing.queries import describe

from ..engines import E
from .bench import Remote
from .endpoint import Endpoint

SEEN = "STREAM :s [RANGE 10s] { ?x :seen ?v }"


def pattern(chance: random.Random, far: str, depth: int = 2) -> str:
    """A group over the store and ``far``, the place of the triples that are elsewhere."""
    near = chance.choice(["?x :near ?n", "?x :near ?n . ?n :near ?m", "?n :near ?x"])
    away = far.replace("...", chance.choice(["?x :label ?l", "?n :label ?l", "?x :label ?l . ?x :other ?o"]))
    if depth == 0:
        return chance.choice([near, away])
    inner = pattern(chance, far, depth - 1)
    match chance.randrange(9):
        case 0:
            return f"{inner} {away}"
        case 1:
            return f"{inner} OPTIONAL {{ {away} }}"
        case 2:
            return f"{near} MINUS {{ {inner} {away} }}"
        case 3:
            return f"{near} FILTER NOT EXISTS {{ {away} }}"
        case 4:
            return f"{near} FILTER EXISTS {{ {away} }}"
        case 5:
            return f"{{ {inner} }} UNION {{ {away} }}"
        case 6:
            return f"{away} FILTER(?l > 1) {inner}"
        case 7:
            return f"{near} {{ SELECT ?x (COUNT(*) AS ?c) WHERE {{ {away} }} GROUP BY ?x }}"
        case _:
            return f"{away} OPTIONAL {{ {inner} }}"


def columns(text: str) -> str:
    return " ".join(each for each in ("?x", "?n", "?m", "?l", "?o", "?c") if each in text)


def change(chance: random.Random) -> str:
    predicate = chance.choice(["label", "other"])
    value = chance.choice(["0", "1", "2", ":a", ":b"])
    word = chance.choice(["INSERT", "INSERT", "DELETE"])
    return f"{word} DATA {{ %s :{chance.choice('abc')} :{predicate} {value} %s }}"


SEEDS = [0, 1, *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 80))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["service", "graph"])
def test_far_and_near_answer_the_same(bench: Remote, far: Endpoint, kind: str, seed: int) -> None:
    chance = random.Random(f"{kind}{seed}")
    state = chance.getstate()
    near_text = pattern(chance, "GRAPH :copy { ... }")
    chance.setstate(state)
    if kind == "service":
        far_text = pattern(chance, f"SERVICE <{far.url}sparql> {{ ... }}")
        clause = ""
    else:
        far_text = pattern(chance, f"GRAPH <{far.url}g> {{ ... }}")
        clause = f"FROM NAMED <{far.url}g>"
    stream = SEEN if chance.random() < 0.7 else ""
    bench.store.writer.update(f"PREFIX : <{E}> INSERT DATA {{ GRAPH :copy {{ :a :label 1 . :b :label 2 }} }}")

    def serve() -> None:
        if kind == "graph":
            triples = far.store.reader.solutions("SELECT ?s ?p ?o { ?s ?p ?o }")[1]
            far.handle = far.turtle(" ".join(f"{s} {p} {o} ." for s, p, o in triples))

    serve()
    shown = columns(near_text)
    for name, text, dataset in (("near", near_text, ""), ("far", far_text, clause)):
        query = f"SELECT {shown} {dataset} WHERE {{ {stream} {text} }}"
        bench.register(name, query, dialect="cqels")
    for step in range(1, 15):
        match chance.randrange(4):
            case 0:
                bench.push(step * 2_000, chance.choice("abc"))
            case 1:
                word = chance.choice(["INSERT", "INSERT", "DELETE"])
                triple = f":{chance.choice('abc')} :near :{chance.choice('abc')}"
                bench.store.writer.update(f"PREFIX : <{E}> {word} DATA {{ {triple} }}")
            case _:
                text = change(chance)
                far.update(text % ("", ""))
                bench.store.writer.update(f"PREFIX : <{E}> {text % ('GRAPH :copy {', '}')}")
                serve()
                bench.engine.queries.refresh("far")
        bench.engine.sync()
        assert bench.rows("far") == bench.rows("near"), (step, near_text)
    counters = describe(bench.engine, "far")["counters"]
    assert counters["refreshes"] > 1
