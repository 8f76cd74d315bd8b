"""Filters with uncertainty functions before or behind a join, or where the measured fan-out puts them.

Run: ``python -m benchmarks.uncertainty [--events N]``. The second scenario of the RSP-QL* paper (5.1): two
kinds of events with a value of U(0, 1) and a join property; a row passes when the value with an error of
U(-1, 1) lies below a threshold with probability 0.5. Microseconds an event in the compiled evaluator over
ten seconds of 100 events a second of each kind, by the number of partners that an event has and the share
of events that pass.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Element
from quadrill.continuous.language.registration import FilterPlaces
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.uncertainty import custom_functions
from quadrill.store.quads.quad_store import QuadStore

from .drive import Driver
from .results import keep

NS = "http://example.org/"
DECIMAL = NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
WINDOW = 1000
PLACES: tuple[FilterPlaces, ...] = ("early", "late", "auto")
TEXT = """PREFIX : <http://example.org/> PREFIX rspu: <http://w3id.org/rsp/rspu#>
SELECT ?a ?b WHERE {
  STREAM <http://example.org/events> [RANGE 10s] { ?a :value1 ?v. ?a :join1 ?j }
  STREAM <http://example.org/events> [RANGE 10s] { ?b :value2 ?w. ?b :join2 ?j }
  FILTER(rspu:lessThan(rspu:add("U(-1,1)"^^rspu:distribution, ?v), THRESHOLD) >= 0.5) }"""


def events(number: int, partners: float, seed: int = 2021) -> Iterator[Element]:
    """Events of both kinds in turn; one meets ``partners`` of the other kind on average."""
    chance = random.Random(seed)
    keys = max(1, round(WINDOW / partners))
    default = DefaultGraph()
    for seq in range(number):
        kind = seq % 2 + 1
        subject = NamedNode(f"{NS}e{seq}")
        value = Literal(f"{chance.random():.6f}".rstrip("0"), datatype=DECIMAL)
        key = NamedNode(f"{NS}key{chance.randrange(keys)}")
        quads = (
            Quad(subject, NamedNode(f"{NS}value{kind}"), value, default),
            Quad(subject, NamedNode(f"{NS}join{kind}"), key, default),
        )
        yield Element.of(quads, seq * 5, seq + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2000, help="timed events")
    options = parser.parse_args()
    store = QuadStore.open(None)
    print(f"{'partners':>9}{'pass':>6}{'early':>10}{'late':>10}{'auto':>10}   (microseconds an event)")
    lines = []
    for partners in (0.01, 0.1, 1, 10):
        elements = list(events(2 * WINDOW + options.events, partners))
        for passing in (0.1, 0.5, 0.9):
            driver = Driver(TEXT.replace("THRESHOLD", str(passing)), store)
            told, rows = [], set()
            for place in PLACES:
                evaluator = NativeEvaluator(driver.query, store, EvaluationOptions(uncertain_filters=place))
                remembered: Mapping[NamedNode, Any] = custom_functions()
                for function in remembered.values():
                    function.cache_clear()
                timing = driver.native(elements, warm_up=2 * WINDOW, evaluator=evaluator)
                told.append(timing.per_event)
                rows.add(timing.rows)
            assert len(rows) == 1, "all give the same rows"
            lines.append((partners, passing, *(round(figure, 1) for figure in told)))
            print(f"{partners:9}{passing:6}" + "".join(f"{figure:10.1f}" for figure in told), flush=True)
    keep("uncertainty", {"columns": ["partners", "passing", *PLACES], "lines": lines})


if __name__ == "__main__":
    main()
