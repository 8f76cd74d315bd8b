"""The law of the built-in sets: after every commit, the inferred triples equal the naive fixpoint."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import Quad, Triple

from quadrill.continuous.rules.built_in import built_in_rules

from ...examples import examples
from .ontologies import random_instances, random_schema
from .owl_oracle import closure
from .rule_store import RuleStore


def texts(triples: set[Triple]) -> set[tuple[str, str, str]]:
    return {(str(s), str(p), str(o)) for s, p, o in triples}


def random_commit(rng: random.Random, schema: float) -> list[Quad]:
    return [
        quad
        for _ in range(rng.choice((0, 1, 1, 2, 4)))
        for quad in (random_schema(rng) if rng.random() < schema else random_instances(rng))
    ]


@pytest.mark.parametrize("include", ["rdfs", "owl2-rl"])
@pytest.mark.parametrize("seed", range(examples(400)))
def test_inferred_triples_equal_the_naive_fixpoint_after_every_commit(seed: int, include: str) -> None:
    rng = random.Random(seed)
    under_test = RuleStore(built_in_rules([include]))
    for number in range(8):
        present = under_test.asserted()
        remove = rng.sample(present, min(len(present), rng.choice((0, 0, 1, 2, 6))))
        add = random_commit(rng, 0.9 if number < 2 else 0.4)
        under_test.commit(add, remove)
        expected = closure((quad.triple for quad in under_test.asserted()), include)
        found = texts(under_test.inferred())
        assert found == expected, ("added", list(map(str, add)), "removed", list(map(str, remove)))
        assert texts(under_test.recomputed()) == expected
