"""BINDs in a window before a join: evaluated at once, when the joins are made, and written behind them.

Run: ``python -m benchmarks.lazy_variables [--events N]``. The events are those of `benchmarks.uncertainty`:
ten seconds of 100 events a second of each of two kinds, which join by a property. A BIND in the window of
the first kind computes the probability that its value lies between two uncertain bounds, which no join,
filter or key uses. CPU microseconds an event in the compiled evaluator, by the number of partners that an
event has; with none at all nothing is emitted. No result of a function is known from before.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from unittest.mock import patch

from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Element
from quadrill.continuous.language import analysis
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.uncertainty import custom_functions
from quadrill.continuous.uncertainty.distributions import DISTRIBUTION
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.terms import Term

from .drive import Driver
from .results import keep
from .uncertainty import NS, WINDOW, events

BIND = (
    'BIND(rspu:between(?v, "N(0.2,0.1)"^^rspu:distribution, "N(0.9,0.2)"^^rspu:distribution) AS ?probability)'
)
TEXT = """PREFIX : <http://example.org/> PREFIX rspu: <http://w3id.org/rsp/rspu#>
SELECT ?a ?b ?probability WHERE {
  STREAM <http://example.org/events> [RANGE 10s] { ?a :value1 ?v. ?a :join1 ?j. INSIDE }
  STREAM <http://example.org/events> [RANGE 10s] { ?b :value2 ?w. ?b :join2 ?j } BEHIND }"""
INSIDE = TEXT.replace("INSIDE", BIND).replace("BEHIND", "")
BEHIND = TEXT.replace("INSIDE", "").replace("BEHIND", BIND)
PARTNERS = (0, 0.1, 1, 10)
COLUMNS = ("partners", "at once", "lazily", "written behind", "rows")


def at_once() -> AbstractContextManager[object]:
    """BINDs are evaluated where they are written."""
    return patch.object(analysis, "compute_late", lambda root: root)


def uncertain_events(number: int, partners: float) -> list[Element]:
    """Events whose values are normal distributions; without partners each has a key of its own."""
    found = []
    for place, element in enumerate(events(number, partners or 1)):
        value, key = element.quads
        text = f"N({value.object.value},{0.01 + place % 97 / 1000})"  # type: ignore[union-attr]
        own = key.object if partners else NamedNode(f"{NS}own{place}")
        new = (
            replace_object(value, Literal(text, datatype=DISTRIBUTION)),
            replace_object(key, own),
        )
        found.append(Element.of(new, element.event_time, element.seq))
    return found


def replace_object(quad: Quad, term: Term) -> Quad:
    """The quad with another object."""
    return Quad(quad.subject, quad.predicate, term, quad.graph_name)


def measure(text: str, elements: list[Element], store: QuadStore) -> tuple[float, int]:
    """CPU microseconds an event, and the rows told."""
    driver = Driver(text, store)
    evaluator = NativeEvaluator(driver.query, store, EvaluationOptions())
    for function in custom_functions().values():
        function.cache_clear()  # type: ignore[attr-defined]
    timing = driver.native(elements, warm_up=2 * WINDOW, evaluator=evaluator)
    return timing.per_event, timing.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2000, help="timed events")
    options = parser.parse_args()
    store = QuadStore.open(None)
    print(("{:>16}" * 5).format(*COLUMNS))
    lines = []
    for partners in PARTNERS:
        elements = uncertain_events(2 * WINDOW + options.events, partners)
        with at_once():
            early, rows = measure(INSIDE, elements, store)
        lazily, same = measure(INSIDE, elements, store)
        behind, again = measure(BEHIND, elements, store)
        assert rows == same == again, "all give the same rows"
        line = (partners, *(round(each, 1) for each in (early, lazily, behind)), rows)
        lines.append(line)
        print(("{:>16}" * 5).format(*line), flush=True)
    keep("lazy_variables", {"columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
