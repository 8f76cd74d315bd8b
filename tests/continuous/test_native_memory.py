"""What only a stream used is forgotten when its window lets go of it."""

import gc
import json
from collections.abc import Iterator

from benchmarks.drive import Driver
from benchmarks.taxi import Q1, element_of, trips
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Element
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.streams.push_call import PushCall
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sweep import SweepPace

from .engines import RANGE, E, bench

DECIMAL = "http://www.w3.org/2001/XMLSchema#decimal"


def test_terms_and_state_stay_flat_while_ever_new_subjects_pass_by() -> None:
    terms = EngineTerms(SweepPace(floor=2000))
    driver = Driver(Q1.replace("RANGE 30m", "RANGE 20s"), QuadStore.open(None))
    evaluator = NativeEvaluator(driver.query, QuadStore.open(None), EvaluationOptions(), terms)
    sizes: list[int] = []

    def elements() -> Iterator[Element]:
        for number, trip in enumerate(trips(4800, per_minute=60)):
            if number % 200 == 0:
                sizes.append(len(terms.dictionary))
            yield element_of(trip)

    driver.native(elements(), evaluator=evaluator)
    assert evaluator.state is not None
    assert sum(node.size or 0 for node in evaluator.state.plan.nodes) < 200
    assert max(sizes) <= 2500
    # Only the 4,800 subjects need entries: coordinates stand in their ids, the rest is not asked for.
    assert terms.dictionary.forgotten > 3000


def test_a_dropped_evaluator_lets_go_of_its_terms() -> None:
    terms = EngineTerms()
    driver = Driver(Q1, QuadStore.open(None))
    evaluator = NativeEvaluator(driver.query, QuadStore.open(None), EvaluationOptions(), terms)
    driver.native([element_of(trip) for trip in trips(50)], evaluator=evaluator)
    terms.dictionary.sweep()
    assert len(terms.dictionary) > 50
    del evaluator
    gc.collect()
    terms.dictionary.sweep()
    assert len(terms.dictionary) < 20


def test_a_dropped_query_lets_go_of_its_terms_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        with bench() as b:
            b.register("kept", RANGE)
            b.register("dropped", "SELECT ?x WHERE { STREAM :s [RANGE 10s] { ?x :seen :alone } }")
            dictionary = b.engine.parts.statics.terms.dictionary
            assert f"<{E}alone>" in dictionary.texts
            b.engine.queries.drop("dropped")
            dictionary.sweep()
            assert f"<{E}alone>" not in dictionary.texts
            assert f"<{E}seen>" in dictionary.texts
            b.push(1, "a")
            assert b.told("kept") == [("insert", 1, "a")]
    finally:
        gc.enable()


def test_what_is_remembered_of_pushed_bytes_goes_with_the_windows() -> None:
    """Texts of terms, their ids, their JSON: each push brings a thousand new names and numbers."""
    with bench() as b:
        b.engine.queries.register(
            Registration(name="q", query=f"SELECT ?x ?v {{ STREAM <{E}s> [RANGE 9ms] {{ ?x <{E}v> ?v }} }}")
        )
        terms = b.engine.parts.statics.terms
        dictionary, most = terms.dictionary, 0
        for push in range(120):
            lines = [
                json.dumps(
                    {"at": push * 1000 + n, "data": f'<{E}{push}/{n}> <{E}v> "{push}.{n}1"^^<{DECIMAL}> .'}
                )
                for n in range(1000)
            ]
            b.engine.streams.push(
                PushCall(f"{E}s", "application/x-ndjson", wait=True), "\n".join(lines).encode()
            )
            kept = (dictionary.texts, dictionary.text_of, dictionary.terms, dictionary.ids, terms.texts)
            most = max(most, *map(len, kept))
        assert b.engine.queries.feed("q").history.last_id == 120_000
        assert dictionary.forgotten > 40_000 and most < 80_000
