"""CPU time of a push into a window with entailment, against the same query with the classes spelled out."""

from __future__ import annotations

from time import process_time

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

EXAMPLE = "http://example.org/"
PREFIX = f"PREFIX : <{EXAMPLE}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
DEPTH = 5
GAP_MS = 20
"""Event time between two pushes: a window of a minute holds 3,000 elements."""
WARM, PUSHES, ROUNDS = 3_500, 1_000, 5
QUERY = f"{PREFIX}SELECT ?x ?v {{ STREAM :s [RANGE 1m] {{ %s ?x :value ?v }} }}"
SPELLED = " UNION ".join(f"{{ ?x a :c{number} }}" for number in range(DEPTH + 1))


class WindowSide:
    """An engine in memory with one query over a window of a minute, a chain of classes, and elements."""

    def __init__(self, pattern: str, **options: str) -> None:
        clock = ManualClock(0)
        self.store = QuadStore.open(None, StoreOptions(clock_ms=clock.now_ms))
        chain = "".join(f":c{each} rdfs:subClassOf :c{each + 1} . " for each in range(DEPTH))
        self.store.writer.update(f"{PREFIX}INSERT DATA {{ {chain} }}")
        rules = RuleService(self.store, None, base_iri=EXAMPLE, clock_ms=clock.now_ms)
        rules.put("rdfs", {"include": ["rdfs"], "into": f"{EXAMPLE}inferred"}).run()
        settings = EngineSettings(
            threaded=False, graph_of_set=rules.graph_of, definition_of_set=rules.definition_of
        )
        self.engine = Engine(self.store, None, clock=clock, settings=settings)
        self.engine.start()
        members = {"query": QUERY % pattern, **options}
        self.engine.queries.register(Registration.from_json(members, name="q"))
        self._sent = 0

    def push(self, number: int) -> float:
        """Push elements, each with a class and a value of a new subject; return the CPU seconds of each."""
        bodies = []
        for _ in range(number):
            self._sent += 1
            subject = f"<{EXAMPLE}i{self._sent}>"
            kind = f"{subject} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{EXAMPLE}c0> .\n"
            value = f'{subject} <{EXAMPLE}value> "{self._sent}" .\n'
            bodies.append((self._sent * GAP_MS, (kind + value).encode()))
        start = process_time()
        for at, body in bodies:
            self.engine.streams.push(PushCall(f"{EXAMPLE}s", "application/n-triples", at=at), body)
        return (process_time() - start) / number

    def close(self) -> None:
        """Stop the engine."""
        self.engine.stop()
        self.store.close()


def window_seconds() -> tuple[float, float]:
    """Return the CPU seconds of a push with entailment, and of one with the classes spelled out."""
    entailed = WindowSide(f"?x a :c{DEPTH} .", entailment="rdfs")
    spelled = WindowSide(SPELLED + " ")
    for side in (entailed, spelled):
        side.push(WARM)
    pairs = [(entailed.push(PUSHES), spelled.push(PUSHES)) for _ in range(ROUNDS)]
    entailed.close()
    spelled.close()
    return min(one for one, _ in pairs), min(other for _, other in pairs)
