"""BINDs in a window before a join: evaluated at once, when the joins are made, and written behind them.

Run: ``python -m benchmarks.lazy_variables [--events N] [--runs N]``. The events are those of
`benchmarks.uncertainty`: ten seconds of 100 events a second of each of two kinds, which join by a property.
A BIND in the window of the first kind computes the probability that its value lies between two uncertain
bounds, or cuts a text out of it, which is cheap; no join, filter or key uses its variable. CPU microseconds
an event in the compiled evaluator, by the number of partners that an event has; with none at all nothing is
emitted. No result of a function is known from before.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from itertools import product
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
CHEAP = 'BIND(CONCAT(STRBEFORE(STR(?v), ","), " of ", STRAFTER(STR(?a), "e")) AS ?probability)'
TEXT = """PREFIX : <http://example.org/> PREFIX rspu: <http://w3id.org/rsp/rspu#>
SELECT ?a ?b ?probability WHERE {
  STREAM <http://example.org/events> [RANGE 10s] { ?a :value1 ?v. ?a :join1 ?j. INSIDE }
  STREAM <http://example.org/events> [RANGE 10s] { ?b :value2 ?w. ?b :join2 ?j } BEHIND }"""
PARTNERS = (0, 0.1, 1, 10)
COLUMNS = ("expression", "partners", "at once", "lazily", "written behind", "rows")


def inside(bind: str) -> str:
    """The query with a BIND in its first window."""
    return TEXT.replace("INSIDE", bind).replace("BEHIND", "")


def behind_join(bind: str) -> str:
    """The query with a BIND behind the join."""
    return TEXT.replace("INSIDE", "").replace("BEHIND", bind)


def at_once() -> AbstractContextManager[object]:
    """BINDs are evaluated where they are written."""
    return patch.object(analysis, "defer_binds", lambda root, **_: root)


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
    parser.add_argument("--runs", type=int, default=3, help="of which the fastest counts")
    options = parser.parse_args()
    store = QuadStore.open(None)
    print(("{:>16}" * 6).format(*COLUMNS))
    lines = []
    for (name, bind), partners in product({"text": CHEAP, "integral": BIND}.items(), PARTNERS):
        elements = uncertain_events(2 * WINDOW + options.events, partners)
        # In alternation, the least of each: on a busy machine one may be slowed down alone.
        figures: dict[str, float] = {}
        rows = set()
        for _ in range(options.runs):
            with at_once():
                early = measure(inside(bind), elements, store)
            found = {
                "at once": early,
                "lazily": measure(inside(bind), elements, store),
                "behind": measure(behind_join(bind), elements, store),
            }
            figures = {each: min(spent, figures.get(each, spent)) for each, (spent, _) in found.items()}
            rows |= {number for _, number in found.values()}
        (number,) = rows  # all give the same rows
        line = (name, partners, *(round(each, 1) for each in figures.values()), number)
        lines.append(line)
        print(("{:>16}" * 6).format(*line), flush=True)
    keep("lazy_variables", {"columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
