"""CPU time to compute all triples that RDFS and OWL 2 RL infer from a graph about universities.

``python -m benchmarks.reasoning [TRIPLES]`` prints CPU seconds, and for OWL 2 RL those of the package
``reasonable`` if it is installed.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import process_time

from pyoxigraph import RdfFormat, Triple, serialize

from quadrill.continuous.rules.built_in import built_in_rules
from quadrill.continuous.rules.facts import Fact, MemoryFacts
from quadrill.continuous.rules.fixpoint import materialise
from quadrill.continuous.rules.program import Program
from quadrill.continuous.rules.terms import RuleTerms

from .university import instances, ontology


def graph(triples: int) -> list[Triple]:
    """Return the ontology of `university`, and about ``triples`` triples about instances of its classes."""
    return [*ontology(), *instances(triples)]


def materialised(triples: list[Triple], include: str) -> tuple[float, int]:
    """Return the CPU seconds in which a built-in set is computed, and the number of inferred triples."""
    terms = RuleTerms()
    rules = built_in_rules([include])
    facts = MemoryFacts()
    id_of = terms.id_of
    for triple in triples:
        facts.add((id_of(triple.subject), id_of(triple.predicate), id_of(triple.object)))
    inferred: list[Fact] = []
    start = process_time()
    materialise(Program(rules, terms, facts.count), facts, inferred.append, lambda: None)
    return process_time() - start, len(inferred)


def reasonable_seconds(triples: list[Triple]) -> float:
    """Return the CPU seconds that ``reasonable`` takes for the same triples."""
    import reasonable  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.ttl")
        serialize(triples, str(path), RdfFormat.N_TRIPLES)
        reasoner = reasonable.PyReasoner()
        reasoner.load_file(str(path))
    start = process_time()
    reasoner.reason()
    return process_time() - start


if __name__ == "__main__":
    given = graph(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    print(f"{len(given):,} triples")
    for name in ("rdfs", "owl2-rl"):
        seconds, count = materialised(given, name)
        print(f"{name}: {seconds:.2f} s, {count:,} inferred triples")
    if find_spec("reasonable"):
        print(f"reasonable: {reasonable_seconds(given):.2f} s")
