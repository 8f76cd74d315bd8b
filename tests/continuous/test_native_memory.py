"""What only a stream used is forgotten when its window lets go of it."""

import gc

import pytest

from benchmarks.drive import Driver
from benchmarks.taxi import Q1, element_of, trips
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
    sizes = []
    for part in range(4):
        elements = [element_of(trip) for trip in trips(600 * (part + 1), per_minute=60)][600 * part :]
        driver.native(elements, evaluator=evaluator)
        sizes.append(len(terms.dictionary))
        # The driver's windows start anew with each part: what was in them leaves here.
        (window,) = driver.query.windows
        for content in list(evaluator._contents):
            for key in list(content.content):
                content.leave(key)
            evaluator.advance(0, [((window.name, None), content)])
        assert evaluator.state_size() == 0
    assert max(sizes) <= 2500
    assert terms.dictionary.forgotten > 3000


def test_a_dropped_evaluator_lets_go_of_its_terms() -> None:
    terms = EngineTerms()
    driver = Driver(Q1, QuadStore.open(None))
    evaluator = NativeEvaluator(driver.query, QuadStore.open(None), EvaluationOptions(), terms)
    driver.native([element_of(trip) for trip in trips(50)], evaluator=evaluator)
    before = len(terms.dictionary)
    terms.dictionary.sweep()
    assert len(terms.dictionary) > before / 3
    del evaluator
    gc.collect()
    terms.dictionary.sweep()
    assert len(terms.dictionary) < 20
