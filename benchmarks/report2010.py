"""Figure 5 of the report of 2010: its four queries at its rates, with static parts kept and evaluated anew.

Run: ``python -m benchmarks.report2010 [--triples N] [--events N]``. CPU microseconds an event, windows
included, behind the 30 seconds that fill them, at 1,000 and 5,000 detections a second. *Kept*: the native
engine as it is, static parts evaluated when the query begins (the report's pre-processing). *Anew*: the same,
but the static parts are evaluated again at each event. *Polled*: no engine, the whole query is asked of
Oxigraph at each event, which looks up the static data that it needs (`benchmarks.polling`; System X of the
report). Q4 is the one that its prose means. The longest window has 30 seconds, so that an hour gives what the
seconds behind them give.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Element
from quadrill.continuous.static.static_evaluator import EvaluationOptions, StaticEvaluator
from quadrill.store.quads.quad_store import QuadStore

from . import conference
from .drive import Driver, Timing
from .polling import polled
from .results import keep

TEXTS = Path(__file__).parent.parent / "tests" / "data" / "paper-queries"
QUERIES = {"Q1": "report2010-Q1", "Q2": "report2010-Q2", "Q3": "report2010-Q3", "Q4": "report2010-Q4-arg-max"}
RATES = (1000, 5000)
WIDTH_S = 30
PLACES = NamedNode("http://deri.org/localization/")
COLUMNS = ("rate", "query", "kept", "anew", "anew_ratio", "polled", "polled_ratio", "rows")


def static_quads(scene: conference.Conference, triples: int, seed: int = 2010) -> list[Quad]:
    """The conference's publications, citations from paper to paper, and names of places."""
    chance = random.Random(seed)
    default = DefaultGraph()
    papers = triples // 9
    found = [quad for quad in scene.static if quad.graph_name == default]
    for number in range(papers):
        paper = NamedNode(f"http://localhost/publications/p{number}")
        for other in chance.sample(range(papers), 2):
            cited = NamedNode(f"http://localhost/publications/p{other}")
            found.append(Quad(paper, NamedNode(conference.DCTERMS + "references"), cited, default))
    name = NamedNode(PLACES.value + "name")
    for number in range(conference.PLACES):
        found.append(Quad(conference.place_of(number), name, Literal(f"Room {number}"), PLACES))
    return found


def detections(scene: conference.Conference, number: int, per_second: int) -> Iterator[Element]:
    """The conference's detections in the words of the report."""
    at = NamedNode(PLACES.value + "at")
    for element in scene.elements(number, per_second=per_second):
        quads = tuple(Quad(each.subject, at, each.object, each.graph_name) for each in element.quads)
        yield Element.of(quads, element.event_time, element.seq)


def measure(
    driver: Driver, store: QuadStore, elements: Sequence[Element], warm_up: int, times: int
) -> tuple[Timing, float]:
    """The native engine, and microseconds of one evaluation of its static parts, the mean of some."""
    evaluator = NativeEvaluator(driver.query, store, EvaluationOptions())
    timing = driver.native(elements, warm_up=warm_up, evaluator=evaluator)
    background = StaticEvaluator(driver.query, store, EvaluationOptions())
    begin = time.thread_time()
    for _ in range(times):
        background.evaluate(evaluator.statics.parts)
    return timing, (time.thread_time() - begin) / times * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=50_000, help="triples of publications")
    parser.add_argument("--events", type=int, default=2000, help="timed events of the engine")
    parser.add_argument("--anew", type=int, default=3, help="timed evaluations of the static parts")
    parser.add_argument("--asked", type=int, default=20, help="timed events of polling")
    options = parser.parse_args()
    scene = conference.Conference(options.triples)
    static = static_quads(scene, options.triples)
    store = QuadStore.open(None)
    store.writer.apply(add=static)
    print(("{:>7}{:>6}" + "{:>13}" * 6).format(*COLUMNS) + "   (microseconds an event)")
    lines = []
    for rate in RATES:
        full = WIDTH_S * rate
        elements = list(detections(scene, full + options.events, rate))
        for name, file in QUERIES.items():
            text = (TEXTS / f"{file}.cqels").read_text("utf-8")
            driver = Driver(text, store)
            timing, evaluated = measure(driver, store, elements, full, options.anew)
            own = timing.per_event_with_windows
            asked = polled(text, static, elements, full, options.asked)
            rows = timing.rows / timing.events
            figures = (own, own + evaluated, (own + evaluated) / own, asked, asked / own, rows)
            lines.append((rate, name, *(round(figure, 2) for figure in figures)))
            print(f"{rate:7}{name:>6}" + "".join(f"{figure:13.2f}" for figure in figures), flush=True)
    keep("report2010", {"triples": len(static), "columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
