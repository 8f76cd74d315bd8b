"""What only a stream used is forgotten when its window lets go of it."""

import gc
from collections.abc import Iterator

import pytest

from benchmarks.drive import Driver
from benchmarks.taxi import Q1, element_of, trips
from quadrill.continuous.element import Element
from quadrill.continuous.native import EngineTerms, NativeEvaluator
from quadrill.continuous.reference import EvaluationOptions
from quadrill.store import dictionary
from quadrill.store.quads import QuadStore


def test_terms_and_state_stay_flat_while_ever_new_subjects_pass_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "SWEEP_FLOOR", 2000)
    terms = EngineTerms()
    terms.dictionary._sweep_at = 2000
    driver = Driver(Q1.replace("RANGE 30m", "RANGE 20s"), QuadStore.open(None))
    evaluator = NativeEvaluator(driver.query, QuadStore.open(None), EvaluationOptions(), terms)
    sizes: list[int] = []

    def elements() -> Iterator[Element]:
        for number, trip in enumerate(trips(2400, per_minute=60)):
            if number % 200 == 0:
                sizes.append(len(terms.dictionary))
            yield element_of(trip)

    driver.native(elements(), evaluator=evaluator)
    assert evaluator.state_size() < 200
    assert max(sizes) <= 2500
    # Only the 2,400 subjects need entries: coordinates stand in their ids, the rest is not asked for.
    assert terms.dictionary.forgotten > 2000


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
