"""What a slide of a grid costs, by how often it goes into the width of the window.

Run: ``python -m benchmarks.slides``. CPU time of one thread. 200 readings a slide of 10 or 200 things are
counted and summed for each thing over windows of 1 to 64 slides; each slide is one report. ``evaluator`` is
the part that is not the upkeep of the window. A pane of the papers is the batch that enters at a slide: the
engine takes it in once and out once, however many windows hold it.
"""

from __future__ import annotations

import time
from itertools import count

from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.algebra.reports import Evaluation, Report
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Arrival, Element, StreamTime
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.windows.timeline import QueryTimeline
from quadrill.store.quads.quad_store import QuadStore

from .results import keep

E = "http://example.org/"
VALUE = NamedNode(E + "value")
INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
READINGS = 200
TIMED = 25
WIDTHS = (1, 4, 16, 64)
COLUMNS = ("things", "slides in a window", "us a slide", "of them in the evaluator")


def measure(things: int, slides: int) -> tuple[int, int, float, float]:
    """Microseconds of a slide, as a whole and in the evaluator, once the window is full."""
    query = parse(
        f"PREFIX : <{E}> REGISTER RSTREAM :q AS SELECT ?x (COUNT(*) AS ?n) (SUM(?v) AS ?sum) "
        f"FROM NAMED WINDOW :w ON :s [RANGE {slides}s STEP 1s] "
        "WHERE { WINDOW :w { ?x :value ?v } } GROUP BY ?x"
    )
    evaluator = NativeEvaluator(query, QuadStore.open(None), EvaluationOptions())
    report = Report("on-window-close")
    timeline = QueryTimeline(query.windows, report, content_of=evaluator.content_of)
    seen, numbers = StreamTime(), count(1)
    whole = inside = 0.0
    for slide in range(slides + 3 + TIMED):
        timed = slide >= slides + 3
        for place in range(READINGS):
            number, at = next(numbers), slide * 1000 + place * 1000 // READINGS
            reading = Quad(NamedNode(f"{E}x{number % things}"), VALUE, Literal(str(number), datatype=INTEGER))
            after = StreamTime(at)
            begin = time.thread_time()
            arrival = Arrival(timeline.inputs.streams[0], (Element.of((reading,), at, number),), seen, after)
            for step in timeline.handle(arrival):
                if isinstance(step, Evaluation):
                    start = time.thread_time()
                    evaluator.advance(step.at, timeline.windows.contents)
                    inside += (time.thread_time() - start) * timed
            whole += (time.thread_time() - begin) * timed
            seen = after
    return things, slides, whole / TIMED * 1e6, inside / TIMED * 1e6


def main() -> None:
    """Prints and keeps the figures, the best of three rounds."""
    print("  ".join(COLUMNS))
    lines = []
    for things in (10, 200):
        for slides in WIDTHS:
            rounds = [measure(things, slides) for _ in range(3)]
            line = [things, slides, *(round(min(each[part] for each in rounds)) for part in (2, 3))]
            print("  ".join(map(str, line)), flush=True)
            lines.append(line)
    keep("slides", {"columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
